"""Many workers, every message delivered several times, in any order: each part counts once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection, IsolationLevel

import schema
from runtime.errors import JobEnded
from schema import Completion, Failed, PartKey
from tests.invariants import check_invariants
from tests.schema.given import (
    HOUR,
    LEASE,
    completed,
    event_keys,
    failed,
    leases_expired,
    painting,
    plan_key,
    relay,
    status,
    submitted,
    worked_off,
)

Conn = Connection[Any]
WORKERS = 12
TABLES = ('job', 'batch', 'part', 'outbox', 'processed_event')


@pytest.fixture
def pool(database_url: str, any_isolation: IsolationLevel) -> Iterator[schema.Pool]:
    with schema.open_pool(database_url, max_size=WORKERS, isolation=any_isolation, timeout=60) as pool:
        yield pool


def deliver(messages: list[PartKey], work: Callable[[PartKey], Any]) -> list[Any]:
    """Every message one to five times, shuffled, to many workers that start together."""
    chance = random.Random(len(messages))
    deliveries = [key for key in messages for _ in range(chance.randint(1, 5))]
    chance.shuffle(deliveries)
    barrier = threading.Barrier(WORKERS)
    piles = [deliveries[number::WORKERS] for number in range(WORKERS)]

    def worker(pile: list[PartKey]) -> list[Any]:
        barrier.wait()
        return [work(key) for key in pile]

    with ThreadPoolExecutor(WORKERS) as threads:
        return [answer for answers in threads.map(worker, piles) for answer in answers]


def everything(conn: Conn) -> dict[str, list[Any]]:
    return {table: conn.execute(f'SELECT * FROM {table} ORDER BY 1, 2, 3'.encode()).fetchall() for table in TABLES[:4]}


def test_redelivered_parts_count_once(pool: schema.Pool) -> None:
    keys = schema.transact(pool, painting, 60)

    outcomes = Counter(deliver(keys, lambda key: schema.transact(pool, completed, key)))

    assert outcomes[Completion.LAST] == 1
    assert outcomes[Completion.COUNTED] == 59
    assert set(outcomes) == {Completion.LAST, Completion.COUNTED, Completion.DUPLICATE}
    with pool.connection() as conn:
        assert event_keys(conn, keys[0]) == ['batch-completed:0', 'batch-completed:1']
        check_invariants(conn)
        before = everything(conn)
        deliver(keys, lambda key: schema.transact(pool, completed, key))
        assert everything(conn) == before, 'replaying every message changes nothing'


def test_redelivered_parts_are_worked_once_while_somebody_has_them(pool: schema.Pool) -> None:
    keys = schema.transact(pool, painting, 40)

    def work(key: PartKey) -> schema.ClaimedPart | None:
        return schema.transact(pool, schema.claim_part, key, owner=threading.current_thread().name, lease=LEASE)

    claims = Counter(part.key for part in deliver(keys, work) if part)

    assert claims == dict.fromkeys(keys, 1)


@pytest.mark.parametrize('policy', ['fail', 'partial'])
def test_failures_among_redelivered_parts_are_charged_once(pool: schema.Pool, policy: schema.FailurePolicy) -> None:
    keys = schema.transact(pool, painting, 30, policy)
    doomed = set(keys[::10])

    def work(key: PartKey) -> object:
        part = schema.transact(pool, schema.claim_part, key, owner='worker', lease=LEASE)
        if part is None:
            return None
        if key not in doomed:
            return schema.transact(pool, completed, key)
        return schema.transact(pool, failed, key, part.lease_epoch, permanent=True)

    outcomes = Counter(deliver(keys, work))

    with pool.connection() as conn:
        check_invariants(conn)
        if policy == 'fail':
            assert outcomes[Failed.JOB_FAILED] == 1
            assert status(conn, keys[0])[2] == 'failed'
        else:
            assert outcomes[Failed.PART_FAILED] + outcomes[Failed.LAST] == len(doomed)
            assert outcomes[Completion.LAST] + outcomes[Failed.LAST] == 1
            assert len(schema.painted_parts(conn, keys[0].job_id)) == 27


def test_everything_at_once_keeps_the_invariants(pool: schema.Pool) -> None:
    """Workers, relays, clients and reconcilers on the same few jobs; then all that is left runs to its end."""
    with pool.connection() as conn:
        keys = [key for policy in ('fail', 'partial') for _ in range(3) for key in painting(conn, 8, policy)]
        plans = [plan_key(submitted(conn)) for _ in range(3)]
        deadlocks = count_deadlocks(conn)

    deliver(keys + plans, lambda key: one_thing(pool, key, random.Random(f'{key.part_index} {threading.get_ident()}')))

    with pool.connection() as conn:
        check_invariants(conn)
        assert count_deadlocks(conn) == deadlocks
        conn.execute('UPDATE part SET next_attempt_at = clock_timestamp()')
        leases_expired(
            conn, limit=1_000, losses_allowed=99, retry_after=lambda losses: timedelta(hours=-9), now=later()
        )
        worked_off(conn)
        check_invariants(conn)
        assert schema.count_unfinished(conn, 'default') == 0


def count_deadlocks(conn: Conn) -> int:
    row = conn.execute('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()').fetchone()
    assert row is not None
    return int(row[0])


def later() -> datetime:
    return datetime.now(UTC) + HOUR / 2


def at_once(losses: int) -> timedelta:
    return timedelta()


def one_thing(pool: schema.Pool, key: PartKey, chance: random.Random) -> None:
    """Work the part, with a chance of something else coming in between."""
    part = schema.transact(pool, schema.claim_part, key, owner='worker', lease=LEASE)
    between: list[Callable[[Conn], Any]] = [
        lambda conn: schema.cancel_job(conn, key.job_id),
        lambda conn: schema.retry_job(conn, key.job_id),
        lambda conn: schema.repair_remaining(conn, 10),
        lambda conn: schema.mark_dispatched(conn, [key]),
        lambda conn: schema.fail_overdue_jobs(conn, 1, now=later() + HOUR),
        relay,
        relay,
        relay,
    ]
    if chance.random() < 0.3:
        try:
            schema.transact(pool, chance.choice(between))
        except JobEnded:
            raise AssertionError('a relay that has begun an advance holds the job') from None
    if chance.random() < 0.05:
        for lease in schema.transact(pool, schema.expired_leases, 3, later()):
            schema.transact(pool, schema.expire_lease, lease, losses_allowed=5, retry_after=at_once, now=later())
    if part is None or chance.random() < 0.6:
        schema.transact(pool, completed, key)
        return
    permanent = chance.random() < 0.1
    schema.transact(pool, failed, key, part.lease_epoch, permanent=permanent)
