from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

import schema
from runtime.nudge import Nudger
from runtime.settings import Settings
from runtime.storage import Storage
from tests.invariants import check_invariants


@pytest.fixture
def pool(settings: Settings) -> Iterator[schema.Pool]:
    """The invariants are checked when the test has passed."""
    with schema.open_pool(settings.database_url, max_size=8, name='test') as pool:
        yield pool
        with pool.connection() as conn:
            check_invariants(conn)


@pytest.fixture
def conn(pool: schema.Pool) -> Iterator[Connection[TupleRow]]:
    """A connection on which every call is a transaction of its own."""
    with pool.connection() as conn:
        yield conn


@pytest.fixture
def nudger(settings: Settings) -> Nudger:
    return Nudger(settings)


@pytest.fixture
def storage(settings: Settings) -> Storage:
    return Storage(settings)
