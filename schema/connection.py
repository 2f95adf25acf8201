"""Connections: the pool, the one way to run a transaction, and what counts as "the database is away".

Isolation is pinned to READ COMMITTED. A transaction that meets a serialization failure or a deadlock
is run again from its start, so a function passed to `transact` has no other effect than its SQL.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from psycopg import Connection, IsolationLevel, OperationalError
from psycopg.errors import DeadlockDetected, SerializationFailure

from schema.pool import FrankPool, PatientConnection

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

P = ParamSpec('P')
T = TypeVar('T')
Pool: TypeAlias = FrankPool

#: what is raised when the database is away, or gives up on a statement for reasons of its own
Unavailable: Final = (OperationalError,)
#: how often a transaction is run again after a conflict
CONFLICTS_BORNE: Final = 50
#: a process that stops in the middle of a transaction must not keep its locks; no statement of ours takes a minute
SESSION_OPTIONS: Final = (
    '-c idle_in_transaction_session_timeout=10s -c lock_timeout=30s -c statement_timeout=60s -c timezone=UTC'
)


def open_pool(
    url: str,
    *,
    min_size: int = 1,
    max_size: int = 4,
    name: str = 'fanfold',
    timeout: float = 5.0,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Pool:
    """A pool that connects in the background: it opens also while the database is away.

    Taking a connection then raises one of Unavailable after `timeout` seconds, which says why.
    Connections are checked when taken, so that a restarted server is met by fresh ones; a server
    that falls silent is waited for no longer than schema.pool says. `name` shows in pg_stat_activity.
    """

    def configure(conn: PatientConnection) -> None:
        conn.isolation_level = isolation

    return FrankPool(
        url,
        kwargs={
            'autocommit': True,
            'application_name': name,
            'connect_timeout': 5,
            'options': SESSION_OPTIONS,
        },
        min_size=min_size,
        max_size=max(min_size, max_size),
        name=name,
        timeout=timeout,
        # Giving up soon lets the next caller start a new attempt at once, instead of waiting out a back-off.
        reconnect_timeout=2.0,
        configure=configure,
        open=True,
    )


def transact(
    pool: Pool,
    fn: Callable[Concatenate[Connection[TupleRow], P], T],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `fn(conn, …)` in one transaction; again after a serialization failure or deadlock. Raises Unavailable."""
    conflicts = 0
    while True:
        try:
            with pool.connection() as conn, conn.transaction():
                return fn(conn, *args, **kwargs)
        except (SerializationFailure, DeadlockDetected):
            conflicts += 1
            if conflicts > CONFLICTS_BORNE:
                raise
        time.sleep(random.uniform(0, min(0.002 * 2**conflicts, 0.05)))


def ping(conn: Connection[Any]) -> None:
    """One round trip. Raises Unavailable."""
    conn.execute('SELECT 1')
