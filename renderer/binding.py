"""Binding documents into one bundle while they are painted, without writing and reading each one first.

WeasyPrint paints a document into a `pydyf.PDF`. A BoundPDF is one that hands its objects over instead of writing them:
all that pages, outline, form and structure lead to goes into the bundle, under numbers of the bundle; what a
file has once goes into its tables. In a job of several documents, what has a name is named after its item
(`d12/total`): destinations with the links to them, form fields, attachments whose name is taken. Equal images, profiles
and resources are written once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import pydyf

from assembler.bundle import BundleWriter
from assembler.encoding import number as written
from assembler.encoding import text_bytes
from assembler.fontuse import FontUse
from assembler.tables import (
    Bookmark,
    BundledDocument,
    BundledFont,
    Program,
    Tables,
    Template,
    object_slot,
)
from renderer.objects import DocumentObjects, SharedFont, number_in

#: catalog entries that are put together from all documents; the others come from the first
PUT_TOGETHER: Final = frozenset({'Type', 'Pages', 'Names', 'Outlines', 'StructTreeRoot', 'AcroForm', 'AF'})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a document stands in its job. The names of an only document stay as they are."""

    item: int
    window: int = 0
    windows: int = 1
    prefix: str = ''
    title: str = ''


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A bookmark; `page` counts from 0, x and y are in points from the bottom left of the page."""

    level: int
    label: str
    page: int
    x: float
    y: float
    closed: bool


class BoundPDF(pydyf.PDF):  # type: ignore[misc]  # pydyf is not typed
    """A document of a Binder, as WeasyPrint fills it. `write` hands it over instead of writing it."""

    def __init__(self, binder: Binder, place: Place, marks: Sequence[Mark] = ()) -> None:
        super().__init__()
        self._binder = binder
        self.place = place
        self.marks = marks

    def write(self, output: object, version: object = None, identifier: object = None, compress: bool = False) -> None:  # noqa: ARG002 the signature is pydyf's
        self._binder.take(self)


@dataclass(slots=True, kw_only=True)
class _Font:
    number: int
    use: FontUse
    identity: str


class Binder:
    """One bundle on its way to `output`. Version, compression and identifier are the job's, for all documents."""

    def __init__(self, output: BinaryIO, *, version: str, compress: bool, identifier: str = '') -> None:
        self._writer = BundleWriter(output)
        self._version, self._compress, self._identifier = version, compress, identifier
        self._objects = 0
        self.pages_root, self.pages_node = self.reserve(), self.reserve()
        self._structure_root = 0
        self._page_slots: list[int] = []
        self._documents: list[BundledDocument] = []
        self._destinations: list[tuple[bytes, Template]] = []
        self._attachments: list[tuple[bytes, bytes, int]] = []
        self._associated: list[int] = []
        self._fields: list[int] = []
        self._field_fonts: dict[str, int] = {}
        self._catalog: Mapping[str, Template] = {}
        self._info: Mapping[str, Template] | None = None
        self._once: list[int] = []
        self._parents: list[Template] = []
        self._parent_keys = 0
        self._fonts: list[_Font] = []
        #: digests of objects that other parts may have → their number, and the other way round
        self.by_digest: dict[bytes, int] = {}
        self.digests: dict[int, bytes] = {}
        #: images reduced to what this window needs: number, name and ratio
        self.images: list[tuple[int, str, float]] = []
        #: resources by their source
        self.by_source: dict[tuple[bytes, tuple[int, ...]], int] = {}

    def reserve(self) -> int:
        self._objects += 1
        return self._objects

    def font(self, use: FontUse, identity: str) -> SharedFont:
        """Stand-in for a font, the same one for all documents whose uses agree."""
        for font in self._fonts:
            same = font.identity == identity and font.use.face.key == use.face.key
            if same and font.use.admits(use, same_document=False):
                font.use.add(use)
                return SharedFont(font.number)
        self._fonts.append(_Font(number=self.reserve(), use=use, identity=identity))
        return SharedFont(self._fonts[-1].number)

    def take(self, pdf: BoundPDF) -> None:
        """Write a document's objects and note what it brings to the tables."""
        taken = DocumentObjects(self, pdf, self._parent_keys)
        if not self._documents and not pdf.place.window:
            self._take_catalog(pdf, taken)
        self._take_pages(pdf, taken)
        self._take_names(pdf, taken)
        self._take_form(pdf, taken)
        self._documents.append(self._document(pdf, taken))
        taken.write_queued()
        pdf.objects.clear()

    def _take_catalog(self, pdf: BoundPDF, taken: DocumentObjects) -> None:
        """What a file has once, with the objects that belong to nothing else."""
        before = self._objects
        self._catalog = {key: taken.encode(value) for key, value in pdf.catalog.items() if key not in PUT_TOGETHER}
        self._info = {key: taken.encode(value) for key, value in pdf.info.items()} if pdf.info else None
        taken.write_queued()
        self._once = [number for number in range(before + 1, self._objects + 1) if number not in self.digests]

    def _take_pages(self, pdf: BoundPDF, taken: DocumentObjects) -> None:
        for number in pdf.pages['Kids'][::3]:
            self._page_slots.append(taken.slot(number))

    def _take_names(self, pdf: BoundPDF, taken: DocumentObjects) -> None:
        names, prefix = pdf.catalog.get('Names', {}), pdf.place.prefix
        if 'Dests' in names:
            for name, place in _pairs(names['Dests']['Names']):
                self._destinations.append((text_bytes(prefix + _text(name)), taken.encode(place)))
        if 'EmbeddedFiles' in names:
            for name, file in _pairs(_target(pdf, names['EmbeddedFiles'])['Names']):
                other = text_bytes((prefix or 'd0/') + _text(name))
                self._attachments.append((_bytes(name), other, taken.slot(number_in(file))))
        self._associated += [taken.slot(number_in(file)) for file in pdf.catalog.get('AF', ())]

    def _take_form(self, pdf: BoundPDF, taken: DocumentObjects) -> None:
        form = pdf.catalog.get('AcroForm')
        if form is None:
            return
        for reference in form['Fields']:
            if 'Parent' not in _target(pdf, reference):  # WeasyPrint also lists radio buttons, which their group brings
                self._fields.append(taken.slot(number_in(reference)))
        for name, font in _target(pdf, _target(pdf, form['DR'])['Font']).items():
            self._field_fonts.setdefault(name, taken.slot(number_in(font)))

    def _document(self, pdf: BoundPDF, taken: DocumentObjects) -> BundledDocument:
        place, pages = pdf.place, pdf.pages['Kids'][::3]
        bookmarks = [
            Bookmark(
                level=mark.level, label=mark.label, page=taken.slot(pages[mark.page]),
                place=_point(mark.x, mark.y), closed=mark.closed,
            )
            for mark in pdf.marks
        ]  # fmt: skip
        reference = pdf.catalog.get('StructTreeRoot')
        document = BundledDocument(
            item=place.item, window=place.window, windows=place.windows, heading=_heading(pdf, taken),
            bookmarks=bookmarks,
        )  # fmt: skip
        if reference is None:
            return document
        root = _target(pdf, reference)
        self._structure_root = self._structure_root or self.reserve()
        taken.numbers[root.number] = self._structure_root
        (kid,) = root['K']
        element = _target(pdf, kid)
        element_number = taken.numbers[element.number] = self.reserve()
        self._take_parents(_target(pdf, root['ParentTree'])['Nums'], taken)
        return replace(
            document,
            element=object_slot(element_number),
            language=taken.encode(pdf.catalog['Lang']).text.decode('latin-1') if 'Lang' in pdf.catalog else '',
            namespace=_text(_target(pdf, element['NS'])['NS']) if 'NS' in element else '',
            kids=[taken.slot(number_in(kid)) for kid in element['K']],
        )

    def _take_parents(self, entries: Sequence[Any], taken: DocumentObjects) -> None:
        for key, value in _pairs(entries):
            encoded = taken.encode(value)
            self._parents.append(Template(text=b'%d ' + encoded.text, slots=[taken.key(key), *encoded.slots]))
            self._parent_keys += 1

    def write_stream(self, number: int, dictionary: Template, data: bytes) -> None:
        self._writer.put_stream(number, dictionary, data)

    def write_object(self, number: int, source: Template, *, structural: bool = False) -> None:
        self._writer.put(number, source, 'structure' if structural else 'pages')

    def close(self, programs: Iterable[tuple[str, bytes, Collection[int]]]) -> None:
        """Write what belongs to all documents. `programs`: identity, font program and its glyphs (none: whole)."""
        self._write_pages_node()
        leaf = self._write_parent_leaf()
        written = []
        for identity, content, glyphs in programs:
            offset, length = self._writer.put_program(content)
            written.append(Program(identity=identity, offset=offset, length=length, glyphs=sorted(glyphs)))
        index_of = {(program.identity, not program.glyphs): index for index, program in enumerate(written)}
        fonts = [
            BundledFont(slot=object_slot(font.number), program=index_of[font.identity, font.use.is_whole], use=font.use)
            for font in self._fonts
        ]
        self._writer.close(
            Tables(
                version=self._version, compress=self._compress, identifier=self._identifier, objects=self._objects,
                pages=len(self._page_slots), pages_node=object_slot(self.pages_node),
                pages_root=object_slot(self.pages_root), structure_root=object_slot(self._structure_root),
                parent_keys=self._parent_keys, parent_leaf=object_slot(leaf), documents=self._documents,
                destinations=self._destinations, catalog=self._catalog, info=self._info, fields=self._fields,
                field_fonts=self._field_fonts, attachments=self._attachments, associated=self._associated,
                fonts=fonts,
                programs=written,
                once=self._once,
                images=self.images,
                shared=[(number, digest.hex()) for number, digest in self.digests.items()],
            )
        )  # fmt: skip

    def _write_pages_node(self) -> None:
        kids = b' '.join([b'%d 0 R'] * len(self._page_slots))
        text = b'<</Type/Pages/Parent %%d 0 R/Kids [%b]/Count %d>>' % (kids, len(self._page_slots))
        slots = [object_slot(self.pages_root), *self._page_slots]
        self._writer.put(self.pages_node, Template(text=text, slots=slots), 'index')

    def _write_parent_leaf(self) -> int:
        if not self._parents:
            return 0
        number = self.reserve()
        limits = self._parents[0].slots[0], self._parents[-1].slots[0]
        text = b'<</Limits [%d %d]/Nums [' + b' '.join(item.text for item in self._parents) + b']>>'
        slots = [*limits, *(slot for item in self._parents for slot in item.slots)]
        self._writer.put(number, Template(text=text, slots=slots), 'structure')
        return number


def _heading(pdf: BoundPDF, taken: DocumentObjects) -> Bookmark | None:
    """The document itself, as a bookmark that leads to the top of its first page."""
    if pdf.place.window or not pdf.pages['Count']:
        return None
    first = pdf.pages['Kids'][0]
    left, _, _, top = pdf.objects[first]['MediaBox']
    label = pdf.place.title or f'Document {pdf.place.item + 1}'
    return Bookmark(level=0, label=label, page=taken.slot(first), place=_point(left, top), closed=False)


def _point(x: float, y: float) -> str:
    return f'/XYZ {written(x).decode()} {written(y).decode()} 0'


def _target(pdf: BoundPDF, reference: bytes) -> Any:
    return pdf.objects[number_in(reference)]


def _pairs(entries: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(entries[::2], entries[1::2], strict=True)


def _text(string: Any) -> str:
    """The text of a pydyf.String, which may hold bytes."""
    text: str | bytes = string.string
    return text.decode('utf-8', 'replace') if isinstance(text, bytes) else text


def _bytes(string: Any) -> bytes:
    text: str | bytes = string.string
    return text if isinstance(text, bytes) else text_bytes(text)
