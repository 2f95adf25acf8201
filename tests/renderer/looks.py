"""What a reader sees of a PDF: compared between files that two ways of rendering have made."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from typing import Any

import pikepdf
import pypdfium2

#: WeasyPrint names an image after the MD5 of its URL
IMAGE_NAME = re.compile(rb'/i[0-9a-f]{32}[01]\b')
BOXES = ('/MediaBox', '/TrimBox', '/BleedBox')


def looks(pdf: bytes) -> list[dict[str, Any]]:
    """Per page: boxes, text, pixels, content and the targets of links."""
    with pikepdf.open(io.BytesIO(pdf)) as raw:
        indexes = {page.objgen: index for index, page in enumerate(raw.pages)}
        places = {bytes(name): indexes[place[0].objgen] for name, place in destinations(raw)}
        rows = [
            {
                'boxes': [[float(number) for number in page.get(box, [])] for box in BOXES],
                'links': list(_links(page, places, indexes)),
                'fields': [str(item.get('/V', '')) for item in _annotations(page, '/Widget')],
                'content': IMAGE_NAME.sub(b'/image', page.Contents.read_bytes()),
            }
            for page in raw.pages
        ]
    seen = pypdfium2.PdfDocument(pdf)
    for index, row in enumerate(rows):
        page = seen[index]
        text = page.get_textpage()
        row['text'] = text.get_text_range()
        text.close()
        row['pixels'] = hashlib.sha256(bytes(page.render(scale=1).buffer)).hexdigest()
        page.close()
    seen.close()
    return rows


def destinations(raw: pikepdf.Pdf) -> Iterator[tuple[Any, Any]]:
    trees = [raw.Root.get('/Names', {}).get('/Dests', {})]
    while trees:
        tree = trees.pop()
        trees += reversed(list(tree.get('/Kids', [])))
        names = list(tree.get('/Names', []))
        yield from zip(names[::2], names[1::2], strict=True)


def outline(raw: pikepdf.Pdf) -> list[tuple[int, str]]:
    """(level, title) of every entry, following /First and /Next and checking /Prev, /Parent and /Last on the way."""
    rows: list[tuple[int, str]] = []

    def walk(parent: Any, level: int) -> None:
        entry, previous = parent.get('/First'), None
        while entry is not None:
            assert entry.Parent.objgen == parent.objgen
            assert (entry.get('/Prev') is None) == (previous is None)
            assert previous is None or entry.Prev.objgen == previous.objgen
            rows.append((level, str(entry.Title)))
            walk(entry, level + 1)
            previous, entry = entry, entry.get('/Next')
        assert previous is None or parent.Last.objgen == previous.objgen

    if '/Outlines' in raw.Root:
        walk(raw.Root.Outlines, 0)
    return rows


def _annotations(page: Any, subtype: str) -> list[Any]:
    return [item for item in page.get('/Annots', []) if item.get('/Subtype') == subtype]


def _links(page: Any, places: dict[bytes, int], indexes: dict[Any, int]) -> Iterator[Any]:
    first = indexes[page.objgen]
    for item in _annotations(page, '/Link'):
        target = item.get('/Dest')
        # how many pages on: the same wherever a document lies in the file
        yield str(item.A.URI) if target is None else places[bytes(target)] - first
