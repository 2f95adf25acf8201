from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker
from psycopg import Connection
from psycopg.rows import TupleRow
from uuid6 import uuid7

import schema
from assembler import dispatcher as dispatcher_module
from assembler.dispatcher import Dispatcher
from runtime.broker import ASSEMBLE_QUEUE, OWN_QUEUE_SECONDS, RENDER_QUEUE, host_key, make_broker, own_queue, send_hint
from runtime.errors import BrokerUnavailable
from runtime.settings import Settings
from schema import NewPart
from tests.assembler.given import claimed, completed, part_at, plan_key, running_parts, submitted

Conn = Connection[TupleRow]


@pytest.fixture
def broker(settings: Settings) -> Iterator[RedisBroker]:
    broker = make_broker(settings)
    yield broker
    broker.close()


@pytest.fixture
def dispatcher(pool: schema.Pool, broker: RedisBroker, settings: Settings) -> Dispatcher:
    return Dispatcher(pool, broker, settings)


def hints(broker: RedisBroker, queue: str = RENDER_QUEUE) -> list[tuple[object, ...]]:
    """What waits in a queue, read as a worker reads it."""
    broker.declare_queue(queue)
    consumer = broker.consume(queue, prefetch=1_000, timeout=20)
    found = []
    while (message := next(consumer)) is not None:
        found.append(message.args)
        consumer.ack(message)
    consumer.close()
    return found


def test_a_due_part_is_told_once_to_the_queue_of_its_kind(
    conn: Conn, dispatcher: Dispatcher, broker: RedisBroker
) -> None:
    plan = plan_key(submitted(conn))
    [assembly] = running_parts(conn, 1, kind='assemble')

    dispatcher.tick()
    dispatcher.tick()

    assert hints(broker) == [(str(plan.job_id), 0, 0)]
    assert hints(broker, ASSEMBLE_QUEUE) == [(str(assembly.job_id), assembly.batch_no, 0)]
    assert dispatcher.dispatched == Counter(plan=1, assemble=1)


def test_a_window_is_told_to_the_worker_that_holds_it_and_then_to_all(
    conn: Conn, broker: RedisBroker, pool: schema.Pool, settings: Settings
) -> None:
    dispatcher = Dispatcher(pool, broker, settings.model_copy(update={'resend_seconds': 1e-9}))
    job = submitted(conn)
    completed(conn, plan_key(job))
    schema.create_batch(conn, job.id, 'paint', [NewPart(part_index=0, spec={'host': 'vm-1'})], 'rendering')
    hint = (str(job.id), 1, 0)

    dispatcher.tick()
    assert 0 < broker.client.ttl('fanfold:render.vm-1') <= OWN_QUEUE_SECONDS, 'it may be gone'
    assert 0 < broker.client.ttl('fanfold:render.vm-1.msgs') <= OWN_QUEUE_SECONDS
    assert (hints(broker), hints(broker, own_queue('vm-1'))) == ([], [hint])

    dispatcher.tick()
    assert (hints(broker), hints(broker, own_queue('vm-1'))) == ([hint], [])


def test_consumers_of_a_process_take_no_more_than_its_threads_together(broker: RedisBroker) -> None:
    for index in range(3):
        for host in (None, 'vm-1'):
            send_hint(broker, kind='paint', job_id=uuid7(), batch_no=1, part_index=index, host=host)
    own = broker.consume(own_queue('vm-1'), prefetch=2, timeout=20)
    common = broker.consume(RENDER_QUEUE, prefetch=2, timeout=20)
    taken = [next(own), next(own)]
    assert all(taken)
    assert next(common) is None
    own.ack(taken[0])
    assert next(common) is not None


def test_a_name_of_a_process_makes_a_name_of_a_queue() -> None:
    assert own_queue(host_key('büro 7:4711:12')) == 'render.b-ro-7-4711-12'


def test_a_claimed_part_is_not_told(conn: Conn, dispatcher: Dispatcher, broker: RedisBroker) -> None:
    claimed(conn, plan_key(submitted(conn)))

    dispatcher.tick()

    assert hints(broker) == []


def test_a_large_job_does_not_starve_a_small_one(conn: Conn, dispatcher: Dispatcher, broker: RedisBroker) -> None:
    running_parts(conn, 5_000)
    small = plan_key(submitted(conn))

    dispatcher.tick()

    sent = hints(broker)
    assert len(sent) == dispatcher._settings.dispatch_window + 1
    assert (str(small.job_id), 0, 0) in sent[:2]


