"""Connections, transactions, and a database that is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection, IsolationLevel
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation

import schema
from fanfold.stack.ports import free_ports
from tests.schema.given import HOUR, plan_key, submitted

Conn = Connection[Any]


def test_transactions_are_read_committed(pool: schema.Pool) -> None:
    def isolation(conn: Conn) -> Any:
        return conn.execute('SHOW transaction_isolation').fetchone()

    assert schema.transact(pool, isolation) == ('read committed',)


def test_a_transaction_that_raises_leaves_nothing(pool: schema.Pool) -> None:
    def submit_and_stumble(conn: Conn) -> None:
        submitted(conn)
        raise LookupError

    with pytest.raises(LookupError):
        schema.transact(pool, submit_and_stumble)
    with pool.connection() as conn:
        assert schema.list_jobs(conn, limit=1) == []


@pytest.mark.parametrize('conflict', [SerializationFailure, DeadlockDetected])
def test_a_conflict_runs_the_transaction_again(pool: schema.Pool, conflict: type[Exception]) -> None:
    attempts: list[int] = []

    def conflicted_twice(conn: Conn, answer: str, *, more: str) -> str:
        attempts.append(1)
        submitted(conn)
        if len(attempts) < 3:
            raise conflict
        return answer + more

    assert schema.transact(pool, conflicted_twice, 'a', more='b') == 'ab'
    with pool.connection() as conn:
        assert len(schema.list_jobs(conn, limit=9)) == 1


def test_a_conflict_for_ever_is_raised(pool: schema.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('schema.connection.CONFLICTS_BORNE', 2)

    def conflicted(conn: Conn) -> None:
        raise SerializationFailure

    with pytest.raises(schema.Unavailable):
        schema.transact(pool, conflicted)


def test_a_real_deadlock_is_survived(pool: schema.Pool) -> None:
    with pool.connection() as conn:
        jobs = [submitted(conn).id for _ in range(2)]
    barrier = threading.Barrier(2, timeout=20)
    attempts: list[int] = []

    def lock_both(conn: Conn, order: list[Any]) -> None:
        attempts.append(1)
        for number, job_id in enumerate(order):
            conn.execute('SELECT FROM job WHERE id = %s FOR UPDATE', [job_id])
            if number == 0 and len(attempts) <= 2:
                barrier.wait()

    threads = [threading.Thread(target=schema.transact, args=[pool, lock_both, order]) for order in (jobs, jobs[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(attempts) >= 3, 'who was turned away may be faster than who waits, and meet it once more'


def test_an_error_of_the_schema_is_not_the_database_being_away(pool: schema.Pool) -> None:
    with pool.connection() as conn:
        job = submitted(conn)

    with pytest.raises(UniqueViolation) as caught:
        schema.transact(pool, submitted, id=job.id)
    assert not isinstance(caught.value, schema.Unavailable)


@pytest.fixture
def pool_without_server() -> Iterator[schema.Pool]:
    url = f'postgresql://nobody@127.0.0.1:{free_ports(1)[0]}/nothing'
    with schema.open_pool(url, timeout=0.3) as pool:
        yield pool


def test_a_pool_opens_while_the_database_is_away(pool_without_server: schema.Pool) -> None:
    with pytest.raises(schema.Unavailable):
        schema.transact(pool_without_server, schema.ping)


def test_a_pool_replaces_connections_that_the_server_closed(pool: schema.Pool, database_url: str) -> None:
    with pool.connection() as conn:
        pid = conn.info.backend_pid
    with psycopg.connect(database_url, autocommit=True) as killer:
        killer.execute('SELECT pg_terminate_backend(%s, 5000)', [pid])

    assert schema.transact(pool, submitted).status == 'queued'


def test_a_connection_lost_in_a_transaction_is_the_database_being_away(pool: schema.Pool, database_url: str) -> None:
    def cut_off(conn: Conn) -> None:
        submitted(conn)
        with psycopg.connect(database_url, autocommit=True) as killer:
            killer.execute('SELECT pg_terminate_backend(%s, 5000)', [conn.info.backend_pid])
        submitted(conn)

    with pytest.raises(schema.Unavailable):
        schema.transact(pool, cut_off)
    with pool.connection() as conn:
        assert schema.list_jobs(conn, limit=1) == []


def test_functions_of_many_statements_are_whole_without_a_transaction_of_the_callers(conn: Conn) -> None:
    """Each is a transaction of its own on an idle connection, and a savepoint inside another."""
    job = submitted(conn)
    schema.claim_part(conn, plan_key(job), owner='me', lease=HOUR)

    with conn.transaction(force_rollback=True):
        schema.cancel_job(conn, job.id)
        assert schema.get_job(conn, job.id) != job

    assert schema.get_job(conn, job.id) == job


def test_isolation_can_be_chosen(database_url: str) -> None:
    with schema.open_pool(database_url, isolation=IsolationLevel.SERIALIZABLE) as pool:

        def isolation(conn: Conn) -> Any:
            return conn.execute('SHOW transaction_isolation').fetchone()

        assert schema.transact(pool, isolation) == ('serializable',)
