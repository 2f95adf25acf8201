"""What layout carries over a seam, as values that are equal when the state is equal, and their JSON.

A long document is laid out in windows. A window starts from an EntryState: all that WeasyPrint's layout knows
of the pages before. Its layout ends in a WindowReport: where it ended, in which state, and what the numbering
(renderer.numbering) must know of its pages. The two meet at a seam: a layout is settled when what each
window reports is what the next one started from, in full.

Paths are places in the box tree: (0, 2, 1) is the second child of the third child of the root's first child.
Pages are counted from 0. Counters are WeasyPrint's: a name to the stack of its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

#: of the JSON below; a host that reads another version lays the window out again
STATE_VERSION: Final = 1

Path = tuple[int, ...]
Counters = Mapping[str, tuple[int, ...]]
#: a group of pages with one name: the name, the pages it has had, where it begins
Group = tuple[str, int, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStart:
    """Where a page begins and in which state: an entry of WeasyPrint's `page_maker`."""

    resume_at: Path | None
    page_break: str
    page_name: str | None
    right_page: bool
    quote_depth: int
    counters: Counters
    scopes: tuple[tuple[str, ...], ...]
    groups: tuple[Group, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            **{
                **value,
                'resume_at': None if value['resume_at'] is None else tuple(value['resume_at']),
                'counters': counters_from_json(value['counters']),
                'scopes': tuple(tuple(names) for names in value['scopes']),
                'groups': tuple((name, pages, tuple(path)) for name, pages, path in value['groups']),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBox:
    """A `position: fixed` box. `box` is its number among the carried boxes of the prepared document.

    `x` and `y` say in CSS pixels where it stands when its offsets are `auto`; `counters` are the page counters that
    its content shows, if it does.
    """

    page: int
    box: int
    x: float
    y: float
    counters: Counters = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{**value, 'counters': counters_from_json(value['counters'])})


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryState:
    """All that a window must know of the other pages to lay its own out as they will be printed."""

    start: PageStart
    #: pages before the window
    page_index: int
    #: named strings: the last value before the window
    strings: Mapping[str, str] = field(default_factory=dict)
    #: running elements: name to the number of the carried box that was last before the window
    running: Mapping[str, int] = field(default_factory=dict)
    #: running elements and notes before the window: WeasyPrint numbers notes by it
    registered: int = 0
    #: anchors that `target-counter()` and its kin name: the page counters of their page
    targets: Mapping[str, Counters] = field(default_factory=dict)
    #: fixed boxes of all the document, in order
    fixed: tuple[FixedBox, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), 'version': STATE_VERSION}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave, also after it went through JSON. Raises ValueError for another version."""
        given = _of_this_version(value)
        return cls(
            **{
                **given,
                'start': PageStart.from_json(given['start']),
                'targets': {name: counters_from_json(values) for name, values in given['targets'].items()},
                'fixed': tuple(FixedBox.from_json(box) for box in given['fixed']),
            }
        )


#: what `@page` does to the page counters: resets, sets and increments, each of names and values
CounterChange = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """The first page of a window that shows an anchor: its place in the window, and the page counters there."""

    page: int
    counters: Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """What a window found when it laid itself out from an entry state."""

    #: number of pages
    pages: int
    #: the seam where it ended: the number of the window that would follow; None at the end of the document
    next_window: int | None
    #: the state at its end
    end: PageStart
    #: named strings the window set, each with its last value
    strings: Mapping[str, str]
    #: running elements the window set, each with the last one's number
    running: Mapping[str, int]
    #: running elements and notes the window registered
    registered: int
    #: of those anchors that are the target of a counter or text
    anchors: Mapping[str, Anchored]
    #: fixed boxes, their pages counted from the window's first
    fixed: tuple[FixedBox, ...]
    #: what each page did to the counters, and on how many pages running
    changes: tuple[tuple[CounterChange, int], ...]
    #: the first page is there only because the content must begin on the other side
    blank_first: bool
    #: names of all anchors on the pages as they will be printed; None until the margins are laid out
    page_anchors: tuple[str, ...] | None = None
    #: pages laid out, and pages that only got new numbers, to get here
    laid_out: int = 0
    renumbered: int = 0
    #: what WeasyPrint warned about, each once
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), 'version': STATE_VERSION}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave, also after it went through JSON. Raises ValueError for another version."""
        given = _of_this_version(value)
        names = given['page_anchors']
        return cls(
            **{
                **given,
                'end': PageStart.from_json(given['end']),
                'anchors': {
                    name: Anchored(page=found['page'], counters=counters_from_json(found['counters']))
                    for name, found in given['anchors'].items()
                },
                'fixed': tuple(FixedBox.from_json(box) for box in given['fixed']),
                'changes': tuple((_change(change), pages) for change, pages in given['changes']),
                'page_anchors': None if names is None else tuple(names),
                'warnings': tuple(given['warnings']),
            }
        )


def counters_from_json(value: Mapping[str, Any]) -> Counters:
    return {name: tuple(stack) for name, stack in value.items()}


def _change(value: Any) -> CounterChange:
    resets, sets, increments = (tuple((name, number) for name, number in pairs) for pairs in value)
    return resets, sets, increments


def _of_this_version(value: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(value)
    if (version := given.pop('version', None)) != STATE_VERSION:
        raise ValueError(f'the state has version {version!r}; this is Fanfold for version {STATE_VERSION}')
    return given
