"""From what the windows report to what each of them should have started from, and whether all of it agrees.

A prefix scan: the first window's entry state is known; each report says what the window adds. Where a window was
laid out from another state than it now turns out to have, its end is predicted: pages are moved and counters
counted again. What is predicted is only a guess that saves a round. A layout is settled when every window was
laid out from exactly what the reports of the windows before it add up to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from renderer.seams import Seam
from renderer.state import CounterChange, Counters, EntryState, Group, PageStart, WindowReport

#: how often windows are laid out again before the document is rendered whole: as often as WeasyPrint itself tries
MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """What the reports add up to: window number to entry state, for the windows that are left."""

    entries: Mapping[int, EntryState]
    #: windows that were laid out from something else, or whose margins are still to be laid out
    to_do: tuple[int, ...]
    #: pages of the document
    pages: int

    @property
    def settled(self) -> bool:
        return not self.to_do


def first_entries(first: PageStart, seams: Sequence[Seam]) -> dict[int, EntryState]:
    """What the windows are laid out from at first: the truth for window 0, a guess for the others."""
    entries = {0: EntryState(start=first, page_index=0)}
    for number, seam in enumerate(seams, start=1):
        start = replace(
            first,
            resume_at=seam.path,
            page_break=seam.page_break,
            page_name=seam.page_name,
            right_page=seam.page_break != 'left',
            groups=(),
        )
        entries[number] = EntryState(start=start, page_index=number)
    return entries


def number(entries: Mapping[int, EntryState], reports: Mapping[int, WindowReport]) -> Numbering:
    """Add up the reports of the windows, each laid out from its entry.

    A window without a report could not be laid out from what was guessed. It is to do, with what is known of its
    entry now; what follows it has to wait.
    """
    scan = _Scan(entries, reports)
    to_do = tuple(
        window
        for window, entry in scan.entries.items()
        if window not in reports or entry != entries[window] or reports[window].page_anchors is None
    )
    return Numbering(entries=scan.entries, to_do=to_do, pages=scan.pages)


class _Scan:
    """The scan over the windows, in order, without those whose pages another window ran on to take."""

    def __init__(self, entries: Mapping[int, EntryState], reports: Mapping[int, WindowReport]) -> None:
        self._used = entries
        self._reports = reports
        #: pages that each window will have at its beginning more (or less) than it reports
        self._moved: dict[int, int] = {}
        self._sides: dict[int, bool] = {}
        self.pages = self._measure()
        self.entries = self._chain()
        targets = self._targets()
        fixed = tuple(
            replace(box, page=entry.page_index + self._moved[window] + box.page)
            for window, entry in self.entries.items()
            if window in reports
            for box in reports[window].fixed
        )
        self.entries = {window: replace(entry, targets=targets, fixed=fixed) for window, entry in self.entries.items()}

    def _measure(self) -> int:
        """Go through the sides of the windows' first pages, which decide about blank pages. Gives all pages."""
        window: int | None = 0
        right, pages = self._used[0].start.right_page, 0
        while window is not None:
            self._sides[window] = right
            report = self._reports.get(window)
            if report is None:
                break
            used = self._used[window].start
            self._moved[window] = 0
            if right != used.right_page and used.page_break in {'left', 'right', 'recto', 'verso'}:
                self._moved[window] = -1 if report.blank_first else 1
            length = report.pages + self._moved[window]
            pages += length
            right ^= bool(length % 2)
            window = report.next_window
        return pages

    def _chain(self) -> dict[int, EntryState]:
        """Entry states as far as the windows before decide them."""
        start = self._used[0].start
        entry = EntryState(start=replace(start, counters={**start.counters, 'pages': (self.pages,)}), page_index=0)
        found = {}
        for window in self._sides:
            found[window] = entry
            report = self._reports.get(window)
            if report is None:
                break
            entry = EntryState(
                start=self._end(window, entry.start, report),
                page_index=entry.page_index + report.pages + self._moved[window],
                strings={**entry.strings, **report.strings},
                running={**entry.running, **report.running},
                registered=entry.registered + report.registered,
            )
        return found

    def _end(self, window: int, entry: PageStart, report: WindowReport) -> PageStart:
        """The state in which the window will end."""
        used = self._used[window].start
        if entry == used:
            return report.end
        counting = _Counting(entry)
        for _ in counting.pages(report.changes, self._moved[window]):
            pass
        return replace(
            report.end,
            right_page=self._sides[report.next_window] if report.next_window is not None else report.end.right_page,
            counters={**counting.counters(), 'pages': (self.pages,)},
            scopes=(*report.end.scopes[:-1], tuple(sorted(counting.scope))),
            groups=tuple(_moved(group, entry.groups, used.groups) for group in report.end.groups),
        )

    def _targets(self) -> dict[str, Counters]:
        """The page counters of each anchor, on the first page that shows it."""
        targets: dict[str, Counters] = {}
        for window, entry in self.entries.items():
            report = self._reports.get(window)
            if report is None or not report.anchors:
                continue
            counted = None
            if entry.start != self._used[window].start:
                counted = list(_Counting(entry.start).pages(report.changes, self._moved[window]))
            for name, found in report.anchors.items():
                counters = found.counters if counted is None else counted[found.page + self._moved[window]]
                targets.setdefault(name, {**counters, 'pages': (self.pages,)})
        return targets


def _moved(group: Group, entry: Sequence[Group], used: Sequence[Group]) -> Group:
    """A group of pages that goes on: it has had as many pages more as it had before."""
    name, pages, path = group
    before = {(known, place): had for known, had, place in used}.get((name, path))
    now = {(known, place): had for known, had, place in entry}.get((name, path))
    return group if before is None or now is None else (name, pages + now - before, path)


class _Counting:
    """Page counters, page after page, by the rules of CSS Lists: reset, set, increment."""

    def __init__(self, start: PageStart) -> None:
        self._values = {name: list(stack) for name, stack in start.counters.items()}
        self.scope = set(start.scopes[-1])

    def counters(self) -> Counters:
        return {name: tuple(stack) for name, stack in self._values.items()}

    def pages(self, changes: Sequence[tuple[CounterChange, int]], moved: int) -> Iterator[Counters]:
        """The counters at the end of each page. A page more at the beginning counts like the one that follows."""
        repeated = [change for change, count in changes for _ in range(count)]
        for change in repeated[:1] * max(0, moved) + repeated[max(0, -moved) :]:
            self._count(change)
            yield self.counters()

    def _count(self, change: CounterChange) -> None:
        resets, sets, increments = change
        for name, value in resets:
            if name in self.scope:
                self._values[name].pop()
            self.scope.add(name)
            self._values.setdefault(name, []).append(value)
        for name, value in sets:
            self._instance(name)[-1] = value
        for name, value in increments:
            self._instance(name)[-1] += value

    def _instance(self, name: str) -> list[int]:
        stack = self._values.setdefault(name, [])
        if not stack:
            self.scope.add(name)
            stack.append(0)
        return stack
