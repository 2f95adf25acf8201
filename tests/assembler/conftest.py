from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

import schema
from assembler.relay import Relay
from assembler.worker import Assembler
from runtime.nudge import Nudger
from runtime.settings import Settings
from runtime.storage import Storage
from tests.assembler.painted import Press
from tests.invariants import check_invariants
from worker.children import Child
from worker.zygote import Zygote

Conn = Connection[TupleRow]
Start = Callable[..., Assembler]


@pytest.fixture
def pool(settings: Settings) -> Iterator[schema.Pool]:
    """The invariants are checked when the test has passed."""
    with schema.open_pool(settings.database_url, max_size=8, name='test') as pool:
        yield pool
        with pool.connection() as conn:
            check_invariants(conn)


@pytest.fixture
def conn(pool: schema.Pool) -> Iterator[Conn]:
    """A connection on which every call is a transaction of its own."""
    with pool.connection() as conn:
        yield conn


@pytest.fixture
def nudger(settings: Settings) -> Nudger:
    return Nudger(settings)


@pytest.fixture
def storage(settings: Settings) -> Storage:
    return Storage(settings)


@pytest.fixture
def relay(pool: schema.Pool, nudger: Nudger) -> Relay:
    return Relay(pool, nudger)


@pytest.fixture
def press(conn: Conn, storage: Storage, relay: Relay, tmp_path: Path) -> Press:
    return Press(conn, storage, relay, tmp_path)


@pytest.fixture
def start(settings: Settings, pool: schema.Pool, storage: Storage, nudger: Nudger, tmp_path: Path) -> Iterator[Start]:
    """Starts an assembler, with settings of its own."""
    started = []

    def start(storage: Storage = storage, **changes: Any) -> Assembler:
        own = settings.model_copy(update={'scratch_dir': tmp_path, **changes})
        started.append(Assembler(own, pool, storage, nudger))
        return started[-1]

    yield start
    for assembler in started:
        assembler.close()
    assert not list(tmp_path.glob('fanfold-assembler-*')), 'nothing is left on disk'


@pytest.fixture
def frozen_child(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Every child stops before it can do anything; each that has can be acquired."""
    original = Zygote.start
    stopped = threading.Semaphore(0)

    def start_frozen(press: Zygote, request: Any) -> Child:
        child = original(press, request)
        os.kill(child.pid, signal.SIGSTOP)
        stopped.release()
        return child

    monkeypatch.setattr(Zygote, 'start', start_frozen)
    return stopped
