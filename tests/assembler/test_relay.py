from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

import schema
from assembler import relay as relay_module
from assembler.advance import next_step
from assembler.relay import ADVANCE_TRIES, CLAIM_LEASE, Relay, apply_step, read_progress
from runtime.nudge import NudgeListener, Nudger
from runtime.settings import Settings
from schema import Completion, Failed, PartKey
from tests.assembler.given import claimed, completed, event_keys, failed, part_at, plan_key, submitted

Conn = Connection[TupleRow]
PARTS = [{'first_item': 0, 'item_count': 1}, {'first_item': 1, 'item_count': 1}]
RESULT = {'key': 'result', 'sha256': 'abc', 'bytes': 100, 'pages': 2, 'missing': []}


@pytest.fixture
def relay(pool: schema.Pool, nudger: Nudger) -> Relay:
    return Relay(pool, nudger)


def planned(conn: Conn, relay: Relay, **changes: Any) -> PartKey:
    """A job whose plan is completed; the key is that of its plan."""
    key = plan_key(submitted(conn, **changes))
    completed(conn, key, parts=PARTS, items=2)
    return key


def at(key: PartKey, batch_no: int, index: int = 0) -> PartKey:
    return PartKey(job_id=key.job_id, batch_no=batch_no, part_index=index)


def assembled(conn: Conn, key: PartKey, pages: int = 2) -> None:
    schema.complete_part(
        conn, key, input_hash='h', result={**RESULT, 'pages': pages}, result_ref='result', result_sha256='abc'
    )


def batches(conn: Conn, key: PartKey) -> list[tuple[str, str, int]]:
    return [(batch.kind, batch.status, batch.total) for batch in schema.list_batches(conn, key.job_id)]


def job(conn: Conn, key: PartKey) -> schema.Job:
    found = schema.get_job(conn, key.job_id)
    assert found is not None
    return found


