"""An empty database, a pool on it, and the isolation levels.

The tests of this folder are many and small: they share one copy of the migrated template, emptied for
each, where others get a copy each.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection, IsolationLevel, sql
from psycopg.rows import TupleRow

import schema
from tests.conftest import with_database
from tests.invariants import check_invariants


@pytest.fixture(scope='session')
def shared_database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    name = sql.Identifier(f'fanfold_test_schema_{secrets.token_hex(4)}')
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL('CREATE DATABASE {} TEMPLATE {}').format(name, sql.Identifier(migrated_template)))
        # No test here pulls the plug of the server: what a commit costs need not be paid thousands of times.
        conn.execute(sql.SQL('ALTER DATABASE {} SET synchronous_commit = off').format(name))
    try:
        yield with_database(postgres_url, name.as_string().strip('"'))
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as conn:
            conn.execute(sql.SQL('DROP DATABASE IF EXISTS {} WITH (FORCE)').format(name))


@pytest.fixture
def database_url(shared_database_url: str) -> str:
    with psycopg.connect(shared_database_url, autocommit=True) as conn:
        conn.execute('TRUNCATE job, batch, part, outbox, processed_event')
    return shared_database_url


@pytest.fixture
def pool(database_url: str) -> Iterator[schema.Pool]:
    """Connections as the service opens them. The invariants are checked when the test has passed."""
    with schema.open_pool(database_url, max_size=16, name='test') as pool:
        yield pool
        with pool.connection() as conn:
            check_invariants(conn)


@pytest.fixture
def conn(pool: schema.Pool) -> Iterator[Connection[TupleRow]]:
    """A connection on which every call is a transaction of its own."""
    with pool.connection() as conn:
        yield conn


@pytest.fixture(params=[level for level in IsolationLevel if level is not IsolationLevel.READ_UNCOMMITTED])
def any_isolation(request: pytest.FixtureRequest) -> IsolationLevel:
    return request.param
