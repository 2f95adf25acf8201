"""Folders for temporary files that do not outlive their process, not even one that is killed.

A folder is locked for as long as its owner lives; whoever makes the next one beside it removes those whose
lock is free.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path
from typing import TextIO

LOCK: str = 'lock'


class ScratchFolder:
    """A fresh folder `<parent>/<prefix>…`. `parent` is made if need be; without one it is the system's."""

    def __init__(self, parent: Path | None, *, prefix: str) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f'{prefix}*/'):
            remove_if_abandoned(left)
        # It gets its name when it is locked, so that nobody takes it for abandoned.
        fresh = Path(tempfile.mkdtemp(prefix=f'.{prefix}', dir=parent.absolute()))
        self._lock = lock_of(fresh)
        self.path = fresh.rename(fresh.with_name(fresh.name.removeprefix('.')))

    def remove(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        shutil.rmtree(self.path, ignore_errors=True)


def remove_if_abandoned(folder: Path) -> None:
    lock = lock_of(folder)
    if lock is not None:
        lock.close()
        shutil.rmtree(folder, ignore_errors=True)


def lock_of(folder: Path) -> TextIO | None:
    """The folder's lock, held; None if somebody else holds it, or may not be asked."""
    try:
        file = (folder / LOCK).open('a')
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
