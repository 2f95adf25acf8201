"""A long document up to its box tree, ready to be laid out from any seam, in this process or a fork of it.

What WeasyPrint does before it lays out the first page is done once: parsing, cascade, box tree. Counters of
elements, list items, quotes, numbers of footnotes and texts of targets are right from here on, wherever
a window begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weasyprint import DEFAULT_OPTIONS
from weasyprint import css as weasy_css
from weasyprint import document as weasy_document
from weasyprint.css.counters import CounterStyle
from weasyprint.css.targets import TargetCollector, anchor_name_from_token
from weasyprint.document import Document
from weasyprint.formatting_structure import boxes
from weasyprint.formatting_structure.build import build_formatting_structure
from weasyprint.html import get_html_metadata
from weasyprint.layout import LayoutContext, initialize_page_maker
from weasyprint.layout import page as weasy_page
from weasyprint.layout.block import block_level_page_name
from weasyprint.pdf import VARIANTS
from weasyprint.pdf.metadata import DocumentMetadata
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import get_link, get_url_tuple

from renderer.seams import Seam
from renderer.state import Path
from renderer.weasy.pagestyles import PageStyles
from renderer.weasy.replacing import replaced
from renderer.weasy.styles import LazyStyleFor

FORCED: Final = frozenset({'page', 'left', 'right', 'recto', 'verso'})
#: weight of a box beside its text, in characters
BOX_WEIGHT: Final = 4
LONGEST_LABEL: Final = 60


class Targets(TargetCollector):  # type: ignore[misc]  # WeasyPrint is not typed
    """A TargetCollector that knows which anchors each place names, and leaves page counters to the numbering."""

    def __init__(self) -> None:
        super().__init__()
        #: (box, property) to the anchors its content names
        self.named: dict[tuple[Any, str], set[str]] = {}
        #: anchors of the page being laid out, and its page counters
        self.seen: dict[str, Any] = {}

    def lookup_target(self, anchor_token: Any, source_box: Any, css_token: str, parse_again: Any) -> Any:
        item = super().lookup_target(anchor_token, source_box, css_token, parse_again)
        token = _plain_token(anchor_token, source_box)
        if name := token and anchor_name_from_token(token):
            self.named.setdefault((source_box, css_token), set()).add(name)
        return item

    def cache_target_page_counters(
        self, anchor_name: str, page_counter_values: Any, _page_maker_index: int, _page_maker: Any
    ) -> None:
        self.seen[anchor_name] = page_counter_values


class WindowContext(LayoutContext):  # type: ignore[misc]
    """A LayoutContext that numbers notes from what a window was told of those before it."""

    #: running elements and notes registered before the current page
    registered = 0
    #: notes named on the current page: how many were registered on it before, and the note
    named_notes: list[tuple[int, Any]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: notes whose names are ours to give, and to give anew when their page is laid out again
        self._nameless: set[Any] = set()

    def add_running_element(self, box: Any) -> None:
        if box.is_note() and box.style['anchor'] is None:
            self._nameless.add(box)
        if box in self._nameless and all(box is not note for _, note in self.named_notes):
            offset = self.registered_here()
            name_note(box, self.registered + offset)
            self.named_notes.append((offset, box))
        super().add_running_element(box)

    def registered_here(self) -> int:
        """Running elements and notes registered on the current page."""
        return sum(len(pages.get(self.current_page, ())) for pages in self.running_elements.values())


def name_note(note: Any, index: int) -> None:
    """Give a note and its call their anchors and links, as WeasyPrint names the note of this index."""
    base_url = note.style.base_url
    note.style['anchor'], note.note_call.style['anchor'] = f'note-{index}', f'call-{index}'
    note.note_call.link = get_link(f'#note-{index}', base_url)
    note.note_callback.link = get_link(f'#call-{index}', base_url)


class PreparedDocument:
    """An HTML document whose box tree is built. `options` are WeasyPrint's, all of them."""

    def __init__(self, html: Any, options: Mapping[str, Any]) -> None:
        self.html = html
        self.options = {**DEFAULT_OPTIONS, **options}
        if variant := self.options['pdf_variant']:
            defaults = VARIANTS[variant][1]
            self.options.update({key: value for key, value in defaults.items() if self.options.get(key, key) is None})
        self.metadata = DocumentMetadata(**get_html_metadata(html))
        self.fonts = FontConfiguration()
        self.color_profiles: dict[str, Any] = {}
        counter_style = CounterStyle()
        with (
            replaced(weasy_css, 'StyleFor', LazyStyleFor),
            replaced(weasy_document, 'TargetCollector', Targets),
            replaced(weasy_document, 'LayoutContext', WindowContext),
        ):
            self.context = Document._build_layout_context(
                html, self.fonts, counter_style, self.color_profiles, self.options
            )
        self.targets: Targets = self.context.target_collector
        self.root = build_formatting_structure(
            html.etree_element, self.context.style_for, self.context.get_image_from_uri, html.base_url,
            self.targets, counter_style, self.context.footnotes,
        )  # fmt: skip
        self.context.style_for.forget_elements()
        html.wrapper_element = None  # what was to be found with it has been found
        self.footnotes: list[Any] = self.context.footnotes
        for item in self.targets.target_lookup_items.values():
            item.page_maker_index = -1  # which page shows it is the numbering's to know
        self.lookups_outside_content: dict[Any, list[tuple[str, Any]]] = {}
        for (box, token), item in self.targets.counter_lookup_items.items():
            if token != 'content':
                self.lookups_outside_content.setdefault(box, []).append((token, item))
        self.page_styles = PageStyles(html, self.context.style_for)
        self.first_start = self._first_page()
        self.seams, self.weight = self._find_seams()
        self.carried = list(self._carried_boxes())
        self.carried_index = {id(box): index for index, box in enumerate(self.carried)}

    def document(self, pages: list[Any]) -> Document:
        """A WeasyPrint document of these pages."""
        document = Document(
            pages, self.metadata, self.html.url_fetcher, self.fonts,
            self.color_profiles, self.options['output_intent'],
        )  # fmt: skip
        document._html = self.html
        return document

    def lookups_inside(self, box: Any) -> list[Any]:
        """The lookups of page counters in the content of a box and all that is in it."""
        lookups = self.targets.counter_lookup_items
        if not lookups:
            return []
        found = (lookups.get((inner.missing_link, 'content')) for inner in box.descendants() if inner.missing_link)
        return [item for item in found if item is not None]

    def ancestors(self, path: Path) -> list[Any]:
        """The boxes that a seam goes through: they began before it and go on behind it."""
        found, box = [self.root], self.root
        for index in path[:-1]:
            box = box.children[index]
            found.append(box)
        return found

    def _first_page(self) -> Any:
        """The page_maker's entry for the first page. Sets the page size that viewport units refer to."""
        context = self.context
        with replaced(weasy_page, 'set_page_type_computed_styles', self.page_styles.apply):
            initialize_page_maker(context, self.root)
            entry = context.page_maker[0]
            with replaced(weasy_page, 'make_page', self._measure_first_page):
                weasy_page.remake_page(0, context, self.root, self.html)
        del context.page_maker
        return entry

    def _measure_first_page(
        self, context: Any, root: Any, page_type: Any, resume_at: Any, _page_number: int, _page_state: Any
    ) -> tuple[Any, Any, Any]:
        """In place of weasyprint.layout.page.make_page: no more than the size of the page."""
        page = page_box(context, root, page_type)
        context.style_for.initial_page_sizes['box'] = page.style['size']
        context.style_for.initial_page_sizes['area'] = (page.width, page.height)
        return page, resume_at, {'break': 'any', 'page': None}

    def _find_seams(self) -> tuple[list[Seam], int]:
        finder = _SeamFinder()
        if _can_be_split(self.root):
            finder.walk(self.root, ())
        else:
            finder.weight = _weight(self.root)
        return finder.seams, finder.weight

    def _carried_boxes(self) -> Iterator[Any]:
        """Boxes that one window may have to show for another: running elements, notes, fixed boxes."""
        stack = [*reversed(self.footnotes), self.root]
        while stack:
            box = stack.pop()
            if box.is_running() or box.is_note() or box.style['position'] == 'fixed':
                yield box
            if isinstance(box, boxes.ParentBox):
                stack.extend(reversed(list(box.all_children())))


