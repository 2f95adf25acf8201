"""One structure tree (tagged PDF) from the trees of all parts (ISO 32000-1, 14.7).

The children of every part's root become children of one root. Keys into the parent tree are counted on
from part to part, and ids of table headers get their part's number in front, since they are unique only
within it.
"""

from __future__ import annotations

from typing import Any

from pypdf.generic import ArrayObject, DictionaryObject, NameObject

from assembler.part import Part, dictionary, lookup, reference
from assembler.pdf_file import PdfFile, extended
from assembler.relocation import encode_name
from assembler.trees import entries


class StructureTree:
    def __init__(self, target: PdfFile) -> None:
        self._target = target
        self._root: int | None = None
        self._language: Any = None
        self._children: list[bytes] = []
        self._leaves: list[tuple[int, int]] = []  # number of the leaf, its last key
        self._next_key = 0
        self._role_map: dict[str, bytes] = {}
        self._class_map: dict[str, bytes] = {}
        self._namespaces: list[bytes] = []

    def take(self, part: Part) -> None:
        tree, root = dictionary(part.catalog, '/StructTreeRoot'), reference(part.catalog, '/StructTreeRoot')
        if tree is None or root is None:
            return
        if self._root is None:
            self._root = self._target.reserve()
            self._language = lookup(part.catalog, '/Lang')
        relocation = part.relocation
        relocation.pin(root, self._root)
        relocation.parent_tree_base = self._next_key
        relocation.id_prefix = b'%d-' % part.index
        self._take_parents(part, tree)
        self._take_children(part, tree)
        self._namespaces += [relocation.encode(item) for item in _items(tree, '/Namespaces')]
        for key, found in (('/RoleMap', self._role_map), ('/ClassMap', self._class_map)):
            for name, value in (dictionary(tree, key) or {}).items():
                found.setdefault(name, relocation.encode(value))

    def _take_children(self, part: Part, tree: DictionaryObject) -> None:
        """A document of another language than the first says so on its own element, as the catalog can name one."""
        language = lookup(part.catalog, '/Lang')
        for kid in _items(tree, '/K'):
            element = kid.get_object()
            if isinstance(element, DictionaryObject) and language and language != self._language:
                element.setdefault(NameObject('/Lang'), language)
            self._children.append(part.relocation.encode(kid))

    def _take_parents(self, part: Part, tree: DictionaryObject) -> None:
        parents = dictionary(tree, '/ParentTree')
        pairs = [(int(key) + self._next_key, value) for key, value in entries(parents, '/Nums')] if parents else []
        if not pairs:
            return
        numbers = b' '.join(b'%d %b' % (key, part.relocation.encode(value)) for key, value in pairs)
        first, last = pairs[0][0], pairs[-1][0]
        leaf = self._target.add(b'<</Limits [%d %d]/Nums [%b]>>' % (first, last, numbers), 'structure')
        self._leaves.append((leaf, last))
        self._next_key = last + 1

    def finish(self) -> dict[str, bytes]:
        if self._root is None:
            return {}
        leaves = b' '.join(b'%d 0 R' % leaf for leaf, _ in self._leaves)
        parents = self._target.add(b'<</Kids [%b]>>' % leaves, 'structure')
        body = b'<</Type/StructTreeRoot/ParentTree %d 0 R/ParentTreeNextKey %d/K [%b]>>' % (
            parents,
            self._next_key,
            b' '.join(self._children),
        )
        for key, found in ((b'/RoleMap', self._role_map), (b'/ClassMap', self._class_map)):
            if found:
                inner = b''.join(encode_name(name) + b' ' + value for name, value in found.items())
                body = extended(body, key + b'<<' + inner + b'>>')
        if self._namespaces:
            body = extended(body, b'/Namespaces [%b]' % b' '.join(dict.fromkeys(self._namespaces)))
        self._target.put(self._root, body, 'structure')
        return {'/StructTreeRoot': b'%d 0 R' % self._root}


def _items(owner: DictionaryObject, key: str) -> list[Any]:
    """The items of an entry that may be one object or an array of them, as they stand, maybe references."""
    value = lookup(owner, key)
    if value is None:
        return []
    return list(value) if isinstance(value, ArrayObject) else [owner.raw_get(key)]
