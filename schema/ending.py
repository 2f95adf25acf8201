"""Ending a job: cancel, fail, deadline, delete, expire; and starting it again: retry.

Each locks the job first, checks its status, and finds the running batch in a new statement: a batch
that advance created while the lock was waited for is then seen.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from runtime.errors import Problem, UnknownJob
from schema.events import announce_batch, write_event
from schema.jobs import get_job
from schema.rows import Ended, Json
from schema.statements import changed, run, value

if TYPE_CHECKING:
    from psycopg import Connection

#: what a job was at, in a batch that has one part only
STEPS: Final = {'plan': 'planning was unfinished', 'assemble': 'the assembly was unfinished'}


def cancel_job(
    conn: Connection[Any], job_id: UUID, tenant_id: str | None = 'default', now: datetime | None = None
) -> Ended:
    """Cancel an unfinished job; its workers lose their leases. Raises UnknownJob."""
    with conn.transaction():
        lock_job(conn, job_id, tenant_id)
        return ended(conn, job_id, end_job(conn, job_id, 'cancelled', now=now))


def fail_job(conn: Connection[Any], job_id: UUID, failure: Json, now: datetime | None = None) -> bool:
    """Fail an unfinished job, with its event. False: it has ended already."""
    with conn.transaction():
        return end_job(conn, job_id, 'failed', failure=failure, now=now)


def end_job(
    conn: Connection[Any],
    job_id: UUID,
    status: Literal['failed', 'cancelled'],
    *,
    failure: Json | None = None,
    now: datetime | None = None,
) -> bool:
    """Lock an unfinished job, then end its running batch if it has one, and the job."""
    if not value(conn, 'lock_unfinished_job', job_id=job_id):
        return False
    run(conn, 'end_running_batch', job_id=job_id, status=status, now=now)
    run_no = value(conn, 'end_job', job_id=job_id, status=status, failure=failure, now=now)
    if status == 'cancelled':
        write_event(conn, f'job-cancelled:{job_id}', 'job-cancelled', job_id, {'run': run_no}, now=now)
    else:
        payload = {'run': run_no, 'failure': failure}
        write_event(conn, f'job-failed:{job_id}:{run_no}', 'job-failed', job_id, payload, now=now)
    return True


def retry_job(
    conn: Connection[Any], job_id: UUID, tenant_id: str | None = 'default', now: datetime | None = None
) -> Ended:
    """Run a failed job again from where it failed: only what its last batch left unfinished.

    Where that batch was complete (the job failed between two batches), its event is written once
    more, so that advance takes it from there. Raises UnknownJob.
    """
    with conn.transaction():
        lock_job(conn, job_id, tenant_id)
        run_no = value(conn, 'reopen_job', job_id=job_id, now=now)
        if run_no is not None:
            resume(conn, job_id, run_no, now)
        return ended(conn, job_id, run_no is not None)


def resume(conn: Connection[Any], job_id: UUID, run_no: int, now: datetime | None) -> None:
    last = run(conn, 'last_batch', job_id=job_id).fetchone()
    assert last is not None, 'every job has a batch'
    earlier, kind, unfinished = last
    if not unfinished:
        announce_batch(conn, job_id, earlier, kind, again_in_run=run_no, now=now)
        return
    batch_no = value(conn, 'insert_batch', job_id=job_id, kind=kind, total=unfinished, now=now)
    run(conn, 'copy_unfinished_parts', job_id=job_id, batch_no=batch_no, earlier=earlier, now=now)


def delete_job(
    conn: Connection[Any], job_id: UUID, tenant_id: str | None = 'default', now: datetime | None = None
) -> Ended:
    """Cancel the job if it has not ended, and expire it now. Raises UnknownJob."""
    with conn.transaction():
        lock_job(conn, job_id, tenant_id)
        end_job(conn, job_id, 'cancelled', now=now)
        return ended(conn, job_id, changed(conn, 'expire_job', job_id=job_id, now=now))


def fail_overdue_jobs(conn: Connection[Any], limit: int, now: datetime | None = None) -> list[UUID]:
    """Fail at most `limit` jobs that are past their deadline; return which."""
    with conn.transaction():
        overdue = sorted(row[0] for row in run(conn, 'overdue_jobs', limit=limit, now=now))
        return [
            job_id
            for job_id in overdue
            if end_job(conn, job_id, 'failed', failure=deadline_exceeded(conn, job_id), now=now)
        ]


def deadline_exceeded(conn: Connection[Any], job_id: UUID) -> Json:
    """The failure of a locked job that is past its deadline: what was unfinished, and why, as far as its parts tell."""
    row = run(conn, 'unfinished_work', job_id=job_id).fetchone()
    if row is None:
        return Problem(name='deadline-exceeded', detail='the job was between two of its steps').to_json()
    kind, total, remaining, index, begun, failure = row
    last = failure or {}
    where: Json = {}
    what = 'windows' if kind == 'layout' else 'parts'
    if kind in STEPS:
        detail = STEPS[kind]
    elif index is None:
        detail = f'{remaining:,} of {total:,} {what} were unfinished'
    else:
        state = 'was being worked on' if begun else 'had not been begun'
        verb = 'was' if remaining == 1 else 'were'
        detail = f'{remaining:,} of {total:,} {what} {verb} unfinished; {what[:-1]} {index} {state}'
        where = {'part': index} | {key: last[key] for key in ('document', 'record') if key in last}
    if last.get('detail'):
        detail += f': {last["detail"]}'
    return Problem(name='deadline-exceeded', detail=detail, extra=where).to_json()


def expire_jobs(conn: Connection[Any], limit: int, now: datetime | None = None) -> list[UUID]:
    """Expire at most `limit` ended jobs whose time has come; return which."""
    return [row[0] for row in run(conn, 'expire_jobs', limit=limit, now=now)]


def prune_jobs(conn: Connection[Any], older_than: timedelta, limit: int, now: datetime | None = None) -> int:
    """Remove the rows of at most `limit` jobs that expired longer ago than that; return how many."""
    return run(conn, 'prune_jobs', older_than=older_than, limit=limit, now=now).rowcount


def lock_job(conn: Connection[Any], job_id: UUID, tenant_id: str | None) -> None:
    if not value(conn, 'lock_job', job_id=job_id, tenant_id=tenant_id):
        raise UnknownJob(str(job_id))


def ended(conn: Connection[Any], job_id: UUID, changed: bool) -> Ended:
    job = get_job(conn, job_id, tenant_id=None)
    assert job is not None, 'the caller holds its lock'
    return Ended(job=job, changed=changed)
