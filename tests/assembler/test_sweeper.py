from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow
from uuid6 import uuid7

import schema
from assembler import sweeper as sweeper_module
from assembler.sweeper import Sweeper
from runtime.settings import Settings
from runtime.storage import Storage, sha256_of
from tests.assembler.given import claimed, completed, failed, plan_key, submitted

Conn = Connection[TupleRow]
KEPT = ['input.zip', 'parts/0', 'result/2-1.pdf']


@pytest.fixture
def sweeper(pool: schema.Pool, storage: Storage, settings: Settings) -> Sweeper:
    return Sweeper(pool, storage, settings, grace=timedelta())


@pytest.fixture
def upload(storage: Storage, tmp_path: Path):
    def put(*keys: str) -> None:
        path = tmp_path / 'object'
        path.write_bytes(b'content')
        for key in keys:
            storage.put_new(key, path, sha256=sha256_of(path), content_type='application/pdf')

    return put


def objects(job_id: UUID) -> list[str]:
    return [f'jobs/{job_id}/{name}' for name in ('input.zip', 'parts/0', 'result/2-1.pdf', 'result/2-2.pdf')]


def stored(storage: Storage, job_id: UUID) -> list[str]:
    prefix = f'jobs/{job_id}/'
    return [item.key.removeprefix(prefix) for item in storage.keys(prefix)]


def completed_job(conn: Conn) -> UUID:
    """A job whose result is `result/2-2.pdf`."""
    key = plan_key(submitted(conn))
    completed(conn, key, parts=[])
    conn.execute("UPDATE job SET status = 'rendering' WHERE id = %s", [key.job_id])
    schema.complete_job(
        conn,
        key.job_id,
        page_count=1,
        result_key=f'jobs/{key.job_id}/result/2-2.pdf',
        result_sha256='s',
        result_bytes=1,
        result={},
    )
    return key.job_id


def test_of_a_completed_job_only_the_result_stays(conn: Conn, sweeper: Sweeper, storage: Storage, upload) -> None:
    job_id = completed_job(conn)
    upload(*objects(job_id))

    sweeper.tick()

    assert stored(storage, job_id) == ['result/2-2.pdf']


def test_what_a_zombie_uploads_late_goes_too(conn: Conn, sweeper: Sweeper, storage: Storage, upload) -> None:
    job_id = completed_job(conn)
    upload(*objects(job_id))
    sweeper.tick()
    upload(f'jobs/{job_id}/parts/7', f'jobs/{job_id}/result/2-9.pdf')

    sweeper.tick()

    assert stored(storage, job_id) == ['result/2-2.pdf']
    assert sweeper.swept == 5


def test_unfinished_and_failed_jobs_keep_everything(conn: Conn, sweeper: Sweeper, storage: Storage, upload) -> None:
    running = plan_key(submitted(conn))
    broken = plan_key(submitted(conn))
    claimed(conn, broken)
    failed(conn, broken)
    for key in (running, broken):
        upload(*objects(key.job_id))

    sweeper.tick()

    assert len(stored(storage, running.job_id)) == len(stored(storage, broken.job_id)) == 4


def test_cancelled_and_expired_jobs_lose_everything(conn: Conn, sweeper: Sweeper, storage: Storage, upload) -> None:
    cancelled, expired = plan_key(submitted(conn)).job_id, completed_job(conn)
    schema.cancel_job(conn, cancelled)
    schema.delete_job(conn, expired)
    upload(*objects(cancelled), *objects(expired))

    sweeper.tick()

    assert stored(storage, cancelled) == stored(storage, expired) == []


def test_objects_stay_for_a_while_after_the_end(
    conn: Conn, pool: schema.Pool, settings: Settings, storage: Storage, upload
) -> None:
    job_id = completed_job(conn)
    upload(*objects(job_id))

    Sweeper(pool, storage, settings).tick()

    assert len(stored(storage, job_id)) == 4


def test_objects_without_a_job_go_once_they_are_old(
    pool: schema.Pool, settings: Settings, sweeper: Sweeper, storage: Storage, upload
) -> None:
    orphan = uuid7()
    upload(*objects(orphan))
    sweeper.tick()
    assert len(stored(storage, orphan)) == 4, 'a job is created after its input is uploaded'

    sweeper._settings = settings.model_copy(update={'orphan_grace_seconds': -60.0})
    sweeper.tick()

    assert stored(storage, orphan) == []


def test_what_does_not_look_like_ours_stays(sweeper: Sweeper, settings: Settings, storage: Storage, upload) -> None:
    sweeper._settings = settings.model_copy(update={'orphan_grace_seconds': -60.0})
    upload('jobs/README', 'elsewhere/x')

    sweeper.tick()

    assert [item.key for item in storage.keys('')] == ['elsewhere/x', 'jobs/README']


def test_a_bucket_of_many_pages_is_swept_page_by_page(
    conn: Conn, sweeper: Sweeper, storage: Storage, upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper_module, 'PAGE', 3)
    jobs = [completed_job(conn) for _ in range(3)]
    for job_id in jobs:
        upload(*objects(job_id))

    rounds = [sweeper.tick() for _ in range(5)]

    assert rounds == [True, True, True, True, False]
    assert [stored(storage, job_id) for job_id in jobs] == [['result/2-2.pdf']] * 3


def test_sent_events_and_expired_jobs_are_pruned_in_bounded_batches(
    conn: Conn, sweeper: Sweeper, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper_module, 'ROWS_AT_ONCE', 2)
    kept = plan_key(submitted(conn)).job_id
    gone = [plan_key(submitted(conn)).job_id for _ in range(5)]
    for job_id in gone:
        schema.delete_job(conn, job_id)
    conn.execute('UPDATE outbox SET sent_at = created_at')
    sweeper._settings = settings.model_copy(update={'event_retention_seconds': 0.0, 'expired_retention_seconds': 0.0})

    sweeper.tick()

    assert [job.id for job in schema.list_jobs(conn, limit=10)] == [kept]
    assert conn.execute('SELECT count(*) FROM outbox').fetchone() == (0,)


def test_abandoned_uploads_are_aborted(sweeper: Sweeper, settings: Settings, storage: Storage) -> None:
    key = f'jobs/{uuid7()}/result/1-1.pdf'
    storage._client.create_multipart_upload(Bucket=storage.bucket, Key=key)
    sweeper.tick()
    assert storage.abort_stale_uploads(before=datetime.now(UTC) - timedelta(hours=1)) == 0
    uploads = storage._client.list_multipart_uploads(Bucket=storage.bucket)
    assert len(uploads['Uploads']) == 1, 'it may still be under way'

    sweeper._settings = settings.model_copy(update={'orphan_grace_seconds': -60.0})
    sweeper.tick()

    assert 'Uploads' not in storage._client.list_multipart_uploads(Bucket=storage.bucket)
