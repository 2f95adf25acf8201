"""Presses of a worker: shared, bounded, and gone when nobody needs them. Each is a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest

from renderer.numbering import first_entries
from renderer.press import Press
from renderer.pressroom import JobPress, PressRoom, private_bytes
from schema import ClaimedPart, PartKey
from tests.crash.deployment import until
from tests.renderer.long_document import LIMITS, html
from worker.holding import Held

Room = Callable[..., PressRoom]


@pytest.fixture
def room() -> Iterator[Room]:
    rooms = []

    def make(**limits: Any) -> PressRoom:
        rooms.append(PressRoom(**{'most': 2, 'idle_seconds': 600.0, 'memory_bytes': 2**40, **limits}))
        return rooms[-1]

    yield make
    for made in rooms:
        made.close()


@pytest.fixture
def opened(tmp_path: Path) -> list[Press]:
    return []


@pytest.fixture
def open_press(tmp_path: Path, opened: list[Press]) -> Callable[[ExitStack], Press]:
    def open_press(stack: ExitStack) -> Press:
        press = Press(
            scratch=tmp_path / str(uuid4()),
            opener='tests.renderer.long_document:open_text',
            given={'html': html()},
            limits=LIMITS,
        )
        opened.append(press)
        return press

    return open_press


def held(job_id: UUID, window: int) -> Held:
    claimed = ClaimedPart(
        key=PartKey(job_id=job_id, batch_no=1, part_index=window), kind='layout', lease_epoch=1, generation=0,
        attempts=0, losses=0, part_spec={}, failure=None, job_spec={}, failure_policy='fail', run=1,
        deadline_at=datetime.now(UTC), time_left=timedelta(hours=1),
    )  # fmt: skip
    return Held(claimed=claimed)


def lay_out(press: JobPress, job_id: UUID, window: int) -> int:
    """Lay a window out; the process that it is parked in."""
    prepared = press.prepared()
    with press.window(window, prepared.seams, held(job_id, window)) as pressed:
        pressed.lay_out(first_entries(prepared.first, prepared.seams)[window], furnish=False)
        assert pressed.pid
        return pressed.pid


def test_all_who_ask_at_once_share_one_press(room, open_press, opened):
    shared, job_id, together = room(), uuid4(), threading.Barrier(4)

    def ask(_: int) -> tuple[JobPress, int]:
        together.wait(timeout=60)
        with shared.press(job_id, open_press) as press:
            return press, len(press.prepared().seams)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, range(4)))
    assert len(opened) == 1
    assert len({id(press) for press, _ in found}) == 1


def test_the_press_that_is_idle_longest_leaves_when_there_are_too_many(room, open_press, opened):
    small, jobs = room(most=1), [uuid4(), uuid4()]
    with small.press(jobs[0], open_press) as first:
        pid = lay_out(first, jobs[0], 1)
    with small.press(jobs[1], open_press):
        until(lambda: not psutil.pid_exists(pid), 'the first press to leave')
    with small.press(jobs[0], open_press) as again:
        assert again is not first
    assert len(opened) == 3


def test_a_press_in_use_does_not_leave(room, open_press, opened):
    small, jobs = room(most=1), [uuid4(), uuid4()]
    with small.press(jobs[0], open_press) as first, small.press(jobs[1], open_press):
        assert lay_out(first, jobs[0], 0)
    assert len(opened) == 2


def test_an_idle_press_leaves_after_a_while_with_all_its_windows(room, open_press):
    quick, job_id = room(idle_seconds=0.01), uuid4()
    with quick.press(job_id, open_press) as press:
        pids = [lay_out(press, job_id, window) for window in (0, 1)]
    until(lambda: not any(map(psutil.pid_exists, pids)), 'the press to leave')


def test_the_window_that_waits_longest_leaves_for_memory(room, open_press):
    probe, job_id = room(), uuid4()
    with probe.press(job_id, open_press) as press:
        pids = [lay_out(press, job_id, window) for window in (0, 1, 2)]
    taken = [window.bytes for window in press.parked()]
    assert all(taken)
    assert sum(taken) < 2**30, 'what is prepared is shared'
    probe._memory_bytes = sum(taken) - 1
    with probe.press(job_id, open_press):
        pass
    until(lambda: not psutil.pid_exists(pids[0]), 'the first window to leave')
    assert all(map(psutil.pid_exists, pids[1:]))


def test_a_part_that_is_no_longer_ours_takes_its_child_with_it(room, open_press):
    shared, job_id = room(), uuid4()
    with shared.press(job_id, open_press) as press:
        prepared, part = press.prepared(), held(job_id, 0)
        with press.window(0, prepared.seams, part) as pressed:
            pressed.lay_out(first_entries(prepared.first, prepared.seams)[0], furnish=False)
            pid = pressed.pid
            part.lost.set()
            until(lambda: not psutil.pid_exists(pid), 'the child to be ended')


def test_all_is_gone_when_the_room_is_closed(open_press):
    room, job_id = PressRoom(most=2, idle_seconds=600, memory_bytes=2**40), uuid4()
    with room.press(job_id, open_press) as press:
        pid = lay_out(press, job_id, 0)
    room.close()
    until(lambda: not psutil.pid_exists(pid), 'the child to end with its press')


def test_a_process_that_has_ended_holds_no_memory():
    assert private_bytes(None) == 0
    assert private_bytes(2**22 + 1) == 0
