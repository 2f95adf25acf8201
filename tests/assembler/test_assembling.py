from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

import schema
from assembler.dispatcher import Dispatcher
from assembler.reconciler import Reconciler
from assembler.relay import Relay
from assembler.sweeper import Sweeper
from assembler.worker import Assembler, start_assembling
from runtime.broker import make_broker
from runtime.errors import ObjectExists, StorageUnavailable
from runtime.nudge import Nudger
from runtime.settings import Settings
from runtime.storage import Storage
from schema import PartKey
from tests.assembler.documents import attachment, outline, texts
from tests.assembler.given import event_keys, part_at
from tests.assembler.painted import PAGES, Press
from worker.children import Child
from worker.zygote import Zygote

Conn = Connection[TupleRow]
Start = Callable[..., Assembler]


@pytest.fixture
def relay(pool: schema.Pool, nudger: Nudger) -> Relay:
    return Relay(pool, nudger)


@pytest.fixture
def press(conn: Conn, storage: Storage, relay: Relay, tmp_path: Path) -> Press:
    return Press(conn, storage, relay, tmp_path)


@pytest.fixture
def start(settings: Settings, pool: schema.Pool, storage: Storage, nudger: Nudger, tmp_path: Path) -> Iterator[Start]:
    """Starts an assembler, with settings of its own."""
    started = []

    def start(storage: Storage = storage, **changes: Any) -> Assembler:
        own = settings.model_copy(update={'scratch_dir': tmp_path, **changes})
        started.append(Assembler(own, pool, storage, nudger))
        return started[-1]

    yield start
    for assembler in started:
        assembler.close()
    assert not list(tmp_path.glob('fanfold-assembler-*')), 'nothing is left on disk'


def job(conn: Conn, key: PartKey) -> schema.Job:
    found = schema.get_job(conn, key.job_id)
    assert found is not None
    return found


def download(storage: Storage, conn: Conn, key: PartKey, path: Path) -> Path:
    """The job's result, which must have the recorded checksum."""
    done = job(conn, key)
    assert done.result_key is not None
    assert done.result_sha256 is not None
    storage.fetch(done.result_key, path, sha256=done.result_sha256)
    assert path.stat().st_size == done.result_bytes
    return path


def test_painted_parts_become_the_result(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path
) -> None:
    key = press.painted(3)

    start().work(key)
    relay.tick()

    done = job(conn, key)
    assert (done.status, done.page_count, done.result_key) == ('completed', 9, f'jobs/{key.job_id}/result/2-1.pdf')
    assert done.result is not None
    assert done.result['missing'] == []
    assert done.result['warnings'] == ['odd', '0', '1', '2']
    assert done.result['timing']['finished_at'] > done.result['timing']['started_at']
    path = download(storage, conn, key, tmp_path / 'result.pdf')
    assert texts(path) == [text for index in range(3) for text in texts(press.pdf(index))]
    with pikepdf.open(path) as pdf:
        assert str(pdf.docinfo.Title) == 'The job'
        assert len(outline(pdf)) == 9
    assert event_keys(conn, key)[-1] == 'job-completed'


def test_a_job_of_one_part_is_that_part(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path
) -> None:
    key = press.painted(1)

    start().work(key)
    relay.tick()

    path = download(storage, conn, key, tmp_path / 'result.pdf')
    assert texts(path) == texts(press.pdf(0))


def test_a_redelivered_hint_assembles_once(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage
) -> None:
    key = press.painted(2)
    assembler = start()

    for _ in range(3):
        assembler.work(key)
        relay.tick()

    assert part_at(conn, key).lease_epoch == 1
    assert [item.key for item in storage.keys(f'jobs/{key.job_id}/result/')] == [job(conn, key).result_key]


@pytest.mark.parametrize('damage', ['missing', 'truncated', 'foreign'])
def test_a_damaged_part_is_painted_again_and_the_job_completes(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path, damage: str
) -> None:
    key = press.painted(3)
    spoil(storage, f'jobs/{key.job_id}/parts/1', damage)
    assembler = start()

    assembler.work(key)
    relay.tick()

    assert part_at(conn, key).result == {'repair': [1]}
    again = part_at(conn, PartKey(job_id=key.job_id, batch_no=3, part_index=1))
    assert again.generation == 1
    press.paint(again.key, generation=1)
    relay.tick()
    assembler.work(PartKey(job_id=key.job_id, batch_no=4, part_index=0))
    relay.tick()
    assert job(conn, key).status == 'completed'
    path = download(storage, conn, key, tmp_path / 'result.pdf')
    assert texts(path) == [text for index in range(3) for text in texts(press.pdf(index))]


