"""The inputs of the jobs this host is working on: fetched once, shared by all parts, bounded in number."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runtime.storage import Storage

KEPT: Final = 8


@dataclass(slots=True, eq=False)
class _Entry:
    path: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class Inputs:
    """Input archives on local disk, by SHA-256; the least recently used leave first, never one in use."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self._storage = storage
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def archive(self, key: str, sha256: str) -> Iterator[Path]:
        """The archive's path, valid inside the block. Raises ObjectMissing, ObjectCorrupt, StorageUnavailable."""
        with self._lock:
            entry = self._entries.setdefault(sha256, _Entry(self._folder / f'{sha256}.zip'))
            self._entries.move_to_end(sha256)
            entry.users += 1
        try:
            with entry.lock:
                if not entry.path.exists():
                    partial = entry.path.with_suffix('.partial')
                    self._storage.fetch(key, partial, sha256=sha256)
                    partial.rename(entry.path)
            yield entry.path
        finally:
            with self._lock:
                entry.users -= 1
                self._evict()

    def _evict(self) -> None:
        idle = [sha256 for sha256, entry in self._entries.items() if not entry.users]
        for sha256 in idle[: max(0, len(self._entries) - KEPT)]:
            self._entries.pop(sha256).path.unlink(missing_ok=True)
