"""The press: runs functions in forked children that may be killed, and says how each of them ended.

A Press belongs to one worker process and owns a zygote, which it starts again should it die. One thread of
the press talks to the zygote and to all children, and kills those that are past their wall deadline. Each
child has a folder of its own, which the press removes when the child has ended, however it ended. Nothing
outlives the process that owns the press, not even after SIGKILL.
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
from typing import Any, Final, Literal

from renderer.child import LOG_FILE, REQUEST_FILE
from renderer.outcomes import ChildOutcome, Died, Ending, Painted, Refused, judge
from renderer.requests import ChildRequest, Limits, RenderRequest, Request
from runtime.errors import Retryable
from runtime.logs import get_logger
from runtime.scratch import ScratchFolder

__all__ = [
    'Child', 'ChildOutcome', 'ChildRequest', 'Died', 'Limits', 'Painted', 'Press', 'PressUnavailable', 'Reason',
    'Refused', 'RenderRequest',
]  # fmt: skip

Reason = Literal['lease-lost', 'wall-limit', 'memory-limit', 'draining']

#: how long `start` waits for a zygote
START_PATIENCE_SECONDS: Final = 60.0
STOP_PATIENCE_SECONDS: Final = 5.0
NOT_STARTED: Final = 'the zygote did not start; what it printed says why'
#: what a child prints that goes to the log, from its end
LOGGED_BYTES: Final = 4_096
#: all that children get from the environment; no settings, no secrets
PASSED_ON: Final = frozenset({
    'PATH', 'HOME', 'USER', 'LANG', 'LANGUAGE', 'TZ', 'LD_LIBRARY_PATH', 'PYTHONPATH', 'VIRTUAL_ENV',
    'SOURCE_DATE_EPOCH', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_DATA_DIRS',
})  # fmt: skip
PASSED_ON_PREFIXES: Final = ('LC_', 'FONTCONFIG_', 'PANGO')

log = get_logger(__name__)


class PressUnavailable(Retryable):
    """No zygote could be started, or the press is closed."""


class Child:
    """One request being served. Thread-safe."""

    def __init__(self, press: Press, number: int, request: ChildRequest, folder: Path) -> None:
        self._press = press
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
        self.pid = 0
        self.position: tuple[int, int | None] | None = None

    def kill(self, reason: Reason) -> None:
        """Kill the child with all it may have started. The first reason given is the one it died of."""
        self._press._kill(self, reason)

    def wait(self, timeout: float | None = None) -> ChildOutcome | None:
        """How the child ended; None if it has not within the timeout."""
        self._ended.wait(timeout)
        return self._outcome


class Press:
    """Starts children. `preload` is called in the zygote before it forks anything. Thread-safe."""

    def __init__(self, *, scratch: Path, preload: str = 'renderer.paint:preload') -> None:
        self._scratch = ScratchFolder(scratch, prefix='press-')
        self._folder = self._scratch.path
        self._preload = preload
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
        self._warmed: dict[str, Any] = {}
        self._waiting: deque[Child] = deque()
        self._running: dict[int, Child] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name='press', daemon=True)
        self._thread.start()

    def start(self, request: ChildRequest | Request) -> Child:
        """Fork a child for the request. Raises PressUnavailable."""
        if not isinstance(request, ChildRequest):
            request = request.child_request()
        with self._lock:
            self._numbers += 1
            number = self._numbers
        folder = self._folder / str(number)
        try:
            folder.mkdir()
        except FileNotFoundError as error:
            raise PressUnavailable('the press is closed') from error
        limits = {'memory_bytes': request.limits.memory_bytes, 'cpu_seconds': request.limits.cpu_seconds}
        (folder / REQUEST_FILE).write_text(json.dumps({'entry': request.entry, 'payload': request.payload, **limits}))
        child = Child(self, number, request, folder)
        self._post(lambda: self._accept(child))
        if not child._started.wait(START_PATIENCE_SECONDS if self._thread.is_alive() else 0):
            child.kill('draining')
            raise PressUnavailable('the zygote did not answer')
        if child._unavailable is not None:
            raise PressUnavailable(child._unavailable)
        return child

    @property
    def fingerprint(self) -> str:
        """`renderer.runs.fingerprint()` as the zygote computed it. Raises PressUnavailable."""
        give_up = time.monotonic() + START_PATIENCE_SECONDS
        while not self._ready.wait(0.05):
            if self._failed_starts or time.monotonic() > give_up:
                raise PressUnavailable(NOT_STARTED)
        return str(self._warmed['fingerprint'])

    def close(self) -> None:
        """Kill all children and the zygote, and remove all folders."""

        def close() -> None:
            self._closing = True

        if self._thread.is_alive():
            self._post(close)
            self._thread.join()
            os.close(self._wake)
            self._scratch.remove()

    def _kill(self, child: Child, reason: Reason) -> None:
        def kill() -> None:
            if child._ended.is_set():
                return
            child._ending.killed_for = child._ending.killed_for or reason
            if child in self._waiting:
                self._waiting.remove(child)
                self._finish(child)
            else:
                self._tell({'kill': child._number})

        self._post(kill)

    def _post(self, command: Callable[[], None]) -> None:
        self._commands.append(command)
        with contextlib.suppress(OSError):  # closed
            os.eventfd_write(self._wake, 1)

    # what follows runs in the press's own thread

    def _run(self) -> None:
        try:
            self._spawn()
            while not self._closing:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._keep_deadlines()
        except Exception:
            log.exception('the press failed')
            raise
        finally:
            self._stop()

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        for child in self._running.values():
            if child._deadline is not None and now >= child._deadline:
                child._deadline = None
                self._kill(child, 'wall-limit')

    def _patience(self) -> float | None:
        deadlines = [child._deadline for child in self._running.values() if child._deadline is not None]
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
        # in this thread, which lives as long as the press: the zygote dies with the thread that started it
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, '-P', '-m', 'renderer.zygote', str(theirs.fileno()), str(os.getpid()), self._preload]
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_environment(self._folder),
                start_new_session=True,
            )
        self._selector.register(self._control, selectors.EVENT_READ, self._hear)

    def _begin(self) -> None:
        """Hand the waiting requests to the zygote."""
        while self._waiting and self._control is not None:
            child = self._waiting.popleft()
            self._running[child._number] = child
            child._channel, theirs = socket.socketpair()
            child._channel.setblocking(False)
            self._selector.register(child._channel, selectors.EVENT_READ, lambda child=child: self._read(child))
            order = json.dumps({'start': child._number, 'folder': str(child._folder)}).encode()
            with theirs, contextlib.suppress(ConnectionError):  # _hear learns of it
                socket.send_fds(self._control, [order], [theirs.fileno()])

    def _tell(self, order: dict[str, Any]) -> None:
        if self._control is not None:
            with contextlib.suppress(ConnectionError):
                self._control.send(json.dumps(order).encode())

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
            child._deadline = time.monotonic() + child._request.limits.wall_seconds
            child._started.set()
        else:
            child = self._running[said['ended']]
            child._ending.exit_code = said.get('exit')
            child._ending.max_rss = said.get('max_rss', 0)
            child._ending.error = said.get('error')
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
                self._process.wait()
            self._process = None

    def _read(self, child: Child) -> None:
        """Take in what a child says."""
        if child._channel is None:
            return
        while True:
            try:
                data = child._channel.recv(262_144)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b''
            if not data:
                self._selector.unregister(child._channel)
                child._channel.close()
                child._channel = None
                return
            *lines, child._unread = (child._unread + data).split(b'\n')
            for line in lines:
                said = json.loads(line)
                if 'at' in said:
                    child.position = tuple(said['at']) if isinstance(said['at'], list) else said['at']
                else:
                    child._ending.last_word = said

    def _finish(self, child: Child) -> None:
        """Settle how a child ended and clear up after it."""
        self._running.pop(child._number, None)
        if child._channel is not None:
            self._selector.unregister(child._channel)
            child._channel.close()
            child._channel = None
        printed = _printed(child._folder)
        outcome = judge(child._ending, position=child.position, output=child._request.output, printed=printed)
        if printed:
            log.warning('output of a child', pid=child.pid, text=printed)
        shutil.rmtree(child._folder, ignore_errors=True)
        child._outcome = outcome
        child._ended.set()
        child._started.set()

    def _stop(self) -> None:
        self._dismiss()
        for child in [*self._running.values(), *self._waiting]:
            child._unavailable = 'the press is closed'
            child._ending.error = 'the press was closed'
            self._finish(child)
        self._selector.close()


def _printed(folder: Path) -> str:
    """The end of what a child printed."""
    try:
        with (folder / LOG_FILE).open('rb') as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOGGED_BYTES))
            return file.read().decode(errors='replace').strip()
    except FileNotFoundError:
        return ''


def _environment(folder: Path) -> dict[str, str]:
    passed = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    here = str(Path(__file__).resolve().parent.parent)
    passed['PYTHONPATH'] = os.pathsep.join(filter(None, [here, passed.get('PYTHONPATH')]))
    passed['TMPDIR'] = str(folder)
    return passed
