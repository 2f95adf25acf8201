"""An existing PDF as a part: read with pypdf and written as a bundle, once. Pure.

Kept are pages as they look, outline, destinations and the links to them, form fields, attached files, title and
language. What belongs to a whole file is left out, and said: tags, layers, scripts, signatures, XFA. An encrypted or
broken file is refused. A hostile one meets limits: objects are read once each, trees are walked without recursion, and
never through the same node twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, StreamObject

from assembler.bundle import BundleWriter
from assembler.encoding import text
from assembler.foreign import ForeignEncoder
from assembler.tables import Bookmark, BundledDocument, Tables, Template, object_slot
from runtime.errors import Problem, Refusal

#: entries that a page may have from the nodes above it (ISO 32000-1, 7.7.3.4)
INHERITED: Final = ('/Resources', '/MediaBox', '/CropBox', '/Rotate')
INFORMATION: Final = ('Title', 'Author', 'Subject', 'Keywords', 'Creator')
MOST_OBJECTS: Final = 2_000_000
MOST_NODES: Final = 500_000
DEEPEST: Final = 60
#: entries of the catalog that are left out, and what they stand for
OF_THE_FILE: Final = {
    '/StructTreeRoot': 'tags', '/OCProperties': 'layers', '/OpenAction': 'scripts and other actions',
    '/AA': 'scripts and other actions', '/PageLabels': 'page labels',
}  # fmt: skip
#: what reading a PDF that is not what it seems may raise
UNREADABLE: Final = (PyPdfError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of a PDF: its pages, and what of it was left out, in words."""

    pages: int
    left_out: tuple[str, ...]


def check_pdf(source: BinaryIO, name: str) -> int:
    """How many pages a PDF has. Raises Refusal (pdf-invalid), naming it, if it is encrypted or broken."""
    return len(_read(source, name).pages)


def import_pdf(
    source: BinaryIO, out: BinaryIO, *, name: str, item: int, prefix: str, version: str, compress: bool
) -> Imported:
    """Write a PDF as a bundle, for a file of this version. `prefix` goes before what it names. Raises Refusal."""
    foreign = _read(source, name)
    try:
        return _Import(foreign, out, item=item, prefix=prefix).write(version, compress)
    except UNREADABLE as error:
        raise _refusal(name, f'{type(error).__name__}: {error}') from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Foreign:
    catalog: DictionaryObject
    information: DictionaryObject
    pages: list[tuple[IndirectObject, DictionaryObject]]


def _refusal(name: str, why: str) -> Refusal:
    return Refusal(Problem(name='pdf-invalid', detail=f'{name}: {why}', extra={'file': name}))


def _read(file: BinaryIO, name: str) -> _Foreign:
    try:
        reader = PdfReader(file, strict=False)
        if reader.is_encrypted:
            raise _refusal(name, 'it is encrypted')
        catalog = reader.root_object
        information = _below(reader.trailer, '/Info')
        pages = list(_pages(catalog.raw_get('/Pages')))
    except UNREADABLE as error:
        raise _refusal(name, f'it cannot be read: {type(error).__name__}: {error}') from error
    if not pages:
        raise _refusal(name, 'it has no pages')
    return _Foreign(catalog=catalog, information=information, pages=pages)


def _pages(root: IndirectObject) -> Iterator[tuple[IndirectObject, DictionaryObject]]:
    """All pages with what they inherit, in order. Raises ValueError where the tree leads back to itself."""
    seen: set[int] = set()
    waiting: list[tuple[IndirectObject, dict[str, Any]]] = [(root, {})]
    while waiting:
        node, above = waiting.pop()
        if not isinstance(node, IndirectObject) or node.idnum in seen or len(seen) > MOST_NODES:
            raise ValueError('the page tree leads back to itself, or is endless')
        seen.add(node.idnum)
        content = _dictionary(node)
        inherited = above | {key: content.raw_get(key) for key in INHERITED if key in content}
        if '/Kids' in content:
            waiting.extend((kid, inherited) for kid in reversed(_value(content, '/Kids')))
        else:
            yield node, DictionaryObject({**dict(content.items()), **inherited})


