"""The outline, made of the bookmarks of all parts.

Bookmarks come flat, with the levels that style sheets gave them. Levels that a document skips are closed up, as in
WeasyPrint: an entry is one step below the nearest entry before it that has a smaller level. Documents follow each other
on the first level, or each stands above its entries; a document in windows is one, whatever window an entry is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assembler.encoding import dictionary, number, reference, text
from assembler.pdf_file import PdfFile
from assembler.tables import Bookmark


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    depth: int
    label: str
    #: the destination as PDF source, if it leads somewhere
    place: bytes
    closed: bool


class Outline:
    """Entries in the order of their pages; an entry's depth says below which one it is, 0 that it is a document."""

    def __init__(self, *, names_documents: bool) -> None:
        self._names_documents = names_documents
        self._documents = 0
        self._entries: list[_Entry] = []
        #: levels that were skipped above each step down to the last entry, and the level of that
        self._skipped: list[int] = []
        self._level = 0

    @property
    def top_level(self) -> int:
        return sum(entry.depth == 1 for entry in self._entries)

    def begin_document(self, heading: Bookmark | None, numbers: Sequence[int]) -> None:
        self._skipped, self._level = [], 0
        self._documents += 1
        if heading is not None and self._names_documents:
            self._add(heading, numbers, depth=0)

    def take(self, bookmarks: Sequence[Bookmark], numbers: Sequence[int]) -> None:
        for mark in bookmarks:
            self._add(mark, numbers, depth=self._depth(mark.level))

    def _add(self, mark: Bookmark, numbers: Sequence[int], *, depth: int) -> None:
        place = b'[%d 0 R %b]' % (numbers[mark.page], mark.place.encode()) if mark.page else b''
        self._entries.append(_Entry(depth=depth, label=mark.label, place=place, closed=mark.closed))

    def _depth(self, level: int) -> int:
        """Go to an entry of this level; its depth, from 1."""
        if level > self._level:
            self._skipped.append(level - self._level - 1)
        else:
            reached = self._level
            while self._skipped and reached > level - 1:
                reached -= 1 + self._skipped.pop()
            self._skipped.append(level - 1 - reached)
        self._level = level
        return len(self._skipped)

    def finish(self, file: PdfFile) -> dict[str, bytes]:
        """Write the outline; its entry of the catalog, none if there is no bookmark."""
        self._place_documents()
        if not self._entries:
            return {}
        root = file.reserve()
        first = file.reserve(len(self._entries))
        links, visible = self._link(root, first)
        for index, (entry, link) in enumerate(zip(self._entries, links, strict=True)):
            count = -visible[index] if entry.closed else visible[index]
            body = {'Title': text(entry.label), 'Dest': entry.place, 'Count': number(count), **link}
            file.put(first + index, dictionary({key: value for key, value in body.items() if value}), 'index')
        ends = self._ends(first)
        file.put(root, dictionary({'Count': number(visible[-1]), **ends}), 'index')
        return {'Outlines': reference(root)}

    def _place_documents(self) -> None:
        """Several documents stand above their entries; a single one is left out."""
        if self._documents > 1:
            step = int(self._names_documents)
            self._entries = [replace(entry, depth=entry.depth + step) for entry in self._entries]
        else:
            self._entries = [entry for entry in self._entries if entry.depth]

    def _link(self, root: int, first: int) -> tuple[list[dict[str, bytes]], list[int]]:
        """What leads from each entry to others, and how many entries are visible below it; the last is the root's."""
        links: list[dict[str, bytes]] = [{} for _ in self._entries]
        visible = [0] * (len(self._entries) + 1)
        parents: list[int] = []
        path: list[int] = []  # from the first level down to the entry before
        for index, entry in enumerate(self._entries):
            here = reference(first + index)
            if len(path) >= entry.depth:
                before = path[entry.depth - 1]
                links[before]['Next'] = here
                links[index]['Prev'] = reference(first + before)
                del path[entry.depth - 1 :]
            elif path:
                links[path[-1]]['First'] = here
            parent = path[-1] if path else -1
            if parent >= 0:
                links[parent]['Last'] = here
            links[index]['Parent'] = reference(root if parent < 0 else first + parent)
            parents.append(parent)
            path.append(index)
        for index in reversed(range(len(self._entries))):
            visible[parents[index]] += 1 + (0 if self._entries[index].closed else visible[index])
        return links, visible

    def _ends(self, first: int) -> dict[str, bytes]:
        top = [first + index for index, entry in enumerate(self._entries) if entry.depth == 1]
        return {'First': reference(top[0]), 'Last': reference(top[-1])}
