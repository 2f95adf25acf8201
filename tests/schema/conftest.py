"""A pool on a fresh database, and one for each isolation level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import Connection, IsolationLevel
from psycopg.rows import TupleRow

import schema
from tests.invariants import check_invariants


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
