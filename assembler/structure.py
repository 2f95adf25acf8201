"""One structure tree over all parts (ISO 32000-1, 14.7): a root, an element for each document, one parent tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from assembler.encoding import array, dictionary, reference, references, string
from assembler.pdf_file import PdfFile
from assembler.tables import BundledDocument, Tables


@dataclass(slots=True, kw_only=True)
class _Element:
    """The structure element of a document, whose kids come window by window."""

    number: int
    language: str
    namespace: str
    kids: list[int] = field(default_factory=list)


class Structure:
    """The tree while parts are added to it."""

    def __init__(self, file: PdfFile) -> None:
        self._file = file
        self._root = 0
        self._elements: list[_Element] = []
        self._leaves: list[int] = []
        self._next_key = 0

    def assign(self, tables: Tables, numbers: list[int]) -> None:
        """Give numbers to what a part refers to and does not have: the root, and an element for each document."""
        if not tables.structure_root:
            return
        self._root = self._root or self._file.reserve()
        numbers[tables.structure_root] = self._root
        for document in tables.documents:
            if document.element:
                if not document.window or not self._elements:
                    self._begin(document)
                numbers[document.element] = self._elements[-1].number

    def _begin(self, document: BundledDocument) -> None:
        self._elements.append(
            _Element(number=self._file.reserve(), language=document.language, namespace=document.namespace)
        )

    def keys(self, count: int) -> range:
        """So many keys into the parent tree, taken by nobody yet."""
        first = self._next_key
        self._next_key += count
        return range(first, self._next_key)

    def take(self, tables: Tables, numbers: list[int]) -> None:
        """Take over what a part's documents have, once all of it has its number."""
        tagged = [document for document in tables.documents if document.element]
        elements = {element.number: element for element in self._elements[-len(tagged) :]} if tagged else {}
        for document in tagged:
            element = elements[numbers[document.element]]
            element.kids += [numbers[slot] for slot in document.kids]
        if tables.parent_leaf:
            self._leaves.append(numbers[tables.parent_leaf])

    def finish(self, language: bytes) -> dict[str, bytes]:
        """Write the tree; its entry of the catalog, none if no document is tagged. `language` is that of the file."""
        if not self._elements:
            return {}
        namespaces: dict[str, int] = {}
        for element in self._elements:
            entries = {'Type': b'/StructElem', 'S': b'/Document', 'P': reference(self._root)}
            if element.namespace:
                if element.namespace not in namespaces:
                    said = {'Type': b'/Namespace', 'NS': string(element.namespace.encode())}
                    namespaces[element.namespace] = self._file.add(dictionary(said), 'structure')
                entries['NS'] = reference(namespaces[element.namespace])
            if element.language.encode() not in {b'', language}:
                entries['Lang'] = element.language.encode()
            self._file.put(element.number, dictionary({**entries, 'K': references(element.kids)}), 'structure')
        parents = self._file.add(dictionary({'Kids': references(self._leaves)}), 'structure')
        root = {
            'Type': b'/StructTreeRoot',
            'K': references(element.number for element in self._elements),
            'ParentTree': reference(parents),
            'ParentTreeNextKey': b'%d' % self._next_key,
        }
        if namespaces:
            root['Namespaces'] = array(reference(number) for number in namespaces.values())
        self._file.put(self._root, dictionary(root), 'structure')
        return {'StructTreeRoot': reference(self._root)}
