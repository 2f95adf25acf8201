"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def appearing_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the name `path` at the end of the block, or vanishes if the block raises."""
    unfinished = path.with_name(f'.{path.name}.{secrets.token_hex(4)}.part')
    try:
        with unfinished.open('xb') as file:
            yield file
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
