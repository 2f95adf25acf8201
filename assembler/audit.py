"""The witness: a finished PDF read back by pypdf, which shares no code with what wrote it.

A job completes only past this gate. It walks the page tree, the outline and the name trees, and asks that
every page is there and that whatever leads to a page leads to one of them. It does not read contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pypdf import PdfReader
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject

from assembler.part import UNREADABLE, dictionary, lookup, reference
from assembler.trees import entries
from runtime.errors import Problem, Refusal

FAULTS_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a PDF holds, as counted when it was written and again when it is read back.

    Outline entries are those of the top level.
    """

    pages: int
    destinations: int
    outline_entries: int
    attachments: int


def audit(path: Path, *, pages: int) -> Contents:
    """Read a PDF back. Raises Refusal: page-count-mismatch, or merge-error where something leads nowhere."""
    try:
        with path.open('rb') as source:
            reader = PdfReader(source, strict=True)
            return _Witness(reader.root_object).testify(pages)
    except UNREADABLE as error:
        detail = f'the result cannot be read: {type(error).__name__}: {error}'
        raise Refusal(Problem(name='merge-error', detail=detail)) from error


class _Witness:
    def __init__(self, catalog: DictionaryObject) -> None:
        self._catalog = catalog
        self._pages: set[int] = set()
        self._names: set[bytes] = set()
        self._faults: list[str] = []

    def testify(self, expected: int) -> Contents:
        self._pages = {leaf.idnum for leaf in _leaves(self._catalog)}
        declared = lookup(self._catalog, '/Pages')['/Count']
        if not len(self._pages) == declared == expected:
            detail = f'the result declares {declared} pages and has {len(self._pages)}; its parts have {expected}'
            raise Refusal(Problem(name='page-count-mismatch', detail=detail))
        for name, target in self._named('/Dests'):
            self._names.add(name)
            self._check(target, f'destination {name!r}')
        top_level = self._check_outline()
        attachments = sum(1 for _ in self._named('/EmbeddedFiles'))
        if self._faults:
            named = '; '.join(self._faults[:FAULTS_NAMED])
            detail = f'{len(self._faults)} entries of the result lead nowhere: {named}'
            raise Refusal(Problem(name='merge-error', detail=detail))
        return Contents(
            pages=expected, destinations=len(self._names), outline_entries=top_level, attachments=attachments
        )

    def _named(self, tree: str) -> Iterator[tuple[bytes, Any]]:
        names = dictionary(self._catalog, '/Names')
        root = names and dictionary(names, tree)
        for key, value in entries(root, '/Names') if root else ():
            yield key.original_bytes, value

    def _check(self, target: Any, what: str) -> None:
        """A destination is an array that starts with a page, a dictionary with one, or the name of one."""
        target = target.get_object()
        if isinstance(target, DictionaryObject):
            target = lookup(target, '/D')
        if isinstance(target, ArrayObject):
            found = bool(target) and isinstance(target[0], IndirectObject) and target[0].idnum in self._pages
        else:
            found = getattr(target, 'original_bytes', None) in self._names
        if not found:
            self._faults.append(what)

    def _check_outline(self) -> int:
        root = dictionary(self._catalog, '/Outlines')
        if root is None:
            return 0
        seen: set[int] = set()
        levels = [root]
        while levels:
            parent = levels.pop()
            last = None
            item = reference(parent, '/First')
            while item is not None:
                if item.idnum in seen:
                    raise ValueError('the outline leads back to itself')
                seen.add(item.idnum)
                entry: Any = item.get_object()
                if '/Dest' in entry:
                    self._check(entry.raw_get('/Dest'), f'outline entry {entry["/Title"]!r}')
                levels.append(entry)
                last, item = item, reference(entry, '/Next')
            if last != reference(parent, '/Last'):
                raise ValueError('the outline ends before its last entry')
        return sum(1 for _ in _siblings(reference(root, '/First')))


def _siblings(item: IndirectObject | None) -> Iterator[IndirectObject]:
    while item is not None:
        yield item
        entry: Any = item.get_object()
        item = reference(entry, '/Next')


def _leaves(catalog: DictionaryObject) -> Iterator[IndirectObject]:
    """References to all pages, in order. Raises ValueError where a node of the tree is none."""
    root = reference(catalog, '/Pages')
    nodes = [] if root is None else [root]
    while nodes:
        node = nodes.pop()
        content: Any = node.get_object()
        kind = lookup(content, '/Type') if isinstance(content, DictionaryObject) else None
        if kind == '/Page':
            yield node
        elif kind == '/Pages':
            nodes.extend(reversed(lookup(content, '/Kids')))
        else:
            raise ValueError(f'object {node.idnum} in the page tree is not a page')
