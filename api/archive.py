"""All that a job brings, packed into the one archive that workers fetch.

The same members give the same bytes: sorted by name, no times, fixed attributes.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.storage import sha256_of

DEFLATE_LEVEL: Final = 1
COMPRESSIBLE: Final = frozenset(
    {'.html', '.htm', '.xhtml', '.css', '.svg', '.txt', '.json', '.ndjson', '.jsonl', '.xml', '.csv', '.ttf', '.otf'}
)

Chunks = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The archive on disk; `members` maps each member to its SHA-256."""

    path: Path
    sha256: str
    size: int
    members: dict[str, str]


def pack(members: dict[str, Chunks], path: Path) -> Packed:
    """Write the archive to `path`."""
    digests = {}
    with zipfile.ZipFile(path, 'w', compresslevel=DEFLATE_LEVEL) as archive:
        for name in sorted(members):
            digests[name] = _add(archive, name, members[name]())
    return Packed(path=path, sha256=sha256_of(path), size=path.stat().st_size, members=digests)


def _add(archive: zipfile.ZipFile, name: str, chunks: Iterable[bytes]) -> str:
    # A member opened by its name is dated 1980-01-01, the earliest that a zip can say.
    compressible = Path(name).suffix.lower() in COMPRESSIBLE
    archive.compression = zipfile.ZIP_DEFLATED if compressible else zipfile.ZIP_STORED
    digest = hashlib.sha256()
    with archive.open(name, 'w') as member:
        for chunk in chunks:
            member.write(chunk)
            digest.update(chunk)
    return digest.hexdigest()
