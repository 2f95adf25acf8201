from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

import schema
from assembler.dispatcher import Dispatcher
from assembler.reconciler import Reconciler
from assembler.relay import Relay
from assembler.sweeper import Sweeper
from assembler.worker import start_assembling
from runtime.broker import make_broker
from runtime.nudge import Nudger
from runtime.settings import Settings
from runtime.storage import Storage
from schema import PartKey
from tests.assembler.conftest import Start
from tests.assembler.documents import outline, texts
from tests.assembler.given import event_keys, job, part_at
from tests.assembler.painted import PAGES, Press

Conn = Connection[TupleRow]


def download(storage: Storage, conn: Conn, key: PartKey, path: Path) -> Path:
    """The job's result, which must have the recorded checksum."""
    done = job(conn, key)
    assert done.result_key is not None
    assert done.result_sha256 is not None
    storage.fetch(done.result_key, path, sha256=done.result_sha256)
    assert path.stat().st_size == done.result_bytes
    return path


def test_painted_parts_become_the_result(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path
) -> None:
    key = press.painted(3)

    start().work(key)
    relay.tick()

    done = job(conn, key)
    assert (done.status, done.page_count, done.result_key) == ('completed', 9, f'jobs/{key.job_id}/result/2-1.pdf')
    assert done.result is not None
    assert done.result['missing'] == []
    assert done.result['warnings'] == ['odd', '0', '1', '2']
    assert done.result['timing']['finished_at'] > done.result['timing']['started_at']
    path = download(storage, conn, key, tmp_path / 'result.pdf')
    assert texts(path) == [text for index in range(3) for text in texts(press.pdf(index))]
    with pikepdf.open(path) as pdf:
        assert str(pdf.docinfo.Title) == 'The job'
        assert len(outline(pdf)) == 9
    assert event_keys(conn, key)[-1] == 'job-completed'


def test_a_job_of_one_part_is_that_part(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path
) -> None:
    key = press.painted(1)

    start().work(key)
    relay.tick()

    path = download(storage, conn, key, tmp_path / 'result.pdf')
    assert texts(path) == texts(press.pdf(0))


def test_a_redelivered_hint_assembles_once(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage
) -> None:
    key = press.painted(2)
    assembler = start()

    for _ in range(3):
        assembler.work(key)
        relay.tick()

    assert part_at(conn, key).lease_epoch == 1
    assert [item.key for item in storage.keys(f'jobs/{key.job_id}/result/')] == [job(conn, key).result_key]


@pytest.mark.parametrize('damage', ['missing', 'truncated', 'foreign'])
def test_a_damaged_part_is_painted_again_and_the_job_completes(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path, damage: str
) -> None:
    key = press.painted(3)
    spoil(storage, f'jobs/{key.job_id}/parts/1', damage)
    assembler = start()

    assembler.work(key)
    relay.tick()

    assert part_at(conn, key).result == {'repair': [1]}
    again = part_at(conn, PartKey(job_id=key.job_id, batch_no=3, part_index=1))
    assert again.generation == 1
    press.paint(again.key, generation=1)
    relay.tick()
    assembler.work(PartKey(job_id=key.job_id, batch_no=4, part_index=0))
    relay.tick()
    assert job(conn, key).status == 'completed'
    path = download(storage, conn, key, tmp_path / 'result.pdf')
    assert texts(path) == [text for index in range(3) for text in texts(press.pdf(index))]


def spoil(storage: Storage, key: str, damage: str) -> None:
    if damage == 'missing':
        storage.delete([key])
        return
    content = b''.join(storage.open(key))
    spoiled = content[:-1] if damage == 'truncated' else b'%PDF-1.7 something else'
    storage._client.put_object(Bucket=storage.bucket, Key=key, Body=spoiled)


def test_parts_that_stay_damaged_fail_the_job_in_the_end(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage
) -> None:
    key = press.painted(2)
    assembler = start()
    for round in range(4):
        assembly = PartKey(job_id=key.job_id, batch_no=2 + 2 * round, part_index=0)
        suffix = f'.{round}' if round else ''
        spoil(storage, f'jobs/{key.job_id}/parts/0{suffix}', 'missing')
        assembler.work(assembly)
        relay.tick()
        if round < 3:
            press.paint(PartKey(job_id=key.job_id, batch_no=3 + 2 * round, part_index=0), generation=round + 1)
            relay.tick()

    failure = job(conn, key).failure
    assert failure is not None
    assert failure['type'] == 'urn:fanfold:part-object-damaged'
    assert failure['parts'] == [0]


