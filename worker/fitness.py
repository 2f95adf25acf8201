"""Whether this process is fit for work: a sick host must not take every hint and fail every part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from runtime.logs import get_logger

#: so many failures of the host in a row, with no part completed between them, and the process takes no more parts
FAILURES_IN_A_ROW: Final = 5

log = get_logger(__name__)


class Fitness:
    """Counts failures of the host. Thread-safe."""

    def __init__(self) -> None:
        self._on_unfit: Callable[[], None] = lambda: None
        self.unfit_because: str | None = None
        self._failures = 0
        self._lock = threading.Lock()

    def watch(self, on_unfit: Callable[[], None]) -> None:
        """Have this called, once, in whatever thread learns that the process is unfit; at once if it already is."""
        with self._lock:
            self._on_unfit = on_unfit
            unfit = self.unfit_because is not None
        if unfit:
            on_unfit()

    def worked(self) -> None:
        with self._lock:
            self._failures = 0

    def host_failed(self, why: str) -> None:
        with self._lock:
            self._failures += 1
            enough = self._failures >= FAILURES_IN_A_ROW
        if enough:
            self.give_up(f'the host failed {FAILURES_IN_A_ROW} times in a row, the last time with: {why}')

    def give_up(self, why: str) -> None:
        with self._lock:
            if self.unfit_because is not None:
                return
            self.unfit_because = why
            on_unfit = self._on_unfit
        log.error('this process is unfit for work, it stops', reason=why)
        on_unfit()
