"""All that Fanfold takes from inside WeasyPrint, in one place: exactly version 70.0, checked at start-up.

A Typesetter renders the documents of one part. It promises the pages that
`HTML(string=…, base_url=…).write_pdf(**options)` gives, and does less for them:

- documents whose stylesheets are the same share one FontConfiguration and one parsed cascade (Styles). The
  key is what the documents' `style` and `link` elements say, so a template that varies them gets its own;
- documents bound into one file embed each font once, as the union of the glyphs they use. Glyph ids are
  retained, so that no content stream changes.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib.metadata
import io
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import pydyf
import weasyprint
from weasyprint import CSS, DEFAULT_OPTIONS, HTML
from weasyprint import css as weasy_css
from weasyprint.css import computed_values, functions, tokens
from weasyprint.css.counters import CounterStyle
from weasyprint.css.properties import Dimension
from weasyprint.document import Document
from weasyprint.layout import inline, percent, preferred
from weasyprint.pdf import VARIANTS
from weasyprint.pdf import fonts as weasy_fonts
from weasyprint.text import ffi, line_break
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import URLFetcherResponse

import fanfold
from renderer.binding import Binder, SharedStream
from runtime.errors import ConfigurationError, Problem, Refusal

if TYPE_CHECKING:
    from renderer.fetch import BundleFetcher

WEASYPRINT: Final = '70.0'
PYDYF: Final = '0.13.0'
#: distributions that have a say in how a page looks
PACKAGES: Final = (
    'weasyprint', 'pydyf', 'tinycss2', 'cssselect2', 'tinyhtml5', 'fonttools', 'pyphen', 'pillow', 'jinja2',
    'markupsafe',
)  # fmt: skip
#: sets of stylesheets kept at the same time
STYLES_KEPT: Final = 4
#: pages after which what they left behind is collected; full collections cost about 2 ms
PAGES_PER_COLLECTION: Final = 8
#: allocations before a collection of each generation: rendering makes many objects and little garbage
GC_THRESHOLDS: Final = (100_000, 50, 100)
#: results kept of each function that is remembered
REMEMBERED: Final = 4_096
#: bytes at the start of a font file that hold its table directory, with a checksum of every table
FONT_HEAD_BYTES: Final = 4_096


def check_versions() -> None:
    """Raise ConfigurationError unless WeasyPrint and pydyf are the versions this module was written for."""
    for name, wanted, found in (('weasyprint', WEASYPRINT, weasyprint.VERSION), ('pydyf', PYDYF, pydyf.VERSION)):
        if found != wanted:
            raise ConfigurationError(
                f'{name} {found} is installed, but Fanfold works with {wanted} only: pip install {name}=={wanted}'
            )


def versions() -> dict[str, str]:
    """Versions of all that has a say in how a page looks."""
    found = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {**found, 'fanfold': fanfold.__version__, 'pango': str(ffi.pango.pango_version())}


def font_digests() -> list[str]:
    """One SHA-256 for each font file of this host, sorted: of its size and its table directory."""
    digests = set()
    for path in system_fonts():
        with path.open('rb') as file:
            head = file.read(FONT_HEAD_BYTES)
        digests.add(hashlib.sha256(b'%d %b' % (path.stat().st_size, head)).hexdigest())
    return sorted(digests)


def system_fonts() -> Iterator[Path]:
    """The font files of this host that pages may use, as fontconfig lists them."""
    configuration = FontConfiguration()
    fonts = ffi.fontconfig.FcConfigGetFonts(configuration._config, ffi.fontconfig.FcSetSystem)
    name = ffi.ffi.new('FcChar8 **')
    for index in range(fonts.nfont):
        ffi.fontconfig.FcPatternGetString(fonts.fonts[index], b'file', 0, name)
        yield Path(ffi.ffi.string(name[0]).decode())


class _Fonts(FontConfiguration):  # type: ignore[misc]  # WeasyPrint is not typed
    """A FontConfiguration that several documents share.

    `local()` sources are read from the host's fonts, which no other URL can reach. A font that is added
    once the stylesheets are parsed comes from an SVG image of one document: `changed` says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self._files: frozenset[Path] | None = None
        self.sealed = False
        self.changed = False

    def add_font_face(self, rule_descriptors: dict[str, Any], url_fetcher: BundleFetcher) -> None:
        self.changed |= self.sealed
        if any(kind == 'local' for kind, _ in rule_descriptors['src']):
            if self._files is None:
                self._files = frozenset(system_fonts())
            super().add_font_face(rule_descriptors, _HostFonts(url_fetcher, self._files))
        else:
            super().add_font_face(rule_descriptors, url_fetcher)


