"""Jobs in the states that tests start from, and the steps that bring them there."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection
from uuid6 import uuid7

import schema
from schema import Completion, Event, Failed, FailurePolicy, Job, NewJob, NewPart, PartKey
from schema.batches import add_batch
from schema.statements import run

LEASE = timedelta(seconds=30)
HOUR = timedelta(hours=1)
WHY = {'type': 'urn:fanfold:render-error', 'title': 'no', 'detail': 'because'}
BUDGET = {'attempts_allowed': 3, 'losses_allowed': 20, 'retry_after': timedelta()}
PLAN = NewPart(part_index=0)


def new_job(**changes: Any) -> NewJob:
    return NewJob(**{'id': uuid7(), 'spec': {'documents': []}, 'time_limit': HOUR, 'keep_for': HOUR, **changes})


def submitted(conn: Connection[Any], **changes: Any) -> Job:
    return schema.create_job(conn, new_job(**changes), PLAN).job


def plan_key(job: Job) -> PartKey:
    return PartKey(job_id=job.id, batch_no=0, part_index=0)


def completed(conn: Connection[Any], key: PartKey, *, input_hash: str = 'h', **result: Any) -> Completion:
    return schema.complete_part(
        conn, key, input_hash=input_hash, result={'pages': 1, **result}, result_ref=f'{key}', result_sha256='s'
    )


def failed(conn: Connection[Any], key: PartKey, epoch: int = 1, **how: Any) -> schema.Failed:
    return schema.fail_part(conn, key, epoch=epoch, **{'failure': WHY, 'charge': 'attempt', **BUDGET, **how})


def claimed(conn: Connection[Any], key: PartKey, owner: str = 'somebody', **how: Any) -> schema.ClaimedPart:
    part = schema.claim_part(conn, key, owner=owner, **{'lease': LEASE, **how})
    assert part is not None, f'{key} is not to be had'
    return part


def leases_expired(conn: Connection[Any], *, limit: int = 100, **how: Any) -> list[Failed]:
    """What came of expiring the leases that are over half an hour from now, in the order of their parts."""
    usual = {'losses_allowed': 20, 'retry_after': lambda losses: timedelta(), 'now': datetime.now(UTC) + HOUR / 2}
    how = {**usual, **how}
    leases = schema.expired_leases(conn, limit, how['now'])
    outcomes = [schema.expire_lease(conn, lease, **how) for lease in leases]
    return [outcome for outcome in outcomes if outcome is not Failed.STALE]


def painting(
    conn: Connection[Any], parts: int, policy: FailurePolicy = 'fail', *, claim: bool = False, **changes: Any
) -> list[PartKey]:
    """The parts of the paint batch of a new job that has just been planned, claimed or not."""
    job = submitted(conn, failure_policy=policy, **changes)
    completed(conn, plan_key(job), parts=[{'first_item': index, 'item_count': 1} for index in range(parts)])
    relay(conn)
    keys = [PartKey(job_id=job.id, batch_no=1, part_index=index) for index in range(parts)]
    if claim:
        for key in keys:
            claimed(conn, key)
    return keys


def painting_at_once(
    conn: Connection[Any], parts: int, policy: FailurePolicy = 'fail', *, claim: bool = False
) -> list[PartKey]:
    """The same in few statements: the job's first batch is its paint batch."""
    new = new_job(failure_policy=policy)
    run(conn, 'insert_job', **{field.name: getattr(new, field.name) for field in fields(new)}, now=None)
    run(conn, 'move_job', job_id=new.id, status='rendering', plan=None)
    batch_no = add_batch(conn, new.id, 'paint', [NewPart(part_index=index) for index in range(parts)])
    keys = [PartKey(job_id=new.id, batch_no=batch_no, part_index=index) for index in range(parts)]
    if claim:
        for key in keys:
            claimed(conn, key)
    return keys


def waiting_events(conn: Connection[Any]) -> list[Event]:
    return schema.claim_events(conn, limit=1_000, lease=LEASE)


def relay(conn: Connection[Any]) -> None:
    """Advance whatever waits, as the relay does, until nothing does."""
    while events := waiting_events(conn):
        for event in events:
            with conn.transaction():
                if event.type == 'batch-completed':
                    advance(conn, event)
                schema.mark_sent(conn, event.id)


def advance(conn: Connection[Any], event: Event) -> bool:
    """The next step after a completed batch, of the simplest kind. False: there was none to take."""
    job = schema.begin_advance(conn, event)
    if job is None:
        return False
    match event.payload['kind']:
        case 'plan':
            [plan] = schema.completed_parts(conn, job.id, event.batch_no)
            specs = (plan.result or {}).get('parts', [])
            parts = [NewPart(part_index=index, spec=spec) for index, spec in enumerate(specs)]
            schema.create_batch(conn, job.id, 'paint', parts, 'rendering')
        case 'paint':
            schema.create_batch(conn, job.id, 'assemble', [PLAN], 'assembling')
        case 'assemble':
            pages = sum(part.pages or 0 for part in schema.painted_parts(conn, job.id))
            if pages:
                finish(conn, job, pages=pages)
            else:
                schema.fail_job(conn, job.id, WHY)
    return True


def finish(conn: Connection[Any], job: Job, *, pages: int) -> bool:
    return schema.complete_job(
        conn, job.id, page_count=pages, result_key='k', result_sha256='s', result_bytes=1, result={'missing': []}
    )


def worked_off(conn: Connection[Any]) -> None:
    """Work and relay until nothing is due."""
    while True:
        relay(conn)
        due = schema.due_parts(conn, window=10_000, limit=10_000, resend_after=timedelta())
        parts = [schema.claim_part(conn, part.key, owner='worker', lease=LEASE) for part in due]
        if not any(parts):
            return
        for part in filter(None, parts):
            completed(conn, part.key, parts=[{'first_item': 0, 'item_count': 1}] * (2 if part.kind == 'plan' else 0))


def status(conn: Connection[Any], key: PartKey) -> tuple[str, str, str]:
    """The statuses of a part, its batch and its job."""
    row = conn.execute(
        """
        SELECT part.status, batch.status, job.status
        FROM part JOIN batch USING (job_id, batch_no) JOIN job ON job.id = part.job_id
        WHERE (job_id, batch_no, part_index) = (%s, %s, %s)
        """,
        [key.job_id, key.batch_no, key.part_index],
    ).fetchone()
    assert row is not None
    return row


def part_at(conn: Connection[Any], key: PartKey) -> schema.Part:
    [part] = schema.list_parts(conn, key.job_id, after=(key.batch_no, key.part_index - 1), limit=1)
    return part


def event_keys(conn: Connection[Any], key: PartKey) -> list[str]:
    """The keys of a job's events without the job's id, in order."""
    rows = conn.execute('SELECT event_key FROM outbox WHERE job_id = %s ORDER BY id', [key.job_id])
    return [row[0].replace(f':{key.job_id}', '') for row in rows]
