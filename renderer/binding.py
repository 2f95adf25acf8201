"""Binding documents into one PDF while they are painted, without writing and reading each one first.

WeasyPrint paints a document into a `pydyf.PDF`. A BoundPDF is one whose objects are numbered onward from
those of the documents before it, so that all of them fit into one file as they are: nothing has to be
relocated, and only the catalog is put together anew. What a document may have only once is named after its item
(`d12/total`): destinations with the links to them, form fields, attachments whose name is taken. Language, XMP,
output intent and document information come from the first document. Equal images and profiles are written once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import pydyf

from assembler.pdf_file import PdfFile
from renderer.trees import NameTree, StructureTree, encoded

#: catalog entries that are put together from all documents; the others come from the first
_PUT_TOGETHER: Final = frozenset({'Type', 'Pages', 'Names', 'Outlines', 'StructTreeRoot', 'AcroForm', 'AF'})


class SharedStream(bytes):
    """Content of a stream that several documents use; it is written when the last of them is known."""

    number: int


class BoundPDF(pydyf.PDF):  # type: ignore[misc]  # pydyf is not typed
    """A document of a Binder, as WeasyPrint fills it. `write` hands it over instead of writing it."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self.by_number: dict[int, Any] = {}
        super().__init__()
        self.objects = _ByNumber(self.by_number)
        self.objects.extend(self.by_number.values())

    def add_object(self, object_: Any) -> None:
        if object_.free == 'f':
            object_.number = 0
            return
        object_.number, is_new = self._binder.place(object_)
        if is_new:
            self.objects.append(object_)
            self.by_number[object_.number] = object_

    def write(self, output: object, version: object = None, identifier: object = None, compress: bool = False) -> None:  # noqa: ARG002 the signature is pydyf's
        self._binder.take(self)


class _ByNumber(list[Any]):
    """pydyf's list of objects; WeasyPrint looks them up in it by number."""

    def __init__(self, by_number: dict[int, Any]) -> None:
        super().__init__()
        self._by_number = by_number

    def __getitem__(self, number: Any) -> Any:
        return self._by_number[number]


