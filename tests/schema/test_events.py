"""The outbox and the relay's side of advance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.errors import UniqueViolation

import schema
from schema.events import announce_batch
from tests.schema.given import (
    HOUR,
    LEASE,
    WHY,
    advance,
    completed,
    event_keys,
    painting,
    plan_key,
    relay,
    submitted,
    waiting_events,
)

Conn = Connection[Any]
SECOND = timedelta(seconds=1)


def now() -> datetime:
    return datetime.now(UTC)


def planned(conn: Conn) -> schema.Job:
    job = submitted(conn)
    completed(conn, plan_key(job), parts=[{'first_item': 0, 'item_count': 1}])
    return job


def test_an_event_is_claimed_by_one(conn: Conn) -> None:
    job = planned(conn)

    [event] = schema.claim_events(conn, limit=10, lease=LEASE)

    assert (event.type, event.job_id, event.batch_no, event.attempts) == ('batch-completed', job.id, 0, 1)
    assert event.payload == {'batch_no': 0, 'kind': 'plan'}
    assert schema.claim_events(conn, limit=10, lease=LEASE) == []


def test_a_claim_that_nobody_ends_comes_back(conn: Conn) -> None:
    planned(conn)
    schema.claim_events(conn, limit=10, lease=SECOND)

    [event] = schema.claim_events(conn, limit=10, lease=LEASE, now=now() + 2 * SECOND)

    assert event.attempts == 2


def test_events_are_claimed_oldest_first_and_no_more_than_asked_for(conn: Conn) -> None:
    jobs = [planned(conn) for _ in range(3)]

    rounds = [schema.claim_events(conn, limit=2, lease=LEASE) for _ in range(2)]

    assert [[event.job_id for event in events] for events in rounds] == [[jobs[0].id, jobs[1].id], [jobs[2].id]]


def test_claims_pass_each_other(pool: schema.Pool) -> None:
    with pool.connection() as one, pool.connection() as other:
        planned(one)
        planned(one)
        with one.transaction():
            [first] = schema.claim_events(one, limit=1, lease=LEASE)
            [second] = schema.claim_events(other, limit=10, lease=LEASE)

    assert first.id != second.id


def test_a_released_event_waits(conn: Conn) -> None:
    planned(conn)
    [event] = waiting_events(conn)

    assert schema.release_event(conn, event.id, available_in=60 * SECOND)

    assert waiting_events(conn) == []
    due = schema.next_event_due(conn)
    assert due is not None
    assert 50 * SECOND < due <= 60 * SECOND
    [again] = schema.claim_events(conn, limit=1, lease=LEASE, now=now() + 61 * SECOND)
    assert (again.id, again.attempts) == (event.id, 2)


def test_the_next_event_is_known(conn: Conn) -> None:
    assert schema.next_event_due(conn) is None
    planned(conn)
    due = schema.next_event_due(conn)
    assert due is not None
    assert due <= timedelta()
    schema.claim_events(conn, limit=1, lease=10 * SECOND)
    claimed = schema.next_event_due(conn)
    assert claimed is not None
    assert 5 * SECOND < claimed <= 10 * SECOND


def test_a_sent_event_is_over(conn: Conn) -> None:
    planned(conn)
    [event] = waiting_events(conn)
    with conn.transaction():
        advance(conn, event)
        assert schema.mark_sent(conn, event.id)

    assert not schema.mark_sent(conn, event.id)
    assert not schema.release_event(conn, event.id, available_in=SECOND)
    assert not schema.park_event(conn, event.id)
    assert schema.claim_events(conn, limit=1, lease=LEASE, now=now() + HOUR) == []


def test_a_parked_event_is_kept_and_counted_but_never_claimed(conn: Conn) -> None:
    job = planned(conn)
    [event] = waiting_events(conn)
    with conn.transaction():
        schema.fail_job(conn, job.id, WHY)
        assert schema.park_event(conn, event.id)
    relay(conn)

    gauges = schema.get_gauges(conn)
    assert (gauges.events_parked, gauges.events_unsent) == (1, 0)
    assert schema.claim_events(conn, limit=9, lease=LEASE, now=now() + HOUR) == []
    assert schema.next_event_due(conn) is None
    with conn.transaction(force_rollback=True):
        assert schema.prune_events(conn, timedelta(), 9, now=now() + HOUR) == 1


def test_a_parked_event_stays_so(conn: Conn) -> None:
    job = planned(conn)
    [event] = waiting_events(conn)
    schema.fail_job(conn, job.id, WHY)
    schema.park_event(conn, event.id)

    assert not schema.mark_sent(conn, event.id)
    assert not schema.release_event(conn, event.id, available_in=SECOND)
    assert not schema.park_event(conn, event.id)


def test_an_advance_begins_once(conn: Conn) -> None:
    job = planned(conn)
    [event] = waiting_events(conn)

    with conn.transaction():
        begun = schema.begin_advance(conn, event)
    assert begun is not None
    assert begun.id == job.id

    assert schema.begin_advance(conn, event) is None
    assert schema.begin_advance(conn, event, consumer='another') is not None


def test_an_advance_that_rolls_back_can_begin_again(conn: Conn) -> None:
    planned(conn)
    [event] = waiting_events(conn)

    with conn.transaction(force_rollback=True):
        assert advance(conn, event)

    assert advance(conn, event)


def test_a_replayed_event_changes_nothing(conn: Conn) -> None:
    job = planned(conn)
    [event] = waiting_events(conn)
    relay_once = [advance(conn, event), advance(conn, event)]

    assert relay_once == [True, False]
    assert len(schema.list_batches(conn, job.id)) == 2


def test_an_ended_job_is_not_advanced(conn: Conn) -> None:
    job = planned(conn)
    [event] = waiting_events(conn)
    schema.cancel_job(conn, job.id)

    assert schema.begin_advance(conn, event) is None


def test_a_second_event_of_the_same_transition_aborts_it(conn: Conn) -> None:
    keys = painting(conn, 1)
    announce_batch(conn, keys[0].job_id, 1, 'paint')

    with pytest.raises(UniqueViolation, match='outbox_event_key'):
        completed(conn, keys[0])

    assert schema.list_parts(conn, keys[0].job_id, after=(1, -1), limit=1)[0].status == 'pending'
    conn.execute('DELETE FROM outbox WHERE event_key LIKE %s', ['%:1'])


def test_sent_events_are_pruned_in_bounded_rounds(conn: Conn) -> None:
    job = planned(conn)
    relay(conn)
    submitted_later = planned(conn)
    schema.cancel_job(conn, job.id)
    schema.cancel_job(conn, submitted_later.id)
    relay(conn)
    later = now() + 2 * HOUR
    assert schema.prune_events(conn, HOUR, 10) == 0

    with conn.transaction(force_rollback=True):
        assert [schema.prune_events(conn, HOUR, 3, now=later) for _ in range(3)] == [3, 1, 0]
        assert conn.execute('SELECT count(*) FROM processed_event').fetchone() == (0,)
        assert event_keys(conn, plan_key(job)) == []
