"""What must be true of a job after anything: every page in order, one result, one event, and replays change nothing."""

from __future__ import annotations

import io
import re
from typing import Any
from uuid import UUID

import pypdf

import schema
from runtime.broker import ASSEMBLE_QUEUE, RENDER_QUEUE, make_broker, send_hint
from runtime.settings import load_settings
from tests.crash.deployment import PAGE, Deployment, until
from tests.invariants import check_invariants


def submit(deployment: Deployment, *, documents: int = 24, parts: int = 8, **more: Any) -> UUID:
    """A template job whose pages print their document's number."""
    with deployment.client() as client:
        records = [{'number': number} for number in range(documents)]
        job = client.submit([{'template': PAGE, 'records': records}], options={'parts': parts}, **more)
    return UUID(job.id)


def status(pool: schema.Pool, job_id: UUID) -> str:
    with pool.connection() as conn:
        job = schema.get_job(conn, job_id)
    assert job is not None
    return job.status


def wait_until_ended(pool: schema.Pool, job_id: UUID) -> str:
    ended = {'completed', 'failed', 'cancelled', 'expired'}

    def has_ended() -> bool:
        try:
            return status(pool, job_id) in ended
        except schema.Unavailable:  # killed, it recovers before it takes connections again
            return False

    until(has_ended, f'job {job_id} to end')
    return status(pool, job_id)


def document_numbers(pdf: bytes) -> list[int | None]:
    """The number that each page prints; None for a placeholder."""
    texts = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages]
    found = [re.search(r'Document (\d+)\.', text) for text in texts]
    return [int(match[1]) if match else None for match in found]


def rows(pool: schema.Pool, job_id: UUID) -> list[Any]:
    """All that the database holds of a job, but for when its workers were last told of it."""
    with pool.connection() as conn:
        job = conn.execute('SELECT * FROM job WHERE id = %s', [job_id]).fetchall()
        batches = conn.execute('SELECT * FROM batch WHERE job_id = %s ORDER BY batch_no', [job_id]).fetchall()
        parts = conn.execute('SELECT * FROM part WHERE job_id = %s ORDER BY batch_no, part_index', [job_id]).fetchall()
        events = conn.execute(
            'SELECT event_key, sent_at FROM outbox WHERE job_id = %s ORDER BY event_key', [job_id]
        ).fetchall()
    return [job, batches, parts, events]


def event_keys(pool: schema.Pool, job_id: UUID, kind: str) -> list[str]:
    with pool.connection() as conn:
        found = conn.execute('SELECT event_key FROM outbox WHERE job_id = %s AND type = %s', [job_id, kind]).fetchall()
    return [row[0] for row in found]


def assert_completed_once(deployment: Deployment, pool: schema.Pool, job_id: UUID, *, documents: int = 24) -> None:
    """The whole list: state, pages and their order, one result, one event, invariants, replay."""
    assert wait_until_ended(pool, job_id) == 'completed', rows(pool, job_id)[0]
    assert document_numbers(download(deployment, job_id)) == list(range(documents))
    assert_recorded_once(deployment, pool, job_id, pages=documents)


def download(deployment: Deployment, job_id: UUID) -> bytes:
    with deployment.client() as client:
        target = io.BytesIO()
        client.download(str(job_id), target)
    return target.getvalue()


def assert_recorded_once(deployment: Deployment, pool: schema.Pool, job_id: UUID, *, pages: int) -> None:
    """One result, one event, invariants, and a replay that changes nothing."""
    assert len(event_keys(pool, job_id, 'job-completed')) == 1
    with pool.connection() as conn:
        check_invariants(conn)
        job = schema.get_job(conn, job_id)
    assert job is not None
    assert job.page_count == pages
    assert job.result_bytes == len(download(deployment, job_id))
    replay_every_message(deployment, pool, job_id)


def replay_every_message(deployment: Deployment, pool: schema.Pool, job_id: UUID) -> None:
    """Send every hint of the job three times more, let them be consumed, and compare."""
    settings = load_settings(redis_url=deployment.env['FANFOLD_REDIS_URL'])
    broker = make_broker(settings)
    until(lambda: unsent(pool) == 0, 'the events to be consumed')
    before = rows(pool, job_id)
    with pool.connection() as conn:
        parts = schema.list_parts(conn, job_id, after=None, limit=10_000)
    left_by_the_dead = queue_length(broker)
    for _ in range(3):
        for part in parts:
            key = part.key
            send_hint(broker, kind=part.kind, job_id=key.job_id, batch_no=key.batch_no, part_index=key.part_index)
    until(lambda: queue_length(broker) <= left_by_the_dead, 'the replayed messages to be consumed')
    assert rows(pool, job_id) == before
    broker.close()


def queue_length(broker: Any) -> int:
    """Messages waiting, being worked on, or taken by a process that was killed."""
    client = broker.client
    waiting = sum(client.llen(f'fanfold:{queue}') for queue in (RENDER_QUEUE, ASSEMBLE_QUEUE))
    unacknowledged = sum(client.scard(key) for key in client.scan_iter('fanfold:__acks__.*'))
    return int(waiting + unacknowledged)


def unsent(pool: schema.Pool) -> int:
    with pool.connection() as conn:
        return int(conn.execute('SELECT count(*) FROM outbox WHERE sent_at IS NULL').fetchone()[0])  # type: ignore[index]
