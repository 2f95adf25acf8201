"""Parts in work: claim, renew, complete, fail, return.

A lease is (owner, epoch, expiry) on the part's row. Completing needs no lease: the first completion
wins. Failing, renewing and returning need the epoch that claim_part gave.

Complete and fail run in a savepoint of the caller's transaction, so that what must roll back does,
and the caller can commit whatever they return.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import Rollback

from runtime.errors import ConflictingCompletion, UnknownPart
from schema.batches import finish_batch
from schema.events import write_event
from schema.rows import Charge, ClaimedPart, Completion, Failed, Json, PartKey
from schema.statements import changed, one, run, value

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar('T')


def claim_part(
    conn: Connection[Any], key: PartKey, *, owner: str, lease: timedelta, now: datetime | None = None
) -> ClaimedPart | None:
    """Lease a part. None: somebody has it, it is done, not due yet, or its batch has ended.

    Commit before working on it.
    """
    return one(conn, ClaimedPart, 'claim_part', key=key, owner=owner, lease=lease, now=now)


def renew_lease(
    conn: Connection[Any], key: PartKey, *, epoch: int, lease: timedelta, now: datetime | None = None
) -> bool:
    """Extend a lease. False: it is lost (cancelled, past the deadline, taken away); stop working."""
    return changed(conn, 'renew_lease', key=key, epoch=epoch, lease=lease, now=now)


def return_part(conn: Connection[Any], key: PartKey, *, epoch: int, now: datetime | None = None) -> bool:
    """Let a part go unfinished, uncharged and due at once. False: it was no longer the caller's."""
    return changed(conn, 'return_part', key=key, epoch=epoch, now=now)


def complete_part(
    conn: Connection[Any],
    key: PartKey,
    *,
    input_hash: str,
    result: Json,
    result_ref: str | None,
    result_sha256: str | None,
    now: datetime | None = None,
) -> Completion:
    """Record a part's result and count it; the last of its batch completes the batch, with its event.

    Raises ConflictingCompletion if the part was completed from another input, UnknownPart if there
    is none.
    """

    def complete() -> Completion | None:
        completed = changed(
            conn,
            'complete_part',
            key=key,
            input_hash=input_hash,
            result=result,
            result_ref=result_ref,
            result_sha256=result_sha256,
            now=now,
        )
        return count_down(conn, key, now) if completed else None

    return or_roll_back(conn, complete) or explain_refusal(conn, key, input_hash)


def or_roll_back(conn: Connection[Any], work: Callable[[], T | None]) -> T | None:
    """Run `work` in a savepoint; None means that it met rows in another state, and undoes what it did."""
    outcome = None
    with conn.transaction():
        outcome = work()
        if outcome is None:
            raise Rollback
    return outcome


def count_down(conn: Connection[Any], key: PartKey, now: datetime | None) -> Completion | None:
    """Take a part that has just ended off its running batch. None: the batch has ended, roll back."""
    last = value(conn, 'count_down', key=key)
    if last is None:
        return None
    if not last:
        return Completion.COUNTED
    finish_batch(conn, key.job_id, key.batch_no, now)
    return Completion.LAST


def explain_refusal(conn: Connection[Any], key: PartKey, input_hash: str) -> Completion:
    """Why a completion met no row: read in a new statement, after the rollback."""
    row = run(conn, 'part_outcome', key=key).fetchone()
    if row is None:
        raise UnknownPart(str(key))
    status, recorded_hash, batch_status = row
    if status == 'completed':
        if recorded_hash != input_hash:
            raise ConflictingCompletion(f'{key} was completed with input hash {recorded_hash}, not {input_hash}')
        return Completion.DUPLICATE
    if status == 'failed' or batch_status != 'running':
        return Completion.DISCARDED
    raise RuntimeError(f'{key} is {status} in a {batch_status} batch, yet could not be completed')


def fail_part(
    conn: Connection[Any],
    key: PartKey,
    *,
    epoch: int,
    failure: Json,
    charge: Charge,
    permanent: bool = False,
    attempts_allowed: int,
    losses_allowed: int,
    retry_after: timedelta,
    now: datetime | None = None,
) -> Failed:
    """Charge a failed try; let the part go for `retry_after`, or end it if its budget is spent or `permanent` says so.

    A part's end fails the whole job under the policy `fail`; under `partial` it counts down its batch.
    """
    charges = {'attempt': int(charge == 'attempt'), 'loss': int(charge == 'loss')}
    budget = run(conn, 'part_budget', key=key).fetchone()
    if budget is None:
        return Failed.STALE
    attempts, losses, policy = budget
    spent = attempts + charges['attempt'] >= attempts_allowed or losses + charges['loss'] >= losses_allowed
    if not (permanent or spent):
        retried = changed(
            conn, 'retry_part', key=key, epoch=epoch, failure=failure, retry_after=retry_after, **charges, now=now
        )
        return Failed.RETRY if retried else Failed.STALE
    end = end_part_with_job if policy == 'fail' else end_part_alone
    outcome = or_roll_back(conn, lambda: end(conn, key, now, epoch=epoch, failure=failure, **charges))
    return outcome or Failed.STALE


def end_part_with_job(conn: Connection[Any], key: PartKey, now: datetime | None, **failing: Any) -> Failed | None:
    """Policy `fail`: lock job, part and batch in that order; all three fail. None: roll back."""
    job_id = key.job_id
    if not value(conn, 'lock_unfinished_job', job_id=job_id):
        return None
    if not changed(conn, 'fail_part', key=key, **failing, now=now):
        return None
    if not changed(conn, 'fail_batch', key=key, now=now):
        return None
    run_no = value(conn, 'end_job', job_id=job_id, status='failed', failure=failing['failure'], now=now)
    if run_no is None:
        return None
    payload = {'run': run_no, 'failure': failing['failure']}
    write_event(conn, f'job-failed:{job_id}:{run_no}', 'job-failed', job_id, payload, now=now)
    return Failed.JOB_FAILED


def end_part_alone(conn: Connection[Any], key: PartKey, now: datetime | None, **failing: Any) -> Failed | None:
    """Policy `partial`: the part fails, its batch counts it. None: roll back."""
    if not changed(conn, 'fail_part', key=key, **failing, now=now):
        return None
    counted = count_down(conn, key, now)
    if counted is None:
        return None
    return Failed.LAST if counted is Completion.LAST else Failed.PART_FAILED
