"""Kill a real process at every point where it could do harm; the job still completes once, with all pages in order."""

import pytest

from tests.crash.deployment import held_parts, until
from tests.crash.looking import assert_completed_once, rows, submit

pytestmark = pytest.mark.crash

#: point → kind of part whose lease the victim holds there, or None where it holds none any more
WORKER_POINTS = {
    'plan-claimed': 'plan',
    'plan-completed': None,
    'paint-claimed': 'paint',
    'paint-forked': 'paint',
    'paint-uploaded': 'paint',
    'paint-completed': None,
}
ASSEMBLER_POINTS = {
    'hint-sent': None,
    'event-claimed': None,
    'advance-begun': None,
    'batch-created': None,
    'assemble-claimed': 'assemble',
    'merge-forked': 'assemble',
    'result-uploaded': 'assemble',
    'assemble-completed': None,
    'job-completed': None,
}


@pytest.mark.parametrize('point', WORKER_POINTS)
def test_a_worker_killed_at(point, deployment, pool):
    kill_at(point, 'worker', deployment, pool, beside='assembler', holding=WORKER_POINTS[point])


@pytest.mark.parametrize('point', ASSEMBLER_POINTS)
def test_an_assembler_killed_at(point, deployment, pool):
    kill_at(point, 'assembler', deployment, pool, beside='worker', holding=ASSEMBLER_POINTS[point])


def kill_at(point, program, deployment, pool, *, beside, holding):
    deployment.start('api')
    deployment.start(beside)
    victim = deployment.start(program, stop_at=point)
    job_id = submit(deployment)
    deployment.reached(victim)
    assert_holds_a_live_lease(pool, job_id, victim, holding)
    victim.kill()
    deployment.start(program)
    assert_completed_once(deployment, pool, job_id)


def assert_holds_a_live_lease(pool, job_id, victim, kind):
    if kind is None:
        return
    held = held_parts(pool, job_id, kind)
    assert [part for part in held if f':{victim.pid}:' in (part.lease_owner or '')], rows(pool, job_id)


@pytest.mark.parametrize('point', ['paint-forked', 'paint-uploaded'])
def test_a_worker_that_wakes_up_after_its_lease_expired_changes_nothing(point, deployment, pool):
    deployment.start('api')
    deployment.start('assembler')
    zombie = deployment.start('worker', stop_at=point)
    job_id = submit(deployment)
    deployment.reached(zombie)
    deployment.start('worker')
    assert_completed_once(deployment, pool, job_id)
    zombie.wake()
    until(lambda: b'worker stopped' in (zombie.stop(), zombie.log.read_bytes())[1], 'the zombie to stop')
    assert_completed_once(deployment, pool, job_id)


def test_two_assemblers_make_one_result(deployment, pool):
    deployment.start('api')
    deployment.start('worker')
    first = deployment.start('assembler', stop_at='result-uploaded')
    job_id = submit(deployment)
    deployment.reached(first)
    deployment.start('assembler')
    assert_completed_once(deployment, pool, job_id)
    first.wake()
    first.stop()
    assert_completed_once(deployment, pool, job_id)


def test_a_worker_told_to_stop_hands_its_parts_back_uncharged(deployment, pool):
    deployment.start('api')
    deployment.start('assembler')
    first = deployment.start('worker', threads='1', FANFOLD_GRACE_SECONDS='0.1')
    job_id = submit(deployment, documents=96)
    until(lambda: held_parts(pool, job_id, 'paint'), 'a part to be painted')
    assert first.stop() == 0
    assert not held_parts(pool, job_id, 'paint')
    deployment.start('worker')
    assert_completed_once(deployment, pool, job_id, documents=96)
    parts = rows(pool, job_id)[2]
    with pool.connection() as conn:
        charged = conn.execute('SELECT sum(attempts), sum(losses) FROM part WHERE job_id = %s', [job_id]).fetchone()
    assert charged == (0, 0), parts
