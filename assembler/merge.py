"""Painted parts → one PDF, in the order given. Pure: paths in, a file out.

Nothing a part brings is lost: pages, outline with its nesting and folding, named destinations and the
links to them, attachments, page labels, form fields, structure tree, output intent and XMP. Destinations
are not renamed: painting prefixes them per document where a job has several. What a document has only
once (language, viewer preferences, XMP, information) comes from the first part, information also from
the job. Memory is that of one part and of the names; time is linear. The same parts give the same bytes.

A later format of parts replaces what is behind `merge`; whoever calls it need not know.
"""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from pypdf import PdfReader
from pypdf.generic import DictionaryObject, IndirectObject

from assembler.attachments import Attachments
from assembler.audit import Contents, audit
from assembler.forms import Form, encode_entries
from assembler.outline import Outline
from assembler.part import UNREADABLE, Part, Piece, dictionary, lookup, reference
from assembler.pdf_file import PdfFile, extended
from assembler.relocation import Relocation, SharedObjects, encode_text
from assembler.structure import StructureTree
from assembler.trees import Destinations, PageLabels
from runtime.errors import Problem, Refusal

#: key of the job's `metadata` → entry of the information dictionary
INFORMATION: Final = {'title': '/Title', 'author': '/Author', 'subject': '/Subject', 'keywords': '/Keywords'}
#: catalog entries that are made anew; all others are taken from the first part
MADE_ANEW: Final = frozenset(
    {'/Type', '/Pages', '/Names', '/Dests', '/Outlines', '/StructTreeRoot', '/AcroForm', '/PageLabels', '/AF'}
)


def merge(
    parts: Sequence[Path],
    out: Path,
    *,
    metadata: Mapping[str, Any] | None = None,
    compress: bool = True,
    report: Callable[[int], None] | None = None,
) -> Contents | None:
    """Merge PDFs into one. A single one passes through byte for byte, unread (None: nothing was counted).

    `metadata` has the keys of INFORMATION; `compress` allows object streams; `report` is told the index of each
    part before it is read. Raises Refusal (merge-error) naming the part that cannot be read.
    """
    if not parts:
        raise ValueError('nothing to merge')
    if len(parts) == 1:
        shutil.copyfile(parts[0], out)
        return None
    with out.open('wb') as file:
        merging: _Merging | None = None
        for index, path in enumerate(parts):
            if report:
                report(index)
            try:
                with path.open('rb') as source:
                    reader = PdfReader(source, strict=True)
                    if merging is None:
                        version = reader.pdf_header.removeprefix('%PDF-')
                        merging = _Merging(file, version=version, compress=compress)
                    merging.take(index, reader, metadata or {})
            except UNREADABLE as error:
                detail = f'part {index} cannot be read: {type(error).__name__}: {error}'
                raise Refusal(Problem(name='merge-error', detail=detail, extra={'part': index})) from error
        assert merging is not None
        return merging.finish()


