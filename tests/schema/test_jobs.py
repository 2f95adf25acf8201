"""Submitting jobs and looking at them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection, IsolationLevel
from psycopg.errors import UniqueViolation
from uuid6 import uuid7

import schema
from runtime.errors import JobEnded
from schema import NewPart
from tests.schema.given import (
    PLAN,
    claimed,
    completed,
    event_keys,
    failed,
    new_job,
    painting,
    plan_key,
    relay,
    submitted,
    worked_off,
)

Conn = Connection[Any]


def test_a_submitted_job_waits_for_its_plan(conn: Conn) -> None:
    new = new_job(spec={'documents': [{'kind': 'html', 'title_name': 'Ä%s%%'}]}, fingerprint='f')

    created = schema.create_job(conn, new, NewPart(part_index=0, spec={'a': 1}))

    job = created.job
    assert created.created
    assert (job.id, job.status, job.run, job.spec, job.fingerprint) == (new.id, 'queued', 1, new.spec, 'f')
    assert (job.ended, job.failure, job.result_key, job.expires_at) == (False, None, None, None)
    assert job.deadline_at == job.created_at + new.time_limit
    [part] = schema.list_parts(conn, job.id, limit=10)
    assert (part.kind, part.status, part.spec, part.key) == ('plan', 'pending', {'a': 1}, plan_key(job))
    assert schema.get_job(conn, job.id) == job


def test_a_job_goes_the_whole_way(conn: Conn) -> None:
    job = submitted(conn)

    worked_off(conn)

    snapshot = schema.get_snapshot(conn, job.id)
    assert snapshot is not None
    assert (snapshot.job.status, snapshot.job.page_count, snapshot.pages) == ('completed', 2, 2)
    assert [(batch.kind, batch.status, batch.total) for batch in snapshot.batches] == [
        ('plan', 'completed', 1),
        ('paint', 'completed', 2),
        ('assemble', 'completed', 1),
    ]
    names = ['batch-completed:0', 'batch-completed:1', 'batch-completed:2', 'job-completed']
    assert event_keys(conn, plan_key(job)) == names
    assert schema.unsent_count(conn) == 0


@pytest.mark.parametrize('threads', [50])
def test_identical_requests_at_once_make_one_job(
    database_url: str, any_isolation: IsolationLevel, threads: int
) -> None:
    barrier = threading.Barrier(threads)

    def submit(_: int) -> schema.Created:
        barrier.wait()
        return schema.transact(pool, schema.create_job, new_job(idempotency_key='k', fingerprint='f'), PLAN)

    with schema.open_pool(database_url, max_size=20, isolation=any_isolation, timeout=60) as pool:
        with ThreadPoolExecutor(threads) as executor:
            answers = list(executor.map(submit, range(threads)))
        with pool.connection() as conn:
            jobs = schema.list_jobs(conn, limit=100)

    assert len(jobs) == 1
    assert {answer.job.id for answer in answers} == {jobs[0].id}
    assert [answer.created for answer in answers].count(True) == 1


def test_an_idempotency_key_belongs_to_a_tenant(conn: Conn) -> None:
    mine = submitted(conn, idempotency_key='k', fingerprint='mine')
    yours = submitted(conn, idempotency_key='k', tenant_id='you')

    again = schema.create_job(conn, new_job(idempotency_key='k', fingerprint='other'), PLAN)

    assert mine.id != yours.id
    assert (again.created, again.job) == (False, mine)
    assert schema.find_by_idempotency_key(conn, 'default', 'k') == mine
    assert schema.find_by_idempotency_key(conn, 'you', 'k') == yours
    assert schema.find_by_idempotency_key(conn, 'you', 'x') is None


def test_a_used_id_is_refused(conn: Conn) -> None:
    job = submitted(conn)

    with pytest.raises(UniqueViolation):
        submitted(conn, id=job.id)


def test_a_request_that_rolls_back_leaves_its_key_to_others(conn: Conn) -> None:
    with conn.transaction(force_rollback=True):
        submitted(conn, idempotency_key='k')

    assert schema.create_job(conn, new_job(idempotency_key='k'), PLAN).created


def test_jobs_are_listed_newest_first_page_by_page(conn: Conn) -> None:
    jobs = [submitted(conn) for _ in range(5)]
    submitted(conn, tenant_id='you')
    schema.cancel_job(conn, jobs[2].id)

    first = schema.list_jobs(conn, limit=3)
    second = schema.list_jobs(conn, limit=3, after=(first[-1].created_at, first[-1].id))
    cancelled = schema.list_jobs(conn, status='cancelled', limit=3)

    assert [job.id for job in first + second] == [job.id for job in reversed(jobs)]
    assert [job.id for job in cancelled] == [jobs[2].id]
    assert schema.count_unfinished(conn, 'default') == 4
    assert schema.count_unfinished(conn, 'you') == 1


def test_a_job_is_seen_by_its_tenant_only(conn: Conn) -> None:
    job = submitted(conn, tenant_id='you')

    assert schema.get_job(conn, job.id) is None
    assert schema.get_job(conn, job.id, 'you') == job
    assert schema.get_snapshot(conn, job.id, 'me') is None
    assert schema.get_snapshot(conn, uuid7()) is None


def test_parts_are_listed_page_by_page(conn: Conn) -> None:
    keys = painting(conn, 4)

    first = schema.list_parts(conn, keys[0].job_id, limit=3)
    second = schema.list_parts(conn, keys[0].job_id, after=(first[-1].key.batch_no, first[-1].key.part_index), limit=3)

    assert [(part.kind, part.key.part_index) for part in first + second] == [
        ('plan', 0), ('paint', 0), ('paint', 1), ('paint', 2), ('paint', 3)
    ]  # fmt: skip


def test_a_snapshot_tells_how_far_painting_is(conn: Conn) -> None:
    keys = painting(conn, 3, 'partial', claim=True)
    versions = [schema.get_snapshot(conn, keys[0].job_id)]
    completed(conn, keys[0], pages=7)
    versions.append(schema.get_snapshot(conn, keys[0].job_id))
    failed(conn, keys[1], permanent=True)
    versions.append(schema.get_snapshot(conn, keys[0].job_id))

    snapshot = versions[-1]
    assert snapshot is not None
    assert (snapshot.pages, snapshot.parts_done, snapshot.parts_failed, snapshot.parts_total) == (7, 1, 1, 3)
    assert (snapshot.current.kind, snapshot.current.done, snapshot.current.total) == ('paint', 2, 3)
    assert snapshot.batches[0].completed_at is not None
    assert snapshot.batches[0].created_at < snapshot.batches[0].completed_at < snapshot.current.created_at
    assert len({version.version for version in versions if version}) == 3


def test_a_snapshot_has_the_beginning_of_what_is_missing_and_all_warnings(conn: Conn) -> None:
    job = submitted(conn)
    missing = [{'document': 0, 'record': number} for number in range(101)]
    schema.create_batch(conn, worked_up_to_painting(conn, job), 'assemble', [], 'assembling')
    result = {'missing': missing, 'warnings': ['b', 'a']}
    schema.complete_job(conn, job.id, page_count=1, result_key='k', result_sha256='s', result_bytes=1, result=result)

    snapshot = schema.get_snapshot(conn, job.id)

    assert snapshot is not None
    assert (list(snapshot.missing), snapshot.missing_count) == (missing[:100], 101)
    assert snapshot.warnings == ('b', 'a')
    found = schema.get_job(conn, job.id)
    assert found is not None
    assert found.result == result


def worked_up_to_painting(conn: Conn, job: schema.Job) -> UUID:
    completed(conn, plan_key(job))
    schema.create_batch(conn, job.id, 'paint', [], 'rendering')
    return job.id


def test_warnings_of_painted_parts_are_told_once_each_in_order_without_a_result(conn: Conn) -> None:
    keys = painting(conn, 12, claim=True)
    completed(conn, keys[10], warnings=['last'])
    completed(conn, keys[2], warnings=['z', 'a'])
    completed(conn, keys[1], warnings=['m', 'z'])
    completed(conn, keys[0])

    assert schema.painted_warnings(conn, keys[0].job_id) == ['m', 'z', 'a', 'last']
    assert schema.painted_warnings(conn, keys[0].job_id, limit=2) == ['m', 'z']
    assert schema.painted_warnings(conn, submitted(conn).id) == []


def test_a_repainted_index_counts_once(conn: Conn) -> None:
    keys = painting(conn, 2, claim=True)
    completed(conn, keys[0], pages=3)
    completed(conn, keys[1], pages=4)
    relay(conn)
    repair(conn, keys[1])

    snapshot = schema.get_snapshot(conn, keys[0].job_id)
    painted = schema.painted_parts(conn, keys[0].job_id)

    assert snapshot is not None
    assert (snapshot.pages, snapshot.parts_done, snapshot.parts_total) == (8, 2, 2)
    assert [(part.key.batch_no, part.key.part_index, part.generation) for part in painted] == [(1, 0, 0), (3, 1, 1)]


def repair(conn: Conn, key: schema.PartKey) -> None:
    """Assembly asks for a part again; it is painted with five pages."""
    assemble = schema.PartKey(job_id=key.job_id, batch_no=2, part_index=0)
    schema.complete_part(
        conn, assemble, input_hash='h', result={'repair': [key.part_index]}, result_ref=None, result_sha256=None
    )
    [event] = schema.claim_events(conn, limit=10, lease=timedelta(seconds=9))
    with conn.transaction():
        assert schema.begin_advance(conn, event)
        again = NewPart(part_index=key.part_index, generation=1)
        batch_no = schema.create_batch(conn, key.job_id, 'paint', [again], 'rendering')
        schema.mark_sent(conn, event.id)
    painted = schema.PartKey(job_id=key.job_id, batch_no=batch_no, part_index=key.part_index)
    assert claimed(conn, painted).generation == 1
    completed(conn, painted, pages=5)


def test_a_batch_of_zero_parts_is_completed_there_and_then(conn: Conn) -> None:
    job = submitted(conn)
    completed(conn, plan_key(job))

    batch_no = schema.create_batch(conn, job.id, 'paint', [], 'rendering')

    batch = schema.list_batches(conn, job.id)[batch_no]
    assert (batch.status, batch.total, batch.remaining, batch.completed_at is not None) == ('completed', 0, 0, True)
    assert event_keys(conn, plan_key(job)) == ['batch-completed:0', 'batch-completed:1']
    assert schema.completed_parts(conn, job.id, batch_no) == []


def test_a_job_has_one_running_batch(conn: Conn) -> None:
    job = submitted(conn)

    with pytest.raises(UniqueViolation, match='batch_running'):
        schema.create_batch(conn, job.id, 'paint', [PLAN], 'rendering')
    assert [batch.kind for batch in schema.list_batches(conn, job.id)] == ['plan']


def test_an_ended_job_takes_no_batch(conn: Conn) -> None:
    job = submitted(conn)
    schema.cancel_job(conn, job.id)

    with pytest.raises(JobEnded):
        schema.create_batch(conn, job.id, 'paint', [PLAN], 'rendering')


def test_a_batch_keeps_its_parts_own_indexes_and_generations(conn: Conn) -> None:
    job = submitted(conn)
    completed(conn, plan_key(job))

    new = [NewPart(part_index=index, spec={'n': index}, generation=2) for index in (7, 3)]
    schema.create_batch(conn, job.id, 'paint', new, 'rendering')

    parts = schema.list_parts(conn, job.id, after=(0, 0), limit=10)
    assert [(part.key.part_index, part.spec, part.generation) for part in parts] == [(3, {'n': 3}, 2), (7, {'n': 7}, 2)]


def test_gauges_count_what_is_unfinished(conn: Conn) -> None:
    keys = painting(conn, 3)
    claimed(conn, keys[0])
    completed(conn, plan_key(submitted(conn)))
    schema.cancel_job(conn, submitted(conn).id)

    gauges = schema.get_gauges(conn)

    assert gauges.jobs == {'queued': 1, 'rendering': 1, 'assembling': 0}
    assert (gauges.parts_pending, gauges.parts_leased) == (3, 1)
    assert (gauges.events_unsent, gauges.events_parked) == (2, 0)
