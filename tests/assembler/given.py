"""Jobs in the states that tests start from, made through the schema's own functions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import Connection
from uuid6 import uuid7

import schema
from schema import Completion, NewJob, NewPart, PartKey

LEASE = timedelta(seconds=30)
HOUR = timedelta(hours=1)
WHY = {'type': 'urn:fanfold:render-error', 'title': 'no', 'detail': 'because'}


def submitted(conn: Connection[Any], **changes: Any) -> schema.Job:
    new = NewJob(**{'id': uuid7(), 'spec': {'documents': []}, 'time_limit': HOUR, 'keep_for': HOUR, **changes})
    return schema.create_job(conn, new, NewPart(part_index=0)).job


def plan_key(job: schema.Job) -> PartKey:
    return PartKey(job_id=job.id, batch_no=0, part_index=0)


def running_parts(conn: Connection[Any], parts: int, *, kind: schema.BatchKind = 'paint') -> list[PartKey]:
    """The parts of the running batch 1 of a new job."""
    key = plan_key(submitted(conn))
    completed(conn, key)
    [event] = [event for event in schema.claim_events(conn, limit=100, lease=LEASE) if event.job_id == key.job_id]
    with conn.transaction():
        assert schema.begin_advance(conn, event)
        new = [NewPart(part_index=index) for index in range(parts)]
        batch_no = schema.create_batch(conn, key.job_id, kind, new, 'rendering')
        schema.mark_sent(conn, event.id)
    return [PartKey(job_id=key.job_id, batch_no=batch_no, part_index=index) for index in range(parts)]


def claimed(conn: Connection[Any], key: PartKey, *, lease: timedelta = LEASE) -> schema.ClaimedPart:
    part = schema.claim_part(conn, key, owner='somebody', lease=lease)
    assert part is not None, f'{key} is not to be had'
    return part


def completed(conn: Connection[Any], key: PartKey, **result: Any) -> Completion:
    return schema.complete_part(
        conn, key, input_hash='h', result={'pages': 1, **result}, result_ref=f'{key}', result_sha256='s'
    )


def failed(conn: Connection[Any], key: PartKey) -> schema.Failed:
    """The part that was just claimed for the first time fails for good."""
    return schema.fail_part(
        conn,
        key,
        epoch=1,
        failure=WHY,
        charge='attempt',
        permanent=True,
        attempts_allowed=3,
        losses_allowed=20,
        retry_after=timedelta(),
    )


def status(conn: Connection[Any], key: PartKey) -> tuple[str, str, str]:
    """The statuses of a part, its batch and its job."""
    job = schema.get_job(conn, key.job_id)
    assert job is not None
    batch = schema.list_batches(conn, key.job_id)[key.batch_no]
    return part_at(conn, key).status, batch.status, job.status


def part_at(conn: Connection[Any], key: PartKey) -> schema.Part:
    [part] = schema.list_parts(conn, key.job_id, after=(key.batch_no, key.part_index - 1), limit=1)
    return part


def event_keys(conn: Connection[Any], key: PartKey) -> list[str]:
    """The keys of a job's events without the job's id, in order."""
    rows = conn.execute('SELECT event_key FROM outbox WHERE job_id = %s ORDER BY id', [key.job_id])
    return [row[0].replace(f':{key.job_id}', '') for row in rows]


def job(conn: Connection[Any], key: PartKey) -> schema.Job:
    found = schema.get_job(conn, key.job_id)
    assert found is not None
    return found
