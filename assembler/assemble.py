"""Painted parts → one PDF, in the order given: bundles in, bytes out. Pure.

Objects are copied as they come; what stands in a slot gets its number in the merged file. What a document or a file
has once is put together at the end: page tree, outline, names, fonts, structure tree, form, attachments. What a file
says of itself (language, XMP, output intent, information) comes from the first part. Nothing a part brings is lost,
nothing is parsed, memory is that of one part's tables and of all names. The same bundles give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assembler.attachments import Attachments
from assembler.bundle import Bundle, Sheet
from assembler.contents import Contents
from assembler.encoding import dictionary, reference, references, text
from assembler.fonts import Fonts
from assembler.forms import Form
from assembler.images import Images
from assembler.outline import Outline
from assembler.pdf_file import PdfFile
from assembler.structure import Structure
from assembler.tables import Tables, object_slot
from assembler.trees import NameTree
from runtime.errors import ObjectCorrupt

#: key of the job's `metadata` → entry of the information dictionary
INFORMATION: Final = {'title': 'Title', 'author': 'Author', 'subject': 'Subject', 'keywords': 'Keywords'}


def assemble(
    paths: Sequence[Path],
    *,
    metadata: Mapping[str, Any] | None = None,
    report: Callable[[int], None] | None = None,
    document_bookmarks: bool = False,
    partial: bool = False,
) -> Generator[bytes, None, Contents]:
    """The bytes of the PDF; what it holds is returned at the end.

    `metadata` has the keys of INFORMATION; `report` is told the index of each part before it is read. With
    `document_bookmarks` each of several documents has a bookmark above its own. With `partial` windows of a document
    may be missing before and after those that are there. Raises ObjectCorrupt, naming the file that is no whole bundle.
    """
    joining: _Joining | None = None
    for index, path in enumerate(paths):
        if report:
            report(index)
        with Bundle.open(path) as bundle:
            if joining is None:
                joining = _Joining(bundle.tables, document_bookmarks=document_bookmarks, partial=partial)
            yield from joining.take(bundle)
    if joining is None:
        raise ValueError('nothing to assemble')
    yield from joining.finish(metadata or {})
    return joining.contents


class _Joining:
    """The merged file while parts are added to it."""

    def __init__(self, first: Tables, *, document_bookmarks: bool, partial: bool) -> None:
        self._file = PdfFile(version=first.version, compress=first.compress)
        self._root, self._pages_root = self._file.reserve(), self._file.reserve()
        self._identifier = first.identifier
        self._catalog: dict[str, bytes] | None = None
        self._info: dict[str, bytes] | None = None
        self._page_nodes: list[int] = []
        self._pages = 0
        #: SHA-256 of an object that parts may share → its number
        self._shared: dict[str, int] = {}
        #: number of the document that the last part ended with, and the windows of it that are still to come
        self._document = -1
        self._expected = range(first.documents[0].window, first.documents[0].windows) if partial else range(0)
        self._partial = partial
        self._destinations = NameTree()
        self._outline = Outline(names_documents=document_bookmarks)
        self._fonts = Fonts(self._file)
        self._images = Images(self._file)
        self._structure = Structure(self._file)
        self._form = Form()
        self._attachments = Attachments()

    def take(self, bundle: Bundle) -> Iterator[bytes]:
        """Copy a part. Raises ObjectCorrupt."""
        tables = bundle.tables
        try:
            numbers, known = self._number(bundle)
            yield from self._copy(bundle, numbers, known)
            self._take_tables(tables, numbers)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ObjectCorrupt(f'{bundle.name}: a number is out of range: {error}') from error

    def _number(self, bundle: Bundle) -> tuple[list[Any], frozenset[int]]:
        """What each slot of a part stands for, and the objects that are not to be written (again)."""
        tables = bundle.tables
        # a slot without a meaning stays None, which no template takes for a number
        numbers: list[Any] = [None] * (2 * (max(tables.objects, tables.parent_keys) + 1))
        numbers[tables.pages_root] = self._pages_root
        document = self._count_documents(bundle)
        for font, number in zip(tables.fonts, self._fonts.take(bundle, document), strict=True):
            numbers[font.slot] = number
        self._structure.assign(tables, numbers)
        known = set(tables.once if self._page_nodes else ())
        known |= self._images.assign(tables, numbers)
        for shared, digest in tables.shared:
            if digest in self._shared:
                numbers[object_slot(shared)] = self._shared[digest]
                known.add(shared)
        objects = range(1, tables.objects + 1)
        fresh = [number for number in objects if numbers[object_slot(number)] is None and number not in known]
        for number, placed in enumerate(fresh, self._file.reserve(len(fresh))):
            numbers[object_slot(placed)] = number
        self._shared.update((digest, numbers[object_slot(number)]) for number, digest in tables.shared)
        numbers[1 : 2 * tables.parent_keys : 2] = self._structure.keys(tables.parent_keys)
        return numbers, frozenset(known)

    def _count_documents(self, bundle: Bundle) -> int:
        """The number of the document that a part belongs to; -1 if it has several. Windows must come in order."""
        documents = bundle.tables.documents
        for document in documents:
            expected = self._expected or range(document.windows)
            found = range(document.window, document.windows)
            if found != expected:
                detail = f'window {document.window} of {document.windows} where {expected.start} was expected'
                raise ObjectCorrupt(f'{bundle.name}: {detail}')
            self._document += not document.window
            self._expected = found[1:]
        return self._document if len(documents) == 1 else -1

    def _copy(self, bundle: Bundle, numbers: list[int], known: frozenset[int]) -> Iterator[bytes]:
        for block in bundle.blocks():
            if isinstance(block, Sheet):
                source = block.source.fill(numbers)
                if known.isdisjoint(block.numbers):
                    self._file.put_sheet([numbers[2 * number] for number in block.numbers], source, block.group)
                else:
                    bodies = source.split(b'\n')
                    for number, body in zip(block.numbers, bodies, strict=False):
                        if number not in known:
                            self._file.put(numbers[2 * number], body, block.group)
            elif self._images.has(block.number):
                self._images.take(bundle.path, block, numbers)
            elif block.number not in known:
                self._file.put_stream(numbers[2 * block.number], block.dictionary.fill(numbers), block.read())
            yield from self._file.drain()

    def _take_tables(self, tables: Tables, numbers: list[int]) -> None:
        self._page_nodes.append(numbers[tables.pages_node])
        self._pages += tables.pages
        for name, place in tables.destinations:
            self._destinations.add(name, place.fill(numbers))
        for document in tables.documents:
            if not document.window:
                self._outline.begin_document(document.heading, numbers)
            self._outline.take(document.bookmarks, numbers)
        self._structure.take(tables, numbers)
        self._form.take(tables, numbers)
        self._attachments.take(tables, numbers)
        if self._catalog is None:
            self._catalog = {key: value.fill(numbers) for key, value in tables.catalog.items()}
            if tables.info is not None:
                self._info = {key: value.fill(numbers) for key, value in tables.info.items()}

    def finish(self, metadata: Mapping[str, Any]) -> Iterator[bytes]:
        """Write what belongs to all parts. Raises ObjectCorrupt."""
        if self._expected and not self._partial:
            raise ObjectCorrupt(f'the last {len(self._expected)} windows of a document are missing')
        file = self._file
        self._fonts.finish()
        self._images.finish()
        yield from file.drain()
        pages = {'Type': b'/Pages', 'Kids': references(self._page_nodes), 'Count': b'%d' % self._pages}
        file.put(self._pages_root, dictionary(pages), 'index')
        names = self._attachments.names(file)
        if self._destinations:
            names['Dests'] = self._destinations.write(file)
        catalog = self._catalog or {}
        entries = {
            'Type': b'/Catalog',
            'Pages': reference(self._pages_root),
            **catalog,
            **self._outline.finish(file),
            **self._structure.finish(catalog.get('Lang', b'')),
            **self._form.finish(),
            **self._attachments.associated(),
        }
        if names:
            entries['Names'] = dictionary(names)
        info = self._write_info(metadata)
        file.put(self._root, dictionary(entries), 'index')
        file.close(root=self._root, info=info, identifier=self._identifier)
        yield from file.drain()

    def _write_info(self, metadata: Mapping[str, Any]) -> int | None:
        if self._info is None:  # as PDF/A-4 wants it
            return None
        for key, name in INFORMATION.items():
            value = metadata.get(key)
            if value:
                self._info[name] = text(value if isinstance(value, str) else ', '.join(value))
        return self._file.add(dictionary(self._info), 'index')

    @property
    def contents(self) -> Contents:
        return Contents(
            pages=self._pages,
            destinations=len(self._destinations),
            outline_entries=self._outline.top_level,
            attachments=len(self._attachments),
            fields=len(self._form),
        )
