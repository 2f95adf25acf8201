"""Assembling in a limited child: bundles in, a PDF on disk out, which the witness has read back."""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from assembler.assemble import assemble
from assembler.audit import audit
from assembler.contents import Contents
from assembler.finishing import finish
from runtime.errors import ObjectCorrupt, Problem, Refusal


def merge_child(payload: dict[str, Any], report: Callable[[Any], None]) -> dict[str, Any]:
    """What runs in the child.

    `payload`: parts [{paths, pages}], out, metadata, document_bookmarks, finishing. Returns pages, bytes and sha256 of
    the result, and timing. `report` is told (index of the part, None). Raises Refusal.
    """
    started = time.time()
    out, parts = Path(payload['out']), payload['parts']
    paths = [(index, Path(path)) for index, part in enumerate(parts) for path in part['paths']]
    pieces = assemble(
        [path for _, path in paths],
        metadata=payload['metadata'],
        document_bookmarks=payload['document_bookmarks'],
        report=lambda number: report((paths[number][0], None)),
    )
    try:
        written, digest = _write(pieces, out)
    except ObjectCorrupt as error:
        raise Refusal(Problem(name='merge-error', detail=str(error), extra=_named(error, paths))) from error
    gc.collect()
    witnessed = audit(out, pages=sum(part['pages'] for part in parts))
    if witnessed != written:
        raise Refusal(Problem(name='merge-error', detail=f'the result holds {witnessed}; its parts have {written}'))
    if payload['finishing']:
        finish(out, payload['finishing'], pages=witnessed.pages)
        digest = sha256_of(out)
    return {
        'pages': witnessed.pages,
        'bytes': out.stat().st_size,
        'sha256': digest,
        'timing': _timing(started),
    }


def _write(pieces: Generator[bytes, None, Contents], out: Path) -> tuple[Contents, str]:
    """Write the pieces; what they hold, and their SHA-256."""
    digest = hashlib.sha256()
    with out.open('wb') as file:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as end:
                return end.value, digest.hexdigest()
            file.write(piece)
            digest.update(piece)


def sha256_of(path: Path) -> str:
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def _named(error: ObjectCorrupt, paths: Sequence[tuple[int, Path]]) -> dict[str, int]:
    """Which part it is that cannot be read."""
    found = [index for index, path in paths if str(error).startswith(f'{path.name}:')]
    return {'part': found[0]} if found else {}


def _timing(started: float) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        'started_at': started,
        'finished_at': time.time(),
        'cpu_seconds': used.ru_utime + used.ru_stime,
        'max_rss_bytes': used.ru_maxrss * 1024,
        'child_pid': os.getpid(),
    }


def preload(_may_render: bool) -> dict[str, Any]:
    """What the assembler's zygote does before it forks: this module, hence pypdf, is loaded by naming it."""
    return {}
