"""The replay oracle: after WeasyPrint has laid a document out, every page is laid out once more from the final state.

A document whose serial result survives its own replay is stable, and serial is its oracle. In WeasyPrint 70.0 some do
not: it makes again only the pages that it knows to have changed, and

- files a target that is named by `attr(href)` under None, so that a page number in a table of contents stays as it
  was when its target moves later on;
- does not carry reported footnotes and broken floats into a page that it makes again, so that they are lost or come
  twice;
- wraps a first letter once more each time it lays out its line.

For those the replay goes on until a round changes nothing, at most as often as WeasyPrint itself would; that fixpoint
has the right page numbers and every footnote once. A document that has none oscillates: serial is its oracle again.

This reaches into WeasyPrint, as a test may; the engine's own way is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal
from unittest.mock import patch

from tests.oracle.fresh import in_fresh_process
from tests.oracle.same import first_difference
from tests.oracle.serial import Rendered, Source, serial, warnings_caught, write

MOST_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What rendering must give, and why."""

    kind: Literal['stable', 'settles', 'oscillates']
    rendered: Rendered
    #: rounds of replay until nothing changed
    rounds: int
    #: what the replay changed in serial's result
    difference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    rendered: Rendered
    rounds: int
    settled: bool


def oracle(source: Source) -> Oracle:
    """Render serially and replay, each in a fresh process. Raises FailedThere."""
    first = serial(source)
    replayed = in_fresh_process(replay, source)
    difference = first_difference(first.pdf, replayed.rendered.pdf)
    if difference is None and replayed.settled:
        return Oracle(kind='stable', rendered=first, rounds=replayed.rounds)
    if replayed.settled:
        return Oracle(kind='settles', rendered=replayed.rendered, rounds=replayed.rounds, difference=difference)
    return Oracle(kind='oscillates', rendered=first, rounds=replayed.rounds, difference=difference)


def replay(source: Source) -> Replayed:
    """Render and replay in this process."""
    from weasyprint import document

    layout = _Layout()
    with warnings_caught() as warnings, patch.object(document, 'layout_document', layout):
        pdf = write(source)
    rendered = Rendered(pdf=pdf, warnings=tuple(dict.fromkeys(warnings)))
    return Replayed(rendered=rendered, rounds=layout.rounds, settled=layout.settled)


class _Layout:
    """In place of weasyprint.layout.layout_document."""

    def __init__(self) -> None:
        self.rounds = 0
        self.settled = False

    def __call__(self, html: Any, root_box: Any, context: Any) -> Iterator[Any]:
        from weasyprint import layout

        footnotes = list(context.footnotes)
        pagination = _Pagination(html, root_box, context, layout.make_all_pages)
        layout.initialize_page_maker(context, root_box)
        pages = self._serial(pagination)
        while self.rounds < MOST_ROUNDS and not self.settled:
            self.rounds += 1
            before = _look(context, pages)
            context.footnotes = list(footnotes)
            pages = pagination.replay()
            self.settled = _look(context, pages) == before and not _content_changed(context)
        # strings, margin boxes and what else comes when pages are fixed
        with ExitStack() as stack:
            stack.enter_context(patch.object(layout, 'initialize_page_maker', lambda *_: None))
            stack.enter_context(patch.object(layout, 'make_all_pages', lambda *_: pages))
            yield from layout.layout_document(html, root_box, context, max_loops=1)

    def _serial(self, pagination: _Pagination) -> list[Any]:
        """Pages as WeasyPrint makes them, pass by pass."""
        context = pagination.context
        footnotes = list(context.footnotes)
        pages: list[Any] = []
        for _ in range(MOST_ROUNDS):
            total = len(pages)
            context.footnotes = list(footnotes)
            pages = pagination.make(pages)
            wanted = any(entry[-1]['pages_wanted'] for entry in context.page_maker) and total != len(pages)
            if not wanted and not _content_changed(context):
                break
        return pages


class _Pagination:
    """Makes pages, and remembers the notes of each: WeasyPrint forgets them once it has placed them."""

    def __init__(self, html: Any, root_box: Any, context: Any, make_all_pages: Callable[..., Iterator[Any]]) -> None:
        self._html = html
        self._root_box = root_box
        self.context = context
        self._make_all_pages = make_all_pages
        self._notes: dict[int, list[Any]] = {}

    def make(self, pages: list[Any]) -> list[Any]:
        """All pages, those of `pages` that are up to date as they are. Tells all the new total."""
        made: list[Any] = []
        noted = 0
        for page in self._make_all_pages(self.context, self._root_box, self._html, pages):
            made.append(page)
            if len(made) > len(pages) or page is not pages[len(made) - 1]:
                self._notes[len(made)] = list(self.context.rendered_notes[noted:])
            noted = len(self.context.rendered_notes)
        for _, _, _, (_, counters, _, _), _ in self.context.page_maker:
            counters['pages'] = [len(made)]
        return made

    def replay(self) -> list[Any]:
        """All pages made again, from what is known now."""
        from weasyprint.layout import inline

        self._parse_again()
        running = self.context.running_elements
        for page, notes in self._notes.items():
            for name in {note.style['position'][1] for note in notes}:
                placed = [note for note in notes if note.style['position'][1] == name]
                running[name][page] = [*placed, *(box for box in running[name][page] if box not in placed)]
        with patch.object(inline, 'first_letter_to_box', partial(_first_letter_once, inline.first_letter_to_box)):
            return self.make([])

    def _parse_again(self) -> None:
        """Fill in page counters wherever content shows them, own ones and those of targets."""
        _, _, _, (_, page_counters, _, _), _ = self.context.page_maker[-1]
        for (_, token), item in self.context.target_collector.counter_lookup_items.items():
            missing = set(item.missing_counters).union(*item.missing_target_counters.values())
            if token == 'content' and missing & set(page_counters):
                item.parse_again(item.cached_page_counter_values)


def _first_letter_once(first_letter_to_box: Callable[..., Any], box: Any, skip_stack: Any, style: Any) -> Any:
    """In place of WeasyPrint's: a first letter that has its box already stays in that one."""
    if not box.children or not (letter := box.children[0]).element_tag.endswith('::first-letter'):
        return first_letter_to_box(box, skip_stack, style)
    while letter.style['float'] == 'none' and getattr(inner := letter.children[0], 'children', None):
        letter.children = inner.children
    return skip_stack


def _content_changed(context: Any) -> bool:
    """Whether content was written anew after its page had been laid out."""
    return any(entry[-1]['content_changed'] for entry in context.page_maker)


def _look(context: Any, pages: list[Any]) -> list[Any]:
    """What layout has decided: every box with its place and text, and what each page hands on to the next."""
    from weasyprint.formatting_structure import boxes

    def seen(box: Any) -> tuple[Any, ...]:
        text = box.text if isinstance(box, boxes.TextBox) else None
        return type(box).__name__, box.element_tag, box.position_x, box.position_y, box.width, box.height, text

    handed = [(resume_at, next_page, right, state[:2]) for resume_at, next_page, right, state, _ in context.page_maker]
    return [handed, [[seen(box) for box in (page, *page.descendants())] for page in pages]]
