"""Uniting TrueType programs that were reduced to different glyphs of one font (ISO/IEC 14496-22).

Reducing kept the glyph ids, so a glyph of either program can stand in the union under its own id. Outlines and
metrics are merged; tables that hints are made of must be the same; what a PDF reader does not look at comes
from the first program.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final

from assembler import sfnt

#: tables that the outlines rely on: programs that differ in one are not of one font
SAME: Final = (b'cvt ', b'fpgm', b'prep')
KEPT: Final = sfnt.KEPT | {*SAME, b'gasp'}
#: offsets of glyphs in short form are half the bytes, 16 bits
LONGEST_SHORT: Final = 2 * 0xFFFF


class TrueType:
    """A program taken apart. It grows: `unite` takes the glyphs of another one in."""

    def __init__(self, tables: dict[bytes, bytes]) -> None:
        """Raises ValueError or struct.error if this is not TrueType, or broken."""
        if not tables.keys() >= {b'glyf', b'loca'}:
            raise ValueError('no TrueType outlines')
        self._tables = {tag: data for tag, data in tables.items() if tag in KEPT}
        (long_offsets,) = struct.unpack_from('>h', tables[b'head'], 50)
        offsets = sfnt.integers('I' if long_offsets else 'H', tables[b'loca'], sfnt.glyph_count(tables) + 1)
        places = list(offsets) if long_offsets else [2 * offset for offset in offsets]
        outlines = tables[b'glyf']
        self._glyphs = [outlines[start:end] for start, end in pairwise(places)]
        self._metrics = sfnt.read_metrics(tables)

    def unite(self, other: TrueType) -> bool:
        """Take in the glyphs of another program; False, and nothing done, if the two are not of one font."""
        if any(self._tables.get(tag) != other._tables.get(tag) for tag in SAME):
            return False
        common = zip(self._glyphs, other._glyphs, strict=False)
        if any(mine and theirs and mine.rstrip(b'\0') != theirs.rstrip(b'\0') for mine, theirs in common):
            return False
        if not sfnt.same_scale(self._tables, other._tables):
            return False
        self._glyphs += [b''] * (len(other._glyphs) - len(self._glyphs))
        for glyph, outline in enumerate(other._glyphs):
            self._glyphs[glyph] = self._glyphs[glyph] or outline
        sfnt.unite_metrics(self._metrics, other._metrics)
        self._tables[b'maxp'] = _largest(self._tables[b'maxp'], other._tables[b'maxp'])
        return True

    def write(self) -> bytes:
        """The program as a file."""
        padded = [glyph + bytes(-len(glyph) % 4) for glyph in self._glyphs]
        places = [0]
        for glyph in padded:
            places.append(places[-1] + len(glyph))
        short = places[-1] <= LONGEST_SHORT
        tables = {
            **self._tables,
            b'glyf': b''.join(padded),
            b'loca': sfnt.packed('H', [place // 2 for place in places]) if short else sfnt.packed('I', places),
            b'head': sfnt.with_short(self._tables[b'head'], 50, 0 if short else 1),
        }
        return sfnt.write_file(sfnt.TRUETYPE, tables, self._metrics)


def _largest(one: bytes, other: bytes) -> bytes:
    """The maximum profile that both fit in; version and number of glyphs are the first one's."""
    values = zip(sfnt.integers('H', one, len(one) // 2), sfnt.integers('H', other, len(other) // 2), strict=False)
    return one[:6] + sfnt.packed('H', [max(pair) for pair in values])[6:]
