"""Name trees (ISO 32000-1, 7.9.6): destinations and attachments by name."""

from __future__ import annotations

from typing import Final

from assembler.encoding import array, reference, references, string
from assembler.pdf_file import PdfFile

ENTRIES_PER_LEAF: Final = 64


class NameTree:
    """Encoded values by key; of several values for one key the first is kept."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: bytes, value: bytes) -> None:
        self._values.setdefault(key, value)

    def write(self, file: PdfFile) -> bytes:
        """A reference to the tree. Keys are in the order of their bytes, as readers search them."""
        pairs = [(string(key), value) for key, value in sorted(self._values.items())]
        leaves = [pairs[start : start + ENTRIES_PER_LEAF] for start in range(0, len(pairs), ENTRIES_PER_LEAF)]
        if len(leaves) == 1:
            return reference(file.add(b'<<%b>>' % _names(leaves[0]), 'index'))
        kids = [
            file.add(b'<</Limits %b%b>>' % (array((leaf[0][0], leaf[-1][0])), _names(leaf)), 'index') for leaf in leaves
        ]
        return reference(file.add(b'<</Kids %b>>' % references(kids), 'index'))


def _names(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return b'/Names ' + array(key + b' ' + value for key, value in pairs)
