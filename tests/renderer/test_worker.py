"""What a worker records of parts that go wrong, and when it stops to take any."""

from __future__ import annotations

import errno
import io
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pypdf
import pytest
from psycopg import Connection
from uuid6 import uuid7

import schema
from assembler.assemble import assemble
from assembler.relay import Relay
from assembler.sequence import split
from renderer.painted import store_part
from renderer.worker import Worker
from runtime.nudge import Nudger
from runtime.settings import Settings
from runtime.storage import Storage, sha256_of
from schema import PartKey
from tests.assembler.documents import bundle, document
from tests.assembler.given import part_at, submitted
from tests.renderer.bundles import Job, MakeJob
from worker.fitness import FAILURES_IN_A_ROW

Start = Callable[..., Worker]
Submit = Callable[..., PartKey]
ENDLESS = b'{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}'


@pytest.fixture
def pool(settings: Settings) -> Iterator[schema.Pool]:
    with schema.open_pool(settings.database_url, name='test') as pool:
        yield pool


@pytest.fixture
def conn(pool: schema.Pool) -> Iterator[Connection[Any]]:
    with pool.connection() as conn:
        yield conn


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker, with settings of its own."""
    started = []

    def start(**changes: Any) -> Worker:
        started.append(Worker(settings.model_copy(update={'scratch_dir': tmp_path, **changes})))
        return started[-1]

    yield start
    for worker in started:
        worker.close()


@pytest.fixture
def submit(settings: Settings, pool: schema.Pool, conn: Connection[Any]) -> Submit:
    """Submits a job and plans it; the key of its first painted part."""

    def submit(job: Job, *, upload: bool = True, **changes: Any) -> PartKey:
        job_id = uuid7()
        archive = job.archive()
        key, sha256 = f'jobs/{job_id}/input.zip', sha256_of(archive)
        if upload:
            Storage(settings).put_new(key, archive, sha256=sha256, content_type='application/zip')
        spec = {**job.spec, 'input': {'key': key, 'sha256': sha256, 'bytes': archive.stat().st_size}}
        submitted(conn, id=job_id, spec=spec, **changes)
        schema.complete_part(
            conn,
            PartKey(job_id=job_id, batch_no=0, part_index=0),
            input_hash='h',
            result={'parts': [job.whole], 'items': job.whole['item_count']},
            result_ref=None,
            result_sha256=None,
        )
        Relay(pool, Nudger(settings)).tick()
        return PartKey(job_id=job_id, batch_no=1, part_index=0)

    return submit


def due_again(conn: Connection[Any]) -> None:
    conn.execute("UPDATE part SET next_attempt_at = now() WHERE status = 'pending'")


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, 'No space left on device')


def test_a_host_that_fails_charges_losses_and_is_unfit_after_some_in_a_row(
    conn: Connection[Any], start: Start, submit: Submit, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = submit(make_job().html('<p>text'))
    worker = start()
    told: list[bool] = []
    worker.fitness.watch(lambda: told.append(True))
    monkeypatch.setattr('renderer.worker.store_part', full)

    for tries in range(1, FAILURES_IN_A_ROW + 3):
        worker.work(key)
        part = part_at(conn, key)
        assert (part.status, part.attempts, part.losses) == ('pending', 0, min(tries, FAILURES_IN_A_ROW))
        due_again(conn)

    assert told == [True]
    assert 'No space left' in str(worker.fitness.unfit_because)
    assert part.failure is not None
    assert part.failure['type'] == 'urn:fanfold:host-failed'


@pytest.mark.parametrize('folder', ['', 'zygote/zygote-*', 'inputs'])
def test_a_scratch_folder_that_is_gone_is_a_loss(
    conn: Connection[Any], start: Start, submit: Submit, make_job: MakeJob, folder: str
) -> None:
    key = submit(make_job().html('<p>text'))
    worker = start()
    assert worker.zygote.warmed
    for path in worker.scratch.glob(folder) if folder else [worker.scratch]:
        shutil.rmtree(path)

    worker.work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses) == ('pending', 0, 1)


def test_an_input_that_is_not_found_is_looked_for_again(
    conn: Connection[Any], start: Start, submit: Submit, make_job: MakeJob
) -> None:
    key = submit(make_job().html('<p>text'), upload=False)
    worker = start()
    for attempts in (1, 2):
        worker.work(key)
        assert (part_at(conn, key).status, part_at(conn, key).attempts) == ('pending', attempts)
        due_again(conn)
    worker.work(key)
    failure = part_at(conn, key).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:input-missing'
    assert part_at(conn, key).status == 'failed'


def endless_at(*numbers: int) -> bytes:
    """A template that prints its number, and takes for ever for some."""
    return b'{%% if n in %s %%}' % str(list(numbers)).encode() + ENDLESS + b'{% endif %}Number {{ n }}.'


def pages_of(storage: Storage, part: schema.Part, folder: Path) -> list[str]:
    """What the pages of a completed part say."""
    path = folder / 'stored.bundle'
    storage.fetch(str(part.result_ref), path, sha256=str(part.result_sha256))
    pdf = pypdf.PdfReader(io.BytesIO(b''.join(assemble(split(path)))))
    return [page.extract_text().strip() for page in pdf.pages]


def test_each_record_that_kills_its_child_is_left_out_and_no_other(
    conn: Connection[Any], settings: Settings, start: Start, submit: Submit, make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job(files={'t.html': endless_at(0, 2, 3)}).template('t.html', [{'n': n} for n in range(6)])
    key = submit(job, failure_policy='partial')

    start(child_cpu_seconds=1, part_attempts=1).work(key)

    part = part_at(conn, key)
    assert part.status == 'completed'
    assert part.result is not None
    assert [entry['record'] for entry in part.result['missing']] == [0, 2, 3]
    assert part.result['items'] == [[0, record, 1] for record in range(6)]
    said = pages_of(Storage(settings), part, tmp_path)
    assert [text for text in said if not text.startswith('Missing')] == ['Number 1.', 'Number 4.', 'Number 5.']
    assert ['Missing' in text for text in said] == [True, False, True, True, False, False]


def test_a_part_painted_in_pieces_is_stored_and_adopted_whole(settings: Settings, tmp_path: Path) -> None:
    storage, whose = Storage(settings), {'job_id': uuid7(), 'part_index': 3, 'generation': 0, 'input_hash': 'h'}
    stored = []
    for folder, pages in ((tmp_path / 'one', [6, 1]), (tmp_path / 'two', [7])):
        folder.mkdir()
        pieces = [bundle(folder / f'{number}.bundle', document(number)) for number, _ in enumerate(pages)]
        stored.append(store_part(storage, **whose, painted=pieces, result={'pages': sum(pages)}))

    assert stored[1] == stored[0]
    assert stored[0].result == {'pages': 7}
    storage.fetch(stored[0].key, tmp_path / 'stored.bundle', sha256=stored[0].sha256)
    assert len(split(tmp_path / 'stored.bundle')) == 2


def test_a_record_that_killed_its_child_is_tried_again_alone_and_left_out_at_the_end(
    conn: Connection[Any], start: Start, submit: Submit, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(files={'t.html': endless_at(2)}).template('t.html', [{'n': n} for n in range(4)])
    key = submit(job, failure_policy='partial')
    worker = start(child_cpu_seconds=1, part_attempts=3)
    asked: list[tuple[int, int]] = []
    original = worker.zygote.start

    def note(request: Any) -> Any:
        asked.append((request.part['first_item'], request.part['item_count']))
        return original(request)

    monkeypatch.setattr(worker.zygote, 'start', note)
    for attempts in (1, 2):
        worker.work(key)
        part = part_at(conn, key)
        assert (part.status, part.attempts, part.losses) == ('pending', attempts, 0)
        due_again(conn)
    worker.work(key)

    part = part_at(conn, key)
    assert part.status == 'completed'
    assert part.result is not None
    assert [entry['record'] for entry in part.result['missing']] == [2]
    assert asked == [(0, 4), (2, 1), (2, 1), (2, 1), (0, 2), (3, 1)]


def test_a_job_that_runs_out_of_time_names_the_document_that_took_it(
    conn: Connection[Any], start: Start, submit: Submit, make_job: MakeJob
) -> None:
    template = b'{% if n == 2 %}' + ENDLESS + b'{% endif %}{{ n }}'
    job = make_job(files={'t.html': template}).template('t.html', [{'n': n} for n in range(4)])
    worker = start()
    assert worker.zygote.warmed
    key = submit(job, time_limit=timedelta(seconds=5))

    worker.work(key)

    part = part_at(conn, key)
    assert (part.status, part.losses) == ('pending', 1)
    ended = schema.get_job(conn, key.job_id)
    assert ended is not None
    assert ended.status == 'rendering', 'the part is recorded before the job is overdue'
    assert schema.claim_part(conn, key, owner='next', lease=timedelta(seconds=1)) is None
    assert schema.fail_overdue_jobs(conn, 1, now=ended.deadline_at) == [key.job_id]
    failed = schema.get_job(conn, key.job_id)
    assert failed is not None
    assert failed.failure is not None
    assert failed.failure.items() >= {'part': 0, 'document': 0, 'record': 2}.items()
    assert 'part 0 was being worked on: document 0, record 2 was being rendered' in failed.failure['detail']


def test_a_failure_that_the_database_does_not_take_is_recorded_in_plain_words(
    conn: Connection[Any], start: Start, submit: Submit, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = submit(make_job(files={'t.html': 'é{{ n }}'.encode()}).template('t.html', [{}]))
    worker = start()
    original = worker.holder.fail

    def fail(held: Any, problem: Any, **how: Any) -> Any:
        if problem.extra:
            raise psycopg.DataError('unsupported Unicode escape sequence')
        return original(held, problem, **how)

    monkeypatch.setattr(worker.holder, 'fail', fail)
    worker.work(key)

    failure = part_at(conn, key).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:record-field-missing'
    assert failure['detail'].isascii()


def test_a_completed_part_makes_room_for_the_next(
    start: Start, submit: Submit, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = submit(make_job().html('<p>text'))
    worker = start()
    nudged: list[str] = []
    monkeypatch.setattr(worker.nudger, 'nudge', lambda *topics: nudged.extend(topics))

    worker.work(key)

    assert {'parts', 'jobs', 'events'} == set(nudged)


UNFIT = """
import renderer.worker
from runtime.settings import load_settings

class Zygote(renderer.worker.Zygote):
    def __init__(self, **how):
        super().__init__(**how)
        renderer.worker.announce_ready = lambda: self._post(lambda: 1 / 0)

renderer.worker.Zygote = Zygote
renderer.worker.run_worker(load_settings())
"""


def test_a_worker_whose_zygote_fails_drains_and_exits_with_status_1(settings: Settings, tmp_path: Path) -> None:
    environment = {
        'PATH': '/usr/bin:/bin',
        'FANFOLD_DATABASE_URL': settings.database_url,
        'FANFOLD_REDIS_URL': settings.redis_url,
        'FANFOLD_SCRATCH_DIR': str(tmp_path / 'scratch'),
    }
    ran = subprocess.run(
        [sys.executable, '-c', UNFIT], env=environment, timeout=90, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stderr
    assert 'unfit for work' in ran.stdout + ran.stderr
    assert list((tmp_path / 'scratch').iterdir()) == []
