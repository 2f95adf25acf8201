"""Bringing a job's painted parts together on local disk, in order, placeholders in the place of what is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assembler.bundle import Bundle
from assembler.sequence import split
from runtime.errors import ObjectCorrupt, ObjectMissing
from runtime.logs import get_logger

if TYPE_CHECKING:
    from runtime.storage import Storage
    from schema import Part

FETCHED_AT_ONCE: Final = 4
#: an object that fails its checksum is fetched once more before it counts as damaged
FETCH_TRIES: Final = 2
MOST_WARNINGS: Final = 100

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredPart:
    """A part's bundle and what painting said of it."""

    index: int
    paths: Sequence[Path]
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """`damaged`: indexes of the parts whose object is missing or not what was recorded."""

    parts: Sequence[GatheredPart]
    damaged: Sequence[int]


def gather(storage: Storage, parts: Sequence[Part], folder: Path, *, wanted: Callable[[], bool]) -> Gathered:
    """Fetch all parts, until somebody says they are no longer wanted. Raises StorageUnavailable."""

    def fetch(part: Part) -> GatheredPart | None:
        return _fetch(storage, part, folder) if wanted() else None

    with ThreadPoolExecutor(min(FETCHED_AT_ONCE, len(parts))) as threads:
        fetched = list(threads.map(fetch, parts))
    return Gathered(
        parts=[part for part in fetched if part is not None],
        damaged=[part.key.part_index for part, found in zip(parts, fetched, strict=True) if found is None],
    )


def _fetch(storage: Storage, part: Part, folder: Path) -> GatheredPart | None:
    """None: missing or damaged."""
    index = part.key.part_index
    path = folder / f'{index}.bundle'
    for _ in range(FETCH_TRIES):
        try:
            storage.fetch(str(part.result_ref), path, sha256=str(part.result_sha256))
            bundles = split(path)
            for bundle in bundles:
                Bundle.open(bundle).close()
        except ObjectMissing:
            log.warning('painted part is missing', index=index, key=part.result_ref)
            return None
        except ObjectCorrupt as error:
            log.warning('painted part is damaged', index=index, key=part.result_ref, error=str(error))
            continue
        return GatheredPart(index=index, paths=bundles, result=part.result or {})
    return None


def input_hash(painted: Iterable[Part], failed: Iterable[Part], spec: dict[str, Any]) -> str:
    """What an assembly depends on, as SHA-256: the parts, those that are missing, and the job's options."""
    value = {
        'painted': [[part.key.part_index, part.result_sha256] for part in painted],
        'failed': [[part.key.part_index, part.failure] for part in failed],
        'options': spec.get('options'),
        'metadata': spec.get('metadata'),
        'document_bookmarks': spec.get('document_bookmarks'),
        'finishing': spec.get('finishing'),
    }
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def missing_of(parts: Iterable[GatheredPart]) -> list[dict[str, Any]]:
    """What is missing in the result, in order."""
    return [entry for part in parts for entry in part.result.get('missing', ())]


def warnings_of(parts: Iterable[GatheredPart]) -> list[str]:
    """The warnings of all parts, each once, in order, bounded."""
    found = dict.fromkeys(warning for part in parts for warning in part.result.get('warnings', ()))
    return list(found)[:MOST_WARNINGS]
