"""One program or task under the supervisor: the state it is in, and its transitions.

WAITING ─▶ STARTING ─▶ READY            READY, STARTING ─▶ BACKOFF ─▶ STARTING     (it ended by itself)
                   └─▶ DONE (a task)    any ─▶ STOPPING ─▶ STOPPED
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import IO

from fanfold.stack.output import LineBuffer, Output
from fanfold.stack.program import Program, Task
from fanfold.stack.spawn import output_of, spawn

FIRST_BACKOFF, LONGEST_BACKOFF = 0.05, 10.0
HEALTHY_AFTER = 10.0  # a program that ran this long, in seconds, starts again with the first back-off
CHUNK = 65_536


class State(enum.Enum):
    WAITING = 'waiting'
    STARTING = 'starting'
    READY = 'ready'
    BACKOFF = 'back-off'
    DONE = 'done'
    STOPPING = 'stopping'
    STOPPED = 'stopped'


class Unit:
    """Mutable, and only the supervisor's loop touches it."""

    def __init__(self, program: Program | Task, output: Output) -> None:
        self.program = program
        self.state = State.WAITING
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.due_at = 0.0
        self.failures = 0
        self.was_ready = False
        self.lines = LineBuffer()
        self._printer = output

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    @property
    def output(self) -> IO[bytes]:
        assert self.process is not None
        return output_of(self.process)

    @property
    def is_settled(self) -> bool:
        return self.state in {State.READY, State.DONE}

    def start(self, env: Mapping[str, str]) -> None:
        self.process = spawn(self.program, env)
        self.started_at = self.due_at = time.monotonic()
        self.lines = LineBuffer()
        self.state = State.STARTING

    def read(self) -> bool:
        """Print what the process has written; False at its end."""
        data = os.read(self.output.fileno(), CHUNK)
        self._print(self.lines.feed(data) if data else self.lines.end())
        return bool(data)

    def drain(self) -> None:
        """Print all that is there to read. Not until the end: a grandchild may hold the pipe open for ever."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.output.fileno(), CHUNK):
                self._print(self.lines.feed(data))
        self._print(self.lines.end())

    def ready(self) -> None:
        self.state = State.READY
        self.was_ready = True

    def ended(self) -> int:
        """Forget the process, which has ended and is reaped; its return code as Popen gives it."""
        process = self.process
        assert process is not None
        assert process.returncode is not None
        # What its own session still holds (a shell's grandchild, say) must not meet its successor.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        output_of(process).close()
        self.process = None
        return process.returncode

    def back_off(self) -> float:
        """Wait before the next start; for how many seconds."""
        now = time.monotonic()
        if self.state is State.READY and now - self.started_at > HEALTHY_AFTER:
            self.failures = 0
        delay = min(FIRST_BACKOFF * 2.0**self.failures, LONGEST_BACKOFF)
        self.failures += 1
        self.state, self.due_at = State.BACKOFF, now + delay
        return delay

    def stop(self) -> None:
        if self.process is None:
            self.state = State.STOPPED
            return
        self.state = State.STOPPING
        self.due_at = time.monotonic() + self.program.stop_grace
        self.process.send_signal(self.program.stop_signal)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._printer.line(self.name, line)
