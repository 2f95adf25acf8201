"""Stacks of the tests' own, in folders that the servers' account can reach."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.servers import ROOT, wait_until

STOPS_WITHIN = 60


@dataclass(slots=True, kw_only=True)
class RunningStack:
    """A `fanfold up` of its own, and every process of it that was ever seen."""

    process: subprocess.Popen[bytes]
    ready_file: Path
    log: Path
    seen: dict[int, psutil.Process] = field(default_factory=dict)

    @property
    def ready(self) -> dict[str, Any]:
        """The ready file as it is now; process ids change when something starts again."""
        ready: dict[str, Any] = json.loads(self.ready_file.read_text())
        return ready

    def pid(self, name: str) -> int:
        return int(self.ready['pids'][name])

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.ready_file.exists() or self.process.poll() is not None, 'the stack')
        assert self.process.poll() is None, self.log.read_text()
        self.look()

    def look(self) -> None:
        """Remember every process that there is below the supervisor."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            self.seen.setdefault(process.pid, process)

    def kill(self, name: str) -> None:
        """SIGKILL it and wait until its successor runs."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.ready['pids'].get(name, pid) != pid, f'the successor of {name}', seconds=20)
        self.look()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        if self.process.poll() is None:
            self.look()
            self.process.send_signal(number)
        return self.process.wait(timeout=STOPS_WITHIN)

    def wait_for_end(self) -> list[str]:
        """Wait for the end of all that was ever seen; what is still there after some seconds, which must be nothing."""
        _, alive = psutil.wait_procs(list(self.seen.values()), timeout=20)
        return [f'{process.pid} {process.name()}' for process in alive]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that every account may pass; pytest's own are private."""
    path = Path(tempfile.mkdtemp(prefix='fanfold-test-'))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def stack_starter(folder: Path) -> Iterator[Callable[..., RunningStack]]:
    """Start `fanfold up` with some arguments; all are stopped in the end, and nothing of them may be left."""
    stacks: list[RunningStack] = []

    def start(
        *arguments: str, data: Path | None = None, env: dict[str, str] | None = None, cwd: Path = ROOT
    ) -> RunningStack:
        ready_file, log = folder / f'ready-{len(stacks)}.json', folder / f'log-{len(stacks)}'
        command = [
            sys.executable,
            '-P',
            '-m',
            'fanfold',
            'up',
            '--stop-with-parent',
            '--data',
            str(data or folder / 'data'),
        ]
        command += ['--ready-file', str(ready_file), *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith('FANFOLD_')}
        with log.open('wb') as output:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**environment, 'PYTHONPATH': str(ROOT), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        stacks.append(RunningStack(process=process, ready_file=ready_file, log=log))
        return stacks[-1]

    try:
        yield start
    finally:
        for stack in reversed(stacks):
            stack.stop()
    assert [left for stack in stacks for left in stack.wait_for_end()] == []


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


@pytest.fixture
def start_stack(folder: Path) -> Iterator[Callable[..., RunningStack]]:
    with stack_starter(folder) as start:
        yield start


@pytest.fixture
def servers_stack(start_stack: Callable[..., RunningStack]) -> RunningStack:
    """The three servers, ready."""
    stack = start_stack('--servers-only')
    stack.wait_until_ready()
    return stack


@pytest.fixture(scope='module')
def shared_stack() -> Iterator[RunningStack]:
    """The three servers, ready, for tests that only look at them."""
    with open_folder() as path, stack_starter(path) as start:
        stack = start('--servers-only')
        stack.wait_until_ready()
        yield stack