def test_a_failed_part_is_a_page_that_says_so(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, tmp_path: Path
) -> None:
    key = press.painted(3, failing=[1], failure_policy='partial')

    start().work(key)
    relay.tick()

    done = job(conn, key)
    assert (done.status, done.page_count) == ('completed', 2 * PAGES + 1)
    assert done.result is not None
    why = {'type': 'urn:fanfold:memory-limit', 'detail': 'it needed too much memory'}
    assert done.result['missing'] == [{'document': 1, 'record': None, **why}]
    pages = texts(download(storage, conn, key, tmp_path / 'result.pdf'))
    assert pages[:PAGES] == texts(press.pdf(0))
    assert 'Missing: document 1' in pages[PAGES]
    assert pages[PAGES + 1 :] == texts(press.pdf(2))


class SlowStorage(Storage):
    """Tells when it has come to an upload, and waits with it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.arrived = threading.Event()
        self.go_on = threading.Event()

    def put_new(self, *args: Any, **kwargs: Any) -> None:
        self.arrived.set()
        assert self.go_on.wait(30)
        super().put_new(*args, **kwargs)


def test_two_assemblers_at_once_make_one_result(
    conn: Conn,
    pool: schema.Pool,
    press: Press,
    start: Start,
    relay: Relay,
    nudger: Nudger,
    settings: Settings,
    storage: Storage,
) -> None:
    key = press.painted(2)
    slow = SlowStorage(settings)
    zombie = threading.Thread(target=start(slow).work, args=[key])
    zombie.start()
    assert slow.arrived.wait(30)
    conn.execute("UPDATE part SET lease_expires_at = now() - interval '1 hour' WHERE lease_expires_at IS NOT NULL")
    Reconciler(pool, nudger, settings).tick()
    conn.execute('UPDATE part SET next_attempt_at = now()')

    start().work(key)
    relay.tick()
    slow.go_on.set()
    zombie.join(30)
    relay.tick()

    assert job(conn, key).result_key == f'jobs/{key.job_id}/result/2-2.pdf'
    assert event_keys(conn, key).count('job-completed') == 1
    assert len(storage.keys(f'jobs/{key.job_id}/result/')) == 2
    Sweeper(pool, storage, settings, grace=timedelta()).tick()
    assert [item.key for item in storage.keys(f'jobs/{key.job_id}/')] == [f'jobs/{key.job_id}/result/2-2.pdf']


def test_cancelling_kills_the_child_and_nothing_more_is_written(
    conn: Conn, press: Press, start: Start, storage: Storage, frozen_child: threading.Semaphore
) -> None:
    key = press.painted(2)
    work = threading.Thread(target=start(lease_seconds=1.0).work, args=[key])
    work.start()
    assert frozen_child.acquire(timeout=30)

    schema.cancel_job(conn, key.job_id)
    work.join(30)

    assert not work.is_alive()
    assert storage.keys(f'jobs/{key.job_id}/result/') == []
    assert part_at(conn, key).status == 'pending'
    assert (part_at(conn, key).attempts, part_at(conn, key).losses) == (0, 0)


def test_draining_gives_the_assembly_back_uncharged(
    conn: Conn, press: Press, start: Start, relay: Relay, frozen_child: threading.Semaphore
) -> None:
    key = press.painted(2)
    assembler = start()
    work = threading.Thread(target=assembler.work, args=[key])
    work.start()
    assert frozen_child.acquire(timeout=30)

    assembler.holder.drain(0.0)
    work.join(30)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses, part.lease_expires_at) == ('pending', 0, 0, None)


def test_two_jobs_are_assembled_at_the_same_time(
    conn: Conn,
    pool: schema.Pool,
    press: Press,
    start: Start,
    settings: Settings,
    frozen_child: threading.Semaphore,
) -> None:
    keys = [press.painted(2), press.painted(2)]
    assembler, broker = start(), make_broker(settings)
    worker = start_assembling(assembler, broker)
    try:
        Dispatcher(pool, broker, settings).tick()
        assert frozen_child.acquire(timeout=30)
        assert frozen_child.acquire(timeout=30)
        assert all(part_at(conn, key).lease_owner == assembler.owner for key in keys)
    finally:
        assembler.holder.drain(0.0)
        worker.stop()
        broker.close()
