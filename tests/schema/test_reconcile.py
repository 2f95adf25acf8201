"""What the reconciler sets right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

import schema
from schema import Failed, Repaired
from schema.statements import value
from tests.schema.given import (
    HOUR,
    WHY,
    claimed,
    completed,
    event_keys,
    failed,
    leases_expired,
    painting,
    part_at,
    plan_key,
    relay,
    status,
    submitted,
    waiting_events,
    worked_off,
)

Conn = Connection[Any]
SECOND = timedelta(seconds=1)
RETRY = Failed.RETRY


def now() -> datetime:
    return datetime.now(UTC)


def test_an_expired_lease_is_charged_as_a_loss(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    failed(conn, keys[0])
    epoch = claimed(conn, keys[0]).lease_epoch

    assert leases_expired(conn) == [RETRY, RETRY]

    part = part_at(conn, keys[0])
    assert (part.attempts, part.losses, part.lease_expires_at, part.lease_epoch) == (1, 1, None, epoch)
    assert part.failure == WHY, 'a loss does not hide why the last try failed'
    assert leases_expired(conn) == []


def test_a_live_lease_is_left_alone(conn: Conn) -> None:
    claimed(conn, plan_key(submitted(conn)))

    assert leases_expired(conn, now=None) == []


def test_a_lost_part_pauses_longer_with_each_loss(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    asked = []

    def pause(losses: int) -> timedelta:
        asked.append(losses)
        return losses * HOUR

    for minute in (0, 2):
        claimed(conn, key, now=now() + minute * 60 * SECOND)
        leases_expired(conn, retry_after=pause, now=now() + (minute + 1) * 60 * SECOND)

    assert asked == [0, 1]
    assert part_at(conn, key).next_attempt_at > now() + HOUR


def test_a_part_lost_too_often_fails_its_job(conn: Conn) -> None:
    keys = painting(conn, 3)
    for _ in range(2):
        claimed(conn, keys[1], owner='host:1')
        assert leases_expired(conn, losses_allowed=3, now=now() + 60 * SECOND) == [RETRY]
        conn.execute('UPDATE part SET next_attempt_at = clock_timestamp()')
    claimed(conn, keys[1], owner='host:1')

    assert leases_expired(conn, losses_allowed=3, now=now() + 60 * SECOND) == [Failed.JOB_FAILED]

    assert status(conn, keys[1]) == ('failed', 'failed', 'failed')
    job = schema.get_job(conn, keys[1].job_id)
    assert job is not None
    assert job.failure is not None
    assert (job.failure['type'], job.failure['part'], job.failure['losses']) == ('urn:fanfold:lost-too-often', 1, 3)
    assert 'host:1' in job.failure['detail']


def test_a_part_lost_too_often_is_left_out_under_the_partial_policy(conn: Conn) -> None:
    keys = painting(conn, 2, 'partial', claim=True)
    completed(conn, keys[0])

    assert leases_expired(conn, losses_allowed=1) == [Failed.LAST]
    assert status(conn, keys[1]) == ('failed', 'completed', 'rendering')


def test_several_spent_parts_of_one_job_fail_it_once(conn: Conn) -> None:
    keys = painting(conn, 3, claim=True)

    assert leases_expired(conn, losses_allowed=1) == [Failed.JOB_FAILED]
    assert event_keys(conn, keys[0])[-1] == 'job-failed:1'


def test_leases_expire_in_bounded_rounds(conn: Conn) -> None:
    painting(conn, 5, claim=True)

    assert [len(leases_expired(conn, limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_live_leases_do_not_take_the_places_of_expired_ones(conn: Conn) -> None:
    keys = painting(conn, 3)
    for key, lease in zip(keys, (HOUR, HOUR, SECOND), strict=True):
        claimed(conn, key, lease=lease)

    assert leases_expired(conn, limit=1) == [RETRY]
    assert part_at(conn, keys[2]).losses == 1


def test_leases_of_ended_batches_are_nobodys_business(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    schema.cancel_job(conn, keys[0].job_id)

    assert leases_expired(conn) == []
    assert part_at(conn, keys[0]).losses == 0


@pytest.mark.parametrize('drift', [1, 3])
def test_drift_is_repaired(conn: Conn, drift: int) -> None:
    keys = painting(conn, 3)
    completed(conn, keys[0])
    conn.execute('UPDATE batch SET remaining = %s WHERE status = %s', [drift, 'running'])

    [repaired] = schema.repair_remaining(conn, 10)

    assert repaired == Repaired(job_id=keys[0].job_id, batch_no=1, was=drift, now=2, completed=False)
    assert schema.repair_remaining(conn, 10) == []
    worked_off(conn)
    assert status(conn, keys[0])[2] == 'completed'


@pytest.mark.parametrize('remaining', [0, 2])
def test_a_repair_that_reaches_zero_completes_the_batch_with_its_event(conn: Conn, remaining: int) -> None:
    keys = painting(conn, 2)
    with conn.transaction():
        done = ['h', datetime.now(UTC), keys[0].job_id]
        conn.execute(
            """
            UPDATE part SET status = 'completed', result = '{"pages": 1}', input_hash = %s, completed_at = %s
            WHERE job_id = %s AND batch_no = 1
            """,
            done,
        )
        conn.execute('UPDATE batch SET remaining = %s WHERE status = %s', [remaining, 'running'])

    [repaired] = schema.repair_remaining(conn, 10)

    assert (repaired.now, repaired.completed) == (0, True)
    assert event_keys(conn, keys[0])[-1] == 'batch-completed:1'
    worked_off(conn)
    assert status(conn, keys[0])[2] == 'completed'


def test_a_healthy_batch_is_not_repaired(conn: Conn) -> None:
    keys = painting(conn, 2)
    completed(conn, keys[0])

    assert schema.repair_remaining(conn, 10) == []


def test_an_ended_batch_is_not_recounted(conn: Conn) -> None:
    keys = painting(conn, 2)
    schema.cancel_job(conn, keys[0].job_id)

    assert value(conn, 'lock_batch', job_id=keys[0].job_id, batch_no=1) is None


def test_a_job_that_nothing_moves_is_reported(conn: Conn) -> None:
    healthy = painting(conn, 1)
    waiting = submitted(conn)
    completed(conn, plan_key(waiting))
    later = now() + HOUR
    assert schema.stuck_jobs(conn, 60 * SECOND, now=later) == []

    conn.execute('UPDATE outbox SET sent_at = now() WHERE job_id = %s', [waiting.id])

    assert schema.stuck_jobs(conn, 60 * SECOND, now=later) == [waiting.id]
    assert schema.stuck_jobs(conn, 2 * HOUR, now=later) == []
    schema.fail_job(conn, waiting.id, WHY)
    assert schema.stuck_jobs(conn, 60 * SECOND, now=later) == []
    assert status(conn, healthy[0])[2] == 'rendering'


def test_a_job_whose_event_was_parked_is_reported(conn: Conn) -> None:
    job = submitted(conn)
    completed(conn, plan_key(job))
    [event] = waiting_events(conn)
    schema.park_event(conn, event.id)

    assert schema.stuck_jobs(conn, timedelta(), now=now() + HOUR) == [job.id]
    schema.cancel_job(conn, job.id)
    relay(conn)
