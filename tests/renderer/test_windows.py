"""A long document through the steps of the service: WeasyPrint's pages, whoever does which step, whatever is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from weasyprint import HTML

import schema
from renderer.press import Answer, PressedWindow
from renderer.seams import NO_FORCED_BREAK, ONE_WINDOW_ASKED, TOO_SHORT
from renderer.worker import Worker
from runtime.settings import Settings
from runtime.storage import Storage
from tests.crash.deployment import until
from tests.oracle.same import assert_same
from tests.renderer.bundles import MakeJob
from tests.renderer.long_document import CHAPTERS, html
from tests.renderer.working import ByHand, by_hand

WINDOWS = CHAPTERS + 1


@pytest.fixture(scope='module')
def serial() -> bytes:
    return HTML(string=html(), base_url='bundle:///').write_pdf()


@pytest.fixture
def service(settings: Settings, tmp_path: Path) -> Iterator[ByHand]:
    with by_hand(settings, tmp_path) as service:
        yield service


@pytest.fixture
def job(make_job: MakeJob) -> Any:
    """A document in a window at every seam."""
    return make_job(parts=50).html(html())


def test_a_long_document_is_laid_out_in_rounds_and_is_what_weasyprint_writes(service, job, serial):
    worker, job_id = service.worker(), service.submit(job)
    assert_same(serial, service.finish(job_id, lambda part: worker))
    plan = service.snapshot(job_id).plan
    assert plan is not None
    assert (plan['windows'], plan['pages'], plan['whole_because']) == (WINDOWS, 1 + 2 * CHAPTERS, None)
    assert [seam['label'] for seam in plan['seams']] == [f'#c{number}' for number in range(CHAPTERS)]
    assert [entry['windows'] for entry in plan['rounds']] == [WINDOWS, WINDOWS]
    kinds = [batch.kind for batch in service.snapshot(job_id).batches]
    assert kinds == ['plan', 'layout', 'layout', 'paint', 'assemble']


def test_windows_are_painted_by_whoever_comes(service, job, serial):
    """As when the host that laid them out is gone: another prepares the document and lays out anew."""
    first, second, job_id = service.worker(), service.worker(), service.submit(job)
    due = service.work(job_id, lambda part: first, until='paint')
    assert {part.spec['host'] for part in due} == {first.host}
    service.leave(first)
    assert_same(serial, service.finish(job_id, lambda part: second))


def test_a_press_that_is_killed_costs_a_loss_and_no_page(service, job, serial):
    worker, job_id = service.worker(), service.submit(job)
    due = service.work(job_id, lambda part: worker, until='paint')
    os.kill(parent_of(parked(worker, 2)), signal.SIGKILL)
    assert_same(serial, service.finish(job_id, lambda part: worker))
    assert len(due) == WINDOWS
    assert sum(part.attempts for part in service.parts(job_id, 'paint')) == 0


def test_a_parked_window_that_is_killed_is_laid_out_again(service, job, serial):
    worker, job_id = service.worker(), service.submit(job)
    service.work(job_id, lambda part: worker, until='paint')
    os.kill(parked(worker, 2), signal.SIGKILL)
    assert_same(serial, service.finish(job_id, lambda part: worker))
    assert [(part.attempts, part.losses) for part in service.parts(job_id, 'paint')] == [(0, 0)] * WINDOWS


def test_windows_beyond_the_memory_for_them_leave_and_are_laid_out_again(service, job, serial):
    worker, job_id = service.worker(parked_memory_bytes=1), service.submit(job)
    service.work(job_id, lambda part: worker, until='paint')
    assert parked_windows(worker) == []
    assert_same(serial, service.finish(job_id, lambda part: worker))


def test_a_damaged_window_is_painted_again_under_a_new_generation(service, job, serial):
    worker, job_id = service.worker(), service.submit(job)
    service.work(job_id, lambda part: worker)
    Storage(service.settings).delete([str(service.parts(job_id, 'paint')[1].result_ref)])
    service.assemble(job_id)
    assert_same(serial, service.finish(job_id, lambda part: worker))
    assert [(part.key.part_index, part.generation) for part in service.parts(job_id, 'paint')][WINDOWS:] == [(1, 1)]


def test_a_window_over_its_limit_is_named_by_its_pages_and_by_how_it_begins(service, job):
    worker, job_id = service.worker(part_attempts=1), service.submit(job)
    due = service.work(job_id, lambda part: worker, until='paint')
    service.leave(worker)
    service.worker(part_attempts=1, window_memory_bytes=1).work(due[2].key)
    failure = service.job(job_id).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:memory-limit'
    assert failure['detail'].startswith("pages 4 to 5, from '#c1': it needed more than")


def test_a_retry_lays_out_only_the_windows_that_were_not(service, job, serial):
    good, bad = service.worker(), service.worker(part_attempts=1, window_memory_bytes=1)
    job_id = service.submit(job)
    service.work(job_id, lambda part: good if part.kind == 'plan' or part.key.part_index < 2 else bad)
    assert service.job(job_id).status == 'failed'
    with service.pool.connection() as conn:
        schema.retry_job(conn, job_id)
    assert_same(serial, service.finish(job_id, lambda part: good))
    batches = service.snapshot(job_id).batches
    assert [(batch.kind, batch.total) for batch in batches][1:4] == [('layout', 5), ('layout', 3), ('layout', 5)]


@pytest.mark.parametrize('kind', ['layout', 'paint'])
def test_a_window_that_fails_in_a_partial_job_fails_it_with_its_reason(service, job, kind):
    good, bad = service.worker(), service.worker(part_attempts=1, window_memory_bytes=1)
    job_id = service.submit(job, failure_policy='partial')
    service.work(job_id, lambda part: bad if (part.kind, part.key.part_index) == (kind, 3) else good)
    failure = service.job(job_id).failure
    assert failure is not None
    assert (failure['type'], failure['part']) == ('urn:fanfold:memory-limit', 3)


def test_a_host_with_other_fonts_than_the_planner_refuses_windows_as_a_loss(service, job, monkeypatch):
    worker, job_id = service.worker(), service.submit(job)
    due = service.work(job_id, lambda part: worker, until='layout')
    monkeypatch.setitem(worker.zygote.warmed, 'fingerprint', 'other')
    worker.work(due[0].key)
    part = service.part(due[0].key)
    assert (part.status, part.attempts, part.losses) == ('pending', 0, 1)
    assert part.failure is not None
    assert 'other versions or fonts' in part.failure['detail']


@pytest.mark.parametrize(
    ('parts', 'text', 'why'),
    [
        ('auto', html(), TOO_SHORT),
        (1, html(), ONE_WINDOW_ASKED),
        (5, '<p>no break', NO_FORCED_BREAK),
    ],
)
def test_what_is_rendered_whole_says_why(service, make_job, parts, text, why):
    worker, job_id = service.worker(), service.submit(make_job(parts=parts).html(text))
    [part] = service.work(job_id, lambda part: worker, until='paint')
    assert part.spec == {'first_item': 0, 'item_count': 1}
    plan = service.snapshot(job_id).plan
    assert plan is not None
    assert plan['windows'] == 1
    assert plan['whole_because'] == why


def test_a_document_that_is_worth_it_is_split_by_itself(service, make_job, monkeypatch):
    for module in ('renderer.windows', 'renderer.seams'):
        monkeypatch.setattr(f'{module}.LEAST_WEIGHT', 1_000)
    worker, job_id = service.worker(), service.submit(make_job().html(html()))
    service.work(job_id, lambda part: worker, until='layout')
    plan = service.snapshot(job_id).plan
    assert plan is not None
    assert plan['windows'] == 3


def test_what_a_document_weighs_is_its_text(service, make_job):
    worker, job_id = service.worker(), service.submit(make_job().html(html(more=f'<!-- {"long " * 20_000} -->')))
    [_] = service.work(job_id, lambda part: worker, until='paint')
    plan = service.snapshot(job_id).plan
    assert plan is not None
    assert plan['whole_because'] == TOO_SHORT


def test_a_document_that_cannot_be_rendered_fails_with_its_error(service, make_job):
    job = make_job(parts=9, options={'stylesheets': ['gone.css']}).html(html())
    worker, job_id = service.worker(), service.submit(job)
    service.work(job_id, lambda part: worker)
    failure = service.job(job_id).failure
    assert failure is not None
    assert (failure['type'], failure['document'], failure['file']) == ('urn:fanfold:file-missing', 0, 'gone.css')


def test_a_document_that_takes_too_much_to_prepare_is_rendered_whole(service, job, serial):
    worker, job_id = service.worker(press_memory_bytes=1), service.submit(job)
    assert_same(serial, service.finish(job_id, lambda part: worker))
    plan = service.snapshot(job_id).plan
    assert plan is not None
    assert plan['windows'] == 1
    assert 'memory' in plan['whole_because']


def test_options_metadata_and_warnings_are_those_of_a_document_rendered_whole(service, make_job):
    files = {'big.css': b'p { color: teal; nonsense: 1 }', 'data.txt': b'data'}
    options = {'stylesheets': ['big.css'], 'attachments': ['data.txt'], 'zoom': 2, 'pdf_tags': True}
    text = html(more='<img src="http://example.org/a.png"><a href="#nowhere">x</a>')
    pdfs, warnings = [], []
    worker = service.worker()
    for parts in (1, 50):
        job = make_job(parts=parts, files=files, options=options, metadata={'title': 'Set', 'author': 'Ada'})
        job_id = service.submit(job.html(text))
        pdfs.append(service.finish(job_id, lambda part: worker))
        warnings.append(service.snapshot(job_id).warnings)
    assert_same(*pdfs)
    assert sorted(warnings[0]) == sorted(warnings[1])
    assert any('example.org' in warning for warning in warnings[1])


def test_a_cancelled_job_ends_the_child_of_its_window(service, job, monkeypatch):
    worker, job_id = service.worker(lease_seconds=1), service.submit(job)
    due = service.work(job_id, lambda part: worker, until='layout')
    lay_out = PressedWindow.lay_out

    def cancelled_meanwhile(window: PressedWindow, *args: Any, **how: Any) -> Answer:
        answer = lay_out(window, *args, **how)
        with service.pool.connection() as conn:
            schema.cancel_job(conn, job_id)
        until(lambda: window.pid is None, 'the window to be ended')
        return answer

    monkeypatch.setattr(PressedWindow, 'lay_out', cancelled_meanwhile)
    worker.work(due[0].key)
    assert service.part(due[0].key).status == 'pending'
    until(lambda: not worker.windows.room._presses, 'the press to be closed')


def parked(worker: Worker, window: int) -> int:
    """The process that a window is parked in."""
    pid = dict(parked_windows(worker))[window]
    assert pid
    return pid


def parked_windows(worker: Worker) -> list[tuple[int, int]]:
    """Windows with a process, and the process."""
    room = worker.windows.room
    return [
        (number, window.pressed.pid)
        for press in room._presses.values()
        for number, window in press._windows.items()
        if window.pressed.pid
    ]


def parent_of(pid: int) -> int:
    return int(Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[1])
