from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow
from structlog.testing import capture_logs

import schema
from assembler.reconciler import STUCK_AFTER, Reconciler
from runtime.nudge import Nudger
from runtime.settings import Settings
from tests.assembler.given import claimed, completed, part_at, plan_key, running_parts, status, submitted

Conn = Connection[TupleRow]
OVER = timedelta(seconds=-1)


@pytest.fixture
def reconciler(pool: schema.Pool, nudger: Nudger, settings: Settings) -> Reconciler:
    return Reconciler(pool, nudger, settings.model_copy(update={'part_losses': 2}))


def test_an_expired_lease_costs_a_loss_and_the_part_is_due_again(conn: Conn, reconciler: Reconciler) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key, lease=OVER)

    reconciler.tick()

    part = part_at(conn, key)
    assert (part.status, part.losses, part.attempts, part.lease_expires_at) == ('pending', 1, 0, None)
    assert part.next_attempt_at > part_at(conn, key).next_attempt_at - timedelta(seconds=60)


def test_a_living_lease_is_left_alone(conn: Conn, reconciler: Reconciler) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key)

    reconciler.tick()

    assert part_at(conn, key).losses == 0
    assert part_at(conn, key).lease_expires_at is not None


def test_a_part_that_is_lost_too_often_fails_its_job(conn: Conn, reconciler: Reconciler) -> None:
    key = plan_key(submitted(conn))
    for _ in range(2):
        conn.execute("UPDATE part SET next_attempt_at = next_attempt_at - interval '1 hour'")
        claimed(conn, key, lease=OVER)
        reconciler.tick()

    job = schema.get_job(conn, key.job_id)
    assert job is not None
    assert job.failure is not None
    assert job.failure['type'] == 'urn:fanfold:lost-too-often'


def test_a_zombie_that_completes_the_next_part_does_not_meet_the_reconciler_half_way(
    conn: Conn, pool: schema.Pool, reconciler: Reconciler
) -> None:
    """Policy partial: a part that fails counts down its batch, which who completes another part waits for."""
    keys = running_parts(conn, 2)
    conn.execute("UPDATE job SET failure_policy = 'partial' WHERE id = %s", [keys[0].job_id])
    for key in keys:
        claimed(conn, key, lease=OVER)
    conn.execute('UPDATE part SET losses = 1 WHERE job_id = %s', [keys[0].job_id])
    lock = 'SELECT FROM part WHERE job_id = %s AND batch_no = %s AND part_index = %s FOR UPDATE'

    with ThreadPoolExecutor(1) as thread, pool.connection() as zombie:
        with zombie.transaction():
            zombie.execute(lock, [keys[1].job_id, keys[1].batch_no, keys[1].part_index])
            round_of_reconciler = thread.submit(reconciler.tick)
            wait_for_somebody_blocked(conn)
            assert part_at(conn, keys[0]).status == 'failed', 'it waits for the second part, and holds nothing else'
            assert completed(zombie, keys[1]) is schema.Completion.LAST
        round_of_reconciler.result(20)

    assert status(conn, keys[1]) == ('completed', 'completed', 'rendering')


def wait_for_somebody_blocked(conn: Conn) -> None:
    deadline = time.monotonic() + 20
    blocked = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not conn.execute(blocked.encode()).rowcount:
        assert time.monotonic() < deadline, 'nobody waits for a lock'


def test_a_drifted_count_is_counted_anew_and_the_batch_completes(conn: Conn, reconciler: Reconciler) -> None:
    keys = running_parts(conn, 2)
    for key in keys:
        completed(conn, key)
    other = running_parts(conn, 2)
    completed(conn, other[0])
    conn.execute("UPDATE batch SET remaining = 2 WHERE job_id = %s AND status = 'running'", [other[0].job_id])

    reconciler.tick()
    assert completed(conn, other[1]) is schema.Completion.LAST

    assert status(conn, other[1])[1] == 'completed'


def test_a_job_past_its_deadline_fails(conn: Conn, reconciler: Reconciler) -> None:
    late = plan_key(submitted(conn, time_limit=timedelta(microseconds=1)))
    punctual = plan_key(submitted(conn))

    reconciler.tick()

    job = schema.get_job(conn, late.job_id)
    assert job is not None
    assert job.failure is not None
    assert job.failure['type'] == 'urn:fanfold:deadline-exceeded'
    assert status(conn, punctual) == ('pending', 'running', 'queued')


@pytest.mark.parametrize(
    'spoil',
    [
        'UPDATE job SET deadline_at = created_at WHERE id = %s',
        "UPDATE batch SET remaining = 1 WHERE job_id = %s AND status = 'running'",
    ],
    ids=['overdue', 'drifted'],
)
def test_a_job_that_somebody_holds_does_not_keep_the_one_before_it_waiting(
    conn: Conn, pool: schema.Pool, reconciler: Reconciler, spoil: str
) -> None:
    first, second = sorted((running_parts(conn, 2)[0] for _ in range(2)), key=lambda key: key.job_id)
    before = status(conn, first), remaining(conn, first)
    for key in (first, second):
        conn.execute(spoil.encode(), [key.job_id])

    with ThreadPoolExecutor(1) as thread, pool.connection() as other:
        with other.transaction():
            other.execute('SELECT FROM batch WHERE job_id = %s FOR UPDATE', [second.job_id])
            round_of_reconciler = thread.submit(reconciler.tick)
            wait_for_somebody_blocked(conn)
            set_right = status(conn, first), remaining(conn, first)
        round_of_reconciler.result(20)

    assert set_right == (before if 'remaining' in spoil else (('pending', 'failed', 'failed'), 2))
    assert (status(conn, second), remaining(conn, second)) == set_right


def remaining(conn: Conn, key: schema.PartKey) -> int:
    [batch] = [batch for batch in schema.list_batches(conn, key.job_id) if batch.batch_no == key.batch_no]
    return batch.remaining


def test_a_job_whose_retention_is_over_expires(conn: Conn, reconciler: Reconciler) -> None:
    key = plan_key(submitted(conn, keep_for=timedelta()))
    schema.cancel_job(conn, key.job_id)

    reconciler.tick()

    assert status(conn, key)[2] == 'expired'


def test_a_job_that_nothing_moves_is_reported_once(conn: Conn, reconciler: Reconciler) -> None:
    key = plan_key(submitted(conn))
    completed(conn, key)
    conn.execute('UPDATE outbox SET sent_at = created_at')
    conn.execute('UPDATE batch SET completed_at = completed_at - %s', [STUCK_AFTER])
    try:
        with capture_logs() as lines:
            reconciler.tick()
            reconciler.tick()

        assert reconciler.stuck == {key.job_id}
        assert [line['job_id'] for line in lines if line['log_level'] == 'error'] == [str(key.job_id)]
    finally:
        conn.execute('UPDATE outbox SET sent_at = NULL')  # as the invariants want it


def test_it_says_when_it_last_ran(reconciler: Reconciler) -> None:
    assert reconciler.last_run == 0

    reconciler.tick()

    assert reconciler.last_run > 0
