"""A program that the supervisor can run: what to exec, as whom, and how to tell that it is ready and ask it to stop."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fanfold.stack.account import Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`is_ready` must answer within a fraction of a second; `orphan_signal` is sent by the kernel if the supervisor is killed."""

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path('/')
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGKILL
    stop_grace: float = 10.0
    start_grace: float = 60.0
