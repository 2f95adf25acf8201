"""What is in a bundle or in a PDF, for people who look for what went wrong or what takes the space."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from assembler.bundle import HEADER, MAGIC, Bundle, Sheet
from assembler.sequence import split
from assembler.tables import Tables
from runtime.errors import FanfoldError

PDF_MAGIC: Final = b'%PDF-'
#: what bundles keep apart
GROUPS: Final = {'pages': 'pages and resources', 'structure': 'structure elements', 'index': 'page tree'}
#: entries of stream dictionaries that say what a stream is, the first that fits
STREAM_KINDS: Final = (
    ('image', {'/Subtype': '/Image'}), ('form', {'/Subtype': '/Form'}), ('metadata', {'/Type': '/Metadata'}),
    ('attached file', {'/Type': '/EmbeddedFile'}), ('objects', {'/Type': '/ObjStm'}),
    ('cross-reference', {'/Type': '/XRef'}), ('font', {'/Subtype': '/OpenType'}),
)  # fmt: skip


class NotInspectable(FanfoldError):
    """The file is neither a bundle nor a PDF, or it is broken."""


def inspect_file(path: Path, scratch: Path) -> dict[str, Any]:
    """Kind, pages, and what is in the file. A part of several bundles is taken apart in `scratch`.

    Raises NotInspectable, ObjectCorrupt.
    """
    with path.open('rb') as file:
        head = file.read(len(HEADER))
    if head.startswith(PDF_MAGIC):
        return _inspect_pdf(path)
    if not head.startswith(MAGIC):
        raise NotInspectable(f'{path}: neither a bundle nor a PDF')
    copy = scratch / path.name
    copy.symlink_to(path.resolve())
    bundles = [_inspect_bundle(bundle) for bundle in split(copy)]
    return {
        'kind': 'bundle', 'bytes': path.stat().st_size, 'pages': sum(bundle['pages'] for bundle in bundles),
        'bundles': bundles,
    }  # fmt: skip


def _inspect_bundle(path: Path) -> dict[str, Any]:
    with Bundle.open(path) as bundle:
        tables = bundle.tables
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for block in bundle.blocks():
            kind = GROUPS[block.group] if isinstance(block, Sheet) else 'streams'
            counts[kind] += len(block.numbers) if isinstance(block, Sheet) else 1
            sizes[kind] += len(block.source.text) if isinstance(block, Sheet) else block.length
        return {
            'version': tables.version,
            'pages': bundle.pages,
            'documents': [
                {'item': document.item, 'window': document.window, 'windows': document.windows,
                 'bookmarks': len(document.bookmarks), 'tagged': bool(document.element)}
                for document in tables.documents
            ],
            'objects': {kind: {'count': counts[kind], 'bytes': sizes[kind]} for kind in sorted(counts)},
            'fonts': _fonts(tables),
            'destinations': len(tables.destinations),
            'fields': len(tables.fields),
            'attachments': [name.decode('latin-1') for name, _, _ in tables.attachments],
            'shared': len(tables.shared),
            'result': bundle.result,
        }  # fmt: skip


def _fonts(tables: Tables) -> list[dict[str, Any]]:
    return [
        {'name': font.use.face.name.lstrip('/'), 'glyphs': len(tables.programs[font.program].glyphs) or 'all',
         'bytes': tables.programs[font.program].length, 'missing': len(font.use.missing)}
        for font in tables.fonts
    ]  # fmt: skip


def _inspect_pdf(path: Path) -> dict[str, Any]:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError
    from pypdf.generic import DictionaryObject, IndirectObject, StreamObject

    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    fonts: list[dict[str, Any]] = []
    try:
        with path.open('rb') as file:
            reader = PdfReader(file)
            numbers = sorted({*reader.xref.get(0, {}), *reader.xref_objStm})
            for number in numbers:
                item = IndirectObject(number, 0, reader).get_object()
                stream = isinstance(item, StreamObject)
                kind = _kind_of_stream(item) if isinstance(item, StreamObject) else 'without a stream'
                counts[kind] += 1
                sizes[kind] += len(item._data) if isinstance(item, StreamObject) else 0
                if not stream and isinstance(item, DictionaryObject) and item.get('/Type') == '/FontDescriptor':
                    fonts.append({'name': str(item['/FontName']).lstrip('/'), 'bytes': _program_size(item)})
            root: Any = reader.root_object
            return {
                'kind': 'PDF', 'bytes': path.stat().st_size, 'version': reader.pdf_header.removeprefix('%PDF-'),
                'pages': root['/Pages']['/Count'], 'tagged': '/StructTreeRoot' in root,
                'objects': {kind: {'count': counts[kind], 'bytes': sizes[kind]} for kind in sorted(counts)},
                'fonts': fonts,
            }  # fmt: skip
    except (PyPdfError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise NotInspectable(f'{path}: not a PDF that can be read: {error}') from error


def _kind_of_stream(stream: Any) -> str:
    if '/Length1' in stream:
        return 'font'
    for kind, entries in STREAM_KINDS:
        if all(stream.get(key) == value for key, value in entries.items()):
            return kind
    return 'profile' if '/N' in stream else 'content and others'


def _program_size(descriptor: Any) -> int:
    programs = [descriptor[key] for key in ('/FontFile2', '/FontFile3', '/FontFile') if key in descriptor]
    return sum(len(program._data) for program in programs)
