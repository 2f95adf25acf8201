"""Batches: creating the next one, completing it once, reading its parts, and a job's final states.

Creating a batch belongs to *advance*: in one transaction begin_advance, create_batch or complete_job or
fail_job, mark_sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from runtime.errors import JobEnded
from schema.events import announce_batch, write_event
from schema.rows import Batch, BatchKind, JobStatus, Json, LaidOut, NewPart, PaintedOutcome, Part
from schema.statements import changed, many, run, value

if TYPE_CHECKING:
    from psycopg import Connection


def create_batch(
    conn: Connection[Any],
    job_id: UUID,
    kind: BatchKind,
    parts: Sequence[NewPart],
    job_status: JobStatus,
    now: datetime | None = None,
    plan: Json | None = None,
) -> int:
    """Create a job's next batch with all its parts, move the job to `job_status`, return the batch's number.

    `plan` is what clients see of the plan from now on; None: as before. A batch of zero parts is completed there
    and then, with its event. Raises JobEnded if the job has ended; the database refuses a second running batch.
    """
    with conn.transaction():
        if not changed(conn, 'move_job', job_id=job_id, status=job_status, plan=plan):
            raise JobEnded(str(job_id))
        return add_batch(conn, job_id, kind, parts, now)


def add_batch(
    conn: Connection[Any], job_id: UUID, kind: BatchKind, parts: Sequence[NewPart], now: datetime | None = None
) -> int:
    """create_batch for a job that the caller has locked or just created."""
    batch_no = int(value(conn, 'insert_batch', job_id=job_id, kind=kind, total=len(parts), now=now))
    if parts:
        rows = [{'part_index': part.part_index, 'generation': part.generation, 'spec': part.spec} for part in parts]
        run(conn, 'insert_parts', job_id=job_id, batch_no=batch_no, parts=rows, now=now)
    else:
        announce_batch(conn, job_id, batch_no, kind, now=now)
    return batch_no


def finish_batch(conn: Connection[Any], job_id: UUID, batch_no: int, now: datetime | None = None) -> None:
    """Complete a running batch that waits for nothing more, with its event. The caller holds its lock."""
    kind = value(conn, 'finish_batch', job_id=job_id, batch_no=batch_no, now=now)
    if kind is None:
        raise RuntimeError(f'batch {job_id}/{batch_no} changed under its lock')
    announce_batch(conn, job_id, batch_no, kind, now=now)


def list_batches(conn: Connection[Any], job_id: UUID) -> list[Batch]:
    """A job's batches, in order."""
    return many(conn, Batch, 'list_batches', job_id=job_id)


def completed_parts(conn: Connection[Any], job_id: UUID, batch_no: int) -> list[Part]:
    """The completed parts of one batch, in order."""
    return many(conn, Part, 'parts_of_batch', job_id=job_id, batch_no=batch_no, status='completed')


def failed_parts_of_batch(conn: Connection[Any], job_id: UUID, batch_no: int) -> list[Part]:
    """The failed parts of one batch (policy partial), in order."""
    return many(conn, Part, 'parts_of_batch', job_id=job_id, batch_no=batch_no, status='failed')


def planned(conn: Connection[Any], job_id: UUID) -> tuple[Json, Json | None] | None:
    """The result of a job's plan, and the plan as clients see it; None before the plan is completed."""
    return run(conn, 'planned', job_id=job_id).fetchone()


def laid_out_parts(conn: Connection[Any], job_id: UUID) -> list[LaidOut]:
    """How each window was laid out last, in order."""
    return many(conn, LaidOut, 'laid_out_parts', job_id=job_id)


def painted_parts(conn: Connection[Any], job_id: UUID) -> list[Part]:
    """What is to be merged: per index the completed paint part of the highest batch, in order."""
    return many(conn, Part, 'painted_parts', job_id=job_id)


def failed_parts(conn: Connection[Any], job_id: UUID) -> list[Part]:
    """What is missing: for each index without a completed paint part, the one that failed last, in order."""
    return many(conn, Part, 'failed_parts', job_id=job_id)


def painting_outcomes(conn: Connection[Any], job_id: UUID) -> list[PaintedOutcome]:
    """What painting came to: each index that has a completed or a failed part, in order, with counts for its result."""
    return many(conn, PaintedOutcome, 'painting_outcomes', job_id=job_id)


def complete_job(
    conn: Connection[Any],
    job_id: UUID,
    *,
    page_count: int,
    result_key: str,
    result_sha256: str,
    result_bytes: int,
    result: Json,
    now: datetime | None = None,
) -> bool:
    """Record a job's one result, with its event. False: the job has ended already, nothing was written."""
    with conn.transaction():
        done = changed(
            conn,
            'complete_job',
            job_id=job_id,
            page_count=page_count,
            result_key=result_key,
            result_sha256=result_sha256,
            result_bytes=result_bytes,
            result=result,
            now=now,
        )
        if done:
            payload = {'page_count': page_count, 'result_key': result_key}
            write_event(conn, f'job-completed:{job_id}', 'job-completed', job_id, payload, now=now)
        return done
