"""One part being merged, as the pieces of the merged catalog see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from pypdf.errors import PyPdfError
from pypdf.generic import DictionaryObject, IndirectObject

from assembler.relocation import Relocation

#: what reading a PDF that is not what it seems may raise: pypdf's own errors, and those of values of another kind
UNREADABLE: Final = (PyPdfError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`index` and `first_page` count from 0; `first_page` is the place of its first page in the merged file."""

    index: int
    first_page: int
    pages: int
    catalog: DictionaryObject
    relocation: Relocation


class Piece(Protocol):
    """Something of the catalog that every part may bring and the merged file has once."""

    def take(self, part: Part) -> None:
        """Note what the part brings, and renumber or rename in it what must be, before its objects are copied."""

    def finish(self) -> dict[str, bytes]:
        """Write the piece; its entries for the merged catalog, none if no part brought any."""


def lookup(owner: DictionaryObject, key: str) -> Any:
    """The value under a key, its reference resolved (`DictionaryObject.get` does not); None if there is none."""
    return owner[key] if key in owner else None  # noqa: SIM401


def reference(owner: DictionaryObject, key: str) -> IndirectObject | None:
    """The reference under a key; None where there is no entry or a direct one."""
    value = owner.raw_get(key) if key in owner else None
    return value if isinstance(value, IndirectObject) else None


def dictionary(owner: DictionaryObject, key: str) -> DictionaryObject | None:
    """The dictionary under a key, direct or not."""
    value = lookup(owner, key)
    return value if isinstance(value, DictionaryObject) else None
