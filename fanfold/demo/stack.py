"""A stack for the length of a block: `fanfold up` as a child, on free ports, without our FANFOLD_… variables."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fanfold
from fanfold.stack.errors import StackError

START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 60.0
LOG_TAIL: Final = 30


@contextmanager
def running_stack(data: Path | None, *, log: Path | None = None) -> Iterator[str]:
    """The URL of the API of a stack that keeps its data in `data`, or nowhere beyond the block.

    Raises StackError with the end of its log if it does not come up.
    """
    folder = Path(tempfile.mkdtemp(prefix='fanfold-demo-'))
    try:
        folder.chmod(0o711)  # as root the servers run as another account, which has to pass through
        ready_file, log = folder / 'ready.json', log or folder / 'log'
        child = _start(data or folder / 'data', ready_file, log)
        try:
            yield _url_once_ready(child, ready_file, log)
        finally:
            _stop(child)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(data: Path, ready_file: Path, log: Path) -> subprocess.Popen[bytes]:
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith('FANFOLD_')}
    root = str(Path(fanfold.__file__).parent.parent)
    surroundings['PYTHONPATH'] = os.pathsep.join(filter(None, [root, surroundings.get('PYTHONPATH')]))
    command = [sys.executable, '-P', '-m', 'fanfold', 'up', '--data', str(data), '--port', '0']
    command += ['--ready-file', str(ready_file), '--stop-with-parent']
    with log.open('wb') as output:
        return subprocess.Popen(
            command,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is ours; the stack stops when we are done with it
        )


def _url_once_ready(child: subprocess.Popen[bytes], ready_file: Path, log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while not ready_file.exists():
        if child.poll() is not None or time.monotonic() > until:
            why = 'ended' if child.poll() is not None else f'was not ready after {START_SECONDS:g} s'
            tail = log.read_text(errors='replace').splitlines()[-LOG_TAIL:]
            raise StackError('\n'.join([f'the stack {why}; the end of its log:', *tail]))
        time.sleep(0.05)
    return str(json.loads(ready_file.read_text())['api_url'])


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ask it to stop, and wait even if Ctrl-C comes again: it has databases to close."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while child.poll() is None and time.monotonic() < until:
        try:
            child.wait(timeout=until - time.monotonic())
        except KeyboardInterrupt:
            continue
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
