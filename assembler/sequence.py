"""Bundles one after the other in one file: a part that was painted in pieces is still one object.

Nothing is added between them: the trailer of each tells its length, so a file is taken apart from its end. The last
one holds what painting said of the whole part.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from assembler.bundle import END, TRAILER

CHUNK: Final = 2**20


def join(bundles: Sequence[Path], out: Path) -> None:
    """Write the bundles to `out`, in order."""
    with out.open('wb') as target:
        for path in bundles:
            with path.open('rb') as source:
                shutil.copyfileobj(source, target)


def split(path: Path) -> list[Path]:
    """The bundles of a file, in order: itself if there is but one, else files beside it.

    A file that is not made of whole bundles is given back as it is, for its reader to say what is wrong with it.
    """
    with path.open('rb') as source:
        begins = _begins(source)
        if len(begins) < 2:
            return [path]
        ends = [*begins[1:], source.seek(0, 2)]
        return [
            _cut(source, begin, end, path.with_suffix(f'.{number}{path.suffix}'))
            for number, (begin, end) in enumerate(zip(begins, ends, strict=True))
        ]


def _begins(source: BinaryIO) -> list[int]:
    """Where the bundles of a file begin; nothing if it is not made of bundles."""
    found: list[int] = []
    end = source.seek(0, 2)
    while end >= TRAILER.size:
        source.seek(end - TRAILER.size)
        offset, tables, result, *_, magic = TRAILER.unpack(source.read(TRAILER.size))
        if magic != END:
            return []
        end -= offset + tables + result + TRAILER.size
        found.insert(0, end)
    return found if end == 0 else []


def _cut(source: BinaryIO, begin: int, end: int, out: Path) -> Path:
    source.seek(begin)
    with out.open('wb') as target:
        while begin < end:
            begin += target.write(source.read(min(CHUNK, end - begin)))
    return out
