"""What a forked child of the zygote does: takes on its limits, runs one function, reports, and leaves.

It says one JSON object a line on its channel: `{"at": position}` while it works, `{"said": answer}` to each
order it is given, then exactly one of `{"done": result}`, `{"refused": problem}` and `{"died": reason, …}`. With
each position and each order the limit on CPU time begins anew, so that it holds for one document and not for all of
a run. A child leaves by os._exit only: an ordinary exit would run what the zygote has registered and remove files
that are not the child's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import json
import math
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from runtime.errors import Refusal
from worker.faults import is_of_host

REQUEST_FILE: Final = 'request.json'
LOG_FILE: Final = 'log'
#: what a child that ran out may still allocate, to say so
RESERVE_BYTES: Final = 32 * 1024 * 1024
#: largest file a child may write
FILE_BYTES: Final = 8 * 1024**3
OUT_OF_MEMORY: Final = b'{"died": "memory-limit"}\n'

_PR_SET_PDEATHSIG: Final = 1
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; leave at once if it already has."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def leave_network() -> bool:
    """Move to a network with nothing in it, for good, children too. Not every host lets a process do that."""
    return any(_LIBC.unshare(flags) == 0 for flags in (_CLONE_NEWNET, _CLONE_NEWUSER | _CLONE_NEWNET))


def load(entry: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = entry.partition(':')
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def run_child(folder: Path, channel: socket.socket, parent: int) -> NoReturn:
    """Serve the request in `folder`, then exit."""
    try:
        die_with(parent)
        with contextlib.suppress(PermissionError):  # the zygote was first
            os.setpgid(0, 0)
        _redirect(folder)
        request = json.loads((folder / REQUEST_FILE).read_bytes())
        tempfile.tempdir = str(folder)
        os.environ['TMPDIR'] = str(folder)
        limit(request['memory_bytes'], request['cpu_seconds'])
        channel.sendall(_serve(request, channel))
        status = 0
    except BaseException as error:
        traceback.print_exc()
        if isinstance(error, OSError):  # before it came to the work: its folder is gone, or there is no space
            with contextlib.suppress(OSError):
                channel.sendall(_line({'died': 'host', 'detail': f'{type(error).__name__}: {error}'}))
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


class Report:
    """What the entry of a child tells its owner with, and what it gets orders from."""

    def __init__(self, channel: socket.socket, cpu_seconds: float) -> None:
        self._channel = channel
        self._cpu_seconds = cpu_seconds
        self._lines: Iterator[bytes] = channel.makefile('rb')

    def __call__(self, position: Any) -> None:
        """Say where it is. The limit on CPU time begins anew."""
        _allow_cpu(self._cpu_seconds)
        self._channel.sendall(_line({'at': position}))

    def say(self, value: Any) -> None:
        """Answer an order."""
        self._channel.sendall(_line({'said': value}))

    def orders(self) -> Iterator[Any]:
        """The owner's orders as they come, until it has gone. Each has the whole limit on CPU time to itself."""
        for line in self._lines:
            path = Path(json.loads(line)['order'])
            order = json.loads(path.read_bytes())
            path.unlink()
            _allow_cpu(self._cpu_seconds)
            yield order


def _serve(request: dict[str, Any], channel: socket.socket) -> bytes:
    """Run the entry; its last word."""
    report = Report(channel, request['cpu_seconds'])
    try:
        return _line({'done': load(request['entry'])(request['payload'], report)})
    except Refusal as refusal:
        return _line({'refused': refusal.problem.to_json()})
    except MemoryError:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return OUT_OF_MEMORY
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return OUT_OF_MEMORY
        traceback.print_exc()
        # a document's own files are in the archive, so it is the worker's that were not found
        of_host = is_of_host(error) or isinstance(error, FileNotFoundError)
        return _line({'died': 'host' if of_host else 'crashed', 'detail': f'{type(error).__name__}: {error}'})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(',', ':')).encode() + b'\n'


def _redirect(folder: Path) -> None:
    """Nothing to read; what is printed goes to a file that the zygote's owner reads when the child has ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)


def limit(memory_bytes: int, cpu_seconds: float) -> None:
    """Allow this process so many bytes of memory more than it has, and so many seconds of CPU time from now on."""
    memory = data_bytes() + memory_bytes
    _lower(resource.RLIMIT_DATA, memory, memory + RESERVE_BYTES)
    _allow_cpu(cpu_seconds)
    _lower(resource.RLIMIT_CORE, 0, 0)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES, FILE_BYTES)


def _allow_cpu(seconds: float) -> None:
    """From now on so many seconds of CPU time, rounded up to whole ones."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, highest = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if highest == resource.RLIM_INFINITY else min(soft, highest), highest)
    )


def _lower(kind: int, soft: int, hard: int) -> None:
    _, highest = resource.getrlimit(kind)
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(kind, (soft, hard))


def data_bytes() -> int:
    """Private writable memory of this process: what RLIMIT_DATA counts (setrlimit(2))."""
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith('VmData:'):
            return int(line.split()[1]) * 1024
    raise OSError('/proc/self/status has no VmData')
