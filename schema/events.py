"""The outbox: events written with the transitions they tell of, claimed by the relay, sent, pruned.

Keys: batch-completed:<job>:<batch>, job-completed:<job>, job-failed:<job>:<run>, job-cancelled:<job>.
A retry that finds its last batch completed tells of it once more, as batch-completed:<job>:<batch>:<run>.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from schema.rows import BatchKind, Event, Job, Json
from schema.statements import changed, many, one, run, value

if TYPE_CHECKING:
    from psycopg import Connection


def write_event(
    conn: Connection[Any], event_key: str, kind: str, job_id: UUID, payload: Json, now: datetime | None = None
) -> None:
    """Add an event to the caller's transaction. A key that exists aborts it (UniqueViolation)."""
    run(conn, 'insert_event', event_key=event_key, type=kind, job_id=job_id, payload=payload, now=now)


def announce_batch(
    conn: Connection[Any],
    job_id: UUID,
    batch_no: int,
    kind: BatchKind,
    *,
    again_in_run: int | None = None,
    now: datetime | None = None,
) -> None:
    """Write a batch's completed event; `again_in_run` is for a retry that tells of it once more."""
    key = f'batch-completed:{job_id}:{batch_no}' + (f':{again_in_run}' if again_in_run is not None else '')
    write_event(conn, key, 'batch-completed', job_id, {'batch_no': batch_no, 'kind': kind}, now=now)


def claim_events(conn: Connection[Any], *, limit: int, lease: timedelta, now: datetime | None = None) -> list[Event]:
    """Lease waiting events, oldest first; what is neither sent nor released is claimable again after `lease`."""
    events = many(conn, Event, 'claim_events', limit=limit, lease=lease, now=now)
    return sorted(events, key=lambda event: event.id)


def begin_advance(conn: Connection[Any], event: Event, consumer: str = 'advance') -> Job | None:
    """Lock the job of a batch-completed event and record the event as handled.

    None: a duplicate, or the job has ended or is past that batch; nothing is to be done but
    mark_sent. The caller's transaction must be open: the lock and the record live and die with it.
    """
    if not value(conn, 'lock_unfinished_job', job_id=event.job_id):
        return None
    fresh = changed(
        conn,
        'insert_processed_event',
        consumer=consumer,
        event_key=event.event_key,
        job_id=event.job_id,
        batch_no=event.batch_no,
    )
    return one(conn, Job, 'get_job', job_id=event.job_id, tenant_id=None) if fresh else None


def mark_sent(conn: Connection[Any], event_id: int, now: datetime | None = None) -> bool:
    """End an event. False if it was sent or parked already."""
    return changed(conn, 'mark_sent', event_id=event_id, now=now)


def release_event(
    conn: Connection[Any], event_id: int, *, available_in: timedelta, now: datetime | None = None
) -> bool:
    """Give a claimed event back, to be claimed again after a while. False if it was sent or parked already."""
    return changed(conn, 'release_event', event_id=event_id, available_in=available_in, now=now)


def park_event(conn: Connection[Any], event_id: int, now: datetime | None = None) -> bool:
    """Give up on an event: it is kept, counted in Gauges.events_parked, and never claimed again."""
    return changed(conn, 'park_event', event_id=event_id, now=now)


def unsent_count(conn: Connection[Any]) -> int:
    """How many events wait."""
    return int(value(conn, 'unsent_count'))


def next_event_due(conn: Connection[Any], now: datetime | None = None) -> timedelta | None:
    """Time until the next event can be claimed, not positive if one can be now; None when none waits."""
    due: timedelta | None = value(conn, 'next_event_due', now=now)
    return due


def prune_events(conn: Connection[Any], older_than: timedelta, limit: int, now: datetime | None = None) -> int:
    """Remove at most `limit` events that were sent longer ago than that; return how many."""
    return int(value(conn, 'prune_events', older_than=older_than, limit=limit, now=now))