def page_box(context: Any, root: Any, page_type: Any) -> Any:
    """An empty page of this type, measured as WeasyPrint's make_page measures it."""
    style = context.style_for(page_type)
    style['overflow'] = root.viewport_overflow
    page = boxes.PageBox(page_type, style)
    size = page.style['size']
    weasy_page.resolve_percentages(page, size)
    page.position_x = page.position_y = 0
    weasy_page.page_width(page, context, size[0])
    weasy_page.page_height(page, context, size[1])
    return page


class _SeamFinder:
    """Walks the chains of plain blocks of a box tree and weighs what it passes."""

    def __init__(self) -> None:
        self.seams: list[Seam] = []
        self.weight = 0

    def walk(self, box: Any, path: Path) -> None:
        self.weight += BOX_WEIGHT
        last = None
        for index, child in enumerate(box.children):
            in_flow = child.is_in_normal_flow()
            if in_flow or child.is_floated():
                if last is not None:
                    self._look_between(box, last, child, (*path, index))
                last = child
            if in_flow and _can_be_split(child):
                self.walk(child, (*path, index))
            else:
                self.weight += _weight(child)

    def _look_between(self, parent: Any, before: Any, after: Any, path: Path) -> None:
        page_break = _page_break(before, after)
        name = block_level_page_name(before, after)
        if not name and page_break not in FORCED:
            return
        self.seams.append(
            Seam(
                path=path,
                page_break=page_break,
                page_name=name or before.page_values()[1] or parent.style['page'],
                weight_before=self.weight,
                label=_label(after),
            )
        )


