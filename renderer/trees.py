"""The catalog's trees over all documents of a run: names in order, and the structure tree with its parent tree."""

from __future__ import annotations

from codecs import BOM_UTF16_BE
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pydyf

if TYPE_CHECKING:
    from renderer.binding import BoundPDF


def encoded(text: str) -> bytes:
    """The bytes of a PDF text string, by which name trees are sorted (ISO 32000-1, 7.9.6)."""
    try:
        return text.encode('ascii')
    except UnicodeEncodeError:
        return BOM_UTF16_BE + text.encode('utf-16-be', 'surrogatepass')


class NameTree:
    """Names to objects, unique and sorted by their bytes."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, name: bytes, value: bytes) -> None:
        self._entries.setdefault(name, value)

    def add_renamed(self, name: bytes, other: bytes, value: bytes) -> None:
        """Add under the first name, or under the other one where that is taken."""
        self._entries.setdefault(name if name not in self._entries else other, value)

    def encode(self) -> Any:
        array = pydyf.Array()
        for name in sorted(self._entries):
            array += [b'<%b>' % name.hex().encode(), self._entries[name]]
        return array


class StructureTree:
    """One root over the structure trees of all documents; keys into the parent tree are shifted to stay unique."""

    def __init__(self, root: int, parent_tree: int) -> None:
        self.root = root
        self._parent_tree = parent_tree
        self._kids: list[bytes] = []
        self._namespaces: list[bytes] = []
        self._numbers = pydyf.Array()
        self._next_key = 0

    def take(self, pdf: BoundPDF) -> set[int]:
        """Take over a document's tree, if it has one; the objects that are no longer needed."""
        reference = pdf.catalog.get('StructTreeRoot')
        if reference is None:
            return set()
        root = pdf.by_number[int(reference.split()[0])]
        parents = pdf.by_number[int(root['ParentTree'].split()[0])]
        base = self._next_key
        for key, value in zip(parents['Nums'][::2], parents['Nums'][1::2], strict=True):
            self._numbers += [key + base, value]
            self._next_key = max(self._next_key, key + base + 1)
        for object_ in pdf.objects:
            if isinstance(object_, dict):
                for entry in ('StructParents', 'StructParent'):
                    if entry in object_:
                        object_[entry] += base
        for kid in root['K']:
            element = pdf.by_number[int(kid.split()[0])]
            element['P'] = b'%d 0 R' % self.root
            if 'Lang' in pdf.catalog:
                element['Lang'] = pdf.catalog['Lang']
        self._kids += root['K']
        self._namespaces += root.get('Namespaces', ())
        return {root.number, parents.number}

    def finish(self) -> Iterator[Any]:
        """The root and the parent tree, to be written; nothing if no document had a tree."""
        if not self._kids:
            return
        root = pydyf.Dictionary({
            'Type': '/StructTreeRoot', 'K': pydyf.Array(self._kids), 'ParentTree': b'%d 0 R' % self._parent_tree,
        })  # fmt: skip
        if self._namespaces:
            root['Namespaces'] = pydyf.Array(self._namespaces)
        root.number = self.root
        parents = pydyf.Dictionary({'Nums': self._numbers})
        parents.number = self._parent_tree
        yield root
        yield parents