def spoil(storage: Storage, key: str, damage: str) -> None:
    if damage == 'missing':
        storage.delete([key])
        return
    content = b''.join(storage.open(key))
    spoiled = content[:-1] if damage == 'truncated' else b'%PDF-1.7 something else'
    storage._client.put_object(Bucket=storage.bucket, Key=key, Body=spoiled)


def test_parts_that_stay_damaged_fail_the_job_in_the_end(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage
) -> None:
    key = press.painted(2)
    assembler = start()
    for round in range(4):
        assembly = PartKey(job_id=key.job_id, batch_no=2 + 2 * round, part_index=0)
        suffix = f'.{round}' if round else ''
        spoil(storage, f'jobs/{key.job_id}/parts/0{suffix}', 'missing')
        assembler.work(assembly)
        relay.tick()
        if round < 3:
            press.paint(PartKey(job_id=key.job_id, batch_no=3 + 2 * round, part_index=0), generation=round + 1)
            relay.tick()

    failure = job(conn, key).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:part-object-damaged'
    assert failure['parts'] == [0]


def test_a_failed_part_is_a_page_that_says_so(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path
) -> None:
    key = press.painted(3, failing=[1], failure_policy='partial')

    start().work(key)
    relay.tick()

    done = job(conn, key)
    assert (done.status, done.page_count) == ('completed', 2 * PAGES + 1)
    assert done.result is not None
    why = {'type': 'urn:fanfold:memory-limit', 'detail': 'it needed too much memory'}
    assert done.result['missing'] == [{'document': 1, 'record': None, **why}]
    pages = texts(download(storage, conn, key, tmp_path / 'result.pdf'))
    assert pages[:PAGES] == texts(press.pdf(0))
    assert 'Missing: document 1' in pages[PAGES]
    assert pages[PAGES + 1 :] == texts(press.pdf(2))


class SlowStorage(Storage):
    """Tells when it has come to an upload, and waits with it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.arrived = threading.Event()
        self.go_on = threading.Event()

    def put_new(self, *args: Any, **kwargs: Any) -> None:
        self.arrived.set()
        assert self.go_on.wait(30)
        super().put_new(*args, **kwargs)


def test_two_assemblers_at_once_make_one_result(
    conn: Conn,
    pool: schema.Pool,
    press: Press,
    start: Start,
    relay: Relay,
    nudger: Nudger,
    settings: Settings,
    storage: Storage,
) -> None:
    key = press.painted(2)
    slow = SlowStorage(settings)
    zombie = threading.Thread(target=start(slow).work, args=[key])
    zombie.start()
    assert slow.arrived.wait(30)
    conn.execute("UPDATE part SET lease_expires_at = now() - interval '1 hour' WHERE lease_expires_at IS NOT NULL")
    Reconciler(pool, nudger, settings).tick()
    conn.execute('UPDATE part SET next_attempt_at = now()')

    start().work(key)
    relay.tick()
    slow.go_on.set()
    zombie.join(30)
    relay.tick()

    assert job(conn, key).result_key == f'jobs/{key.job_id}/result/2-2.pdf'
    assert event_keys(conn, key).count('job-completed') == 1
    assert len(storage.keys(f'jobs/{key.job_id}/result/')) == 2
    Sweeper(pool, storage, settings, grace=timedelta()).tick()
    assert [item.key for item in storage.keys(f'jobs/{key.job_id}/')] == [f'jobs/{key.job_id}/result/2-2.pdf']


@pytest.fixture
def frozen_child(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Every child stops before it can do anything; each that has can be acquired."""
    original = Zygote.start
    stopped = threading.Semaphore(0)

    def start_frozen(press: Zygote, request: Any) -> Child:
        child = original(press, request)
        os.kill(child.pid, signal.SIGSTOP)
        stopped.release()
        return child

    monkeypatch.setattr(Zygote, 'start', start_frozen)
    return stopped


def test_cancelling_kills_the_child_and_nothing_more_is_written(
    conn: Conn, press: Press, start: Start, storage: Storage, frozen_child: threading.Semaphore
) -> None:
    key = press.painted(2)
    work = threading.Thread(target=start(lease_seconds=1.0).work, args=[key])
    work.start()
    assert frozen_child.acquire(timeout=30)

    schema.cancel_job(conn, key.job_id)
    work.join(30)

    assert not work.is_alive()
    assert storage.keys(f'jobs/{key.job_id}/result/') == []
    assert part_at(conn, key).status == 'pending'
    assert (part_at(conn, key).attempts, part_at(conn, key).losses) == (0, 0)


