"""Runs the programs of a stack: starts them stage by stage, starts again what ends, stops all of it in order.

One thread, one loop: it waits for output, for signals and for the next thing that is due. Every probe is short, so
nothing here waits for anything else. A program that fails before it was ever ready stops the stack, with its last
words; one that ends later is started again, at once the first time and then with growing pauses.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from fanfold.stack.errors import StackError
from fanfold.stack.output import Output
from fanfold.stack.program import Program, Stage, Task
from fanfold.stack.unit import State, Unit

PROBE_PAUSE = 0.05
IDLE_PAUSE = 1.0
START_ATTEMPTS = 5
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """`on_ready` is called when all stages are up, `on_change` whenever a process has started or ended."""

    def __init__(
        self,
        stages: Sequence[Stage],
        output: Output,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._stages = [[Unit(program, output) for program in stage] for stage in stages]
        self._output = output
        self._on_ready = on_ready
        self._on_change = on_change
        self._selector = selectors.DefaultSelector()
        self._stage = 0
        self._stop_requests = 0
        self._stopping = False
        self._failure: StackError | None = None

    @property
    def running(self) -> list[tuple[Program | Task, int]]:
        """What runs now, with its pids."""
        return [(unit.program, unit.pid) for unit in self._units if unit.pid is not None]

    def run(self) -> None:
        """Until a signal asks to stop. Raises StackError if the stack cannot start; nothing is left running then."""
        with self._signals(), self._notify_socket():
            try:
                self._start_stage()
                while not (self._stop_requests or self._failure):
                    self._turn(self._pause())
            finally:
                self._stop_all()
        if self._failure:
            raise self._failure

    @property
    def _units(self) -> list[Unit]:
        return [unit for stage in self._stages for unit in stage]

    # — starting and watching —

    def _start_stage(self) -> None:
        for unit in self._stages[self._stage]:
            self._start(unit)

    def _start(self, unit: Unit) -> None:
        try:
            unit.start({'NOTIFY_SOCKET': self._notify_path})
        except OSError as error:
            raise StackError(f'{unit.name} cannot be run: {error}') from error
        self._selector.register(unit.output, selectors.EVENT_READ, unit)
        self._on_change()

    def _pause(self) -> float:
        """How long the loop may sleep."""
        now = time.monotonic()
        timed = {State.STARTING, State.BACKOFF, State.STOPPING}
        due = [unit.due_at - now for unit in self._units if unit.state in timed]
        return max(0.0, min([IDLE_PAUSE, *due]))

    def _turn(self, pause: float) -> None:
        for key, _ in self._selector.select(pause):
            if isinstance(key.data, Unit):
                if not key.data.read():
                    self._selector.unregister(key.fileobj)
            else:
                key.data()
        for unit in self._units:
            if unit.process is not None and unit.process.poll() is not None:
                self._ended(unit)
            elif unit.state is State.STARTING and time.monotonic() >= unit.due_at:
                unit.due_at = time.monotonic() + PROBE_PAUSE
                self._probe(unit)
            elif unit.state is State.BACKOFF and time.monotonic() >= unit.due_at and not self._stopping:
                self._start(unit)
        self._advance()

    def _probe(self, unit: Unit) -> None:
        program, age = unit.program, time.monotonic() - unit.started_at
        if isinstance(program, Task):
            if age > program.grace:
                self._failure = StackError(f'{unit.name} did not finish within {program.grace:.2g} seconds')
        elif program.is_ready is not None and program.is_ready():
            unit.ready()
        elif age > program.start_grace and not unit.was_ready:
            self._failure = StackError(f'{unit.name} was not ready within {program.start_grace:.2g} seconds')

    def _advance(self) -> None:
        if self._stage == len(self._stages) or self._stopping or self._failure:
            return
        if all(unit.is_settled for unit in self._stages[self._stage]):
            self._stage += 1
            if self._stage < len(self._stages):
                self._start_stage()
            else:
                self._on_ready()

    def _ended(self, unit: Unit) -> None:
        unit.drain()
        if unit.output in self._selector.get_map():
            self._selector.unregister(unit.output)
        code = unit.ended()
        self._on_change()
        if unit.state is State.STOPPING:
            unit.state = State.STOPPED
        elif isinstance(unit.program, Task) and code == 0:
            unit.state = State.DONE
        elif isinstance(unit.program, Task) or (not unit.was_ready and unit.failures >= START_ATTEMPTS - 1):
            self._failure = StackError('\n  '.join([f'{unit.name} does not start: {_how(code)}', *unit.lines.last]))
        else:
            delay = unit.back_off()
            self._output.say(f'{unit.name} {_how(code)}; starting it again in {delay:.2g} s')

    # — stopping —

    def _stop_all(self) -> None:
        """Stop what runs, rank by rank; each further request kills what is being stopped then."""
        running = [unit for unit in self._units if unit.process]
        if running:
            first = min(unit.program.stop_rank for unit in running)
            grace = max(unit.program.stop_grace for unit in running if unit.program.stop_rank == first)
            self._output.say(f'stopping; what is in work has up to {grace:.3g} s to end (once more to kill)')
        self._stopping = True
        heard = 1
        for rank in sorted({unit.program.stop_rank for unit in self._units}):
            group = [unit for unit in self._units if unit.program.stop_rank == rank]
            for unit in group:
                unit.stop()
            while any(unit.process for unit in group):
                self._turn(self._pause())
                if self._stop_requests > heard:
                    heard = self._stop_requests
                    self._kill(group, 'on request')
                self._kill([unit for unit in group if time.monotonic() >= unit.due_at], 'it did not stop in time')
        self._selector.close()

    def _kill(self, units: list[Unit], why: str) -> None:
        left = [unit for unit in units if unit.process is not None and unit.state is State.STOPPING]
        if left:
            self._output.say(f'killing {", ".join(unit.name for unit in left)}: {why}')
        for unit in left:
            unit.kill()
            unit.due_at = time.monotonic() + IDLE_PAUSE

    # — signals and announcements —

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn signals into input of the loop; SIGCHLD only has to wake it."""
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)

        def on_signal(number: int, _frame: FrameType | None) -> None:
            self._stop_requests += number in STOP_SIGNALS

        numbers = [*STOP_SIGNALS, signal.SIGCHLD]
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            numbers.remove(signal.SIGHUP)  # it was told to survive a hang-up, by nohup
        before = {number: signal.signal(number, on_signal) for number in numbers}
        old_wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, lambda: os.read(reader, 512))
        try:
            yield
        finally:
            signal.set_wakeup_fd(old_wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)

    @contextlib.contextmanager
    def _notify_socket(self) -> Iterator[None]:
        """The socket to which programs announce that they are ready; the kernel says who it was."""
        with (
            tempfile.TemporaryDirectory(prefix='fanfold-') as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices,
        ):
            self._notify_path = str(Path(folder, 'notify'))
            notices.bind(self._notify_path)
            notices.setblocking(False)
            notices.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._selector.register(notices, selectors.EVENT_READ, lambda: self._hear(notices))
            yield

    def _hear(self, notices: socket.socket) -> None:
        message, ancillary, _, _ = notices.recvmsg(1024, socket.CMSG_SPACE(12))
        if b'READY=1' not in message.split(b'\n'):
            return
        for _, _, credentials in ancillary:
            sender = int.from_bytes(credentials[:4], 'little')
            for unit in self._units:
                announces = isinstance(unit.program, Program) and unit.program.is_ready is None
                if unit.pid == sender and unit.state is State.STARTING and announces:
                    unit.ready()


def _how(code: int) -> str:
    if code >= 0:
        return f'exited with status {code}'
    try:
        return f'was killed by {signal.Signals(-code).name}'
    except ValueError:
        return f'was killed by signal {-code}'
