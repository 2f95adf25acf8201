"""One part, from its claim to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.errors import CheckViolation, NumericValueOutOfRange
from uuid6 import uuid7

import schema
from runtime.errors import ConflictingCompletion, UnknownPart
from schema import Completion, Failed, PartKey
from tests.schema.given import (
    BUDGET,
    LEASE,
    WHY,
    claimed,
    completed,
    event_keys,
    failed,
    leases_expired,
    painting,
    part_at,
    plan_key,
    status,
    submitted,
)

Conn = Connection[Any]
SECOND = timedelta(seconds=1)


def now() -> datetime:
    return datetime.now(UTC)


def test_a_claim_leases_the_part_and_brings_what_it_takes(conn: Conn) -> None:
    job = submitted(conn, spec={'documents': ['d']}, failure_policy='partial')

    part = claimed(conn, plan_key(job), owner='me')

    assert (part.kind, part.lease_epoch, part.attempts, part.losses, part.generation) == ('plan', 1, 0, 0, 0)
    assert (part.job_spec, part.part_spec, part.failure_policy, part.run) == ({'documents': ['d']}, {}, 'partial', 1)
    assert part.deadline_at == job.deadline_at
    assert timedelta(minutes=59) < part.time_left < timedelta(hours=1)
    row = part_at(conn, part.key)
    assert (row.lease_owner, row.lease_expires_at is not None, row.dispatched_at is not None) == ('me', True, True)


def test_a_part_is_held_by_one(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key)

    assert schema.claim_part(conn, key, owner='another', lease=LEASE) is None


def test_a_completed_part_is_not_given_away(conn: Conn) -> None:
    keys = painting(conn, 2)
    completed(conn, keys[0])

    assert schema.claim_part(conn, keys[0], owner='me', lease=LEASE) is None


def test_a_part_cannot_be_claimed_before_it_is_due(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key)
    failed(conn, key, retry_after=60 * SECOND)

    assert schema.claim_part(conn, key, owner='me', lease=LEASE) is None
    assert schema.claim_part(conn, key, owner='me', lease=LEASE, now=now() + 61 * SECOND) is not None


@pytest.mark.parametrize('policy', ['fail', 'partial'])
def test_the_last_completion_completes_the_batch_with_its_event(conn: Conn, policy: schema.FailurePolicy) -> None:
    keys = painting(conn, 3, policy, claim=True)

    outcomes = [completed(conn, key) for key in keys]

    assert outcomes == [Completion.COUNTED, Completion.COUNTED, Completion.LAST]
    assert status(conn, keys[0]) == ('completed', 'completed', 'rendering')
    assert event_keys(conn, keys[0]) == ['batch-completed:0', 'batch-completed:1']


def test_a_part_needs_no_lease_to_complete(conn: Conn) -> None:
    key = plan_key(submitted(conn))

    assert completed(conn, key) is Completion.LAST


def test_completing_again_with_the_same_input_changes_nothing(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    completed(conn, keys[0], painted='once')

    assert completed(conn, keys[0], painted='again') is Completion.DUPLICATE
    assert part_at(conn, keys[0]).result == {'pages': 1, 'painted': 'once'}
    assert status(conn, keys[0]) == ('completed', 'running', 'rendering')


def test_completing_again_with_another_input_is_an_error(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    completed(conn, keys[0], input_hash='one')

    with pytest.raises(ConflictingCompletion, match='one'):
        completed(conn, keys[0], input_hash='two')


@pytest.mark.parametrize('change', [{'part_index': 9}, {'batch_no': 9}, {'job_id': uuid7()}])
def test_completing_an_unknown_part_is_an_error(conn: Conn, change: dict[str, Any]) -> None:
    key = plan_key(submitted(conn))
    place = {'job_id': key.job_id, 'batch_no': key.batch_no, 'part_index': key.part_index, **change}

    with pytest.raises(UnknownPart):
        completed(conn, PartKey(**place))


@pytest.mark.parametrize('end', [schema.cancel_job, schema.delete_job])
def test_a_completion_for_an_ended_batch_is_discarded(conn: Conn, end: Any) -> None:
    keys = painting(conn, 2, claim=True)
    end(conn, keys[0].job_id)

    assert completed(conn, keys[0]) is Completion.DISCARDED
    assert status(conn, keys[0])[:2] == ('pending', 'cancelled')
    assert part_at(conn, keys[0]).result is None


def test_a_discarded_completion_leaves_the_callers_transaction_usable(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    other = plan_key(submitted(conn))
    schema.cancel_job(conn, keys[0].job_id)

    with conn.transaction():
        assert completed(conn, keys[0]) is Completion.DISCARDED
        assert completed(conn, other) is Completion.LAST

    assert status(conn, keys[0])[0] == 'pending'
    assert status(conn, other)[0] == 'completed'


def test_pages_are_read_off_the_result(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    completed(conn, keys[0], pages=12)
    schema.complete_part(conn, keys[1], input_hash='h', result={}, result_ref=None, result_sha256=None)

    assert [part_at(conn, key).pages for key in keys] == [12, None]


def test_a_result_with_a_wild_number_of_pages_is_refused(conn: Conn) -> None:
    key = plan_key(submitted(conn))

    with pytest.raises(NumericValueOutOfRange):
        completed(conn, key, pages=10**12)
    assert status(conn, key)[0] == 'pending'


def test_a_failed_try_is_charged_and_tried_again(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key)

    assert failed(conn, key) is Failed.RETRY
    part = claimed(conn, key)
    assert (part.attempts, part.losses, part.failure, part.lease_epoch) == (1, 0, WHY, 2)
    assert failed(conn, key, 2, charge='loss') is Failed.RETRY
    part = claimed(conn, key)
    assert (part.attempts, part.losses) == (1, 1)


@pytest.mark.parametrize(
    ('how', 'tries'),
    [
        ({'attempts_allowed': 3}, 3),
        ({'attempts_allowed': 1}, 1),
        ({'charge': 'loss', 'losses_allowed': 5, 'attempts_allowed': 1}, 5),
        ({'permanent': True}, 1),
    ],
)
def test_a_spent_budget_fails_the_job(conn: Conn, how: dict[str, Any], tries: int) -> None:
    keys = painting(conn, 2)

    outcomes = [failed(conn, keys[1], claimed(conn, keys[1]).lease_epoch, **how) for _ in range(tries)]

    assert outcomes == [Failed.RETRY] * (tries - 1) + [Failed.JOB_FAILED]
    assert status(conn, keys[1]) == ('failed', 'failed', 'failed')
    assert status(conn, keys[0])[0] == 'pending', 'nobody writes sibling parts'
    assert event_keys(conn, keys[0]) == ['batch-completed:0', 'job-failed:1']
    job = schema.get_job(conn, keys[0].job_id)
    assert job is not None
    assert job.failure == WHY
    assert job.finished_at is not None
    assert job.expires_at == job.finished_at + job.keep_for


def test_losses_do_not_spend_attempts(conn: Conn) -> None:
    key = plan_key(submitted(conn))

    for epoch in range(1, 20):
        claimed(conn, key)
        assert failed(conn, key, epoch, charge='loss') is Failed.RETRY
    assert part_at(conn, key).attempts == 0
    assert claimed(conn, key).losses == 19


def test_under_the_partial_policy_a_failed_part_counts_down_its_batch(conn: Conn) -> None:
    keys = painting(conn, 3, 'partial', claim=True)

    assert failed(conn, keys[0], permanent=True) is Failed.PART_FAILED
    assert completed(conn, keys[1]) is Completion.COUNTED
    assert failed(conn, keys[2], permanent=True) is Failed.LAST

    assert status(conn, keys[0]) == ('failed', 'completed', 'rendering')
    assert event_keys(conn, keys[0]) == ['batch-completed:0', 'batch-completed:1']
    assert [part.key for part in schema.painted_parts(conn, keys[0].job_id)] == [keys[1]]
    assert [part.key for part in schema.failed_parts(conn, keys[0].job_id)] == [keys[0], keys[2]]
    assert [part.key for part in schema.failed_parts_of_batch(conn, keys[0].job_id, 1)] == [keys[0], keys[2]]


def test_a_completion_after_the_parts_failure_is_discarded(conn: Conn) -> None:
    keys = painting(conn, 2, 'partial', claim=True)
    failed(conn, keys[0], permanent=True)

    assert completed(conn, keys[0]) is Completion.DISCARDED
    assert status(conn, keys[0])[:2] == ('failed', 'running')


def test_a_returned_part_is_due_at_once_and_uncharged(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key)

    assert schema.return_part(conn, key, epoch=1)
    assert not schema.return_part(conn, key, epoch=1)
    part = claimed(conn, key)
    assert (part.attempts, part.losses, part.lease_epoch) == (0, 0, 2)


def zombie(conn: Conn, key: PartKey) -> None:
    """The holder of epoch 1 stops; its lease is taken away, and another claims the part."""
    claimed(conn, key, lease=SECOND)
    assert leases_expired(conn, now=now() + 2 * SECOND) == [Failed.RETRY]


@pytest.mark.parametrize('claimed_again', [True, False])
def test_a_zombie_can_neither_renew_nor_fail_nor_return(conn: Conn, claimed_again: bool) -> None:
    key = plan_key(submitted(conn))
    zombie(conn, key)
    if claimed_again:
        claimed(conn, key, owner='another', now=now() + 2 * SECOND)
    before = part_at(conn, key)

    assert not schema.renew_lease(conn, key, epoch=1, lease=LEASE)
    assert failed(conn, key, 1) is Failed.STALE
    assert failed(conn, key, 1, permanent=True) is Failed.STALE
    assert not schema.return_part(conn, key, epoch=1)
    assert part_at(conn, key) == before


def test_a_zombie_may_still_complete_and_the_first_completion_wins(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    zombie(conn, key)
    claimed(conn, key, owner='another', now=now() + 2 * SECOND)

    assert completed(conn, key) is Completion.LAST
    assert not schema.renew_lease(conn, key, epoch=2, lease=LEASE)
    assert failed(conn, key, 2) is Failed.STALE
    assert completed(conn, key) is Completion.DUPLICATE


def test_a_zombie_of_an_earlier_run_cannot_fail_the_next_one(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    failed(conn, keys[0], permanent=True)
    schema.retry_job(conn, keys[0].job_id)

    assert failed(conn, keys[1], 1, permanent=True) is Failed.STALE
    assert failed(conn, keys[1], 1) is Failed.STALE
    assert not schema.renew_lease(conn, keys[1], epoch=1, lease=LEASE)
    assert completed(conn, keys[1]) is Completion.DISCARDED
    assert status(conn, keys[1]) == ('pending', 'failed', 'rendering')


def test_renewing_extends_the_lease_of_a_running_batch_only(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key, lease=SECOND)

    assert schema.renew_lease(conn, key, epoch=1, lease=60 * SECOND)
    expires = part_at(conn, key).lease_expires_at
    assert expires is not None
    assert expires > now() + 30 * SECOND
    schema.cancel_job(conn, key.job_id)
    assert not schema.renew_lease(conn, key, epoch=1, lease=LEASE)


def test_an_ended_batch_gives_no_parts_away(conn: Conn) -> None:
    key = plan_key(submitted(conn))
    schema.cancel_job(conn, key.job_id)

    assert schema.claim_part(conn, key, owner='me', lease=LEASE) is None


@pytest.mark.parametrize(
    'nonsense',
    [
        "UPDATE part SET status = 'completed', completed_at = now()",
        "UPDATE part SET status = 'failed', completed_at = now()",
        "UPDATE part SET status = 'cancelled'",
        'UPDATE part SET lease_expires_at = now()',
        "UPDATE part SET result = '{}'",
        'UPDATE part SET part_index = -1',
        'UPDATE part SET losses = -1',
        'UPDATE batch SET remaining = -1',
        'UPDATE batch SET remaining = 2',
        "UPDATE batch SET status = 'completed', completed_at = now()",
        "UPDATE batch SET status = 'failed'",
        "UPDATE batch SET kind = 'print'",
        "UPDATE job SET status = 'completed', finished_at = now(), expires_at = now()",
        "UPDATE job SET status = 'failed', finished_at = now(), expires_at = now()",
        "UPDATE job SET status = 'cancelled'",
        "UPDATE job SET status = 'done'",
        'UPDATE job SET expires_at = now()',
        "UPDATE job SET result_key = 'k'",
        "UPDATE job SET spec = '[]'",
        "UPDATE job SET failure_policy = 'ignore'",
    ],
)
def test_the_database_refuses(conn: Conn, nonsense: str) -> None:
    submitted(conn)

    with pytest.raises(CheckViolation):
        conn.execute(nonsense.encode())


def test_what_jsonb_cannot_hold_is_replaced_in_results_and_failures(conn: Conn) -> None:
    keys = painting(conn, 2, 'partial', claim=True)
    odd = {'war\x00ning': ['a\ud800b', ('\udfff', 'C:\\u0000', 'naïve 😀')], 'n': {'deep': 'x\x00'}}
    plain = {'war\ufffdning': ['a\ufffdb', ['\ufffd', 'C:\\u0000', 'naïve 😀']], 'n': {'deep': 'x\ufffd'}}

    completed(conn, keys[0], **odd)
    schema.fail_part(conn, keys[1], epoch=1, failure={'detail': '\x00'}, charge='attempt', permanent=True, **BUDGET)

    assert part_at(conn, keys[0]).result == {'pages': 1, **plain}
    assert part_at(conn, keys[1]).failure == {'detail': '\ufffd'}
