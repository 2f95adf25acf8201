"""Pairs of operations that meet on one job, and what may come of each pair.

A scene makes a fresh job and names two operations on it, with every outcome that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg import Connection

import schema
from schema import Completion, Failed, PartKey
from tests.schema.given import HOUR, advance, claimed, completed, failed, leases_expired, plan_key, submitted
from tests.schema.given import painting_at_once as painting
from tests.schema.stepping import Operation

Conn = Connection[Any]
COUNTED, LAST, DUPLICATE, DISCARDED = Completion.COUNTED, Completion.LAST, Completion.DUPLICATE, Completion.DISCARDED
STALE, JOB_FAILED, PART_FAILED = Failed.STALE, Failed.JOB_FAILED, Failed.PART_FAILED


#: what the first and the second operation returned, and the status of batch and job afterwards
Left = tuple[Any, Any, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A job, two operations on it, and the outcomes that may be."""

    key: PartKey
    first: Operation
    second: Operation
    allowed: set[Left]


Scene = Callable[[Conn], Pair]


def completing(key: PartKey) -> Operation:
    return lambda conn: completed(conn, key)


def failing(key: PartKey) -> Operation:
    return lambda conn: failed(conn, key, permanent=True)


def cancelling(key: PartKey) -> Operation:
    return lambda conn: schema.cancel_job(conn, key.job_id).changed


def retrying(key: PartKey) -> Operation:
    return lambda conn: schema.retry_job(conn, key.job_id).changed


def advancing(event: schema.Event) -> Operation:
    return lambda conn: advance(conn, event)


def running_late(key: PartKey) -> Operation:
    later = datetime.now(UTC) + 2 * HOUR
    return lambda conn: len(schema.fail_overdue_jobs(conn, 1, now=later))


def expiring(losses_allowed: int = 20, at: datetime | None = None) -> Operation:
    later = at or datetime.now(UTC) + HOUR / 2
    return lambda conn: len(leases_expired(conn, limit=1, losses_allowed=losses_allowed, now=later))


def repairing(conn: Conn) -> int:
    return len(schema.repair_remaining(conn, 10))


def with_event(conn: Conn) -> tuple[PartKey, schema.Event]:
    """A job whose plan is complete, and the event that tells of it."""
    key = plan_key(submitted(conn))
    completed(conn, key, parts=[{'first_item': 0, 'item_count': 1}])
    [event] = [event for event in schema.claim_events(conn, limit=100, lease=HOUR) if event.job_id == key.job_id]
    return key, event


