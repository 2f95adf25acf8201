"""Name trees and number trees (ISO 32000-1, 7.9.6 and 7.9.7): reading those of the parts, writing the merged one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pypdf.generic import DictionaryObject

from assembler.part import Part, dictionary, lookup
from assembler.pdf_file import PdfFile
from assembler.relocation import encode_bytes

ENTRIES_PER_LEAF: Final = 64


def entries(tree: DictionaryObject, key: str) -> Iterator[tuple[Any, Any]]:
    """Keys and values (as they stand, maybe references) under '/Names' or '/Nums', in the order of the tree."""
    pairs = lookup(tree, key) or ()
    yield from zip(pairs[::2], pairs[1::2], strict=True)
    for kid in lookup(tree, '/Kids') or ():
        yield from entries(kid.get_object(), key)


class NameTree:
    """Encoded values by key; of several values for one key the first is kept."""

    def __init__(self, target: PdfFile) -> None:
        self._target = target
        self._values: dict[bytes, bytes] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: bytes, value: bytes) -> None:
        self._values.setdefault(key, value)

    def write(self) -> int:
        """The number of the tree's root. Keys are in the order of their bytes, as readers search them."""
        pairs = [(encode_bytes(key), value) for key, value in sorted(self._values.items())]
        leaves = [pairs[start : start + ENTRIES_PER_LEAF] for start in range(0, len(pairs), ENTRIES_PER_LEAF)]
        if len(leaves) == 1:
            return self._target.add(b'<<%b>>' % _names(leaves[0]))
        kids = [self._target.add(b'<</Limits [%b %b]%b>>' % (leaf[0][0], leaf[-1][0], _names(leaf))) for leaf in leaves]
        return self._target.add(b'<</Kids [%b]>>' % b' '.join(b'%d 0 R' % kid for kid in kids))


def _names(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return b'/Names [%b]' % b' '.join(key + b' ' + value for key, value in pairs)


class Destinations:
    """Named destinations. Painting made the names unique over the job, so none is renamed here."""

    def __init__(self, target: PdfFile) -> None:
        self._tree = NameTree(target)

    def __len__(self) -> int:
        return len(self._tree)

    def take(self, part: Part) -> None:
        names = dictionary(part.catalog, '/Names')
        tree = names and dictionary(names, '/Dests')
        for key, value in entries(tree, '/Names') if tree else ():
            self._tree.add(key.original_bytes, part.relocation.encode(value))

    def finish(self) -> dict[str, bytes]:
        return {'/Dests': b'%d 0 R' % self._tree.write()} if self._tree else {}


class PageLabels:
    """Page labels; where only some parts have them, the pages of the others are labelled with their number."""

    def __init__(self, target: PdfFile) -> None:
        self._target = target
        self._found = False
        self._labels: list[tuple[int, bytes]] = []

    def take(self, part: Part) -> None:
        tree = dictionary(part.catalog, '/PageLabels')
        if tree is None:
            self._labels.append((part.first_page, b'<</S/D/St %d>>' % (part.first_page + 1)))
            return
        self._found = True
        self._labels += (
            (part.first_page + int(first), part.relocation.encode(label)) for first, label in entries(tree, '/Nums')
        )

    def finish(self) -> dict[str, bytes]:
        if not self._found:
            return {}
        numbers = b' '.join(b'%d %b' % (first, label) for first, label in self._labels)
        return {'/PageLabels': b'%d 0 R' % self._target.add(b'<</Nums [%b]>>' % numbers)}
