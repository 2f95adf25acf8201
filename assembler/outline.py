"""One outline from the outlines of all parts: their top levels are chained, nothing below them changes."""

from __future__ import annotations

from collections.abc import Iterator

from pypdf.generic import DictionaryObject, IndirectObject

from assembler.part import Part, dictionary, lookup, reference
from assembler.pdf_file import PdfFile, extended


class Outline:
    """The last entry of a part waits for the first of the next, whose number its /Next needs."""

    def __init__(self, target: PdfFile) -> None:
        self._target = target
        self._root: int | None = None
        self._first = 0
        self._visible = 0
        self._waiting: tuple[int, bytes] | None = None
        self.top_level = 0

    def take(self, part: Part) -> None:
        outlines, root = dictionary(part.catalog, '/Outlines'), reference(part.catalog, '/Outlines')
        items = list(_chain(outlines)) if outlines is not None else []
        if root is None or not items:
            return
        if self._root is None:
            self._root = self._target.reserve()
        relocation = part.relocation
        relocation.pin(root, self._root)
        for item in (items[0], items[-1]):
            relocation.pin(item, self._target.reserve())
        first = relocation.number(items[0])
        body = relocation.encode_dictionary(_entry(items[0]))
        if self._waiting is None:
            self._first = first
        else:
            body = extended(body, b'/Prev %d 0 R' % self._waiting[0])
            self._release(next_entry=first)
        self._waiting = (first, body)
        if len(items) > 1:
            self._target.put(*self._waiting)
            self._waiting = (relocation.number(items[-1]), relocation.encode_dictionary(_entry(items[-1])))
        self.top_level += len(items)
        self._visible += sum(1 + max(0, lookup(_entry(item), '/Count') or 0) for item in items)

    def finish(self) -> dict[str, bytes]:
        if self._root is None or self._waiting is None:
            return {}
        last = self._waiting[0]
        self._release(next_entry=None)
        body = b'<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>' % (self._first, last, self._visible)
        self._target.put(self._root, body)
        return {'/Outlines': b'%d 0 R' % self._root}

    def _release(self, *, next_entry: int | None) -> None:
        assert self._waiting is not None
        number, body = self._waiting
        self._target.put(number, body if next_entry is None else extended(body, b'/Next %d 0 R' % next_entry))


def _chain(outlines: DictionaryObject) -> Iterator[IndirectObject]:
    """References to the top-level entries, in order."""
    item = reference(outlines, '/First')
    while item is not None:
        yield item
        item = reference(_entry(item), '/Next')


def _entry(item: IndirectObject) -> DictionaryObject:
    entry = item.get_object()
    assert isinstance(entry, DictionaryObject)
    return entry
