"""WeasyPrint's own records of layout, turned into values of renderer.state and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from renderer.state import CounterChange, Counters, Group, PageStart, Path


def remake_state() -> dict[str, Any]:
    """What the page_maker notes of a page while it lays it out: nothing yet."""
    return {'content_changed': False, 'pages_wanted': False, 'anchors': [], 'content_lookups': []}


class Slots:
    """A window's `page_maker`. Indices are those of the whole document's pages.

    All pages before the window share one entry, which holds the anchors and lookups that are not to be
    counted again.
    """

    def __init__(self, page_index: int, before: dict[str, Any], first: Any) -> None:
        self._first = page_index
        self._before = (None, None, None, None, before)
        self._entries = [first]

    def __len__(self) -> int:
        return self._first + len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._before, *self._entries[: max(0, index.stop - self._first)]]
        return self._entries[index - self._first] if index >= self._first else self._before

    def __setitem__(self, index: int, entry: Any) -> None:
        self._entries[index - self._first] = entry

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def append(self, entry: Any) -> None:
        self._entries.append(entry)

    def forget_from(self, index: int) -> None:
        """Drop what is noted of this page and those behind it."""
        del self._entries[index - self._first :]


class Waiting:
    """The footnotes that are not laid out yet, in order: a context's `footnotes`, where each line looks for its own."""

    def __init__(self, footnotes: Iterable[Any]) -> None:
        self._footnotes = dict.fromkeys(footnotes)

    def __contains__(self, footnote: Any) -> bool:
        return footnote is not None and footnote in self._footnotes

    def __bool__(self) -> bool:
        return bool(self._footnotes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._footnotes)

    def append(self, footnote: Any) -> None:
        self._footnotes[footnote] = None

    def remove(self, footnote: Any) -> None:
        """Raises ValueError, as a list does."""
        if footnote not in self:
            raise ValueError(footnote)
        del self._footnotes[footnote]

    def copy(self) -> Waiting:
        return Waiting(self._footnotes)


def path_to_resume(path: Path | None) -> Any:
    """A path as WeasyPrint says where to resume: (0, 2) is {0: {2: None}}."""
    resume_at: Any = None
    for index in reversed(path or ()):
        resume_at = {index: resume_at}
    return resume_at


def resume_to_path(resume_at: Any) -> Path | None:
    """The other way round; of several children to resume, the last. None at the document's start or end."""
    if resume_at is None:
        return None
    path = []
    while resume_at is not None:
        index, resume_at = list(resume_at.items())[-1]
        path.append(index)
    return tuple(path)


def start_of_entry(entry: Any) -> PageStart:
    resume_at, next_page, right_page, (quote_depth, counters, scopes, groups), _ = entry
    return PageStart(
        resume_at=resume_to_path(resume_at),
        page_break=next_page['break'],
        page_name=next_page['page'],
        right_page=right_page,
        quote_depth=quote_depth[0],
        counters=frozen_counters(counters),
        scopes=tuple(tuple(sorted(names)) for names in scopes),
        groups=tuple(_group(*group) for group in groups),
    )


def entry_of_start(start: PageStart) -> Any:
    state = (
        [start.quote_depth],
        {name: list(stack) for name, stack in start.counters.items()},
        [set(names) for names in start.scopes],
        [[name, pages, path_to_resume(path)] for name, pages, path in start.groups],
    )
    next_page = {'break': start.page_break, 'page': start.page_name}
    return path_to_resume(start.resume_at), next_page, start.right_page, state, remake_state()


def frozen_counters(counters: Any) -> Counters:
    return {name: tuple(stack) for name, stack in counters.items()}


def counter_change(style: Any) -> CounterChange:
    """What the style of a page does to the page counters, once WeasyPrint has counted the page itself."""
    resets, sets, increments = (
        tuple((name, value) for name, value in style[key])
        for key in ('counter_reset', 'counter_set', 'counter_increment')
    )
    return resets, sets, increments


def _group(name: str, pages: int, resume_at: Any) -> Group:
    return name, pages, resume_to_path(resume_at) or ()
