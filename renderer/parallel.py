"""One document rendered in parallel on this host: rounds of layout until all windows agree, then painting.

Each thread waits for one window's child at a time; the work is done in the children. The service takes the same
steps as batches of parts; see docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from renderer.numbering import MOST_ROUNDS, Numbering, first_entries, number
from renderer.press import Answer, Press, PressedWindow, WindowDied, WindowFailed
from renderer.seams import Windows
from renderer.state import EntryState, WindowReport
from runtime.errors import Problem, Refusal

#: how often a window's child may be lost to something that is not the document's doing
LOSSES_ALLOWED: Final = 5
#: how a child ends that is not to blame
LOST: Final = frozenset({'killed', 'zygote-died', 'host'})

NOT_SETTLED: Final = f'its pages did not come to rest in {MOST_ROUNDS} rounds of numbering'

T = TypeVar('T')


class RenderWhole(Exception):
    """The document cannot be rendered in windows, for the reason given: it must be rendered whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Progress: of `total` windows `done` have taken this step; `pages` is the number known so far."""

    step: Literal['layout', 'paint']
    round: int
    done: int
    total: int
    pages: int


@dataclass(slots=True, kw_only=True)
class RenderedWindow:
    """What became of one window."""

    number: int
    bundle: Path
    pages: int
    first_page: int
    rounds: int = 0
    layout: list[dict[str, Any]] = field(default_factory=list)
    paint: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Rendering:
    """The windows of one prepared document, rendered by so many children at a time."""

    def __init__(
        self, press: Press, windows: Windows, *, workers: int, progress: Callable[[Step], None] = lambda _: None
    ) -> None:
        self._windows = windows
        self._first = press.prepared().first
        self._pressed = [press.window(place, windows.seams) for place in range(windows.count)]
        self._workers = workers
        self._progress = progress
        self._reports: dict[int, WindowReport] = {}
        self._timings: dict[int, list[dict[str, Any]]] = {}
        self._warnings: dict[int, tuple[str, ...]] = {}
        self._failed: set[int] = set()
        self.rounds = 0

    def render(self, folder: Path) -> list[RenderedWindow]:
        """Lay out, and paint to bundles in this folder. Raises RenderWhole, and Refusal for a limit exceeded."""
        settled = self._settle()
        return self._paint(settled, folder)

    def pid_of(self, window: int) -> int | None:
        """The process a window is parked in."""
        return self._pressed[window].pid

    def _settle(self) -> Numbering:
        entries = first_entries(self._first, self._windows.seams)
        to_do: Iterable[int] = entries
        for self.rounds in range(1, MOST_ROUNDS + 2):
            self._lay_out({window: entries[window] for window in to_do})
            numbering = number(entries, self._reports)
            if numbering.settled:
                for window in set(entries) - set(numbering.entries):
                    self._pressed[window].end()  # another window ran on over its pages
                return numbering
            entries = {**entries, **numbering.entries}
            to_do = numbering.to_do
        raise RenderWhole(NOT_SETTLED)

    def _lay_out(self, entries: dict[int, EntryState]) -> None:
        furnish = self.rounds > 1

        def lay_out(window: int) -> Answer | None:
            try:
                return self._patiently(window, lambda pressed: pressed.lay_out(entries[window], furnish=furnish))
            except WindowFailed as failure:
                if window in self._failed or window == 0:
                    raise RenderWhole(f'{self._name(window)}: {failure.problem.detail}') from failure
                self._failed.add(window)
                self._reports.pop(window, None)
                return None

        for window, answer in self._each('layout', entries, lay_out):
            if answer is not None:
                assert answer.report is not None
                self._reports[window] = answer.report
                self._note(window, answer)

    def _paint(self, settled: Numbering, folder: Path) -> list[RenderedWindow]:
        places = list(settled.entries)
        anchors = frozenset(name for window in places for name in self._reports[window].page_anchors or ())

        def paint(window: int) -> Answer:
            place = places.index(window)
            try:
                return self._patiently(
                    window,
                    lambda pressed: pressed.paint(
                        settled.entries[window],
                        _bundle(folder, window),
                        place=place,
                        places=len(places),
                        anchors=anchors,
                    ),
                )
            except WindowFailed as failure:
                raise RenderWhole(f'{self._name(window)}: {failure.problem.detail}') from failure

        rendered = {}
        for window, answer in self._each('paint', settled.entries, paint):
            self._note(window, answer)
            *layout, painted = self._timings[window]
            rendered[window] = RenderedWindow(
                number=window,
                bundle=_bundle(folder, window),
                pages=self._reports[window].pages,
                first_page=settled.entries[window].page_index + 1,
                rounds=len(layout),
                layout=layout,
                paint=painted,
                warnings=self._warnings[window],
            )
            self._pressed[window].end()
        return [rendered[window] for window in places]

    def _each(
        self, step: Literal['layout', 'paint'], entries: dict[int, EntryState] | Any, work: Callable[[int], T]
    ) -> Iterable[tuple[int, T]]:
        """Do the work on each window, the heaviest first, and tell of progress. Gives the results as they come."""
        weights = self._windows.weights
        order = sorted(entries, key=lambda window: -weights[window])
        done = 0
        with ThreadPoolExecutor(self._workers, thread_name_prefix='window') as threads:
            running = {window: threads.submit(work, window) for window in order}
            try:
                for window, future in running.items():
                    yield window, future.result()
                    done += 1
                    pages = sum(report.pages for report in self._reports.values())
                    self._progress(Step(step=step, round=self.rounds, done=done, total=len(order), pages=pages))
            except BaseException:
                for future in running.values():
                    future.cancel()
                for pressed in self._pressed:
                    pressed.end()
                raise

    def _patiently(self, window: int, work: Callable[[PressedWindow], Answer]) -> Answer:
        """Do it again should the child be lost. Raises Refusal for a limit it ran into."""
        for losses in range(LOSSES_ALLOWED):
            try:
                return work(self._pressed[window])
            except WindowDied as error:
                if error.died.reason not in LOST or losses + 1 == LOSSES_ALLOWED:
                    detail = f'{self._name(window)}: {error.died.detail}'
                    raise Refusal(Problem(name='render-error', detail=detail)) from error
        raise AssertionError('unreachable')

    def _note(self, window: int, answer: Answer) -> None:
        self._timings.setdefault(window, []).append(dict(answer.timing))
        self._warnings[window] = tuple(dict.fromkeys((*self._warnings.get(window, ()), *answer.warnings)))

    def _name(self, window: int) -> str:
        """The window as a person finds it: by its pages, as far as they are known, and by how it begins."""
        label = self._windows.seams[window - 1].label if window else 'the beginning'
        if window not in self._reports:
            return f'the part that begins at {label!r}'
        first = 1 + sum(report.pages for place, report in self._reports.items() if place < window)
        return f'pages {first} to {first + self._reports[window].pages - 1}, from {label!r}'


def _bundle(folder: Path, window: int) -> Path:
    return folder / f'{window}.bundle'
