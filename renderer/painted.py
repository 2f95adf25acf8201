"""Storing a painted part under a name that is written once, or adopting the one that is there.

Source of the rules: two workers may paint the same part (a zombie, a redelivery); the first object
wins, and whoever comes later takes over its checksum and result, never its own. An object painted
from other input, or damaged, is left alone and the next generation's name is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from assembler import bundle
from assembler.sequence import join, split
from runtime.errors import ObjectCorrupt, ObjectExists, ObjectMissing, StorageUnavailable
from runtime.storage import sha256_of

if TYPE_CHECKING:
    from runtime.storage import Storage

GENERATIONS_TRIED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """Where a painted part lies and what it holds, ready for the completion."""

    key: str
    sha256: str
    result: dict[str, Any]


def part_key(job_id: UUID, part_index: int, generation: int) -> str:
    suffix = f'.{generation}' if generation else ''
    return f'jobs/{job_id}/parts/{part_index}{suffix}'


def store_part(
    storage: Storage,
    *,
    job_id: UUID,
    part_index: int,
    generation: int,
    input_hash: str,
    painted: Sequence[Path],
    result: dict[str, Any],
) -> StoredPart:
    """Upload the bundles of a part as one object, or adopt what is there. Raises StorageUnavailable."""
    bundle.seal(painted[-1], result)
    whole = painted[0]
    if len(painted) > 1:
        whole = whole.with_suffix('.joined')
        join(painted, whole)
    sha256 = sha256_of(whole)
    for offset in range(GENERATIONS_TRIED):
        key = part_key(job_id, part_index, generation + offset)
        try:
            storage.put_new(
                key, whole, sha256=sha256, content_type=bundle.MEDIA_TYPE, metadata={'input-hash': input_hash}
            )
        except ObjectExists:
            adopted = _adopt(storage, key, input_hash, whole.with_suffix('.adopted'))
            if adopted is not None:
                return adopted
        else:
            return StoredPart(key=key, sha256=sha256, result=result)
    raise StorageUnavailable(f'{part_key(job_id, part_index, generation)}: no free generation')


def _adopt(storage: Storage, key: str, input_hash: str, path: Path) -> StoredPart | None:
    """The object under the key, if it was painted from the same input and is whole."""
    try:
        metadata = storage.head(key).metadata
        if metadata.get('input-hash') != input_hash:
            return None
        sha256 = metadata.get('sha256', '')
        storage.fetch(key, path, sha256=sha256)
        with bundle.Bundle.open(split(path)[-1]) as found:
            return None if found.result is None else StoredPart(key=key, sha256=sha256, result=found.result)
    except (ObjectMissing, ObjectCorrupt):
        return None
