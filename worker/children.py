"""A child of the zygote, as whoever started it sees it; and what it says, as the zygote's thread takes it in."""

from __future__ import annotations

import contextlib
import contextvars
import json
import math
import os
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Literal

from worker.child import LOG_FILE
from worker.outcomes import ChildOutcome, Died, Ending, judge

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from worker.requests import ChildRequest
    from worker.zygote import Zygote

Reason = Literal['lease-lost', 'wall-limit', 'memory-limit', 'draining', 'deadline']

BROKEN: Final = 'the zygote has failed'
#: how often who waits for a child looks whether the zygote still lives
LOOK_SECONDS: Final = 1.0
#: what a child prints that goes to the log, from its end
LOGGED_BYTES: Final = 4_096
CHUNK: Final = 262_144


class Child:
    """One request being served. Thread-safe."""

    def __init__(self, zygote: Zygote, number: int, request: ChildRequest, folder: Path) -> None:
        self._zygote = zygote
        self._number = number
        self._request = request
        self._folder = folder
        self._ending = Ending(limits=request.limits)
        self._started = threading.Event()
        self._ended = threading.Event()
        self._outcome: ChildOutcome | None = None
        self._unavailable: str | None = None
        self._channel: socket.socket | None = None
        self._unread = b''
        self._deadline: float | None = None
        self._last_deadline = 0.0
        self._kill_deadline: float | None = None
        #: what it said while it waits for orders; None once it has ended
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._orders = 0
        self._context = contextvars.copy_context()  # the ids in the log of whoever started it
        self.pid = 0
        self.position: tuple[int, int | None] | None = None

    def ask(self, order: Any) -> None:
        """Give an order (JSON) to a child that waits for orders. Its wall and CPU limits begin anew."""
        self._orders += 1
        path = self._folder / f'order-{self._orders}.json'
        with contextlib.suppress(FileNotFoundError):  # it has ended, and its folder is gone
            path.write_text(json.dumps(order))
        self._zygote._order(self, {'order': str(path)})

    def answer(self, timeout: float | None = None) -> Any:
        """What the child says to an order (JSON); None if it has ended instead, as `wait` tells. One at a time.

        Raises TimeoutError if it has done neither within the timeout.
        """
        give_up = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, min(LOOK_SECONDS, give_up - time.monotonic())))
                if answer is None:
                    self._answers.put(None)  # it has ended for whoever asks next, too
                return answer
            except queue.Empty:
                if not self._zygote._thread.is_alive():
                    return None
                if time.monotonic() >= give_up:
                    raise TimeoutError from None

    def kill(self, reason: Reason) -> None:
        """Kill the child with all it may have started. The first reason given is the one it died of."""
        self._zygote._kill(self, reason)

    def wait(self, timeout: float | None = None) -> ChildOutcome | None:
        """How the child ended; None if it has not within the timeout."""
        give_up = math.inf if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(max(0.0, min(LOOK_SECONDS, give_up - time.monotonic()))):
            if not self._zygote._thread.is_alive() and not self._ended.is_set():
                return Died(reason='zygote-died', signal=None, position=self.position, detail=BROKEN, max_rss=0)
            if time.monotonic() >= give_up:
                return None
        return self._outcome

    def printed(self) -> str:
        """The end of what it printed so far."""
        try:
            with (self._folder / LOG_FILE).open('rb') as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOGGED_BYTES))
                return file.read().decode(errors='replace').strip()
        except FileNotFoundError:
            return ''

    # what follows is called in the zygote's own thread

    def _move_deadline(self) -> None:
        """What comes next has the whole wall limit to itself."""
        if self._kill_deadline is None:
            limit = time.monotonic() + self._request.limits.wall_seconds
            self._deadline = min(limit, self._last_deadline)

    def _read(self) -> bool:
        """Take in what it says; False at the end of that."""
        assert self._channel is not None
        while True:
            try:
                data = self._channel.recv(CHUNK)
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            if not data:
                return False
            *lines, self._unread = (self._unread + data).split(b'\n')
            for line in lines:
                self._hear(json.loads(line))

    def _hear(self, said: dict[str, Any]) -> None:
        if 'at' in said:
            self.position = tuple(said['at']) if isinstance(said['at'], list) else said['at']
            if self._deadline is not None:
                self._move_deadline()
        elif 'said' in said:
            self._deadline = None  # it waits for an order, as long as it takes
            self._answers.put(said['said'])
        else:
            self._ending.last_word = said
            if 'done' in said:  # whoever waits for it need not wait for its exit
                self._settle()

    def _settle(self) -> None:
        """Say how it ended, once."""
        if self._ended.is_set():
            return
        self._outcome = judge(self._ending, position=self.position, output=self._request.output, printed=self.printed())
        self._ended.set()
        self._answers.put(None)
        self._started.set()
