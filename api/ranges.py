"""Conditional and range requests, as RFC 9110 has them (sections 13 and 14), for one strong ETag."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RANGE: Final = re.compile(r'\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*', re.IGNORECASE)
_TAG: Final = re.compile(r'(?:W/)?"[^"]*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes `start` to `end`, both included."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start + 1


class Unsatisfiable(Exception):
    """The range begins behind the end."""


def not_modified(if_none_match: str | None, etag: str) -> bool:
    """Whether the client has it already (weak comparison)."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == '*':
        return True
    return etag in {tag.removeprefix('W/') for tag in _TAG.findall(if_none_match)}


def requested_span(header: str | None, if_range: str | None, *, etag: str, size: int) -> Span | None:
    """The one range to answer with; None for the whole. Raises Unsatisfiable.

    Several ranges, other units and what is not well-formed are ignored, as the RFC allows; so is a
    range for another version than ours.
    """
    if header is None or (if_range is not None and if_range.strip() != etag):
        return None
    match = _RANGE.fullmatch(header)
    if match is None or (not match[1] and not match[2]):
        return None
    if not match[1]:
        last = int(match[2])
        if last == 0 or size == 0:
            raise Unsatisfiable
        return Span(start=max(0, size - last), end=size - 1)
    start = int(match[1])
    end = min(int(match[2]), size - 1) if match[2] else size - 1
    if match[2] and int(match[2]) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Span(start=start, end=end)
