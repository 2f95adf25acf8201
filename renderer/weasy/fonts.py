"""Fonts that documents share: one configuration to lay them out with, and what it takes to embed them at assembly."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydyf
from fontTools.ttLib import TTFont
from weasyprint.pdf.fonts import build_fonts_dictionary
from weasyprint.text import ffi
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import URLFetcherResponse

from assembler.fontuse import FontFace, FontUse
from renderer.binding import Binder
from renderer.weasy.components import with_components
from renderer.weasy.versions import system_fonts

if TYPE_CHECKING:
    from renderer.fetch import BundleFetcher


class SharedFonts(FontConfiguration):  # type: ignore[misc]  # WeasyPrint is not typed
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


@dataclass(slots=True, kw_only=True)
class _Program:
    """A font program of the bundle. `font` is the first WeasyPrint font that needs it."""

    font: Any
    glyphs: set[int] = field(default_factory=set)


class FontExport:
    """Fonts of the documents of a bundle: what they use goes into the tables, their programs to the end."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        #: by identity, and whether they are whole: that keeps hints, which show
        self._programs: dict[tuple[str, bool], _Program] = {}
        #: by address; a face that is kept here keeps its address
        self._faces: dict[int, tuple[Any, bytes]] = {}
        self._hinting = False

    def build(
        self, pdf: Any, fonts: Mapping[Any, Any], compress: bool, subset: bool, options: Mapping[str, Any]
    ) -> Any:
        """In place of weasyprint.pdf.build_fonts_dictionary. Bitmap and emoji fonts are embedded as WeasyPrint does."""
        self._hinting = options['hinting']
        own = {key: font for key, font in fonts.items() if _is_drawn(font)}
        dictionary = build_fonts_dictionary(pdf, own, compress, subset, options) if own else pydyf.Dictionary()
        by_name: dict[str, list[Any]] = {}
        for font in fonts.values():
            if not _is_drawn(font):
                by_name.setdefault(font.hash, []).append(font)
        for name, same in by_name.items():
            # of several fonts under one name WeasyPrint embeds the first and describes the last
            whole = not subset or same[0].used_in_forms
            identity = self._identity(same[0])
            program = self._programs.setdefault((identity, whole), _Program(font=same[0]))
            if whole:
                same[0].clean({}, self._hinting)  # a variable font has its widths only once it is fixed
            program.glyphs.update(glyph for font in same for glyph in font.to_unicode)
            stand_in = self._binder.font(_use(same[-1], whole=whole), identity)
            pdf.add_object(stand_in)
            dictionary[name] = stand_in.reference
        return dictionary

    def _identity(self, font: Any) -> str:
        """What tells this program from others: file, face, and what a variable font is fixed at."""
        address = int(ffi.ffi.cast('uintptr_t', font.hb_face))
        if address not in self._faces:
            self._faces[address] = (font.hb_face, hashlib.sha256(font.file_content).digest())
        fixed = []
        if 'fvar' in font.tables:
            fixed = [font.weight, int(font.style), font.font_size, sorted(font.variations.items())]
        said = json.dumps([self._faces[address][1].hex(), font.index, fixed])
        return hashlib.sha256(said.encode()).hexdigest()

    def programs(self) -> Iterator[tuple[str, bytes, set[int]]]:
        """Identity, content and glyphs of each program; no glyphs: it is whole."""
        for (identity, whole), program in self._programs.items():
            if whole:
                yield identity, program.font.file_content, set()
            else:
                glyphs = with_components(program.font.hb_face, program.glyphs)
                program.font.clean(dict.fromkeys(sorted(glyphs)), self._hinting)
                yield identity, program.font.file_content, glyphs


def _is_drawn(font: Any) -> bool:
    return bool(font.bitmap or font.png or font.svg or font.colr)


def _use(font: Any, *, whole: bool) -> FontUse:
    face = FontFace(
        key=font.hash, name=font.name.decode('latin-1'), family=font.family, flags=font.flags, ascent=font.ascent,
        descent=font.descent, italic_angle=font.italic_angle, stem_v=font.stemv, stem_h=font.stemh,
    )  # fmt: skip
    use = FontUse(face=face, widths=dict(font.widths), to_unicode=dict(font.to_unicode), missing=dict(font.missing))
    if whole:
        use.all_widths, use.all_to_unicode = _all_glyphs(font)
    return use


def _all_glyphs(font: Any) -> tuple[dict[int, float], dict[int, str]]:
    """Widths and texts of all glyphs, as WeasyPrint says them of a font that is embedded whole."""
    program = TTFont(io.BytesIO(font.file_content), fontNumber=font.index)
    widths = {glyph: shape.width * 1000 / font.upem for glyph, shape in enumerate(program.getGlyphSet().values())}
    texts: dict[int, str] = {}
    for code, name in program.getBestCmap().items():
        texts.setdefault(program.getGlyphID(name), chr(code))
    return widths, texts
