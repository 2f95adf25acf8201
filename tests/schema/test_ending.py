"""How jobs end, and how they start again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from uuid6 import uuid7

import schema
from runtime.errors import UnknownJob
from schema import Failed, Fate, PartKey
from tests.schema.given import (
    HOUR,
    WHY,
    advance,
    claimed,
    completed,
    event_keys,
    failed,
    finish,
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


def now() -> datetime:
    return datetime.now(UTC)


def in_batch(key: PartKey, batch_no: int) -> PartKey:
    return PartKey(job_id=key.job_id, batch_no=batch_no, part_index=key.part_index)


def test_cancelling_ends_the_job_and_its_batch(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)

    ended = schema.cancel_job(conn, keys[0].job_id)

    assert ended.changed
    assert ended.job.status == 'cancelled'
    assert status(conn, keys[0]) == ('pending', 'cancelled', 'cancelled')
    assert event_keys(conn, keys[0]) == ['batch-completed:0', 'job-cancelled']


def test_cancelling_again_changes_nothing(conn: Conn) -> None:
    job = submitted(conn)
    first = schema.cancel_job(conn, job.id)

    again = schema.cancel_job(conn, job.id)

    assert not again.changed
    assert again.job == first.job


def test_a_completed_job_cannot_be_cancelled_or_failed_or_retried(conn: Conn) -> None:
    job = submitted(conn)
    worked_off(conn)
    done = schema.get_job(conn, job.id)

    assert not schema.cancel_job(conn, job.id).changed
    assert not schema.fail_job(conn, job.id, WHY)
    assert not schema.retry_job(conn, job.id).changed
    assert not finish(conn, job, pages=1)
    assert schema.get_job(conn, job.id) == done


@pytest.mark.parametrize('end', [schema.cancel_job, schema.retry_job, schema.delete_job])
def test_an_unknown_job_is_an_error(conn: Conn, end: Any) -> None:
    theirs = submitted(conn, tenant_id='you')

    for job_id in (uuid7(), theirs.id):
        with pytest.raises(UnknownJob):
            end(conn, job_id)


def test_a_retry_runs_what_its_last_batch_left_unfinished(conn: Conn) -> None:
    keys = painting(conn, 4, claim=True)
    completed(conn, keys[1])
    failed(conn, keys[2], permanent=True)
    before = schema.get_job(conn, keys[0].job_id)

    ended = schema.retry_job(conn, keys[0].job_id)

    job = ended.job
    assert before is not None
    assert (ended.changed, job.status, job.run, job.failure, job.finished_at) == (True, 'rendering', 2, None, None)
    assert job.deadline_at > before.deadline_at
    parts = schema.list_parts(conn, job.id, after=(1, 3), limit=10)
    assert [part.key for part in parts] == [in_batch(keys[index], 2) for index in (0, 2, 3)]
    assert {(part.status, part.attempts, part.losses, part.failure) for part in parts} == {('pending', 0, 0, None)}
    assert parts[1].spec == part_at(conn, keys[2]).spec
    for part in parts:
        completed(conn, part.key)
    painted = schema.painted_parts(conn, job.id)
    assert [(part.key.batch_no, part.key.part_index) for part in painted] == [(2, 0), (1, 1), (2, 2), (2, 3)]
    worked_off(conn)
    assert status(conn, keys[0])[2] == 'completed'


def test_each_failing_run_has_its_own_event(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    completed(conn, keys[0])
    failed(conn, keys[1], permanent=True)
    for run in (2, 3):
        schema.retry_job(conn, keys[0].job_id)
        again = in_batch(keys[1], run)
        claimed(conn, again)
        assert failed(conn, again, permanent=True) is Failed.JOB_FAILED

    assert event_keys(conn, keys[0]) == ['batch-completed:0', 'job-failed:1', 'job-failed:2', 'job-failed:3']
    schema.retry_job(conn, keys[0].job_id)
    parts = schema.list_parts(conn, keys[0].job_id, after=(1, 1), limit=10)
    assert {part.key.part_index for part in parts} == {1}, 'a painted part is not painted again'
    worked_off(conn)
    assert status(conn, keys[0])[2] == 'completed'


def test_a_retry_after_assembly_failed_only_assembles(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    for key in keys:
        completed(conn, key)
    relay(conn)
    assemble = in_batch(keys[0], 2)
    claimed(conn, assemble)
    failed(conn, assemble, permanent=True)

    schema.retry_job(conn, keys[0].job_id)

    batches = schema.list_batches(conn, keys[0].job_id)
    assert [(batch.kind, batch.total) for batch in batches[2:]] == [('assemble', 1), ('assemble', 1)]
    worked_off(conn)
    assert status(conn, keys[0])[2] == 'completed'


@pytest.mark.parametrize('consumed', [True, False])
def test_a_retry_of_a_job_that_failed_between_batches_goes_on_from_there(conn: Conn, consumed: bool) -> None:
    """It ran into its deadline after its parts were painted and before that was acted on."""
    keys = painting(conn, 1, claim=True)
    completed(conn, keys[0])
    schema.fail_overdue_jobs(conn, 10, now=now() + 2 * HOUR)
    assert status(conn, keys[0])[1:] == ('completed', 'failed')
    if consumed:
        relay(conn)

    schema.retry_job(conn, keys[0].job_id)

    assert 'batch-completed:1:2' in event_keys(conn, keys[0])
    worked_off(conn)
    kinds = [batch.kind for batch in schema.list_batches(conn, keys[0].job_id)]
    assert kinds == ['plan', 'paint', 'assemble'], 'however many events tell of a batch, it is advanced once'
    assert status(conn, keys[0])[2] == 'completed'


def test_a_retry_of_what_advance_failed_is_advanced_again(conn: Conn) -> None:
    job = submitted(conn)
    completed(conn, plan_key(job))
    [event] = waiting_events(conn)
    with conn.transaction():
        assert schema.begin_advance(conn, event)
        assert schema.fail_job(conn, job.id, WHY)
        schema.mark_sent(conn, event.id)

    schema.retry_job(conn, job.id)

    events = {event.event_key: event for event in waiting_events(conn)}
    assert advance(conn, events[f'batch-completed:{job.id}:0:2'])
    assert status(conn, plan_key(job))[2] == 'rendering'


@pytest.mark.parametrize('end', ['cancelled', 'expired'])
def test_only_a_failed_job_can_be_retried(conn: Conn, end: str) -> None:
    job = submitted(conn)
    schema.cancel_job(conn, job.id)
    if end == 'expired':
        schema.expire_jobs(conn, 10, now=now() + 2 * HOUR)

    retried = schema.retry_job(conn, job.id)

    assert not retried.changed
    assert retried.job.status == end
    assert not schema.retry_job(conn, submitted(conn).id).changed


def test_deleting_cancels_and_expires(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)

    deleted = schema.delete_job(conn, keys[0].job_id)

    assert (deleted.changed, deleted.job.status) == (True, 'expired')
    assert deleted.job.expires_at is not None
    assert deleted.job.expires_at <= now()
    assert status(conn, keys[0])[1] == 'cancelled'
    assert event_keys(conn, keys[0])[-1] == 'job-cancelled'
    assert not schema.delete_job(conn, keys[0].job_id).changed


def test_an_expired_job_stays_so(conn: Conn) -> None:
    job = submitted(conn)
    schema.delete_job(conn, job.id)
    expired = schema.get_job(conn, job.id)

    schema.delete_job(conn, job.id)
    schema.expire_jobs(conn, 10, now=now() + 2 * HOUR)

    assert schema.get_job(conn, job.id) == expired


def test_deleting_an_ended_job_expires_it(conn: Conn) -> None:
    job = submitted(conn)
    worked_off(conn)

    assert schema.delete_job(conn, job.id).job.status == 'expired'
    assert 'job-cancelled' not in event_keys(conn, plan_key(job))


def test_overdue_jobs_fail(conn: Conn) -> None:
    late = painting(conn, 2, claim=True)
    submitted(conn, time_limit=5 * HOUR)

    assert schema.fail_overdue_jobs(conn, 10) == []
    assert schema.fail_overdue_jobs(conn, 10, now=now() + 2 * HOUR) == [late[0].job_id]
    assert schema.fail_overdue_jobs(conn, 10, now=now() + 2 * HOUR) == []

    job = schema.get_job(conn, late[0].job_id)
    assert job is not None
    assert job.failure is not None
    assert job.failure['type'] == 'urn:fanfold:deadline-exceeded'
    assert status(conn, late[0]) == ('pending', 'failed', 'failed')
    assert event_keys(conn, late[0])[-1] == 'job-failed:1'


def overdue(conn: Conn, job_id: UUID) -> dict[str, Any]:
    """The failure of a job that is past its deadline, without what all of them have."""
    assert schema.fail_overdue_jobs(conn, 10, now=now() + 2 * HOUR) == [job_id]
    job = schema.get_job(conn, job_id)
    assert job is not None
    assert job.failure is not None
    return {key: value for key, value in job.failure.items() if key not in {'type', 'title'}}


def test_an_overdue_job_says_what_was_unfinished(conn: Conn) -> None:
    keys = painting(conn, 3)
    claimed(conn, keys[0])
    completed(conn, keys[0])

    assert overdue(conn, keys[0].job_id) == {
        'part': 1, 'detail': '2 of 3 parts were unfinished; part 1 had not been begun'
    }  # fmt: skip


def test_an_overdue_job_says_which_document_was_being_rendered(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    completed(conn, keys[0])
    why = {'type': 'urn:fanfold:child-died', 'title': 't', 'detail': 'time ran out', 'document': 0, 'record': 7}
    failed(conn, keys[1], failure=why, charge='loss')

    assert overdue(conn, keys[0].job_id) == {
        'part': 1, 'document': 0, 'record': 7,
        'detail': '1 of 2 parts was unfinished; part 1 was being worked on: time ran out',
    }  # fmt: skip


def test_an_overdue_job_without_painting_names_its_step(conn: Conn) -> None:
    planned = submitted(conn)
    assert overdue(conn, planned.id) == {'detail': 'planning was unfinished'}

    waiting = submitted(conn)
    completed(conn, plan_key(waiting))
    assert overdue(conn, waiting.id) == {'detail': 'the job was between two of its steps'}

    [painted] = painting(conn, 1)
    completed(conn, painted)
    relay(conn)
    assert overdue(conn, painted.job_id) == {'detail': 'the assembly was unfinished'}


def test_overdue_jobs_fail_a_few_at_a_time(conn: Conn) -> None:
    jobs = [submitted(conn) for _ in range(5)]
    later = now() + 2 * HOUR

    rounds = [schema.fail_overdue_jobs(conn, 2, now=later) for _ in range(4)]

    assert [len(ids) for ids in rounds] == [2, 2, 1, 0]
    assert {job_id for ids in rounds for job_id in ids} == {job.id for job in jobs}


def test_ended_jobs_expire_when_their_time_has_come(conn: Conn) -> None:
    job = submitted(conn, keep_for=HOUR)
    worked_off(conn)
    submitted(conn)

    assert schema.expire_jobs(conn, 10) == []
    assert schema.expire_jobs(conn, 10, now=now() + 2 * HOUR) == [job.id]
    expired = schema.get_job(conn, job.id)
    assert expired is not None
    assert (expired.status, expired.page_count) == ('expired', 2)


def test_rows_of_expired_jobs_are_pruned_with_all_they_had(conn: Conn) -> None:
    job = submitted(conn)
    kept = submitted(conn)
    schema.delete_job(conn, job.id)

    assert schema.prune_jobs(conn, HOUR, 10) == 0
    assert schema.prune_jobs(conn, HOUR, 10, now=now() + 2 * HOUR) == 1
    assert schema.get_job(conn, job.id) is None
    assert schema.list_parts(conn, job.id, limit=10) == []
    assert schema.get_job(conn, kept.id) == kept
    relay(conn)
    assert schema.unsent_count(conn) == 0, 'the event of a job that is gone is still sent'


def test_what_may_be_swept(conn: Conn) -> None:
    running, cancelled, broken = submitted(conn), submitted(conn), submitted(conn)
    schema.cancel_job(conn, cancelled.id)
    schema.fail_job(conn, broken.id, WHY)
    done, gone = submitted(conn), submitted(conn)
    completed(conn, plan_key(done))
    with conn.transaction():
        [event] = [event for event in waiting_events(conn) if event.job_id == done.id and 'batch_no' in event.payload]
        assert schema.begin_advance(conn, event)
        schema.create_batch(conn, done.id, 'paint', [], 'rendering')
        assert finish(conn, done, pages=1)
        schema.mark_sent(conn, event.id)
    schema.delete_job(conn, gone.id)
    unknown = uuid7()
    ids = [job.id for job in (running, cancelled, broken, done, gone)]

    early = schema.disposition(conn, [*ids, unknown], grace=HOUR)
    late = schema.disposition(conn, [*ids, unknown], grace=HOUR, now=now() + 2 * HOUR)

    assert [early[job_id].fate for job_id in ids] == [Fate.KEEP] * 5
    assert early[unknown].fate is late[unknown].fate is Fate.UNKNOWN
    assert [late[job_id].fate for job_id in ids] == [
        Fate.KEEP, Fate.DELETE, Fate.KEEP, Fate.ONLY_RESULT, Fate.DELETE
    ]  # fmt: skip
    assert late[done.id].result_key == 'k'
    assert late[gone.id].result_key is None


def test_the_objects_of_an_expired_job_stay_for_a_grace_after_it_did_expire(conn: Conn) -> None:
    job = submitted(conn, keep_for=HOUR)
    schema.cancel_job(conn, job.id)
    much_later = now() + 9 * HOUR
    schema.expire_jobs(conn, 10, now=much_later)

    assert schema.disposition(conn, [job.id], grace=HOUR, now=much_later + HOUR / 2)[job.id].fate is Fate.KEEP
    assert schema.disposition(conn, [job.id], grace=HOUR, now=much_later + HOUR)[job.id].fate is Fate.DELETE
