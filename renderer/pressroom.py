"""The presses of one worker: one for each long document in work, kept between its parts, bounded in number and memory.

A press is opened for the first part of its document that comes, and shared by all that come later. It leaves when
nobody has asked for it for a while, and before that when there are too many: the one that has been idle longest. Its
windows stay parked between layout and painting as long as they have room; beyond it those that have waited longest
leave. Whatever left is prepared and laid out again when it is needed: that costs time, never a page.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from renderer.press import Press, PressedWindow
from runtime.logs import get_logger
from worker.outcomes import ZygoteUnavailable

if TYPE_CHECKING:
    from renderer.press import Prepared
    from renderer.seams import Seam
    from worker.holding import Held

#: pause between two looks at what may leave
LOOK_SECONDS: Final = 1.0
#: a press whose windows are all painted leaves after this, should no more of them come
DONE_SECONDS: Final = 5.0

#: opens a press; what it puts on the stack is closed after the press
OpenPress = Callable[[ExitStack], Press]

log = get_logger(__name__)


class ParkedWindow:
    """A window of a press, used by one part at a time."""

    def __init__(self, pressed: PressedWindow) -> None:
        self.pressed = pressed
        self.lock = threading.Lock()
        #: who uses it
        self.held: Held | None = None
        self.parked_at = 0.0
        #: private memory of its child while it waits
        self.bytes = 0

    def measure(self) -> None:
        """To be called when its use is over."""
        self.parked_at = time.monotonic()
        self.bytes = private_bytes(self.pressed.pid)

    def leave(self) -> int:
        """Let its child go, and say how much memory that frees; 0 for one that is in use."""
        if not self.lock.acquire(blocking=False):
            return 0
        try:
            self.pressed.end()
            freed, self.bytes = self.bytes, 0
            return freed
        finally:
            self.lock.release()


class JobPress:
    """The press of one document, and its windows."""

    def __init__(self) -> None:
        self.users = 0
        self.last_used = time.monotonic()
        self._opening = threading.Lock()
        self._stack = ExitStack()
        self._press: Press | None = None
        self._windows: dict[int, ParkedWindow] = {}
        self._lock = threading.Lock()
        self._painted = False

    def prepared(self) -> Prepared:
        """Wait for the document. Raises Refusal, ZygoteUnavailable."""
        assert self._press is not None
        return self._press.prepared()

    @contextmanager
    def window(self, number: int, seams: Sequence[Seam], held: Held) -> Iterator[PressedWindow]:
        """A window of the document cut at these seams; its child is killed should the part no longer be ours."""
        assert self._press is not None
        with self._lock:
            if number not in self._windows:
                self._windows[number] = ParkedWindow(self._press.window(number, seams))
            window = self._windows[number]
        with window.lock:
            window.held = held
            held.on_lost = lambda _: window.pressed.end()
            try:
                yield window.pressed
            finally:
                held.on_lost = None
                window.held = None
                window.measure()
                if held.claimed.kind == 'paint':
                    self._painted = True

    def parked(self) -> list[ParkedWindow]:
        """Windows that hold memory while they wait."""
        with self._lock:
            return [window for window in self._windows.values() if window.bytes]

    def end_lost(self) -> None:
        """End windows of parts that are no longer ours: one may have been forked just as that became known."""
        with self._lock:
            for window in self._windows.values():
                if window.held is not None and window.held.gone:
                    window.pressed.end()

    def may_leave(self, idle_seconds: float) -> bool:
        idle = time.monotonic() - self.last_used
        done = self._painted and not self.parked()
        return not self.users and idle > (min(DONE_SECONDS, idle_seconds) if done else idle_seconds)

    def open(self, open_press: OpenPress) -> None:
        """Open the press if it is not. Raises what `open_press` does."""
        with self._opening:
            if self._press is None:
                self._press = open_press(self._stack)
                self._stack.callback(self._press.close)

    def close(self) -> None:
        with self._opening:
            self._stack.close()


class PressRoom:
    """Up to `most` presses beyond those in use, and so many bytes of parked windows. Thread-safe."""

    def __init__(self, *, most: int, idle_seconds: float, memory_bytes: int) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._memory_bytes = memory_bytes
        #: by job, the least recently used first
        self._presses: OrderedDict[UUID, JobPress] = OrderedDict()
        self._leaving: list[JobPress] = []
        self._lock = threading.Lock()
        self._look = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._keep_order, name='pressroom', daemon=True)
        self._thread.start()

    @contextmanager
    def press(self, job_id: UUID, open_press: OpenPress) -> Iterator[JobPress]:
        """The press of a job, for the length of the block. One that cannot be had is opened anew for the next."""
        with self._lock:
            press = self._presses.setdefault(job_id, JobPress())
            self._presses.move_to_end(job_id)
            press.users += 1
            self._make_room()
        try:
            press.open(open_press)
            yield press
        except ZygoteUnavailable:
            self.dismiss(press)
            raise
        finally:
            with self._lock:
                press.users -= 1
                press.last_used = time.monotonic()
            self._make_memory()
            self._look.set()

    def dismiss(self, press: JobPress) -> None:
        """Have a press closed, whoever uses it: for them it is lost. Does not wait for it."""
        with self._lock:
            for job_id, known in self._presses.items():
                if known is press:
                    del self._presses[job_id]
                    self._leaving.append(press)
                    break
        self._look.set()

    def dismiss_job(self, job_id: UUID) -> None:
        """The same for the press of a job, if there is one."""
        with self._lock:
            press = self._presses.get(job_id)
        if press is not None:
            self.dismiss(press)

    def close(self) -> None:
        """Close all presses."""
        with self._lock:
            self._stopping = True
            self._leaving += self._presses.values()
            self._presses.clear()
        self._look.set()
        self._thread.join()

    def _make_room(self) -> None:
        """Let the oldest idle presses leave. The caller holds the lock."""
        for job_id, press in list(self._presses.items())[: max(0, len(self._presses) - self._most)]:
            if not press.users:
                del self._presses[job_id]
                self._leaving.append(press)

    def _make_memory(self) -> None:
        """Let windows leave that have waited longest, until the rest have room."""
        with self._lock:
            presses = list(self._presses.values())
        parked = sorted((window for press in presses for window in press.parked()), key=lambda each: each.parked_at)
        used = sum(window.bytes for window in parked)
        for window in parked:
            if used <= self._memory_bytes:
                return
            if freed := window.leave():
                used -= freed
                log.info('a parked window left, for memory', parked_bytes=used)

    def _keep_order(self) -> None:
        stopping = False
        while not stopping:
            self._look.wait(LOOK_SECONDS)
            self._look.clear()
            stopping = self._stopping
            try:
                self._tidy()
            except Exception:  # the thread that lets presses go must outlive any surprise
                log.exception('presses not looked after')

    def _tidy(self) -> None:
        """Close what leaves."""
        with self._lock:
            for job_id, press in list(self._presses.items()):
                if press.may_leave(self._idle_seconds):
                    del self._presses[job_id]
                    self._leaving.append(press)
            leaving, self._leaving = self._leaving, []
            staying = list(self._presses.values())
        for press in leaving:
            press.close()
        for press in staying:
            press.end_lost()


def private_bytes(pid: int | None) -> int:
    """Memory that nobody shares with a process: what is free again once it has ended. 0 if it has, or is not ours."""
    try:
        rollup = Path(f'/proc/{pid}/smaps_rollup').read_text()
    except OSError:
        return 0
    lines = (line.split() for line in rollup.splitlines())
    return sum(int(words[1]) * 1024 for words in lines if words[0] in {'Private_Clean:', 'Private_Dirty:'})
