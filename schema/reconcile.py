"""What the reconciler sets right: expired leases, drifted counts, jobs that nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from runtime.errors import Problem
from schema.batches import finish_batch
from schema.parts import fail_part
from schema.rows import ExpiredLease, Failed, PartKey, Repaired
from schema.statements import changed, many, run, value

if TYPE_CHECKING:
    from psycopg import Connection


def expired_leases(conn: Connection[Any], limit: int, now: datetime | None = None) -> list[ExpiredLease]:
    """At most `limit` leases whose holders stopped renewing them. They are yet to be ended, each by expire_lease."""
    return many(conn, ExpiredLease, 'expired_leases', limit=limit, now=now)


def expire_lease(
    conn: Connection[Any],
    lease: ExpiredLease,
    *,
    losses_allowed: int,
    retry_after: Callable[[int], timedelta],
    now: datetime | None = None,
) -> Failed:
    """Take a part from a holder that stopped renewing, charged as a loss.

    `retry_after` gives the pause for a part that had so many losses before. A part whose budget is
    spent fails, and its job with it under the policy `fail`. STALE: the part was completed, renewed or
    let go meanwhile.

    One in a transaction, no more: under the policy `partial` a part that fails locks its batch, and
    whoever completes the next part of that batch holds the part and waits for the batch.
    """
    key = lease.key
    with conn.transaction():
        # The job first, should its part be the last straw.
        run(conn, 'lock_job', job_id=key.job_id, tenant_id=None)
        if not changed(conn, 'lock_expired_part', key=key, now=now):
            return Failed.STALE
        if lease.losses + 1 < losses_allowed:
            retried = changed(
                conn,
                'retry_part',
                key=key,
                epoch=lease.lease_epoch,
                attempt=0,
                loss=1,
                failure=None,
                retry_after=retry_after(lease.losses),
                now=now,
            )
            return Failed.RETRY if retried else Failed.STALE
        return fail_part(
            conn,
            key,
            epoch=lease.lease_epoch,
            failure=lost_too_often(key, lease.lease_owner, lease.losses + 1),
            charge='loss',
            permanent=True,
            attempts_allowed=1,
            losses_allowed=losses_allowed,
            retry_after=timedelta(),
            now=now,
        )


def lost_too_often(key: PartKey, owner: str, losses: int) -> dict[str, Any]:
    detail = f'Part {key.part_index} was lost {losses} times; its last worker, {owner}, stopped renewing its lease.'
    return Problem(name='lost-too-often', detail=detail, extra={'part': key.part_index, 'losses': losses}).to_json()


def repair_remaining(conn: Connection[Any], limit: int, now: datetime | None = None) -> list[Repaired]:
    """Set drifted counts of at most `limit` running batches to their pending parts; return what changed.

    Locks a batch, then counts in a new statement. One that has nothing left is completed with its
    event, like any other.
    """
    repaired = []
    with conn.transaction():
        for job_id, batch_no in run(conn, 'drifted_batches', limit=limit).fetchall():
            was = value(conn, 'lock_batch', job_id=job_id, batch_no=batch_no)
            if was is None:
                continue
            left = value(conn, 'recount_batch', job_id=job_id, batch_no=batch_no)
            if left == 0:
                finish_batch(conn, job_id, batch_no, now)
            if left != was or left == 0:
                repaired.append(Repaired(job_id=job_id, batch_no=batch_no, was=was, now=left, completed=left == 0))
    return repaired


def stuck_jobs(conn: Connection[Any], older_than: timedelta, now: datetime | None = None) -> list[UUID]:
    """Unfinished jobs that have had neither a running batch nor a waiting event for that long: always a bug."""
    return [row[0] for row in run(conn, 'stuck_jobs', older_than=older_than, now=now)]
