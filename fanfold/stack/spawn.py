"""Start one child of the supervisor so that nothing of it outlives the stack.

The child leads a session of its own, so that a Ctrl-C at the terminal reaches the supervisor alone and the supervisor
decides the order. On Linux the kernel signals it when the supervisor dies by whatever means. That signal is tied to
the thread that forked, so only a process with a single thread may call this.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import IO

from fanfold.stack.account import identity
from fanfold.stack.program import Program, Task

PR_SET_PDEATHSIG = 1


def spawn(program: Program | Task, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The running child, its output and errors in one pipe that does not block the reader."""
    decorated = isinstance(program, Program) and program.banner
    process = subprocess.Popen(
        program.argv,
        env={**program.env, **env},
        cwd=program.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if decorated else subprocess.PIPE,
        stderr=subprocess.PIPE if decorated else subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid(), program.orphan_signal),
        **identity(program.account),
    )
    os.set_blocking(output_of(process).fileno(), False)
    return process


def output_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    """The pipe that `spawn` gave it."""
    pipe = process.stdout or process.stderr
    assert pipe is not None
    return pipe


def die_with_parent(stop_signal: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send this process `stop_signal` when the process that started it ends (Linux only)."""
    if sys.platform == 'linux':
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(stop_signal))


def _die_with(parent: int, orphan_signal: signal.Signals) -> Callable[[], None]:
    if sys.platform != 'linux':
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before the fork

    def in_child() -> None:
        # Popen calls this after it has changed the user, which would have cleared the setting.
        prctl(PR_SET_PDEATHSIG, int(orphan_signal))
        if os.getppid() != parent:
            os._exit(1)

    return in_child
