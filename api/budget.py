"""So many bytes of request bodies looked into at once.

What a JSON text becomes in memory is up to twenty times its size. A limit on how many requests are parsed
at the same time would be too high for large ones or too low for small ones; this one is on their bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class ByteBudget:
    """First come, first served. Who wants more than there is gets all of it, alone."""

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._turn = anyio.Lock()
        self._freed = anyio.Event()

    @property
    def free(self) -> int:
        return self._free

    @asynccontextmanager
    async def taking(self, size: int) -> AsyncIterator[None]:
        """Hold so many bytes within the block; wait for them before it."""
        taken = min(size, self._total)
        async with self._turn:
            while self._free < taken:
                self._freed = anyio.Event()
                await self._freed.wait()
            self._free -= taken
        try:
            yield
        finally:
            self._free += taken
            self._freed.set()