def _can_be_split(box: Any) -> bool:
    """Whether WeasyPrint, when it resumes inside this box, needs to know nothing but where."""
    if not isinstance(box, boxes.BlockBox) or box.is_table_wrapper or box.is_flex_item or box.is_grid_item:
        return False
    style = box.style
    return (
        bool(box.children)
        and not isinstance(box.children[0], boxes.LineBox)
        and style['height'] == 'auto'
        and style['column_width'] == 'auto'
        and style['column_count'] == 'auto'
        and style['break_inside'] in ('auto', 'avoid-column')
        and style['max_lines'] == 'none'
        and style['continue'] == 'auto'
        and not box.is_monolithic()
    )


def _page_break(before: Any, after: Any) -> str:
    """weasyprint.layout.block.block_level_page_break, of what layout will leave of the boxes."""
    result = 'auto'
    values = [*_break_values(before, 'after'), *_break_values(after, 'before')]
    for value in values:
        if value in FORCED - {'page'} or (value == 'page' and result not in FORCED):
            result = value
    return result


def _break_values(box: Any, side: str) -> list[str]:
    """The box's own value and those of its first or last boxes, in the order of the document."""
    values = []
    kinds = (boxes.BlockLevelBox, boxes.TableRowGroupBox, boxes.TableRowBox)
    while isinstance(box, kinds) and (box.is_in_normal_flow() or box.is_floated()):
        values.append(box.style[f'break_{side}'])
        inside = [child for child in box.children if not (child.is_running() or child.is_note())]
        if not inside:
            break
        box = inside[-1 if side == 'after' else 0]
    return values[::-1] if side == 'after' else values


def _weight(box: Any) -> int:
    weight, stack = 0, [box]
    while stack:
        box = stack.pop()
        weight += BOX_WEIGHT
        if isinstance(box, boxes.TextBox):
            weight += len(box.text)
        elif isinstance(box, boxes.ParentBox):
            stack.extend(box.children)
    return weight


def _label(box: Any) -> str:
    """`#id` of the element, or the beginning of its text."""
    anchor = box.style['anchor']
    if anchor:
        return f'#{anchor}'
    words: list[str] = []
    stack = [box]
    while stack and len(' '.join(words)) < LONGEST_LABEL:
        box = stack.pop()
        if isinstance(box, boxes.TextBox):
            words.extend(box.text.split())
        elif isinstance(box, boxes.ParentBox):
            stack.extend(reversed(box.children))
    return ' '.join(words)[:LONGEST_LABEL]


def _plain_token(anchor_token: Any, source_box: Any) -> Any:
    """The token with `attr()` resolved."""
    if anchor_token[0] != 'attr()':
        return anchor_token
    name, kind, fallback = anchor_token[1]
    value = source_box.element.get(name, fallback)
    if kind == 'string':
        return ('string', value)
    return ('url', get_url_tuple(value, source_box.style.base_url)) if kind == 'url' else None
