"""One API for all tests of this folder, over a database and a bucket that are emptied for each.

Tests whose subject is a process, a setting or a server that is away start their own.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import structlog

import schema
from api.intake import Prepared, prepare
from runtime.settings import Settings, load_settings
from runtime.storage import Storage
from tests.api.jobs import Jobs
from tests.api.preparing import JSON, multipart
from tests.api.serving import client_of, serving
from tests.conftest import with_database
from tests.servers import ObjectStore


@pytest.fixture(scope='package', autouse=True)
def logs_go_to_pytest() -> Iterator[None]:
    """Lines that the server's threads write reach the test's report, not the terminal."""
    structlog.configure(
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
    )
    yield
    structlog.reset_defaults()


@pytest.fixture(scope='session')
def shared_settings(
    postgres_url: str, migrated_template: str, redis_url: str, object_store: ObjectStore
) -> Iterator[Settings]:
    """Settings of one service for the whole folder; nothing in it needs a Redis database of its own."""
    name = f'fanfold_test_api_{secrets.token_hex(4)}'
    settings = load_settings(
        database_url=with_database(postgres_url, name),
        redis_url=redis_url,
        s3_bucket=name.replace('_', '-'),
        max_unfinished_jobs=100,
        **object_store.settings,
    )
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE {name} TEMPLATE {migrated_template}')
        storage = Storage(settings)
        storage.ensure_bucket(retention_days=1)
        try:
            yield settings
        finally:
            storage.delete([found.key for found in storage.keys('')])
            conn.execute(f'DROP DATABASE {name} WITH (FORCE)')


@pytest.fixture(scope='session')
def shared_api(shared_settings: Settings) -> Iterator[str]:
    with serving(shared_settings) as url:
        yield url


@pytest.fixture(scope='session')
def shared_client(shared_api: str) -> Iterator[httpx.Client]:
    with client_of(shared_api) as client:
        yield client


@pytest.fixture(scope='session')
def storage(shared_settings: Settings) -> Storage:
    return Storage(shared_settings)


@pytest.fixture(scope='session')
def shared_pool(shared_settings: Settings) -> Iterator[schema.Pool]:
    with schema.open_pool(shared_settings.database_url, max_size=4, name='test') as pool:
        yield pool


@pytest.fixture
def api(shared_client: httpx.Client, shared_pool: schema.Pool) -> httpx.Client:
    """A client of an API without jobs."""
    with shared_pool.connection() as conn:
        for table in ('job', 'outbox', 'processed_event'):
            conn.execute(f'DELETE FROM {table}')
    return shared_client


@pytest.fixture
def jobs(api: httpx.Client, shared_pool: schema.Pool, storage: Storage, tmp_path: Path) -> Jobs:
    """Jobs in every state, brought there without workers."""
    return Jobs(api=api, pool=shared_pool, storage=storage, folder=tmp_path)


@pytest.fixture
def intake_settings() -> Settings:
    return load_settings(max_files=5, max_documents=4, max_records=6, max_deadline=100, max_expires_in=1_000)


@pytest.fixture
def submit(intake_settings: Settings, tmp_path: Path) -> Callable[..., Prepared]:
    """Prepare a job from its JSON, as JSON or, with files, as multipart."""

    def submit(job: Any = None, files: dict[str, bytes] | None = None, body: bytes | None = None) -> Prepared:
        if body is None and files is None:
            body = json.dumps(job).encode()
        if body is not None:
            return prepare(io.BytesIO(body), JSON, intake_settings, tmp_path)
        form, content_type = multipart(job, files or {})
        return prepare(io.BytesIO(form), content_type, intake_settings, tmp_path)

    return submit