def test_a_job_goes_its_whole_way(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    relay.tick()
    assert job(conn, key).status == 'rendering'
    assert part_at(conn, at(key, 1, 1)).spec == PARTS[1]

    assert completed(conn, at(key, 1, 0)) is Completion.COUNTED
    relay.tick()
    assert len(batches(conn, key)) == 2, 'one part is still pending'

    assert completed(conn, at(key, 1, 1)) is Completion.LAST
    relay.tick()
    assert job(conn, key).status == 'assembling'

    assembled(conn, at(key, 2))
    relay.tick()
    done = job(conn, key)
    assert (done.status, done.page_count, done.result_key, done.result_sha256, done.result_bytes) == (
        'completed',
        2,
        'result',
        'abc',
        100,
    )
    assert event_keys(conn, key) == ['batch-completed:0', 'batch-completed:1', 'batch-completed:2', 'job-completed']
    relay.tick()
    assert schema.unsent_count(conn) == 0


def test_every_event_twice_changes_nothing(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    for _ in range(2):
        relay.tick()
        say_again(conn)
    for index in range(2):
        completed(conn, at(key, 1, index))
    for _ in range(2):
        relay.tick()
        say_again(conn)
    assembled(conn, at(key, 2))
    for _ in range(2):
        relay.tick()
        say_again(conn)
    relay.tick()

    assert batches(conn, key) == [('plan', 'completed', 1), ('paint', 'completed', 2), ('assemble', 'completed', 1)]
    assert event_keys(conn, key).count('job-completed') == 1


def say_again(conn: Conn) -> None:
    conn.execute('UPDATE outbox SET sent_at = NULL, claimed_until = NULL')


def test_many_relays_at_once_take_each_step_once(conn: Conn, pool: schema.Pool, nudger: Nudger) -> None:
    keys = [plan_key(submitted(conn)) for _ in range(10)]
    for key in keys:
        completed(conn, key, parts=PARTS)
    events = schema.claim_events(conn, limit=100, lease=CLAIM_LEASE)
    barrier = threading.Barrier(6)

    def advance_all() -> int:
        barrier.wait(10)
        moved = 0
        for event in events:
            step = next_step(schema.transact(pool, read_progress, event))
            moved += schema.transact(pool, apply_step, event, step)
        return moved

    with ThreadPoolExecutor(6) as threads:
        moved = [future.result() for future in [threads.submit(advance_all) for _ in range(6)]]

    assert sum(moved) == 10
    assert all(len(batches(conn, key)) == 2 for key in keys)


def test_an_event_whose_relay_died_is_taken_over(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    schema.claim_events(conn, limit=1, lease=timedelta(seconds=0))

    relay.tick()

    assert job(conn, key).status == 'rendering'


def test_a_cancelled_job_moves_no_further(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    schema.cancel_job(conn, key.job_id)

    relay.tick()

    assert job(conn, key).status == 'cancelled'
    assert batches(conn, key) == [('plan', 'completed', 1)]
    assert schema.unsent_count(conn) == 0


def test_an_empty_plan_fails_the_job(conn: Conn, relay: Relay) -> None:
    key = plan_key(submitted(conn))
    completed(conn, key, parts=[], items=0)

    relay.tick()

    failure = job(conn, key).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:nothing-to-print'


def test_partial_goes_on_without_a_failed_part(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay, failure_policy='partial')
    relay.tick()
    completed(conn, at(key, 1, 0))
    claimed(conn, at(key, 1, 1))
    assert failed(conn, at(key, 1, 1)) is Failed.LAST

    relay.tick()

    assert job(conn, key).status == 'assembling'


def test_partial_fails_where_nothing_was_painted(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay, failure_policy='partial')
    relay.tick()
    for index in range(2):
        claimed(conn, at(key, 1, index))
        failed(conn, at(key, 1, index))

    relay.tick()

    assert job(conn, key).status == 'failed'


def test_damaged_parts_are_repaired_and_assembled_again(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    relay.tick()
    for index in range(2):
        completed(conn, at(key, 1, index))
    relay.tick()
    completed(conn, at(key, 2), repair=[1])
    relay.tick()

    assert job(conn, key).status == 'rendering'
    repaired = part_at(conn, at(key, 3, 1))
    assert (repaired.generation, repaired.spec, repaired.status) == (1, PARTS[1], 'pending')
    completed(conn, repaired.key, pages=5)
    relay.tick()
    assert job(conn, key).status == 'assembling'
    assert [part.key.batch_no for part in schema.painted_parts(conn, key.job_id)] == [1, 3]
    assembled(conn, at(key, 4), pages=6)
    relay.tick()
    assert job(conn, key).status == 'completed'


def test_a_part_that_stays_damaged_fails_the_job_and_a_retry_tries_once_more(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    relay.tick()
    for index in range(2):
        completed(conn, at(key, 1, index))
    relay.tick()
    for batch_no in (2, 4, 6, 8):
        completed(conn, at(key, batch_no), repair=[0])
        relay.tick()
        if batch_no < 8:
            completed(conn, at(key, batch_no + 1, 0))
            relay.tick()
    failure = job(conn, key).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:part-object-damaged'

    schema.retry_job(conn, key.job_id)
    relay.tick()

    assert batches(conn, key)[-1] == ('paint', 'running', 1)


def test_an_advance_that_keeps_failing_fails_its_job_and_parks_the_event(
    conn: Conn, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, healthy = planned(conn, relay), planned(conn, relay)
    original = read_progress

    def stumble(conn: Conn, event: schema.Event) -> Any:
        if event.job_id == broken.job_id:
            raise RuntimeError('a bug')
        return original(conn, event)

    monkeypatch.setattr(relay_module, 'RETRY_BASE', timedelta())
    monkeypatch.setattr(relay_module, 'read_progress', stumble)
    relay.tick()

    assert job(conn, healthy).status == 'rendering'
    failure = job(conn, broken).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:advance-failed'
    assert 'a bug' in failure['detail']
    assert schema.get_gauges(conn).events_parked == 1
    relay.tick()
    assert schema.unsent_count(conn) == 0, 'its job-failed event was sent, the parked one does not wait'


def test_an_event_that_takes_its_relay_with_it_is_given_up_and_the_others_are_not_charged(
    conn: Conn, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, healthy = planned(conn, relay), planned(conn, relay)
    monkeypatch.setattr(relay_module, 'CLAIM_LEASE', timedelta())
    begun = []

    class Killed(BaseException):
        pass

    def kill(conn: Conn, event: schema.Event) -> Any:
        begun.append(event.job_id)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(relay_module, 'read_progress', kill)
        for _ in range(ADVANCE_TRIES):
            with pytest.raises(Killed):
                relay.tick()
        assert begun == [poison.job_id] * ADVANCE_TRIES
    relay.tick()

    failure = job(conn, poison).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:advance-failed'
    assert schema.get_gauges(conn).events_parked == 1
    assert job(conn, healthy).status == 'rendering'


def test_advance_reads_no_results_of_painting(conn: Conn, relay: Relay, pool: schema.Pool) -> None:
    key = planned(conn, relay)
    relay.tick()
    for index in range(2):
        completed(conn, at(key, 1, index), items=[[0, number, 1] for number in range(3)])
    [event] = [event for event in schema.claim_events(conn, limit=9, lease=CLAIM_LEASE) if event.job_id == key.job_id]

    progress = schema.transact(pool, read_progress, event)

    assert progress.ended == []
    assert [(part.index, part.items, part.missing) for part in progress.painting] == [(0, 3, 0), (1, 3, 0)]


def test_the_end_of_a_job_is_kept_as_an_event_until_it_is_pruned(conn: Conn, relay: Relay) -> None:
    key = planned(conn, relay)
    schema.cancel_job(conn, key.job_id)
    relay.tick()

    assert 'job-cancelled' in event_keys(conn, key)
    assert schema.unsent_count(conn) == 0


def test_others_are_nudged_once_the_step_is_there(conn: Conn, relay: Relay, settings: Settings) -> None:
    listener = NudgeListener(settings, 'parts', 'jobs')
    try:
        key = planned(conn, relay)
        while not listener.wait('parts', 0.2):  # until the listener has subscribed
            relay._nudger.nudge('parts')
        relay.tick()
        assert listener.wait('parts', 5)
        assert listener.wait('jobs', 5)
        assert part_at(conn, at(key, 1, 0)).status == 'pending'
    finally:
        listener.close()
