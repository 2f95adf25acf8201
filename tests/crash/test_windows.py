"""Kill what a long document's windows live in; the job completes once, with the pages that WeasyPrint makes."""

import os
import signal
from uuid import UUID

import psutil
import pytest
from weasyprint import HTML

from tests.crash.deployment import held_parts
from tests.crash.looking import assert_recorded_once, download, rows, wait_until_ended
from tests.oracle.same import assert_same
from tests.renderer.long_document import CHAPTERS, html

pytestmark = pytest.mark.crash

#: point → kind of part whose lease the victim holds there, or None
POINTS = {
    'plan-claimed': 'plan',
    'plan-completed': None,
    'layout-claimed': 'layout',
    'layout-completed': None,
    'paint-claimed': 'paint',
    'window-uploaded': 'paint',
}


@pytest.fixture(scope='module')
def serial():
    return HTML(string=html(), base_url='bundle:///').write_pdf()


@pytest.mark.parametrize('point', POINTS)
def test_a_worker_killed_at(point, deployment, pool, serial):
    job_id, victim = stopped_at(point, deployment)
    if POINTS[point]:
        held = held_parts(pool, job_id, POINTS[point])
        assert [part for part in held if f':{victim.pid}:' in (part.lease_owner or '')], rows(pool, job_id)
    victim.kill()
    deployment.start('worker')
    assert_completed_with(serial, deployment, pool, job_id)


@pytest.mark.parametrize('which', ['press', 'parked window'])
def test_a_process_of_the_document_killed_between_layout_and_painting(which, deployment, pool, serial):
    job_id, worker = stopped_at('paint-claimed', deployment)
    press, windows = processes_of_the_document(worker.pid)
    assert len(windows) >= 2
    os.kill(press if which == 'press' else windows[-1], signal.SIGKILL)
    worker.wake()
    assert_completed_with(serial, deployment, pool, job_id)
    with pool.connection() as conn:
        charged = conn.execute('SELECT sum(attempts) FROM part WHERE job_id = %s', [job_id]).fetchone()
    assert charged == (0,)


def test_a_worker_that_is_told_to_stop_leaves_its_windows_to_another(deployment, pool, serial):
    job_id, worker = stopped_at('layout-completed', deployment)
    worker.wake()
    assert worker.stop() == 0
    deployment.start('worker')
    assert_completed_with(serial, deployment, pool, job_id)


def test_two_workers_share_the_windows(deployment, pool, serial):
    deployment.start('api')
    deployment.start('assembler')
    for _ in range(2):
        deployment.start('worker', threads='1')
    job_id = submit(deployment)
    assert_completed_with(serial, deployment, pool, job_id)


def stopped_at(point, deployment):
    """A job of a long document, and its only worker, frozen there."""
    deployment.start('api')
    deployment.start('assembler')
    worker = deployment.start('worker', stop_at=point, FANFOLD_WORKER_THREADS='2')
    job_id = submit(deployment)
    deployment.reached(worker)
    return job_id, worker


def submit(deployment):
    with deployment.client() as client:
        return UUID(client.submit([{'html': html()}], options={'parts': 50}).id)


def processes_of_the_document(worker):
    """The press, and the processes that windows are parked in."""
    presses = [child for child in psutil.Process(worker).children() if 'renderer.prepare:prepare' in child.cmdline()]
    [press] = presses
    return press.pid, [child.pid for child in press.children()]


def assert_completed_with(serial, deployment, pool, job_id):
    assert wait_until_ended(pool, job_id) == 'completed', rows(pool, job_id)[0]
    assert_same(serial, download(deployment, job_id))
    assert_recorded_once(deployment, pool, job_id, pages=1 + 2 * CHAPTERS)
