"""Rendering the documents of one part: on their own, or bound into one bundle."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from weasyprint import CSS, DEFAULT_OPTIONS, HTML
from weasyprint import css as weasy_css
from weasyprint.css.counters import CounterStyle
from weasyprint.document import Document
from weasyprint.pdf import VARIANTS

from renderer.weasy.fonts import SharedFonts
from renderer.weasy.painting import Volume
from renderer.weasy.replacing import replaced
from runtime.errors import Problem, Refusal

if TYPE_CHECKING:
    from renderer.fetch import BundleFetcher

#: sets of stylesheets kept at the same time
STYLES_KEPT: Final = 4
#: pages after which what they left behind is collected; full collections cost about 2 ms
PAGES_PER_COLLECTION: Final = 8


class _Styles:
    """The stylesheets of documents that have the same ones, parsed for the first of them."""

    def __init__(self, user_stylesheets: list[str], fetcher: BundleFetcher, media_type: str) -> None:
        self.fonts = _SPARE.pop() if _SPARE else SharedFonts()
        self._counter_style = CounterStyle()
        self._color_profiles: dict[str, Any] = {}
        self._user_sheets = [
            CSS(url=url, media_type=media_type, font_config=self.fonts, counter_style=self._counter_style,
                color_profiles=self._color_profiles, url_fetcher=fetcher)
            for url in user_stylesheets
        ]  # fmt: skip
        self._author_sheets: list[CSS] | None = None

    def render(self, html: HTML, options: Mapping[str, Any]) -> Document:
        """`html.render(**options)`, with these stylesheets."""
        counter_style = CounterStyle()
        counter_style.update(self._counter_style)
        with replaced(weasy_css, 'find_stylesheets', self._find):
            document = html.render(
                font_config=self.fonts,
                counter_style=counter_style,
                color_profiles=dict(self._color_profiles),
                **{**options, 'stylesheets': self._user_sheets},
            )
        self.fonts.sealed = True
        return document

    def _find(self, *arguments: Any) -> list[CSS]:
        """In place of weasyprint.css.find_stylesheets, with its arguments."""
        (_, _, _, _, _, counter_style, color_profiles, _, _) = arguments
        if self._author_sheets is None:
            self._author_sheets = list(_FIND_STYLESHEETS(*arguments))
            self._counter_style = counter_style.copy()
            self._color_profiles = color_profiles.copy()
        counter_style.update(self._counter_style)
        return self._author_sheets


class Typesetter:
    """Renders the documents of one part. `options` are those of the job's spec, files given by URL."""

    def __init__(self, fetcher: BundleFetcher, options: Mapping[str, Any]) -> None:
        given = dict(options)
        self._fetcher = fetcher
        self._zoom: float = given.pop('zoom', 1)
        self._media_type: str = given.pop('media_type', 'print')
        self._user_stylesheets: list[str] = given.pop('stylesheets', None) or []
        self._options = known_options(given)
        self._styles: OrderedDict[tuple[Any, ...], _Styles] = OrderedDict()
        self._pages_to_collect = 0

    def set(self, source: str | bytes, base_url: str) -> Document:
        """Lay a document out. Whatever WeasyPrint raises comes through."""
        html = HTML(string=source, base_url=base_url, url_fetcher=self._fetcher, media_type=self._media_type)
        key = _styles_key(html)
        styles = self._styles.pop(key, None) or _Styles(self._user_stylesheets, self._fetcher, self._media_type)
        document = styles.render(html, self._options)
        if not styles.fonts.changed:
            self._styles[key] = styles
        if len(self._styles) > STYLES_KEPT:
            self._styles.popitem(last=False)
        return document

    def volume(self, output: BinaryIO) -> Volume:
        return Volume(output, self._options, self._zoom)

    def tidy(self, pages: int) -> None:
        """To be called when a document of so many pages is done with."""
        self._pages_to_collect += pages
        if self._pages_to_collect >= PAGES_PER_COLLECTION:
            self._pages_to_collect = 0
            gc.collect()


def warm() -> None:
    """Load what the first document would have to wait for: libraries, fonts, one font configuration."""
    HTML(string='<p>Fanfold <b>1</b>').write_pdf(font_config=(fonts := SharedFonts()))
    _SPARE.append(fonts)
    gc.collect()


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options, if WeasyPrint knows them. Raises Refusal."""
    unknown = sorted(set(options) - set(DEFAULT_OPTIONS))
    if unknown:
        raise Refusal(Problem(name='render-error', detail=f'WeasyPrint has no option {unknown[0]!r}'))
    variant = options.get('pdf_variant')
    if variant is not None and variant not in VARIANTS:
        valid = sorted(VARIANTS)
        detail = f'{variant!r} is not a PDF variant; there are {", ".join(valid)}'
        extra = {'field': 'options.pdf_variant', 'valid': valid}
        raise Refusal(Problem(name='render-error', detail=detail, extra=extra))
    return options


def _styles_key(html: HTML) -> tuple[Any, ...]:
    """What decides which stylesheets a document has: equal keys, equal stylesheets."""
    elements = [element for element in html.etree_element.iter() if element.tag in {'style', 'link'}]
    said = [(element.tag, tuple(element.attrib.items()), ''.join(element.itertext())) for element in elements]
    return html.base_url, *said


_FIND_STYLESHEETS: Final = weasy_css.find_stylesheets
#: a font configuration made before the fork, for the first document of a child
_SPARE: Final[list[SharedFonts]] = []
