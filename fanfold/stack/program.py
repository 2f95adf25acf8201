"""A program that the supervisor can run: what to exec, as whom, how to tell that it is ready, how to ask it to stop.

A program that announces itself sends `READY=1` to the socket in `NOTIFY_SOCKET`, the protocol of systemd's sd_notify;
the others are probed from outside.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fanfold.stack.account import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Something that runs for as long as the stack does.

    `is_ready` answers within a fraction of a second; None for a program that announces itself. `orphan_signal` is
    what the kernel sends it if the supervisor is killed. Programs of a lower `stop_rank` stop first. Times in seconds.
    With `banner`, standard output is decoration and is thrown away.
    """

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], bool] | None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path('/')
    account: Account | None = None
    stop_rank: int = 0
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    stop_grace: float = 10.0
    banner: bool = False
    start_grace: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something that runs once, between two stages, and must succeed within `grace` seconds."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path('/')
    grace: float = 120.0
    account: Account | None = None
    stop_rank: int = 0
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    stop_grace: float = 2.0


Stage = tuple[Program | Task, ...]
"""What starts together; the next stage starts when all of it is ready or done."""
