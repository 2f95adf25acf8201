"""The files of one submission, kept in one spool until they are packed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Final

CHUNK_BYTES: Final = 256 * 1024
SPOOL_MEMORY_BYTES: Final = 1024 * 1024


class Files:
    """Named byte strings, written one after the other, then read in any order. Not thread-safe."""

    def __init__(self, folder: str | None = None) -> None:
        self._spool: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_MEMORY_BYTES, dir=folder)  # noqa: SIM115 (see close)
        self._extents: dict[str, tuple[int, int]] = {}
        self._writing: str | None = None
        self._end = 0

    def close(self) -> None:
        self._spool.close()

    def __contains__(self, name: str) -> bool:
        return name in self._extents

    def __len__(self) -> int:
        return len(self._extents)

    @property
    def names(self) -> list[str]:
        return sorted(self._extents)

    def size(self, name: str) -> int:
        return self._extents[name][1]

    def begin(self, name: str) -> None:
        """Start a file; what is written next belongs to it."""
        self._extents[name] = (self._end, 0)
        self._writing = name

    def write(self, data: bytes) -> None:
        assert self._writing is not None
        start, size = self._extents[self._writing]
        self._spool.write(data)
        self._end += len(data)
        self._extents[self._writing] = (start, size + len(data))

    def read(self, name: str) -> bytes:
        return b''.join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        start, size = self._extents[name]
        while size:
            self._spool.seek(start)
            chunk = self._spool.read(min(size, CHUNK_BYTES))
            start, size = start + len(chunk), size - len(chunk)
            yield chunk
