"""Jobs: submitting them, once for each idempotency key, and looking at them.

Every function takes a connection whose transaction the caller owns. `now` is for tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from schema.batches import add_batch
from schema.rows import (
    Batch,
    Created,
    Gauges,
    Job,
    JobState,
    JobStatus,
    NewJob,
    NewPart,
    Part,
    Snapshot,
)
from schema.statements import changed, many, one, row_maker, run, value

if TYPE_CHECKING:
    from psycopg import Connection

UNFINISHED: Final[tuple[JobStatus, ...]] = ('queued', 'rendering', 'assembling')
FIRST: Final = (-1, -1)


def create_job(conn: Connection[Any], new: NewJob, plan: NewPart, now: datetime | None = None) -> Created:
    """Create a job and its plan batch; or, if the tenant's idempotency key has a job, return that one.

    However many identical calls race, one job exists afterwards and each call returns it. Whether the
    existing job has the same fingerprint is for the caller to see.
    """
    row = {field.name: getattr(new, field.name) for field in fields(new)}
    while True:
        with conn.transaction():
            if changed(conn, 'insert_job', **row, now=now):
                add_batch(conn, new.id, 'plan', [plan], now)
                job = get_job(conn, new.id, new.tenant_id)
                assert job is not None
                return Created(job=job, created=True)
        # The key was taken by a transaction that has committed since: a new statement sees its row.
        if new.idempotency_key is not None:
            existing = find_by_idempotency_key(conn, new.tenant_id, new.idempotency_key)
            if existing is not None:
                return Created(job=existing, created=False)


def find_by_idempotency_key(conn: Connection[Any], tenant_id: str, key: str) -> Job | None:
    """The job that was submitted with a key, whatever its state."""
    return one(conn, Job, 'find_by_idempotency_key', tenant_id=tenant_id, idempotency_key=key)


def get_job(conn: Connection[Any], job_id: UUID, tenant_id: str | None = 'default') -> Job | None:
    """One job with its spec. `tenant_id` None: whosever it is."""
    return one(conn, Job, 'get_job', job_id=job_id, tenant_id=tenant_id)


def list_jobs(
    conn: Connection[Any],
    *,
    tenant_id: str = 'default',
    status: JobStatus | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[JobState]:
    """Jobs, newest first; `after` is the (created_at, id) of the last job of the page before."""
    after_time, after_id = after or (None, None)
    return many(
        conn,
        JobState,
        'list_jobs',
        tenant_id=tenant_id,
        status=status,
        after_time=after_time,
        after_id=after_id,
        limit=limit,
    )


def count_unfinished(conn: Connection[Any], tenant_id: str = 'default') -> int:
    """How many jobs of a tenant have not ended."""
    return int(value(conn, 'count_unfinished', tenant_id=tenant_id))


def get_snapshot(conn: Connection[Any], job_id: UUID, tenant_id: str | None = None) -> Snapshot | None:
    """A job as it stands, with its batches and pages so far."""
    return get_snapshots(conn, [job_id], tenant_id).get(job_id)


def get_snapshots(conn: Connection[Any], job_ids: Iterable[UUID], tenant_id: str | None = None) -> dict[UUID, Snapshot]:
    """Many jobs as they stand, in one query; unknown ids are left out."""
    cursor = run(conn, 'get_snapshots', job_ids=list(job_ids), tenant_id=tenant_id)
    columns = [column.name for column in cursor.description or ()]
    make_job = row_maker(JobState, cursor)
    found = {}
    for values in cursor:
        row = dict(zip(columns, values, strict=True))
        found[row['id']] = Snapshot(
            job=make_job(values),
            documents=row['documents'] or 0,
            batches=tuple(map(batch_from_json, row['batches'])),
            pages=row['pages'],
            pages_laid_out=row['pages_laid_out'],
            parts_done=row['parts_done'],
            parts_failed=row['parts_failed'],
            parts_total=row['parts_total'],
            missing=tuple(row['missing'] or ()),
            missing_count=row['missing_count'] or 0,
            warnings=tuple(row['warnings'] or ()),
            plan=row['plan'],
        )
    return found


def batch_from_json(row: dict[str, Any]) -> Batch:
    ended = row['completed_at']
    times = {
        'created_at': datetime.fromisoformat(row['created_at']),
        'completed_at': None if ended is None else datetime.fromisoformat(ended),
    }
    return Batch(**{field.name: times.get(field.name, row[field.name]) for field in fields(Batch)})


def painted_warnings(conn: Connection[Any], job_id: UUID, *, limit: int = 100) -> list[str]:
    """What the painted parts of a job warn of, each once, in order: for a job that has no result, or none yet."""
    return [row[0] for row in run(conn, 'painted_warnings', job_id=job_id, limit=limit)]


def list_parts(conn: Connection[Any], job_id: UUID, *, after: tuple[int, int] | None = None, limit: int) -> list[Part]:
    """Parts in order; `after` is the (batch_no, part_index) of the last part of the page before."""
    after_batch, after_index = after or FIRST
    return many(conn, Part, 'list_parts', job_id=job_id, after_batch=after_batch, after_index=after_index, limit=limit)


def get_gauges(conn: Connection[Any]) -> Gauges:
    """Counts for metrics, cheap whatever the number of ended jobs."""
    by_status: Sequence[tuple[str, int]] = run(conn, 'count_unfinished_jobs').fetchall()
    pending, leased, unsent, parked = run(conn, 'count_work').fetchone() or (0, 0, 0, 0)
    return Gauges(
        jobs={**dict.fromkeys(UNFINISHED, 0), **dict(by_status)},
        parts_pending=pending,
        parts_leased=leased,
        events_unsent=unsent,
        events_parked=parked,
    )