def test_draining_gives_the_assembly_back_uncharged(
    conn: Conn, press: Press, start: Start, relay: Relay, frozen_child: threading.Semaphore
) -> None:
    key = press.painted(2)
    assembler = start()
    work = threading.Thread(target=assembler.work, args=[key])
    work.start()
    assert frozen_child.acquire(timeout=30)

    assembler.holder.drain(0.0)
    work.join(30)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses, part.lease_expires_at) == ('pending', 0, 0, None)


def test_two_jobs_are_assembled_at_the_same_time(
    conn: Conn,
    pool: schema.Pool,
    press: Press,
    start: Start,
    settings: Settings,
    frozen_child: threading.Semaphore,
) -> None:
    keys = [press.painted(2), press.painted(2)]
    assembler, broker = start(), make_broker(settings)
    worker = start_assembling(assembler, broker)
    try:
        Dispatcher(pool, broker, settings).tick()
        assert frozen_child.acquire(timeout=30)
        assert frozen_child.acquire(timeout=30)
        assert all(part_at(conn, key).lease_owner == assembler.owner for key in keys)
    finally:
        assembler.holder.drain(0.0)
        worker.stop()
        broker.close()


def test_a_merge_that_takes_for_ever_fails_the_job_with_the_reason(
    conn: Conn, press: Press, start: Start, frozen_child: threading.Semaphore
) -> None:
    key = press.painted(2)
    assembler = start(child_wall_seconds=0.2, part_attempts=2)

    assert fail_twice(conn, assembler, key)['type'] == 'urn:fanfold:wall-limit'


def test_a_merge_that_takes_all_memory_fails_the_job_with_the_reason(conn: Conn, press: Press, start: Start) -> None:
    press.bundle(0, attachments=[attachment('big', os.urandom(16_000_000))])
    key = press.painted(2)
    assembler = start(child_memory_bytes=4_000_000, part_attempts=2)

    assert fail_twice(conn, assembler, key)['type'] == 'urn:fanfold:memory-limit'


def fail_twice(conn: Conn, assembler: Assembler, key: PartKey) -> dict[str, Any]:
    for _ in range(2):
        assert part_at(conn, key).status == 'pending'
        assembler.work(key)
        conn.execute("UPDATE part SET next_attempt_at = now() WHERE status = 'pending'")
    failure = job(conn, key).failure
    assert failure is not None
    assert failure['attempts'] == 2
    return failure


def test_an_outage_of_the_storage_is_a_loss_and_no_attempt(
    conn: Conn, press: Press, start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)

    def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable('gone')

    monkeypatch.setattr(storage, 'fetch', away)
    start().work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses, part.lease_expires_at) == ('pending', 0, 1, None)


def test_an_upload_that_went_through_unheard_is_taken_as_ours(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)
    original = storage.put_new

    def twice(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        original(*args, **kwargs)

    monkeypatch.setattr(storage, 'put_new', twice)
    start().work(key)
    relay.tick()

    assert job(conn, key).status == 'completed'


def test_a_result_that_is_there_for_a_put_and_missing_for_a_head_is_put_again(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)
    original = storage.put_new
    refused: list[str] = []

    def contradict(name: str, *args: Any, **kwargs: Any) -> None:
        if not refused:
            refused.append(name)
            raise ObjectExists(name)
        original(name, *args, **kwargs)

    monkeypatch.setattr(storage, 'put_new', contradict)
    start().work(key)
    relay.tick()

    assert refused
    assert job(conn, key).status == 'completed'


def test_a_store_that_goes_on_contradicting_itself_is_an_outage(
    conn: Conn, press: Press, start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)

    def exists(name: str, *_: Any, **__: Any) -> None:
        raise ObjectExists(name)

    monkeypatch.setattr(storage, 'put_new', exists)
    start().work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses) == ('pending', 0, 1)


def test_a_disk_that_is_full_is_a_loss_and_no_attempt(
    conn: Conn, press: Press, start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(storage, 'fetch', full)
    start().work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses) == ('pending', 0, 1)
    assert part.failure is not None
    assert part.failure['type'] == 'urn:fanfold:host-failed'


def test_an_assembler_whose_press_has_failed_takes_nothing_more(conn: Conn, press: Press, start: Start) -> None:
    key = press.painted(2)
    assembler = start()
    unfit = threading.Event()
    assembler.fitness.watch(unfit.set)

    assembler._zygote._post(lambda: 1 / 0)

    assert unfit.wait(30)
    assembler.work(key)
    assert part_at(conn, key).lease_epoch == 0
