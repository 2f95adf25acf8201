"""The witness: a finished PDF read back by pypdf, which shares no code with what wrote it.

A job completes only past this gate. It walks the page tree, the outline and the name trees, and asks that
every page is there and that whatever leads to a page leads to one of them. It does not read contents, nor pages: that
the kids of a node are pages follows from its count. Only the first and the last page are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject

from assembler.contents import Contents
from runtime.errors import Problem, Refusal

FAULTS_NAMED: Final = 5
#: what reading a PDF that is not what it seems may raise: pypdf's own errors, and those of values of another kind
UNREADABLE: Final = (PyPdfError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def audit(path: Path, *, pages: int | None = None) -> Contents:
    """Read a PDF back; `pages` are those it must have.

    Raises Refusal: page-count-mismatch, or merge-error where something leads nowhere.
    """
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

    def testify(self, expected: int | None) -> Contents:
        self._pages = {leaf.idnum for leaf in _leaves(self._catalog)}
        declared = _lookup(self._catalog, '/Pages')['/Count']
        if expected is None:
            expected = declared
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
            pages=expected,
            destinations=len(self._names),
            outline_entries=top_level,
            attachments=attachments,
            fields=self._count_fields(),
        )

    def _named(self, tree: str) -> Iterator[tuple[bytes, Any]]:
        names = _dictionary(self._catalog, '/Names')
        root = names and _dictionary(names, tree)
        for key, value in _entries(root) if root else ():
            yield key.original_bytes, value

    def _check(self, target: Any, what: str) -> None:
        """A destination is an array that starts with a page, a dictionary with one, or the name of one."""
        target = target.get_object()
        if isinstance(target, DictionaryObject):
            target = _lookup(target, '/D')
        if isinstance(target, ArrayObject):
            found = bool(target) and isinstance(target[0], IndirectObject) and target[0].idnum in self._pages
        else:
            found = getattr(target, 'original_bytes', None) in self._names
        if not found:
            self._faults.append(what)

    def _check_outline(self) -> int:
        """Follow all entries; how many there are on the first level."""
        root = _dictionary(self._catalog, '/Outlines')
        if root is None:
            return 0
        seen: set[int] = set()
        top_level = 0
        levels: list[Any] = [root]
        while levels:
            parent = levels.pop()
            last = None
            item = _reference(parent, '/First')
            while item is not None:
                if item.idnum in seen:
                    raise ValueError('the outline leads back to itself')
                seen.add(item.idnum)
                top_level += parent is root
                entry: Any = item.get_object()
                if '/Dest' in entry:
                    self._check(entry.raw_get('/Dest'), f'outline entry {entry["/Title"]!r}')
                levels.append(entry)
                last, item = item, _reference(entry, '/Next')
            if last != _reference(parent, '/Last'):
                raise ValueError('the outline ends before its last entry')
        return top_level

    def _count_fields(self) -> int:
        form = _dictionary(self._catalog, '/AcroForm')
        return 0 if form is None else len(_lookup(form, '/Fields') or ())


def _entries(tree: DictionaryObject) -> Iterator[tuple[Any, Any]]:
    """Names and values (as they stand, maybe references) of a name tree, in its order."""
    pairs = _lookup(tree, '/Names') or ()
    yield from zip(pairs[::2], pairs[1::2], strict=True)
    for kid in _lookup(tree, '/Kids') or ():
        yield from _entries(kid.get_object())


def _leaves(catalog: DictionaryObject) -> list[IndirectObject]:
    """References to all pages, in order. Raises ValueError where a node of the tree is none."""
    root = _reference(catalog, '/Pages')
    if root is None or _kind(root) != '/Pages':
        return []
    top: Any = root.get_object()
    kids: list[IndirectObject] = list(_lookup(top, '/Kids'))
    leaves = kids if kids and _kind(kids[0]) == '/Page' else [leaf for kid in kids for leaf in _below(kid)]
    for end in leaves[:1] + leaves[-1:]:
        if _kind(end) != '/Page':
            raise ValueError(f'object {end.idnum} stands for a page and is none')
    return leaves


def _below(node: IndirectObject) -> Iterator[IndirectObject]:
    """Kids of a node below the root; they are pages if there are as many as the node counts."""
    content: Any = node.get_object()
    kids = _lookup(content, '/Kids')
    if len(kids) == content['/Count']:
        yield from kids
    else:
        for kid in kids:
            yield from [kid] if _kind(kid) == '/Page' else _below(kid)


def _kind(node: IndirectObject) -> str:
    content = node.get_object()
    kind = _lookup(content, '/Type') if isinstance(content, DictionaryObject) else None
    if kind not in {'/Page', '/Pages'}:
        raise ValueError(f'object {node.idnum} in the page tree is not a page')
    return str(kind)


def _lookup(owner: DictionaryObject, key: str) -> Any:
    """The value under a key, its reference resolved (`DictionaryObject.get` does not); None if there is none."""
    return owner[key] if key in owner else None  # noqa: SIM401


def _reference(owner: DictionaryObject, key: str) -> IndirectObject | None:
    """The reference under a key; None where there is no entry or a direct one."""
    value = owner.raw_get(key) if key in owner else None
    return value if isinstance(value, IndirectObject) else None


def _dictionary(owner: DictionaryObject, key: str) -> DictionaryObject | None:
    """The dictionary under a key, direct or not."""
    value = _lookup(owner, key)
    return value if isinstance(value, DictionaryObject) else None
