"""One API for all tests of this folder, over a database and a bucket that are emptied for each.

Tests whose subject is a process, a setting or a server that is away start their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
import structlog

import schema
from runtime.settings import Settings, load_settings
from runtime.storage import Storage
from tests.api.jobs import Jobs
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