class _Import:
    """One PDF on its way into a bundle."""

    def __init__(self, foreign: _Foreign, out: BinaryIO, *, item: int, prefix: str) -> None:
        self._foreign = foreign
        self._writer = BundleWriter(out)
        self._item, self._prefix = item, prefix
        self._root, self._node = 1, 2
        self._objects = 2
        self._numbers: dict[int, int] = {}
        self._queue: deque[tuple[int, IndirectObject]] = deque()
        self._encoder = ForeignEncoder(self._number_of, prefix)
        self._pages = [self._reserve(page) for page, _ in foreign.pages]
        self._page_numbers = frozenset(self._pages)

    def _reserve(self, reference: IndirectObject) -> int:
        self._objects += 1
        if self._objects > MOST_OBJECTS:
            raise ValueError('it has too many objects')
        self._numbers[reference.idnum] = self._objects
        return self._objects

    def _number_of(self, reference: IndirectObject) -> int:
        known = self._numbers.get(reference.idnum)
        if known is not None:
            return known
        content = reference.get_object()
        if isinstance(content, DictionaryObject) and _value(content, '/Type') in {'/Page', '/Pages', '/Catalog'}:
            self._numbers[reference.idnum] = 0  # a page that is not in the page tree
            return 0
        number = self._reserve(reference)
        self._queue.append((number, reference))
        return number

    def write(self, version: str, compress: bool) -> Imported:
        left_out = {what for key, what in OF_THE_FILE.items() if key in self._foreign.catalog}
        for number, (_, page) in zip(self._pages, self._foreign.pages, strict=True):
            self._writer.put(number, self._page(page))
        fields, fonts = self._form(left_out)
        destinations = [(self._encoder.named(name), place) for name, place in self._destinations()]
        attachments = list(self._attachments())
        bookmarks = list(self._bookmarks())
        self._write_queued()
        self._write_node()
        self._writer.close(
            Tables(
                version=version, compress=compress, objects=self._objects, pages=len(self._pages),
                pages_node=object_slot(self._node), pages_root=object_slot(self._root),
                documents=[BundledDocument(item=self._item, heading=self._heading(), bookmarks=bookmarks)],
                destinations=destinations, fields=fields, field_fonts=fonts, attachments=attachments,
                catalog=self._catalog(), info=self._info(),
            )
        )  # fmt: skip
        return Imported(pages=len(self._pages), left_out=tuple(sorted(left_out | self._encoder.left_out)))

    def _page(self, page: DictionaryObject) -> Template:
        body = self._encoder.encode(page, without=frozenset({'/Parent', '/Type', '/Metadata'}))
        head = b'<</Type/Page/Parent %d 0 R'
        return Template(text=head + body.text.removeprefix(b'<<'), slots=[object_slot(self._node), *body.slots])

    def _write_queued(self) -> None:
        while self._queue:
            number, reference = self._queue.popleft()
            content = reference.get_object()
            if isinstance(content, StreamObject):
                data: bytes = content._data
                body = self._encoder.encode(content, without=frozenset({'/Length'}))
                ended = Template(text=body.text[:-2] + b'/Length %d>>' % len(data), slots=body.slots)
                self._writer.put_stream(number, ended, data)
            else:
                self._writer.put(number, self._encoder.encode(content))

    def _write_node(self) -> None:
        kids = b' '.join([b'%d 0 R'] * len(self._pages))
        source = b'<</Type/Pages/Parent %%d 0 R/Kids [%b]/Count %d>>' % (kids, len(self._pages))
        slots = [object_slot(self._root), *map(object_slot, self._pages)]
        self._writer.put(self._node, Template(text=source, slots=slots), 'index')

    def _catalog(self) -> dict[str, Template]:
        language = _value(self._foreign.catalog, '/Lang')
        return {} if language is None else {'Lang': self._encoder.encode(language)}

    def _info(self) -> dict[str, Template]:
        found = self._foreign.information
        return {key: self._encoder.encode(found[f'/{key}']) for key in INFORMATION if f'/{key}' in found}

    def _heading(self) -> Bookmark:
        _, first = self._foreign.pages[0]
        sides: Any = first['/MediaBox']
        box = [float(side) for side in sides]
        label = str(_value(self._foreign.information, '/Title') or '') or f'Document {self._item + 1}'
        place = f'/XYZ {box[0]:g} {box[3]:g} 0'
        return Bookmark(level=0, label=label, page=object_slot(self._pages[0]), place=place, closed=False)

    def _form(self, left_out: set[str]) -> tuple[list[int], dict[str, int]]:
        """Slots of the form's fields, renamed, and fonts it names."""
        form = _below(self._foreign.catalog, '/AcroForm')
        if '/XFA' in form:
            left_out.add('XFA')
        slots = []
        for reference in _value(form, '/Fields') or ():
            field = _dictionary(reference)
            if _value(field, '/FT') == '/Sig':
                left_out.add('signatures')
            elif isinstance(reference, IndirectObject) and field and '/Parent' not in field:
                slots.append(object_slot(self._field(reference, field, form)))
        fonts = _below(form, '/DR', '/Font')
        named = {key: fonts.raw_get(key) for key in fonts}
        return slots, {
            key.removeprefix('/'): object_slot(self._number_of(font))
            for key, font in named.items()
            if slots and isinstance(font, IndirectObject)
        }

    def _field(self, reference: IndirectObject, field: DictionaryObject, form: DictionaryObject) -> int:
        """Write a field without a parent, under the name it has from its document."""
        number = self._numbers.get(reference.idnum) or self._reserve(reference)
        self._queue = deque(entry for entry in self._queue if entry[0] != number)
        body = self._encoder.encode(field, without=frozenset({'/T', '/Parent', '/DA'}))
        name = text(self._prefix + str(_value(field, '/T') or f'field-{reference.idnum}')).replace(b'%', b'%%')
        appearance = _value(field, '/DA') or _value(form, '/DA')
        more = b'' if appearance is None else b'/DA ' + self._encoder.encode(appearance).text
        source = body.text[:-2] + b'/T ' + name + more + b'>>'
        self._writer.put(number, Template(text=source, slots=body.slots))
        return number

    def _attachments(self) -> Iterator[tuple[bytes, bytes, int]]:
        names = _below(self._foreign.catalog, '/Names', '/EmbeddedFiles')
        for name, value in _named(names):
            if isinstance(value, IndirectObject):
                raw = name.original_bytes
                yield raw, self._prefix.encode() + raw, object_slot(self._number_of(value))

    def _destinations(self) -> Iterator[tuple[Any, Template]]:
        """Names with where they lead: from the name tree, and as PDF 1.1 had them."""
        catalog = self._foreign.catalog
        for name, value in _named(_below(catalog, '/Names', '/Dests')):
            if self._leads_to_a_page(value):
                yield name, self._encoder.encode(_place(value))
        for name, value in _below(catalog, '/Dests').items():
            if self._leads_to_a_page(value):
                yield name, self._encoder.encode(_place(value))

    def _leads_to_a_page(self, value: Any) -> bool:
        place = _place(value)
        first = place[0] if isinstance(place, ArrayObject) and place else None
        return isinstance(first, IndirectObject) and self._numbers.get(first.idnum) in self._page_numbers

    def _bookmarks(self) -> Iterator[Bookmark]:
        """The outline, flat."""
        names = dict(self._by_name())
        seen: set[int] = set()
        first = _below(self._foreign.catalog, '/Outlines')
        waiting = [(first.raw_get('/First'), 1)] if '/First' in first else []
        while waiting:
            reference, level = waiting.pop()
            if not isinstance(reference, IndirectObject) or reference.idnum in seen or level > DEEPEST:
                continue
            seen.add(reference.idnum)
            entry = _dictionary(reference)
            page, place = self._target(entry, names)
            closed = int(_value(entry, '/Count') or 0) < 0
            yield Bookmark(level=level, label=str(_value(entry, '/Title') or ''), page=page, place=place, closed=closed)
            for key, below in (('/Next', level), ('/First', level + 1)):
                if key in entry:
                    waiting.append((entry.raw_get(key), below))

    def _by_name(self) -> Iterator[tuple[bytes, Any]]:
        catalog = self._foreign.catalog
        for name, value in _named(_below(catalog, '/Names', '/Dests')):
            yield self._encoder.named(name), value
        for name, value in _below(catalog, '/Dests').items():
            yield self._encoder.named(name), value

    def _target(self, entry: DictionaryObject, names: dict[bytes, Any]) -> tuple[int, str]:
        """Slot of the page that an entry leads to, and where on it; 0 and nothing if to none."""
        target = _value(entry, '/Dest')
        action = _below(entry, '/A')
        if target is None and _value(action, '/S') == '/GoTo':
            target = _value(action, '/D')
        if target is not None and not isinstance(target, ArrayObject | DictionaryObject):
            target = names.get(self._encoder.named(target))
        if target is None or not self._leads_to_a_page(target):
            return 0, ''
        page, *rest = _place(target)
        place = self._encoder.encode(ArrayObject(rest))
        said = '/Fit' if place.slots or not rest else place.text[1:-1].decode('latin-1')
        return object_slot(self._numbers[page.idnum]), said


