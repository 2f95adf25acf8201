"""Glyphs that other glyphs of a TrueType font are composed of (ISO/IEC 14496-22, 5.3.3).

WeasyPrint reduces a font to the glyphs of a document and closes the gap behind the last of them, whereby components
that are further behind get other ids. Asked for as well, they keep theirs, so that programs of several parts can be
united.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

from weasyprint.text.ffi import ffi, harfbuzz

WORDS, SCALE, MORE, TWO_SCALES, MATRIX = 0x01, 0x08, 0x20, 0x40, 0x80
#: bytes of a glyph before its components: number of contours and box
GLYPH_HEADER: Final = 10


def with_components(face: Any, glyphs: Iterable[int]) -> set[int]:
    """The glyphs, and those they are composed of. `face` is a HarfBuzz face; other outlines have no components."""
    outlines, places, head = (_table(face, tag) for tag in (b'glyf', b'loca', b'head'))
    found = set(glyphs)
    if not outlines or len(head) < 52:
        return found
    form, scale = ('>I', 1) if struct.unpack_from('>h', head, 50)[0] else ('>H', 2)
    size = struct.calcsize(form)
    waiting = [glyph for glyph in found if (glyph + 2) * size <= len(places)]
    while waiting:
        glyph = waiting.pop()
        begin, end = (scale * struct.unpack_from(form, places, size * (glyph + place))[0] for place in (0, 1))
        more = set(_components(outlines[begin:end])) - found
        found |= more
        waiting += [glyph for glyph in more if (glyph + 2) * size <= len(places)]
    return found


def _components(outline: bytes) -> Iterator[int]:
    if len(outline) < GLYPH_HEADER or struct.unpack_from('>h', outline)[0] >= 0:
        return
    place, flags = GLYPH_HEADER, MORE
    while flags & MORE and place + 4 <= len(outline):
        flags, glyph = struct.unpack_from('>HH', outline, place)
        yield glyph
        place += 8 if flags & WORDS else 6
        place += 2 if flags & SCALE else 4 if flags & TWO_SCALES else 8 if flags & MATRIX else 0


def _table(face: Any, tag: bytes) -> bytes:
    """A table of the font; none if it has no such."""
    blob = ffi.gc(
        harfbuzz.hb_face_reference_table(face, harfbuzz.hb_tag_from_string(tag, -1)), harfbuzz.hb_blob_destroy
    )
    length = ffi.new('unsigned int *')
    data = harfbuzz.hb_blob_get_data(blob, length)
    return bytes(ffi.buffer(data, length[0])) if length[0] else b''
