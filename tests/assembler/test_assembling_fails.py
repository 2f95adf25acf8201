"""An assembly that cannot go on: limits, a store that is away or contradicts itself, a full disk."""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from assembler.relay import Relay
from assembler.worker import Assembler
from runtime.errors import ObjectExists, StorageUnavailable
from runtime.storage import Storage
from schema import PartKey
from tests.assembler.conftest import Start
from tests.assembler.documents import attachment
from tests.assembler.given import job, part_at
from tests.assembler.painted import Press

Conn = Connection[TupleRow]


def test_a_merge_that_takes_for_ever_fails_the_job_with_the_reason(
    conn: Conn, press: Press, start: Start, frozen_child: threading.Semaphore
) -> None:
    key = press.painted(2)
    assembler = start(child_wall_seconds=0.2, part_attempts=2)

    assert fail_twice(conn, assembler, key)['type'] == 'urn:fanfold:wall-limit'


def test_a_merge_that_takes_all_memory_fails_the_job_with_the_reason(conn: Conn, press: Press, start: Start) -> None:
    press.bundle(0, attachments=[attachment('big', os.urandom(16_000_000))])
    key = press.painted(2)
    assembler = start(child_memory_bytes=4_000_000, part_attempts=2)

    assert fail_twice(conn, assembler, key)['type'] == 'urn:fanfold:memory-limit'


def fail_twice(conn: Conn, assembler: Assembler, key: PartKey) -> dict[str, Any]:
    for _ in range(2):
        assert part_at(conn, key).status == 'pending'
        assembler.work(key)
        conn.execute("UPDATE part SET next_attempt_at = now() WHERE status = 'pending'")
    failure = job(conn, key).failure
    assert failure is not None
    assert failure['attempts'] == 2
    return failure


def test_an_outage_of_the_storage_is_a_loss_and_no_attempt(
    conn: Conn, press: Press, start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)

    def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable('gone')

    monkeypatch.setattr(storage, 'fetch', away)
    start().work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses, part.lease_expires_at) == ('pending', 0, 1, None)


def test_an_upload_that_went_through_unheard_is_taken_as_ours(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)
    original = storage.put_new

    def twice(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        original(*args, **kwargs)

    monkeypatch.setattr(storage, 'put_new', twice)
    start().work(key)
    relay.tick()

    assert job(conn, key).status == 'completed'


def test_a_result_that_is_there_for_a_put_and_missing_for_a_head_is_put_again(
    conn: Conn, press: Press, start: Start, relay: Relay, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)
    original = storage.put_new
    refused: list[str] = []

    def contradict(name: str, *args: Any, **kwargs: Any) -> None:
        if not refused:
            refused.append(name)
            raise ObjectExists(name)
        original(name, *args, **kwargs)

    monkeypatch.setattr(storage, 'put_new', contradict)
    start().work(key)
    relay.tick()

    assert refused
    assert job(conn, key).status == 'completed'


def test_a_store_that_goes_on_contradicting_itself_is_an_outage(
    conn: Conn, press: Press, start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)

    def exists(name: str, *_: Any, **__: Any) -> None:
        raise ObjectExists(name)

    monkeypatch.setattr(storage, 'put_new', exists)
    start().work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses) == ('pending', 0, 1)


def test_a_disk_that_is_full_is_a_loss_and_no_attempt(
    conn: Conn, press: Press, start: Start, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = press.painted(2)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(storage, 'fetch', full)
    start().work(key)

    part = part_at(conn, key)
    assert (part.status, part.attempts, part.losses) == ('pending', 0, 1)
    assert part.failure is not None
    assert part.failure['type'] == 'urn:fanfold:host-failed'


def test_an_assembler_whose_press_has_failed_takes_nothing_more(conn: Conn, press: Press, start: Start) -> None:
    key = press.painted(2)
    assembler = start()
    unfit = threading.Event()
    assembler.fitness.watch(unfit.set)

    assembler._zygote._post(lambda: 1 / 0)

    assert unfit.wait(30)
    assembler.work(key)
    assert part_at(conn, key).lease_epoch == 0
