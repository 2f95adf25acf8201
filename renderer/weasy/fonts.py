"""Fonts that documents share: one configuration to lay them out with, one embedded subset to show them with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pydyf
from weasyprint.pdf.fonts import Font
from weasyprint.text import ffi
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import URLFetcherResponse

from renderer.binding import Binder, SharedStream
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


class FontUnions:
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


_CLEAN: Final = Font.clean
