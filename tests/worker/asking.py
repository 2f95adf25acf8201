"""Asking a zygote for children, and waiting for what becomes of them."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from worker.children import Child
from worker.requests import ChildRequest, Limits

PATIENCE = 20.0
MIB = 1 << 20
PRELOAD = 'tests.worker.entries:warm'


def request(entry: str, *, memory_mib: int = 300, cpu: float = 10, wall: float = 15, **payload: Any) -> ChildRequest:
    limits = Limits(memory_bytes=memory_mib * MIB, cpu_seconds=cpu, wall_seconds=wall)
    payload = payload.get('payload', payload)
    return ChildRequest(entry=f'tests.worker.entries:{entry}', payload=payload, limits=limits)


def ended(child: Child) -> Any:
    outcome = child.wait(PATIENCE)
    assert outcome is not None
    return outcome


def wait_until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    give_up = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up
        pause.wait(0.01)


def wait_until_gone(pid: int) -> None:
    """Until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], PATIENCE)[0]
    finally:
        os.close(descriptor)