def _dictionary(value: Any) -> DictionaryObject:
    """A dictionary, direct or not; an empty one where there is none."""
    content = value.get_object() if value is not None else None
    return content if isinstance(content, DictionaryObject) else DictionaryObject()


def _value(owner: DictionaryObject, key: str) -> Any:
    """What stands under a key, its reference resolved (`DictionaryObject.get` does not)."""
    return owner[key] if key in owner else None  # noqa: SIM401


def _below(owner: DictionaryObject, *keys: str) -> DictionaryObject:
    """The dictionary under a key, or under a key of that; an empty one where there is none."""
    for key in keys:
        owner = _dictionary(_value(owner, key))
    return owner


def _place(value: Any) -> Any:
    """The array of a destination, which may stand in a dictionary."""
    content = value.get_object()
    return _value(content, '/D') if isinstance(content, DictionaryObject) else content


def _named(root: DictionaryObject) -> Iterator[tuple[Any, Any]]:
    """Entries of a name tree, in order."""
    waiting, walked = [root], 0
    while waiting:
        node = waiting.pop()
        walked += 1
        if walked > MOST_NODES:
            raise ValueError('a name tree leads back to itself')
        pairs = _value(node, '/Names') or ()
        yield from zip(pairs[::2], pairs[1::2], strict=False)
        waiting.extend(_dictionary(kid) for kid in reversed(_value(node, '/Kids') or ()))