class _Merging:
    """The merged file while parts are added to it."""

    def __init__(self, out: BinaryIO, *, version: str, compress: bool) -> None:
        self._target = PdfFile(out, version=version, compress=compress)
        self._shared: SharedObjects = {}
        self._root = self._target.reserve()
        self._page_root = self._target.reserve()
        self._page_nodes: list[int] = []
        self._pages = 0
        self._catalog: dict[str, bytes] = {}
        self._information: int | None = None
        self._destinations = Destinations(self._target)
        self._attachments = Attachments(self._target)
        self._outline = Outline(self._target)
        self._pieces: tuple[Piece, ...] = (
            self._destinations,
            self._attachments,
            self._outline,
            PageLabels(self._target),
            StructureTree(self._target),
            Form(self._target),
        )

    def take(self, index: int, reader: PdfReader, metadata: Mapping[str, Any]) -> None:
        catalog = reader.root_object
        relocation = Relocation(reader, self._target, self._shared)
        pages, node = dictionary(catalog, '/Pages'), reference(catalog, '/Pages')
        if pages is None or node is None:
            raise ValueError('no page tree')
        part = Part(
            index=index, first_page=self._pages, pages=lookup(pages, '/Count'), catalog=catalog, relocation=relocation
        )
        relocation.pin(node, self._target.reserve())
        for piece in self._pieces:
            piece.take(part)
        if index == 0:
            self._take_first(part, dictionary(reader.trailer, '/Info'), metadata)
        self._take_pages(part, pages, node)
        relocation.copy_queued()

    def _take_pages(self, part: Part, pages: DictionaryObject, node: IndirectObject) -> None:
        """The part's page tree stays as it is, as a branch of the merged one, with what its pages inherit."""
        number = part.relocation.number(node)
        body = part.relocation.encode_dictionary(pages)
        self._target.put(number, extended(body, b'/Parent %d 0 R' % self._page_root))
        self._page_nodes.append(number)
        self._pages += part.pages

    def _take_first(self, part: Part, information: DictionaryObject | None, metadata: Mapping[str, Any]) -> None:
        encode = part.relocation.encode
        self._catalog = {name: encode(value) for name, value in part.catalog.items() if name not in MADE_ANEW}
        if information is None:  # as PDF/A-4 wants it
            return
        entries = {name: encode(value) for name, value in information.items()}
        for key, name in INFORMATION.items():
            value = metadata.get(key)
            if value:
                entries[name] = encode_text(value if isinstance(value, str) else ', '.join(value))
        self._information = self._target.add(encode_entries(entries))

    def finish(self) -> Contents:
        nodes = b' '.join(b'%d 0 R' % node for node in self._page_nodes)
        self._target.put(self._page_root, b'<</Type/Pages/Count %d/Kids [%b]>>' % (self._pages, nodes))
        entries = {'/Type': b'/Catalog', '/Pages': b'%d 0 R' % self._page_root, **self._catalog}
        names: dict[str, bytes] = {}
        for piece in self._pieces:
            for name, value in piece.finish().items():
                (names if name in {'/Dests', '/EmbeddedFiles'} else entries)[name] = value
        if names:
            entries['/Names'] = encode_entries(names)
        self._target.put(self._root, encode_entries(entries))
        self._target.close(root=self._root, info=self._information)
        return Contents(
            pages=self._pages,
            destinations=len(self._destinations),
            outline_entries=self._outline.top_level,
            attachments=len(self._attachments),
        )


def merge_child(payload: dict[str, Any], report: Callable[[Any], None]) -> dict[str, Any]:
    """What runs in the limited child: merge, then read the result back before anybody may rely on it.

    `payload`: parts [{path, pages}], out, metadata, compress. Returns pages, bytes and sha256 of the result, and
    timing. `report` is told (index of the part, None). Raises Refusal.
    """
    started = time.time()
    paths = [Path(part['path']) for part in payload['parts']]
    out = Path(payload['out'])
    gc.disable()  # a part's objects go in one piece, when the next one comes

    def begin(index: int) -> None:
        gc.collect()
        report((index, None))

    merged = merge(paths, out, metadata=payload['metadata'], compress=payload['compress'], report=begin)
    gc.collect()
    witnessed = audit(out, pages=sum(part['pages'] for part in payload['parts']))
    if merged is not None and witnessed != merged:
        detail = f'the result holds {witnessed}; its parts have {merged}'
        raise Refusal(Problem(name='merge-error', detail=detail))
    with out.open('rb') as file:
        digest = hashlib.file_digest(file, 'sha256').hexdigest()
    return {
        'pages': witnessed.pages,
        'bytes': out.stat().st_size,
        'sha256': digest,
        'timing': _timing(started),
    }


def _timing(started: float) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        'started_at': started,
        'finished_at': time.time(),
        'cpu_seconds': used.ru_utime + used.ru_stime,
        'max_rss_bytes': used.ru_maxrss * 1024,
        'child_pid': os.getpid(),
    }


def preload(_may_render: bool) -> dict[str, Any]:
    """What the assembler's zygote does before it forks: this module, hence pypdf, is loaded by naming it."""
    return {}
