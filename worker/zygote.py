"""The zygote as its owner sees it: runs functions in forked children that may be killed, and says how each ended.

A Zygote belongs to one worker process and owns the process that forks (`zygote_main`), which it starts again
should it die. One thread talks to that process and to all children, and kills those that are past their wall
deadline, which begins anew with each position a child reports. A forking process that leaves an order unanswered
is killed, and takes its children along. Each child has a folder of its own, which is removed when the child has
ended, however it ended. Nothing outlives the owner, not even after SIGKILL.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from runtime.logs import get_logger
from runtime.scratch import ScratchFolder
from worker.child import REQUEST_FILE
from worker.children import BROKEN, LOOK_SECONDS, Child, Reason
from worker.environment import environment
from worker.outcomes import ZygoteUnavailable
from worker.requests import ChildRequest, Request

__all__ = ['Zygote', 'ZygoteUnavailable']

#: how long `start` waits for the forking process
START_PATIENCE_SECONDS: Final = 60.0
STOP_PATIENCE_SECONDS: Final = 5.0
#: a forking process that has not answered an order for so long is stuck
ANSWER_PATIENCE_SECONDS: Final = 5.0
#: a zygote that does not start so many times in a row is broken
STARTS_TRIED: Final = 2
PAYLOAD_FILE: Final = 'payload.json'
NOT_STARTED: Final = 'the zygote did not start; what it printed says why'
log = get_logger(__name__)


class Zygote:
    """Starts children. `preload` (module:function) is called before anything is forked. Thread-safe.

    Where there is a `payload` (JSON), preload gets it and may take `patience` seconds; what it returns is `warmed`.
    The forking process and its children have no network, unless `network` is set. `on_broken` is told why, in the
    zygote's thread, when it cannot start children and will not recover.
    """

    def __init__(
        self,
        *,
        scratch: Path,
        preload: str,
        payload: dict[str, Any] | None = None,
        patience: float = START_PATIENCE_SECONDS,
        network: bool = False,
        on_broken: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_broken = on_broken
        self._patience_to_start = patience
        self._network = network
        self._scratch = ScratchFolder(scratch, prefix='zygote-')
        self._folder = self._scratch.path
        self._preload = preload
        self._payload: Path | None = None
        if payload is not None:
            self._payload = self._folder / PAYLOAD_FILE
            self._payload.write_text(json.dumps(payload))
        self._numbers = 0
        self._lock = threading.Lock()
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = threading.Event()
        self._failed_starts = 0
        self._spawned_at = 0.0
        self._warmed: dict[str, Any] = {}
        self._waiting: deque[Child] = deque()
        self._running: dict[int, Child] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name='zygote', daemon=True)
        self._thread.start()

    def start(self, request: ChildRequest | Request) -> Child:
        """Fork a child for the request. Raises ZygoteUnavailable, and OSError where the host has no space for it."""
        if not isinstance(request, ChildRequest):
            request = request.child_request()
        with self._lock:
            self._numbers += 1
            number = self._numbers
        folder = self._folder / str(number)
        try:
            folder.mkdir()
        except FileNotFoundError as error:
            if self._thread.is_alive():
                raise  # somebody removed the scratch folder
            raise ZygoteUnavailable('the zygote is closed') from error
        limits = {'memory_bytes': request.limits.memory_bytes, 'cpu_seconds': request.limits.cpu_seconds}
        (folder / REQUEST_FILE).write_text(json.dumps({'entry': request.entry, 'payload': request.payload, **limits}))
        child = Child(self, number, request, folder)
        self._post(lambda: self._accept(child))
        give_up = time.monotonic() + self._patience_to_start
        while not child._started.wait(LOOK_SECONDS if self._thread.is_alive() else 0):
            if not self._thread.is_alive() and not child._started.is_set():
                raise ZygoteUnavailable(BROKEN)
            if time.monotonic() > give_up:
                child.kill('draining')
                raise ZygoteUnavailable('the zygote did not answer')
        if child._unavailable is not None:
            raise ZygoteUnavailable(child._unavailable)
        return child

    @property
    def warmed(self) -> dict[str, Any]:
        """What `preload` returned, once it has. Raises ZygoteUnavailable."""
        give_up = time.monotonic() + self._patience_to_start
        while not self._ready.wait(0.05):
            failed = self._failed_starts > 0 and self._process is None
            if failed or not self._thread.is_alive() or time.monotonic() > give_up:
                raise ZygoteUnavailable(NOT_STARTED)
        return self._warmed

    def close(self) -> None:
        """Kill all children and the zygote, and remove all folders."""

        def close() -> None:
            self._closing = True

        if self._thread.is_alive():
            self._post(close)
            self._thread.join()
            os.close(self._wake)
            self._wake = -1  # whoever comes late must not write to a file that got its number
        self._scratch.remove()

    def _kill(self, child: Child, reason: Reason) -> None:
        def kill() -> None:
            if child not in self._waiting and child._number not in self._running:
                return
            child._ending.killed_for = child._ending.killed_for or reason
            if child in self._waiting:
                self._waiting.remove(child)
                self._finish(child)
            elif child._kill_deadline is None:
                child._kill_deadline = time.monotonic() + ANSWER_PATIENCE_SECONDS
                self._tell({'kill': child._number})

        self._post(kill)

    def _order(self, child: Child, order: dict[str, Any]) -> None:
        def send() -> None:
            if child._channel is not None:
                child._move_deadline()
                with contextlib.suppress(OSError):  # it is gone, as its end will say
                    child._channel.send(json.dumps(order).encode() + b'\n')

        self._post(send)

    def _post(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        with contextlib.suppress(OSError):  # closed
            os.eventfd_write(self._wake, 1)

    # what follows runs in the zygote's own thread

    def _run(self) -> None:
        try:
            self._spawn()
            while not self._closing:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._keep_deadlines()
        except Exception as error:
            log.exception('the zygote failed')
            self._on_broken(f'{BROKEN}: {type(error).__name__}: {error}')
        finally:
            self._stop()

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        for child in self._running.values():
            if child._deadline is not None and now >= child._deadline:
                child._deadline = None
                self._kill(child, 'deadline' if now >= child._last_deadline else 'wall-limit')
        if self._process is not None and any(now >= deadline for deadline in self._answers_due()):
            log.error('the zygote does not answer, so it is killed', pid=self._process.pid)
            self._process.kill()
            self._bury()

    def _answers_due(self) -> list[float]:
        """Until when the zygote must have answered: that it is ready, that a child is dead."""
        due = [child._kill_deadline for child in self._running.values() if child._kill_deadline is not None]
        return due if self._ready.is_set() else [*due, self._spawned_at + self._patience_to_start]

    def _patience(self) -> float | None:
        deadlines = [child._deadline for child in self._running.values() if child._deadline is not None]
        if self._process is not None:
            deadlines += self._answers_due()
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _woken(self) -> None:
        os.eventfd_read(self._wake)
        while self._commands:
            self._commands.popleft()()

    def _accept(self, child: Child) -> None:
        self._waiting.append(child)
        if self._process is None:
            self._spawn()
        elif self._ready.is_set():
            self._begin()

    def _spawn(self) -> None:
        # in this thread, which lives as long as the zygote: the process dies with the thread that started it
        self._spawned_at = time.monotonic()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_PATIENCE_SECONDS)  # a stuck zygote's socket fills up
        self._selector.register(self._control, selectors.EVENT_READ, self._hear)
        command = [
            sys.executable,
            '-P',
            '-m',
            'worker.zygote_main',
            str(theirs.fileno()),
            str(os.getpid()),
            self._preload,
            *([] if self._payload is None else ['--payload', str(self._payload)]),
            *(['--network'] if self._network else []),
        ]
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment(self._folder),
                start_new_session=True,
            )

    def _begin(self) -> None:
        """Hand the waiting requests to the zygote."""
        while self._waiting and self._control is not None:
            child = self._waiting.popleft()
            self._running[child._number] = child
            child._channel, theirs = socket.socketpair()
            child._channel.setblocking(False)
            self._selector.register(child._channel, selectors.EVENT_READ, lambda child=child: self._read(child))
            order = json.dumps({'start': child._number, 'folder': str(child._folder)}).encode()
            with theirs:
                self._send(order, theirs.fileno())

    def _tell(self, order: dict[str, Any]) -> None:
        if self._control is not None:
            self._send(json.dumps(order).encode())

    def _send(self, order: bytes, *descriptors: int) -> None:
        assert self._control is not None
        try:
            socket.send_fds(self._control, [order], descriptors)
        except TimeoutError:
            assert self._process is not None
            log.error('the zygote takes no orders, so it is killed', pid=self._process.pid)
            self._process.kill()
        except ConnectionError:
            return  # _hear learns of it

    def _hear(self) -> None:
        """A message of the zygote, or its end."""
        assert self._control is not None
        try:
            message = self._control.recv(65_536)
        except ConnectionError:
            message = b''
        if not message:
            self._bury()
            return
        said = json.loads(message)
        if 'ready' in said:
            self._warmed = said['ready']
            self._ready.set()
            self._failed_starts = 0
            self._begin()
        elif 'started' in said:
            child = self._running[said['started']]
            child.pid = said['pid']
            child._last_deadline = time.monotonic() + child._request.limits.total_seconds
            child._move_deadline()
            child._started.set()
        else:
            child = self._running[said['ended']]
            child._ending.exit_code = said.get('exit')
            child._ending.max_rss = said.get('max_rss', 0)
            if 'error' in said:  # it never was
                child._ending.last_word = {'died': 'host', 'detail': said['error']}
            self._read(child)
            self._finish(child)

    def _bury(self) -> None:
        """The zygote is gone, and its children with it."""
        was_ready = self._ready.is_set()
        self._ready.clear()
        self._dismiss()
        for child in list(self._running.values()):
            child._ending.error = 'the zygote died'
            self._read(child)
            self._finish(child)
        if was_ready:
            log.warning('zygote died, starting another')
            self._spawn()
            return
        self._failed_starts += 1
        log.error(NOT_STARTED)
        if self._failed_starts >= STARTS_TRIED:
            self._on_broken(NOT_STARTED)
        elif self._warmed:  # it did start once, so it is tried again without waiting for a request
            self._spawn()
            return
        for child in self._waiting:
            child._unavailable = NOT_STARTED
            self._finish(child)
        self._waiting.clear()

    def _dismiss(self) -> None:
        """End the zygote, if need be by force."""
        if self._control is not None:
            self._selector.unregister(self._control)
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(STOP_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel holds on to it
                    self._process.wait(STOP_PATIENCE_SECONDS)
            self._process = None

    def _read(self, child: Child) -> None:
        """Take in what a child says."""
        if child._channel is not None and not child._read():
            self._hang_up(child)

    def _hang_up(self, child: Child) -> None:
        if child._channel is not None:
            self._selector.unregister(child._channel)
            child._channel.close()
            child._channel = None

    def _finish(self, child: Child) -> None:
        """A child is gone: clear up after it."""
        self._running.pop(child._number, None)
        self._hang_up(child)
        if printed := child.printed():
            child._context.run(log.warning, 'output of a child', pid=child.pid, text=printed)
        child._settle()
        shutil.rmtree(child._folder, ignore_errors=True)

    def _stop(self) -> None:
        self._dismiss()
        for child in [*self._running.values(), *self._waiting]:
            child._unavailable = 'the zygote is closed'
            child._ending.error = 'the zygote was closed'
            self._finish(child)
        self._selector.close()