class _HostFonts:
    """A fetcher that also reads the font files of this host."""

    _fail_on_errors = False

    def __init__(self, fetcher: BundleFetcher, files: frozenset[Path]) -> None:
        self._fetcher = fetcher
        self._by_url = {path.as_uri(): path for path in files}

    def __call__(self, url: str) -> URLFetcherResponse:
        path = self._by_url.get(url)
        return self._fetcher(url) if path is None else URLFetcherResponse(url, path.read_bytes())


class _Styles:
    """The stylesheets of documents that have the same ones, parsed for the first of them."""

    def __init__(self, user_stylesheets: list[str], fetcher: BundleFetcher, media_type: str) -> None:
        self.fonts = _SPARE.pop() if _SPARE else _Fonts()
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
        with _replaced(weasy_css, 'find_stylesheets', self._find):
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


class _Unions:
    """Fonts of the documents bound into one file: each is embedded at the end, with the glyphs all of them use."""

    def __init__(self, binder: Binder, *, compress: bool, listed: bool) -> None:
        self._binder = binder
        self._compress = compress
        #: whether each document lists the glyphs of its embedded fonts, which then must be its own
        self._listed = listed
        self._unions: dict[tuple[Any, ...], tuple[SharedStream, Any, bytes, set[int]]] = {}
        self._kept: dict[bytes, SharedStream] = {}
        #: by address; a face that is kept here keeps its address
        self._faces: dict[int, tuple[Any, bytes]] = {}
        self._hinting = False

    def clean(self, font: Any, to_unicode: Mapping[int, str], hinting: bool) -> None:
        """In place of Font.clean: note the glyphs, and let the document refer to a stream that is still to come."""
        if self._listed or not to_unicode or 'fvar' in font.tables or font.png or font.svg or font.colr:
            _CLEAN(font, to_unicode, hinting)
            font.file_content = self._as_it_is(font)
            return
        key = (font.hash, font.index, self._digest(font))
        if key not in self._unions:
            self._unions[key] = (self._shared(_kind(font)), font, font.file_content, set())
        stream, first, _, glyphs = self._unions[key]
        glyphs.update(to_unicode)
        first.missing = {**first.missing, **font.missing}
        font.file_content = stream
        self._hinting = hinting

    def _digest(self, font: Any) -> bytes:
        """SHA-256 of the font's file."""
        address = int(ffi.ffi.cast('uintptr_t', font.hb_face))
        if address not in self._faces:
            self._faces[address] = (font.hb_face, hashlib.sha256(font.file_content).digest())
        return self._faces[address][1]

    def _as_it_is(self, font: Any) -> SharedStream:
        digest = hashlib.sha256(font.file_content).digest()
        if digest not in self._kept:
            self._kept[digest] = self._shared(font.file_content)
            self._put(self._kept[digest].number, font)
        return self._kept[digest]

    def _shared(self, content: bytes) -> SharedStream:
        stream = SharedStream(content)
        stream.number = self._binder.reserve()
        return stream

    def _put(self, number: int, font: Any) -> None:
        content = bytes(font.file_content)
        extra = {'Subtype': '/OpenType'} if font.type == 'otf' else {'Length1': len(content)}
        self._binder.put_shared(number, pydyf.Stream([content], pydyf.Dictionary(extra), compress=self._compress))

    def finish(self) -> None:
        """Write the fonts."""
        for stream, font, content, glyphs in self._unions.values():
            font.file_content = content
            _CLEAN(font, dict.fromkeys(sorted(glyphs)), self._hinting)
            self._put(stream.number, font)