class Binder:
    """One PDF on its way to `output`. `version` and `compress` are the job's, for all documents the same."""

    def __init__(self, output: BinaryIO, *, version: str, compress: bool) -> None:
        self._file = PdfFile(output, version=version, compress=compress)
        self._root, self._pages_root = self._file.reserve(), self._file.reserve()
        self._outlines_root = self._file.reserve()
        self._placed: dict[bytes, int] = {}
        self._placed_now: dict[bytes, int] = {}
        self._prefix = ''
        self._page_nodes: list[int] = []
        self._catalog: dict[str, Any] | None = None
        self._info: Any = None
        self._destinations = NameTree()
        self._attachments = NameTree()
        self._associated: list[bytes] = []
        self._outline_ends: list[tuple[bytes, Any]] = []
        self._outline_count = 0
        self._structure = StructureTree(self._file.reserve(), self._file.reserve())
        self._fields: list[bytes] = []
        self._form_fonts: dict[str, Any] = {}
        self.pages = 0

    def begin(self, item: int) -> Callable[[], BoundPDF]:
        """Start the document of an item; what is returned stands in for the class pydyf.PDF."""
        self._prefix = f'd{item}/'
        self._placed_now = {}  # what a document that failed has placed was never written
        return lambda: BoundPDF(self)

    def reserve(self) -> int:
        return self._file.reserve()

    def place(self, object_: Any) -> tuple[int, bool]:
        """The number of an object of the present document, and whether it has yet to be written."""
        if not isinstance(object_, pydyf.Stream):
            return self._file.reserve(), True
        if object_.stream and isinstance(object_.stream[0], SharedStream):
            return object_.stream[0].number, False
        if object_.extra.get('Subtype') != '/Image' and 'N' not in object_.extra:
            return self._file.reserve(), True
        digest = hashlib.sha256(object_.data).digest()
        known = self._placed.get(digest) or self._placed_now.get(digest)
        if known is not None:
            return known, False
        number = self._placed_now[digest] = self._file.reserve()
        return number, True

    def put_shared(self, number: int, stream: Any) -> None:
        """Write a stream that a SharedStream stood for."""
        self._file.put_stream(number, stream.data)

    def take(self, pdf: BoundPDF) -> None:
        """Write a document's objects and note what it brings to the catalog."""
        self._placed |= self._placed_now
        unwritten = {pdf.catalog.number}
        self._take_pages(pdf)
        self._take_names(pdf)
        unwritten |= self._take_outline(pdf)
        unwritten |= self._structure.take(pdf)
        self._take_form(pdf)
        if self._catalog is None:
            self._catalog = {key: value for key, value in pdf.catalog.items() if key not in _PUT_TOGETHER}
            self._info = pdf.info or None
        for object_ in pdf.objects:
            if object_.number not in unwritten:
                self._put(object_)
        pdf.objects.clear()
        pdf.by_number.clear()

    def _put(self, object_: Any) -> None:
        if isinstance(object_, pydyf.Dictionary | pydyf.Array):
            structural = isinstance(object_, dict) and object_.get('Type') == '/StructElem'
            self._file.put(object_.number, object_.data, 'structure' if structural else 'pages')
        else:
            self._file.put_stream(object_.number, object_.data)

    def _take_pages(self, pdf: BoundPDF) -> None:
        pdf.pages['Parent'] = _reference(self._pages_root)
        self._page_nodes.append(pdf.pages.number)
        self.pages += pdf.pages['Count']

    def _take_names(self, pdf: BoundPDF) -> None:
        names = pdf.catalog.get('Names', {})
        if 'Dests' in names:
            pairs = names['Dests']['Names']
            for name, place in zip(pairs[::2], pairs[1::2], strict=True):
                self._destinations.add(encoded(self._prefix + name.string), place.data)
            for object_ in pdf.objects:
                if isinstance(object_, dict) and object_.get('Subtype') == '/Link' and 'Dest' in object_:
                    object_['Dest'] = pydyf.String(self._prefix + object_['Dest'].string)
        if 'EmbeddedFiles' in names:
            holder = _target(pdf, names['EmbeddedFiles'])
            for name, file in zip(holder['Names'][::2], holder['Names'][1::2], strict=True):
                self._attachments.add_renamed(encoded(_text(name)), encoded(self._prefix + _text(name)), file)
        self._associated += pdf.catalog.get('AF', ())

    def _take_outline(self, pdf: BoundPDF) -> set[int]:
        """Chain the document's outline to that of the documents before; the objects that must not be written yet."""
        if 'Outlines' not in pdf.catalog:
            return set()
        root = _target(pdf, pdf.catalog['Outlines'])
        first, last = _target(pdf, root['First']), _target(pdf, root['Last'])
        for entry in _siblings(pdf, first):
            entry['Parent'] = _reference(self._outlines_root)
        if self._outline_ends:
            previous = self._outline_ends[-1][1]
            previous['Next'] = first.reference
            first['Prev'] = previous.reference
            self._put(previous)
        self._outline_ends = [*self._outline_ends[:1], (first.reference, last)]
        self._outline_count += root['Count']
        return {root.number, last.number}

    def _take_form(self, pdf: BoundPDF) -> None:
        form = pdf.catalog.get('AcroForm')
        if form is None:
            return
        for reference in form['Fields']:
            field = _target(pdf, reference)
            if 'Parent' not in field:  # WeasyPrint also lists radio buttons, which their group brings
                field['T'] = pydyf.String(self._prefix + _text(field['T']))
                self._fields.append(reference)
        fonts = _target(pdf, _target(pdf, form['DR'])['Font'])
        for name, font in fonts.items():
            self._form_fonts.setdefault(name, font)

    def close(self) -> None:
        """Write what belongs to all documents."""
        entries: dict[str, Any] = {'Type': '/Catalog', 'Pages': _reference(self._pages_root), **(self._catalog or {})}
        self._file.put(self._pages_root, _pages(self._page_nodes, self.pages))
        names = {}
        if self._destinations:
            names['Dests'] = pydyf.Dictionary({'Names': self._destinations.encode()})
        if self._attachments:
            names['EmbeddedFiles'] = pydyf.Dictionary({'Names': self._attachments.encode()})
        if names:
            entries['Names'] = pydyf.Dictionary(names)
        if self._associated:
            entries['AF'] = pydyf.Array(self._associated)
        if self._outline_ends:
            entries['Outlines'] = self._put_outline_root()
        if self._fields:
            resources = pydyf.Dictionary({'Font': pydyf.Dictionary(self._form_fonts)})
            entries['AcroForm'] = pydyf.Dictionary(
                {'Fields': pydyf.Array(self._fields), 'DR': resources, 'NeedAppearances': 'true'}
            )
        for object_ in self._structure.finish():
            self._put(object_)
            entries['StructTreeRoot'] = _reference(self._structure.root)
        info = None
        if self._info is not None:
            info = self._file.add(self._info.data)
        self._file.put(self._root, pydyf.Dictionary(entries).data)
        self._file.close(root=self._root, info=info)

    def _put_outline_root(self) -> bytes:
        first, last = self._outline_ends[0][0], self._outline_ends[-1][1]
        self._put(last)
        root = pydyf.Dictionary({'Count': self._outline_count, 'First': first, 'Last': last.reference})
        self._file.put(self._outlines_root, root.data)
        return _reference(self._outlines_root)


def _pages(nodes: list[int], count: int) -> bytes:
    kids = pydyf.Array(_reference(node) for node in nodes)
    data: bytes = pydyf.Dictionary({'Type': '/Pages', 'Kids': kids, 'Count': count}).data
    return data


def _reference(number: int) -> bytes:
    return b'%d 0 R' % number


def _target(pdf: BoundPDF, reference: bytes) -> Any:
    return pdf.by_number[int(reference.split()[0])]


def _siblings(pdf: BoundPDF, entry: Any) -> Iterator[Any]:
    while True:
        yield entry
        if 'Next' not in entry:
            return
        entry = _target(pdf, entry['Next'])


def _text(string: Any) -> str:
    """The text of a pydyf.String, which may hold bytes."""
    return string.string.decode('utf-8', 'replace') if isinstance(string.string, bytes) else string.string