def test_many_large_jobs_of_a_tenant_do_not_bury_a_later_small_one(
    conn: Conn, dispatcher: Dispatcher, broker: RedisBroker
) -> None:
    large = [running_parts(conn, 16) for _ in range(100)]
    while dispatcher.tick():
        pass
    told = hints(broker)
    assert len(told) == dispatcher._settings.dispatch_total < 16 * len(large)
    small = plan_key(submitted(conn))
    dispatcher.tick()
    assert hints(broker) == [], 'the queue has enough'

    [done] = [key for keys in large for key in keys if (str(key.job_id), key.batch_no, key.part_index) == told[0]]
    claimed(conn, done)
    completed(conn, done)
    dispatcher.tick()

    assert hints(broker) == [(str(small.job_id), 0, 0)]


def test_a_part_that_nobody_claimed_is_told_again(conn: Conn, dispatcher: Dispatcher, broker: RedisBroker) -> None:
    key = plan_key(submitted(conn))
    dispatcher.tick()
    assert len(hints(broker)) == 1

    conn.execute("UPDATE part SET dispatched_at = dispatched_at - interval '1 minute'")
    dispatcher.tick()

    assert hints(broker) == [(str(key.job_id), 0, 0)]


def test_while_redis_is_away_parts_stay_due(
    conn: Conn, dispatcher: Dispatcher, broker: RedisBroker, pool: schema.Pool, settings: Settings
) -> None:
    key = plan_key(submitted(conn))
    away = make_broker(settings.model_copy(update={'redis_url': 'redis://127.0.0.1:1/0'}))
    with pytest.raises(BrokerUnavailable):
        Dispatcher(pool, away, settings).tick()
    assert part_at(conn, key).dispatched_at is None

    dispatcher.tick()

    assert len(hints(broker)) == 1


def test_what_was_sent_before_redis_went_away_is_not_sent_again(
    conn: Conn, dispatcher: Dispatcher, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = running_parts(conn, 3)
    original = dispatcher_module.send_hint
    sent = []

    def fail_at_the_third(*args: object, **hint: object) -> None:
        if len(sent) == 2:
            raise BrokerUnavailable('gone')
        sent.append(hint)
        original(*args, **hint)  # type: ignore[arg-type]

    monkeypatch.setattr(dispatcher_module, 'send_hint', fail_at_the_third)
    with pytest.raises(BrokerUnavailable):
        dispatcher.tick()
    monkeypatch.undo()
    dispatcher.tick()

    assert sorted(hints(broker)) == sorted((str(key.job_id), key.batch_no, key.part_index) for key in keys)


def test_a_queue_that_nobody_reads_is_not_filled_further(
    conn: Conn, dispatcher: Dispatcher, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, 'LONGEST_QUEUE', 3)
    running_parts(conn, 3)
    [assembly] = running_parts(conn, 1, kind='assemble')
    for _ in range(3):
        conn.execute("UPDATE part SET dispatched_at = dispatched_at - interval '1 minute'")
        dispatcher.tick()

    assert len(hints(broker)) == 3
    assert len(hints(broker, ASSEMBLE_QUEUE)) == 3, 'the other queue is not held up'
    assert part_at(conn, assembly).dispatched_at is not None


def test_the_hint_reaches_the_actor_that_works_its_kind(
    conn: Conn, dispatcher: Dispatcher, broker: RedisBroker
) -> None:
    key = plan_key(submitted(conn))
    received = []

    @dramatiq.actor(broker=broker, queue_name=RENDER_QUEUE, actor_name='work_part')
    def work_part(*args: object) -> None:
        received.append(args)

    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=1)
    worker.start()
    try:
        dispatcher.tick()
        broker.join(RENDER_QUEUE, timeout=10_000)
        worker.join()
    finally:
        worker.stop()

    assert received == [(str(key.job_id), 0, 0)]


def test_parts_wait_out_their_pause(conn: Conn, dispatcher: Dispatcher, broker: RedisBroker) -> None:
    key = plan_key(submitted(conn))
    claimed(conn, key)
    schema.fail_part(
        conn,
        key,
        epoch=1,
        failure={'type': 'x'},
        charge='attempt',
        attempts_allowed=3,
        losses_allowed=3,
        retry_after=timedelta(minutes=1),
    )

    dispatcher.tick()

    assert hints(broker) == []