def _kind(font: Any) -> bytes:
    """The first bytes of the font once it is a single one: what tells OpenType from TrueType."""
    first: bytes = font.file_content[:4]
    if first == b'ttcf':
        return b'OTTO' if {'CFF ', 'CFF2'} & set(font.tables) else b'\0\1\0\0'
    return first


class Volume:
    """Documents bound into one file, as they come."""

    def __init__(self, output: BinaryIO, options: Mapping[str, Any], zoom: float) -> None:
        variant = VARIANTS[options['pdf_variant']][1] if options.get('pdf_variant') else {}
        version = str(options.get('pdf_version') or variant.get('pdf_version') or '1.7')
        compress = not options.get('uncompressed_pdf')
        self._options = options
        self._zoom = zoom
        self._binder = Binder(output, version=version, compress=compress)
        self._unions = _Unions(self._binder, compress=compress, listed=version <= '1.4')

    def add(self, document: Document, item: int) -> None:
        # what is attached to the job is attached once
        options = self._options if item == 0 else {**self._options, 'attachments': None}
        stand_in = self._binder.begin(item)
        with _replaced(pydyf, 'PDF', stand_in), _replaced(weasy_fonts.Font, 'clean', self._clean()):
            document.write_pdf(io.BytesIO(), self._zoom, **options)

    def _clean(self) -> Any:
        return lambda font, to_unicode, hinting: self._unions.clean(font, to_unicode, hinting)

    def close(self) -> None:
        self._unions.finish()
        self._binder.close()


class Typesetter:
    """Renders the documents of one part. `options` are those of the job's spec, files given by URL."""

    def __init__(self, fetcher: BundleFetcher, options: Mapping[str, Any]) -> None:
        given = dict(options)
        self._fetcher = fetcher
        self._zoom: float = given.pop('zoom', 1)
        self._media_type: str = given.pop('media_type', 'print')
        self._user_stylesheets: list[str] = given.pop('stylesheets', None) or []
        self._options = _known(given)
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

    def write(self, document: Document, output: BinaryIO) -> None:
        """Write a document on its own, as WeasyPrint does."""
        document.write_pdf(output, self._zoom, **self._options)

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
    HTML(string='<p>Fanfold <b>1</b>').write_pdf(font_config=(fonts := _Fonts()))
    _SPARE.append(fonts)
    gc.collect()


def tune() -> None:
    """Make this process faster at rendering, for good: collect less often, remember what pure functions gave."""
    gc.set_threshold(*GC_THRESHOLDS)
    for module in (weasy_css, computed_values, functions, tokens, inline, percent, preferred):
        module.check_math = _check_math
    for name, function in computed_values.PHYSICAL_FUNCTIONS.items():
        computed_values.PHYSICAL_FUNCTIONS[name] = functools.cache(function)
    line_break.font_features = functools.lru_cache(REMEMBERED)(line_break.font_features)
    line_break.get_font_description = _font_description


def _check_math(value: Any) -> Any:
    """functions.check_math, but quick for what cannot be a function."""
    return None if type(value) in _NEVER_MATH else _CHECK_MATH(value)


def _font_description(style: Any) -> Any:
    """fonts.get_font_description, which reads these properties and nothing else; Pango copies what it is given."""
    return _described(
        tuple(style['font_family']), style['font_style'], style['font_stretch'], style['font_weight'],
        style['font_size'], style['font_variant_caps'], style['font_variation_settings'],
    )  # fmt: skip


@functools.lru_cache(REMEMBERED)
def _described(*values: Any) -> Any:
    names = ('font_family', 'font_style', 'font_stretch', 'font_weight', 'font_size', 'font_variant_caps',
             'font_variation_settings')  # fmt: skip
    return _GET_FONT_DESCRIPTION(dict(zip(names, values, strict=True)))


def _known(options: dict[str, Any]) -> dict[str, Any]:
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


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


_CHECK_MATH: Final = functions.check_math
_GET_FONT_DESCRIPTION: Final = line_break.get_font_description
_NEVER_MATH: Final = frozenset({str, int, float, bool, type(None), Dimension})
_FIND_STYLESHEETS: Final = weasy_css.find_stylesheets
_CLEAN: Final = weasy_fonts.Font.clean
#: a font configuration made before the fork, for the first document of a child
_SPARE: Final[list[_Fonts]] = []
