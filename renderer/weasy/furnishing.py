"""What is put around the content of a window's pages once they are laid out: margin boxes, fixed boxes, backgrounds.

As WeasyPrint does it at the end of `layout_document`, with what the entry state says of the pages that are in other
windows. It can be done again after the window got another entry state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from weasyprint.document import Page
from weasyprint.layout import layout_fixed_boxes
from weasyprint.layout.background import layout_backgrounds
from weasyprint.layout.page import make_margin_boxes

from renderer.state import EntryState
from renderer.weasy.prepared import PreparedDocument, name_note

if TYPE_CHECKING:
    from renderer.weasy.window import Laid


class Furnishing:
    """The pages of a window that was laid out from `entry`. `ancestors` began before it."""

    def __init__(self, prepared: PreparedDocument, entry: EntryState, pages: list[Laid], ancestors: list[Any]) -> None:
        self._prepared = prepared
        self._context = prepared.context
        self._entry = entry
        self._pages = pages
        self._bookmarked = {'': {box.element for box in ancestors}, '::before': set(), '::after': set()}
        self._lookups = prepared.lookups_outside_content

    def _state(self, number: int) -> Any:
        """The page_state that the page of this number, counted from 1, has at its end."""
        return self._context.page_maker[number][3]

    def collect(self) -> None:
        """Collect named strings, and leave one bookmark to each element."""
        context, entry = self._context, self._entry
        context.string_set = defaultdict(lambda: defaultdict(list))
        for name, text in entry.strings.items():
            context.string_set[name][entry.page_index].append(text)
        for number, laid in enumerate(self._pages, start=entry.page_index + 1):
            laid.page.children = list(laid.children)
            laid.children[0].children = list(laid.root_children)
            counters = self._state(number)[1]
            for child in laid.page.descendants():
                self._collect_from(child, number, counters)

    def _collect_from(self, child: Any, number: int, counters: dict[str, list[int]]) -> None:
        if child.bookmark_label:
            known = self._bookmarked[
                next((end for end in ('::before', '::after') if child.element_tag.endswith(end)), '')
            ]
            if child.element in known:
                child.bookmark_label = ''
            else:
                known.add(child.element)
        for token, item in self._lookups.get(child.missing_link, ()) if child.missing_link else ():
            if token == 'bookmark-label' and not child.bookmark_label:
                continue  # it has its bookmark on another page
            item.parse_again(counters)
            if token == 'bookmark-label':
                child.bookmark_label = child.missing_link.bookmark_label
        if child.string_set and child.string_set != 'none':
            for name, text in child.string_set:
                self._context.string_set[name][number].append(text)

    def strings(self) -> dict[str, str]:
        """The last value of each named string that the window sets."""
        last = {}
        for name, pages in self._context.string_set.items():
            numbers = [number for number, values in pages.items() if values and number > self._entry.page_index]
            if numbers:
                last[name] = pages[max(numbers)][-1]
        return last

    def furnish(self) -> list[Any]:
        """Put all there is around the pages. They come back as WeasyPrint's pages, ready to be painted."""
        context = self._context
        own = range(self._entry.page_index, self._entry.page_index + len(self._pages))
        before = self._of_others(lambda page: page < own.start)
        after = self._of_others(lambda page: page >= own.stop)
        boxes = [laid.page for laid in self._pages]
        holders = [place for place, page in enumerate(boxes) if page.fixed_boxes]
        notes = self._named_notes()
        for place, page in enumerate(boxes):
            root, footnote_area, note_area = page.children
            root.children = [
                *self._fixed(before, page),
                *layout_fixed_boxes(context, [boxes[holder] for holder in holders if holder < place], page),
                *root.children,
                *layout_fixed_boxes(context, [boxes[holder] for holder in holders if holder > place], page),
                *self._fixed(after, page),
            ]
            number = context.current_page = own.start + place + 1
            page.children = (
                root,
                *(area for area in (footnote_area, note_area) if area.children),
                *make_margin_boxes(context, page, self._state(number)),
            )
            layout_backgrounds(page, context.get_image_from_uri)
            if notes:
                _link(page, notes)
        return [Page(page) for page in boxes]

    def _of_others(self, wanted: Any) -> list[Any]:
        return [box for box in self._entry.fixed if wanted(box.page)]

    def _fixed(self, fixed: list[Any], page: Any) -> Iterator[Any]:
        """The fixed boxes of another window, laid out on this page."""
        for found in fixed:
            box = self._prepared.carried[found.box]
            box.position_x, box.position_y = found.x, found.y
            for item in self._prepared.lookups_inside(box) if found.counters else ():
                item.parse_again({name: list(stack) for name, stack in found.counters.items()})
            yield from layout_fixed_boxes(self._context, [SimpleNamespace(fixed_boxes=[box])], page)

    def _named_notes(self) -> dict[Any, Any]:
        """The window's notes by their elements, under the names that they have as far as is known now."""
        notes = {}
        registered = self._entry.registered
        for laid in self._pages:
            for offset, note in laid.notes:
                name_note(note, registered + offset)
                notes[note.element] = note
            registered += laid.registered
        return notes


def _link(page: Any, notes: dict[Any, Any]) -> None:
    """Let notes, as the page shows them, have their present names; let calls lead to them, and back."""
    for box in page.descendants():
        note = notes.get(box.element) if box.element_tag else None
        if note is None:
            continue
        if box.element_tag == note.element_tag and box.style['anchor']:
            box.style['anchor'] = note.style['anchor']  # what the area for notes shows has a style of its own
        elif box.link and box.element_tag.endswith('::note-call'):
            box.link = note.note_call.link
        elif box.link and box.element_tag.endswith('::note-callback'):
            box.link = note.note_callback.link
