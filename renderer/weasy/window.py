"""Laying out one window of a prepared document, and laying it out again when its entry state turns out different.

The loop over pages is ours, each page is WeasyPrint's (`layout.page.remake_page`). A page that was laid out before
from the same place is kept if nothing that its content depends on has changed: it gets its new number, side and
margins, in a fraction of the time.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any, Final

from weasyprint.formatting_structure import build
from weasyprint.layout import page as weasy_page

from renderer.seams import Seam
from renderer.state import Anchored, Counters, EntryState, FixedBox, WindowReport
from renderer.weasy.furnishing import Furnishing
from renderer.weasy.prepared import PreparedDocument, page_box
from renderer.weasy.replacing import replaced
from renderer.weasy.slots import (
    Slots,
    Waiting,
    counter_change,
    entry_of_start,
    frozen_counters,
    path_to_resume,
    remake_state,
    start_of_entry,
)  # fmt: skip

#: layouts of one page in a row before it is taken as it is: as often as WeasyPrint repeats itself
MOST_LAYOUTS: Final = 8

_MAKE_PAGE: Final = weasy_page.make_page


class CannotSplitError(Exception):
    """The document holds something that cannot be carried over a seam: it must be rendered whole."""


@dataclass(slots=True, kw_only=True)
class Laid:
    """A page whose content is laid out, and all that decides whether it can be used again."""

    page: Any
    #: its children, and those of its root box, before margins and fixed boxes are put around them
    children: list[Any]
    root_children: list[Any]
    start: str
    forced_break: bool
    #: footnotes and boxes that the page before did not have room for
    spilled_in: tuple[int, ...]
    spilled_out: tuple[list[Any], dict[Any, Any]]
    resume_at: Any
    next_page: Any
    #: page counters, this page counted
    counters: dict[str, list[int]]
    #: anchors and lookups that are met here first
    anchors: list[str]
    first_lookups: frozenset[int]
    #: all lookups whose content is shown here
    lookups: list[Any]
    running: dict[str, list[Any]]
    registered: int
    notes: list[tuple[int, Any]]
    fixed: list[tuple[int, float, float]] = field(default_factory=list)


class Window:
    """Window `number` of a prepared document that is cut at these seams."""

    def __init__(self, prepared: PreparedDocument, number: int, seams: Sequence[Seam]) -> None:
        self._prepared = prepared
        self._context = prepared.context
        self._stops = {
            repr(path_to_resume(seam.path)): index + 1 for index, seam in enumerate(seams) if index >= number
        }
        self._ancestors = prepared.ancestors(seams[number - 1].path) if number else []
        self._old: dict[tuple[str, bool], Laid] = {}
        self._kept: Laid | None = None
        self._running: dict[str, dict[int, list[Any]]] = {}
        self._targets: dict[str, Any] = {}
        self._fresh_lookups: set[int] = set()
        #: lookups of page counters in content, by the box that shows them
        self._lookups = {
            box: item for (box, token), item in prepared.targets.counter_lookup_items.items() if token == 'content'
        }
        self._named = frozenset().union(*prepared.targets.named.values())
        self._laid_out = self._renumbered = 0
        self._may_keep = True
        #: what the first layout of the page in work found for its area for notes, by name
        self._notes: dict[str, list[Any]] | None = None
        self.pages: list[Laid] = []
        #: WeasyPrint's pages, ready to be painted, once they are furnished
        self.finished: list[Any] = []

    def lay_out(self, entry: EntryState, *, furnish: bool) -> WindowReport:
        """Lay out all pages from this entry state; with `furnish`, what surrounds their content too.

        Raises CannotSplitError.
        """
        self._begin(entry)
        context = self._context
        next_window = None
        index = entry.page_index
        with (
            replaced(weasy_page, 'make_page', self._make_page),
            replaced(weasy_page, 'set_page_type_computed_styles', self._prepared.page_styles.apply),
        ):
            while next_window is None:
                laid = self._settle(index)
                self.pages.append(laid)
                index += 1
                spilled = context.reported_footnotes or context.broken_out_of_flow
                next_window = None if spilled else self._stops.get(repr(laid.resume_at))
                if laid.resume_at is None and not context.reported_footnotes:
                    break
        context.broken_out_of_flow.clear()
        context.reported_footnotes.clear()
        context.running_elements = self._running_elements()
        furnishing = Furnishing(self._prepared, entry, self.pages, self._ancestors)
        furnishing.collect()
        self.finished = furnishing.furnish() if furnish else []
        return self._report(next_window, furnishing.strings())

    def _begin(self, entry: EntryState) -> None:
        context = self._context
        self._entry = entry
        self._old = _by_start(self.pages)
        self.pages = []
        self._laid_out = self._renumbered = 0
        before = {**remake_state(), 'anchors': [box.style['anchor'] for box in self._ancestors if box.style['anchor']]}
        context.page_maker = Slots(entry.page_index, before, entry_of_start(entry.start))
        context.footnotes = Waiting(self._prepared.footnotes)
        context.reported_footnotes, context.broken_out_of_flow = [], {}
        context.rendered_notes = []
        context.registered = entry.registered
        self._running = {
            name: {entry.page_index: [self._prepared.carried[number]]} for name, number in entry.running.items()
        }
        self._set_targets(entry)

    def _set_targets(self, entry: EntryState) -> None:
        """Write the page counters of anchors into the content that names them."""
        collector = self._prepared.targets
        changed = {name: _changes(self._targets.get(name), entry.targets.get(name)) for name in self._named}
        for name in (name for name, counters in changed.items() if counters):
            item = collector.target_lookup_items.get(name)
            if item is not None:
                found = entry.targets.get(name, {})
                item.cached_page_counter_values = {counter: list(stack) for counter, stack in found.items()}
        self._targets = dict(entry.targets)
        self._fresh_lookups = set()
        for box, item in self._lookups.items():
            wanted = {counter for counters in item.missing_target_counters.values() for counter in counters}
            named = collector.named.get((box, 'content'), ())
            if any(not wanted.isdisjoint(changed[name]) for name in named):
                item.parse_again(item.cached_page_counter_values)
                self._fresh_lookups.add(id(item))

    # One page

    def _settle(self, index: int) -> Laid:
        """Lay out a page until it does not change any more."""
        prepared, context = self._prepared, self._context
        flags = context.page_maker[index][-1]
        spill = _spilled(context)
        before = context.footnotes.copy(), context.reported_footnotes, dict(context.broken_out_of_flow)
        rendered_notes = list(context.rendered_notes)
        resume_at = context.page_maker[index][0]
        context.named_notes = []
        self._kept, self._notes, self._may_keep, registered = None, None, True, 0
        for _ in range(MOST_LAYOUTS):
            flags.update(remake_state())
            context.page_maker.forget_from(index + 1)
            page, _ = weasy_page.remake_page(index, context, prepared.root, prepared.html)
            if (kept := self._taken()) is not None:
                return kept
            registered = max(registered, context.registered_here())
            self._laid_out += 1
            if not flags['content_changed']:
                break
            self._may_keep = False
            context.footnotes, context.broken_out_of_flow = before[0].copy(), dict(before[2])
            context.reported_footnotes = list(before[1])
            context.rendered_notes = list(rendered_notes)
        context.registered += registered
        return self._laid(page, index, resume_at, spill, registered)

    def _taken(self) -> Laid | None:
        self._renumbered += self._kept is not None
        return self._kept

    def _laid(self, page: Any, index: int, resume_at: Any, spill: tuple[int, ...], registered: int) -> Laid:
        context = self._context
        flags = context.page_maker[index][-1]
        next_resume_at, next_page, _, state, _ = context.page_maker[index + 1]
        running = {name: pages[index + 1] for name, pages in context.running_elements.items() if pages.get(index + 1)}
        self._remember_running(running, index + 1)
        lookups = []
        if self._lookups:
            shown = {child.missing_link for child in page.descendants(placeholders=True) if child.missing_link}
            lookups = [self._lookups[box] for box in shown if box in self._lookups]
        return Laid(
            page=page,
            children=list(page.children),
            root_children=list(page.children[0].children),
            start=repr(resume_at),
            forced_break=bool(context.forced_break),
            spilled_in=spill,
            spilled_out=(list(context.reported_footnotes), dict(context.broken_out_of_flow)),
            resume_at=next_resume_at,
            next_page=next_page,
            counters=copy.deepcopy(state[1]),
            anchors=list(flags['anchors']),
            first_lookups=frozenset(flags['content_lookups']),
            lookups=lookups,
            running=running,
            registered=registered,
            notes=context.named_notes,
            fixed=[(self._carried(box), box.position_x, box.position_y) for box in page.fixed_boxes],
        )

    def _make_page(
        self, context: Any, root: Any, page_type: Any, resume_at: Any, page_number: int, page_state: Any
    ) -> tuple[Any, Any, Any]:
        """In place of weasyprint.layout.page.make_page: that, or a page that we have."""
        old = self._old.get((repr(resume_at), page_type.blank)) if self._may_keep else None
        if old is not None and (page := self._renewed(old, page_type, page_state, page_number)) is not None:
            build.update_counters(page_state, page.style)
            next_page = context.page_maker[page_number - 1][1] if page_type.blank else old.next_page
            self._keep(old, page, page_number, page_state)
            return page, old.resume_at, copy.deepcopy(next_page)
        names = _names_in_note_area(context, page_type)
        context.running_elements = self._running_elements() if names is None else _running_store()
        for name, boxes in (self._notes or {}).items():
            context.running_elements[name][page_number] = list(boxes)
        made: tuple[Any, Any, Any] = _MAKE_PAGE(context, root, page_type, resume_at, page_number, page_state)
        if self._notes is None:
            registered = {name: pages[page_number] for name, pages in context.running_elements.items()}
            self._notes = {
                name: list(boxes) for name, boxes in registered.items() if boxes and (names is None or name in names)
            }
            if self._notes:  # they take room that the content just had
                context.page_maker[page_number - 1][-1]['content_changed'] = True
        return made

    def _renewed(self, old: Laid, page_type: Any, page_state: Any, page_number: int) -> Any:
        """The page with its new type and measures; None if its content must be laid out again."""
        context, prepared = self._context, self._prepared
        if (
            bool(context.forced_break) != old.forced_break
            or _spilled(context) != old.spilled_in
            or (page_number == 1) != (old.page.page_type.index == 0)
            or not prepared.page_styles.same_inside(old.page.page_type, page_type)
        ):
            return None
        page = page_box(context, prepared.root, page_type)
        weasy_page._standardize_page_based_counters(page.style, None)
        state = copy.deepcopy(page_state)
        build.update_counters(state, page.style)
        if _names_in_note_area(context, page_type) is None and state[1] != old.counters:
            return None
        if self._refresh_lookups(old, state[1]):
            return None
        dx = page.content_box_x() - old.page.content_box_x()
        dy = page.content_box_y() - old.page.content_box_y()
        same_size = isclose(page.width, old.page.width) and isclose(page.height, old.page.height)
        if not same_size or ((dx or dy) and old.fixed):
            return None
        if dx or dy:
            for child in old.children:
                child.translate(dx, dy)
        page.fixed_boxes = old.page.fixed_boxes
        return page

    def _refresh_lookups(self, old: Laid, counters: dict[str, list[int]]) -> bool:
        """Whether what this page shows of counters and targets has changed; it is written anew then."""
        for item in old.lookups:
            if id(item) in old.first_lookups and any(
                counters.get(name) != old.counters.get(name) for name in item.missing_counters
            ):
                item.cached_page_counter_values = copy.deepcopy(counters)
                item.parse_again(counters)
                self._fresh_lookups.add(id(item))
        return any(id(item) in self._fresh_lookups for item in old.lookups)

    def _keep(self, old: Laid, page: Any, page_number: int, page_state: Any) -> None:
        context = self._context
        old.children[0].children = list(old.root_children)
        page.children = list(old.children)
        old.page, old.counters = page, copy.deepcopy(page_state[1])
        context.current_page = page_number
        context.reported_footnotes, context.broken_out_of_flow = list(old.spilled_out[0]), dict(old.spilled_out[1])
        context.page_maker[page_number - 1][-1].update(
            anchors=list(old.anchors), content_lookups=list(old.first_lookups)
        )
        context.registered += old.registered
        self._remember_running(old.running, page_number)
        self._kept = old

    # What is carried

    def _remember_running(self, running: dict[str, list[Any]], page_number: int) -> None:
        for name, boxes in running.items():
            self._running.setdefault(name, {})[page_number] = boxes

    def _running_elements(self) -> Any:
        store = _running_store()
        for name, pages in self._running.items():
            store[name].update({number: list(boxes) for number, boxes in pages.items()})
        return store

    def _carried(self, box: Any) -> int:
        try:
            return self._prepared.carried_index[id(box)]
        except KeyError:
            raise CannotSplitError(f'a box of <{box.element_tag}> is shown on pages of other windows') from None

    def _shown_counters(self, number: int, laid: Laid) -> Counters:
        shows = self._prepared.lookups_inside(self._prepared.carried[number])
        return frozen_counters(laid.counters) if shows else {}

    def _report(self, next_window: int | None, strings: dict[str, str]) -> WindowReport:
        entry, context = self._entry, self._context
        anchors: dict[str, Anchored] = {}
        for number, laid in enumerate(self.pages):
            for name in laid.anchors:
                if name in self._named:
                    anchors.setdefault(name, Anchored(page=number, counters=frozen_counters(laid.counters)))
        running = {
            name: self._carried(boxes[-1])
            for name, pages in self._running.items()
            if (boxes := pages[max(pages)]) and max(pages) > entry.page_index
        }
        changes: list[tuple[Any, int]] = []
        for laid in self.pages:
            change = counter_change(laid.page.style)
            if changes and changes[-1][0] == change:
                changes[-1] = change, changes[-1][1] + 1
            else:
                changes.append((change, 1))
        names = tuple(dict.fromkeys(name for page in self.finished for name in page.anchors))
        return WindowReport(
            pages=len(self.pages),
            next_window=next_window,
            end=start_of_entry(context.page_maker[entry.page_index + len(self.pages)]),
            strings=strings,
            running=running,
            registered=context.registered - entry.registered,
            anchors=anchors,
            fixed=tuple(
                FixedBox(page=number, box=box, x=x, y=y, counters=self._shown_counters(box, laid))
                for number, laid in enumerate(self.pages)
                for box, x, y in laid.fixed
            ),
            changes=tuple(changes),
            blank_first=bool(self.pages[0].page.page_type.blank),
            page_anchors=names if self.finished else None,
            laid_out=self._laid_out,
            renumbered=self._renumbered,
        )


def _changes(before: Counters | None, after: Counters | None) -> set[str]:
    """The counters whose values differ."""
    one, two = before or {}, after or {}
    return {name for name in {*one, *two} if one.get(name) != two.get(name)}


def _running_store() -> Any:
    return defaultdict(lambda: defaultdict(list))


def _by_start(pages: list[Laid]) -> dict[tuple[str, bool], Laid]:
    """Pages by where they begin, as far as that tells one from all others."""
    found: dict[tuple[str, bool], Laid | None] = {}
    for laid in pages:
        key = laid.start, laid.page.page_type.blank
        found[key] = None if key in found else laid
    return {key: laid for key, laid in found.items() if laid is not None}


def _spilled(context: Any) -> tuple[int, ...]:
    return tuple(map(id, [*context.reported_footnotes, *context.broken_out_of_flow]))


def _names_in_note_area(context: Any, page_type: Any) -> frozenset[str] | None:
    """Names of the page's own notes that its area for notes shows; None if it shows other things too."""
    style = context.style_for(page_type, '@note-area')
    if style is None or style['content'] in ('normal', 'inhibit', 'none', 'contents'):
        return frozenset()
    if any(kind != 'element()' or value[1] != 'all-once' for kind, value in style['content']):
        return None
    return frozenset(value[0] for _, value in style['content'])