def two_last_completions(conn: Conn) -> Pair:
    keys = painting(conn, 2)
    allowed = {(COUNTED, LAST, 'completed', 'rendering'), (LAST, COUNTED, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=completing(keys[1]), allowed=allowed)


def two_completions_of_one_part(conn: Conn) -> Pair:
    keys = painting(conn, 1)
    allowed = {(DUPLICATE, LAST, 'completed', 'rendering'), (LAST, DUPLICATE, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=completing(keys[0]), allowed=allowed)


def two_completions_of_one_of_two_parts(conn: Conn) -> Pair:
    keys = painting(conn, 2)
    allowed = {(DUPLICATE, COUNTED, 'running', 'rendering'), (COUNTED, DUPLICATE, 'running', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=completing(keys[0]), allowed=allowed)


def completion_and_failure(conn: Conn) -> Pair:
    keys = painting(conn, 2, claim=True)
    allowed = {(COUNTED, JOB_FAILED, 'failed', 'failed'), (DISCARDED, JOB_FAILED, 'failed', 'failed')}
    return Pair(key=keys[0], first=completing(keys[0]), second=failing(keys[1]), allowed=allowed)


def completion_and_failure_of_one_part(conn: Conn) -> Pair:
    keys = painting(conn, 1, claim=True)
    allowed = {(LAST, STALE, 'completed', 'rendering'), (DISCARDED, JOB_FAILED, 'failed', 'failed')}
    return Pair(key=keys[0], first=completing(keys[0]), second=failing(keys[0]), allowed=allowed)


def completion_and_failure_under_partial(conn: Conn) -> Pair:
    keys = painting(conn, 2, 'partial', claim=True)
    allowed = {(COUNTED, Failed.LAST, 'completed', 'rendering'), (LAST, PART_FAILED, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=failing(keys[1]), allowed=allowed)


def completion_and_failure_of_one_part_under_partial(conn: Conn) -> Pair:
    keys = painting(conn, 1, 'partial', claim=True)
    allowed = {(LAST, STALE, 'completed', 'rendering'), (DISCARDED, Failed.LAST, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=failing(keys[0]), allowed=allowed)


def completion_and_cancel(conn: Conn) -> Pair:
    keys = painting(conn, 1)
    allowed = {(LAST, True, 'completed', 'cancelled'), (DISCARDED, True, 'cancelled', 'cancelled')}
    return Pair(key=keys[0], first=completing(keys[0]), second=cancelling(keys[0]), allowed=allowed)


def completion_and_deadline(conn: Conn) -> Pair:
    keys = painting(conn, 1)
    allowed = {(LAST, 1, 'completed', 'failed'), (DISCARDED, 1, 'failed', 'failed')}
    return Pair(key=keys[0], first=completing(keys[0]), second=running_late(keys[0]), allowed=allowed)


def completion_and_advance(conn: Conn) -> Pair:
    """A late duplicate of the plan's completion, while the plan's event is acted on."""
    key, event = with_event(conn)
    return Pair(
        key=key,
        first=completing(key),
        second=advancing(event),
        allowed={(DUPLICATE, True, 'completed', 'rendering')},
    )


def last_completion_and_replayed_advance(conn: Conn) -> Pair:
    key, event = with_event(conn)
    advance(conn, event)
    paint = PartKey(job_id=key.job_id, batch_no=1, part_index=0)
    allowed = {(LAST, False, 'completed', 'rendering')}
    return Pair(key=paint, first=completing(paint), second=advancing(event), allowed=allowed)


def two_relays(conn: Conn) -> Pair:
    key, event = with_event(conn)
    allowed = {(True, False, 'completed', 'rendering'), (False, True, 'completed', 'rendering')}
    return Pair(key=key, first=advancing(event), second=advancing(event), allowed=allowed)


def advance_and_cancel(conn: Conn) -> Pair:
    key, event = with_event(conn)
    allowed = {(True, True, 'completed', 'cancelled'), (False, True, 'completed', 'cancelled')}
    return Pair(key=key, first=advancing(event), second=cancelling(key), allowed=allowed)


def advance_and_deadline(conn: Conn) -> Pair:
    key, event = with_event(conn)
    # A job that is locked at the moment is passed over; the next round of the reconciler finds it.
    allowed = {
        (True, 0, 'completed', 'rendering'),
        (True, 1, 'completed', 'failed'),
        (False, 1, 'completed', 'failed'),
    }
    return Pair(key=key, first=advancing(event), second=running_late(key), allowed=allowed)


def two_failures(conn: Conn) -> Pair:
    keys = painting(conn, 2, claim=True)
    allowed = {(JOB_FAILED, STALE, 'failed', 'failed'), (STALE, JOB_FAILED, 'failed', 'failed')}
    return Pair(key=keys[0], first=failing(keys[0]), second=failing(keys[1]), allowed=allowed)


def two_failures_under_partial(conn: Conn) -> Pair:
    keys = painting(conn, 2, 'partial', claim=True)
    allowed = {
        (PART_FAILED, Failed.LAST, 'completed', 'rendering'),
        (Failed.LAST, PART_FAILED, 'completed', 'rendering'),
    }
    return Pair(key=keys[0], first=failing(keys[0]), second=failing(keys[1]), allowed=allowed)


def failure_and_cancel(conn: Conn) -> Pair:
    keys = painting(conn, 2, claim=True)
    allowed = {(JOB_FAILED, False, 'failed', 'failed'), (STALE, True, 'cancelled', 'cancelled')}
    return Pair(key=keys[0], first=failing(keys[0]), second=cancelling(keys[0]), allowed=allowed)


def completion_and_expiring_lease(conn: Conn) -> Pair:
    keys = painting(conn, 1, claim=True)
    allowed = {(LAST, 0, 'completed', 'rendering'), (LAST, 1, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=expiring(), allowed=allowed)


def completion_and_spent_losses(conn: Conn) -> Pair:
    keys = painting(conn, 1, claim=True)
    allowed = {(LAST, 0, 'completed', 'rendering'), (DISCARDED, 1, 'failed', 'failed')}
    return Pair(key=keys[0], first=completing(keys[0]), second=expiring(1), allowed=allowed)


def completion_and_spent_losses_of_another_part_under_partial(conn: Conn) -> Pair:
    keys = painting(conn, 2, 'partial')
    claimed(conn, keys[1])
    allowed = {(COUNTED, 1, 'completed', 'rendering'), (LAST, 1, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=expiring(1), allowed=allowed)


def completion_and_spent_losses_under_partial(conn: Conn) -> Pair:
    keys = painting(conn, 1, 'partial', claim=True)
    allowed = {(LAST, 0, 'completed', 'rendering'), (DISCARDED, 1, 'completed', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=expiring(1), allowed=allowed)


def failure_and_spent_losses(conn: Conn) -> Pair:
    """Both want job and part; one that took the part first would meet the other half-way."""
    keys = painting(conn, 1, claim=True)
    allowed = {(JOB_FAILED, 0, 'failed', 'failed'), (STALE, 1, 'failed', 'failed')}
    return Pair(key=keys[0], first=failing(keys[0]), second=expiring(1), allowed=allowed)


def zombie_that_gives_up_and_next_holder(conn: Conn) -> Pair:
    """The holder of a lease that is over fails its part for good, while another takes the part over."""
    keys = painting(conn, 1, claim=True)
    allowed = {(STALE, True, 'running', 'rendering'), (JOB_FAILED, False, 'failed', 'failed')}
    return Pair(key=keys[0], first=failing(keys[0]), second=taking_over(keys[0]), allowed=allowed)


def zombie_that_tries_again_and_next_holder(conn: Conn) -> Pair:
    keys = painting(conn, 1, claim=True)
    allowed = {(STALE, True, 'running', 'rendering'), (Failed.RETRY, True, 'running', 'rendering')}
    return Pair(key=keys[0], first=partial(failed, key=keys[0]), second=taking_over(keys[0]), allowed=allowed)


def taking_over(key: PartKey) -> Operation:
    later = datetime.now(UTC) + HOUR / 2

    def take_over(conn: Conn) -> bool:
        expiring(at=later)(conn)
        return schema.claim_part(conn, key, owner='next', lease=HOUR, now=later) is not None

    return take_over


def renewal_and_expiring_lease(conn: Conn) -> Pair:
    keys = painting(conn, 1, claim=True)

    def renew(conn: Conn) -> bool:
        return schema.renew_lease(conn, keys[0], epoch=1, lease=HOUR)

    allowed = {(True, 0, 'running', 'rendering'), (False, 1, 'running', 'rendering')}
    return Pair(key=keys[0], first=renew, second=expiring(), allowed=allowed)


def completion_and_repair(conn: Conn) -> Pair:
    keys = painting(conn, 3)
    conn.execute('UPDATE batch SET remaining = 2 WHERE job_id = %s AND batch_no = 0', [keys[0].job_id])
    allowed = {(COUNTED, 1, 'running', 'rendering')}
    return Pair(key=keys[0], first=completing(keys[0]), second=repairing, allowed=allowed)


def failed_job(conn: Conn) -> list[PartKey]:
    keys = painting(conn, 2, claim=True)
    failed(conn, keys[0], permanent=True)
    return keys


def two_retries(conn: Conn) -> Pair:
    keys = failed_job(conn)
    allowed = {(True, False, 'failed', 'rendering'), (False, True, 'failed', 'rendering')}
    return Pair(key=keys[0], first=retrying(keys[0]), second=retrying(keys[0]), allowed=allowed)


def late_completion_and_retry(conn: Conn) -> Pair:
    keys = failed_job(conn)
    return Pair(
        key=keys[0],
        first=completing(keys[1]),
        second=retrying(keys[0]),
        allowed={(DISCARDED, True, 'failed', 'rendering')},
    )


def retry_and_cancel(conn: Conn) -> Pair:
    keys = failed_job(conn)
    allowed = {(True, True, 'failed', 'cancelled'), (True, False, 'failed', 'rendering')}
    return Pair(key=keys[0], first=retrying(keys[0]), second=cancelling(keys[0]), allowed=allowed)


def claim_and_claim(conn: Conn) -> Pair:
    keys = painting(conn, 1)

    def claim(conn: Conn) -> bool:
        return schema.claim_part(conn, keys[0], owner='x', lease=HOUR) is not None

    allowed = {(True, False, 'running', 'rendering'), (False, True, 'running', 'rendering')}
    return Pair(key=keys[0], first=claim, second=claim, allowed=allowed)


def two_cancels(conn: Conn) -> Pair:
    keys = painting(conn, 1)
    allowed = {(True, False, 'cancelled', 'cancelled'), (False, True, 'cancelled', 'cancelled')}
    return Pair(key=keys[0], first=cancelling(keys[0]), second=cancelling(keys[0]), allowed=allowed)


def completion_and_delete(conn: Conn) -> Pair:
    keys = painting(conn, 1)

    def delete(conn: Conn) -> bool:
        return schema.delete_job(conn, keys[0].job_id).changed

    allowed = {(LAST, True, 'completed', 'expired'), (DISCARDED, True, 'cancelled', 'expired')}
    return Pair(key=keys[0], first=completing(keys[0]), second=delete, allowed=allowed)


SCENES: list[Scene] = [
    two_last_completions,
    two_completions_of_one_part,
    two_completions_of_one_of_two_parts,
    completion_and_failure,
    completion_and_failure_of_one_part,
    completion_and_failure_under_partial,
    completion_and_failure_of_one_part_under_partial,
    completion_and_cancel,
    completion_and_deadline,
    completion_and_advance,
    last_completion_and_replayed_advance,
    completion_and_expiring_lease,
    completion_and_spent_losses,
    completion_and_spent_losses_under_partial,
    completion_and_spent_losses_of_another_part_under_partial,
    completion_and_repair,
    completion_and_delete,
    failure_and_spent_losses,
    zombie_that_gives_up_and_next_holder,
    zombie_that_tries_again_and_next_holder,
    two_relays,
    advance_and_cancel,
    advance_and_deadline,
    two_failures,
    two_failures_under_partial,
    failure_and_cancel,
    renewal_and_expiring_lease,
    two_retries,
    late_completion_and_retry,
    retry_and_cancel,
    claim_and_claim,
    two_cancels,
]
