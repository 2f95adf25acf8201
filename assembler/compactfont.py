"""Uniting OpenType programs with compact (CFF) outlines that were reduced to different glyphs of one font.

Reducing kept the glyph ids and took subroutines apart, so a charstring says all of its glyph but what the private
dictionary holds: widths and hints. Glyphs of fonts with several of these (CID-keyed ones) bring theirs along.
Source of the format: Adobe Technical Note 5176.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Final

from assembler import sfnt

#: operators of dictionaries; two-byte ones are 12 * 256 + the second
CHARSET, ENCODING, CHARSTRINGS, PRIVATE, SUBROUTINES = 15, 16, 17, 18, 19
ROS, FD_ARRAY, FD_SELECT, FONT_MATRIX = (12 * 256 + second for second in (30, 36, 37, 7))
#: entries of the top dictionary that say where something is, or that are of no use in a PDF
PLACES: Final = frozenset({CHARSET, ENCODING, CHARSTRINGS, PRIVATE, FD_ARRAY, FD_SELECT})
#: a glyph that was left out: nothing, or `endchar` alone
EMPTY: Final = frozenset({b'', b'\x0e'})
NO_INDEX: Final = b'\0\0'
HEADER: Final = b'\1\0\4\4'

Entries = dict[int, bytes]


@dataclass(frozen=True, slots=True)
class _FontDictionary:
    """Entries of a font dictionary beside its private one, and that one."""

    entries: bytes
    private: bytes


class CompactFont:
    """A program taken apart. It grows: `unite` takes the glyphs of another one in."""

    def __init__(self, tables: dict[bytes, bytes]) -> None:
        """Raises ValueError, IndexError or struct.error if these are no compact outlines that can be united."""
        if b'CFF ' not in tables:
            raise ValueError('no compact outlines')
        data = tables[b'CFF ']
        self._tables = {tag: table for tag, table in tables.items() if tag in sfnt.KEPT}
        self._metrics = sfnt.read_metrics(tables)
        self._names, end = _read_index(data, data[2])
        (top, *others), end = _read_index(data, end)
        self._strings, end = _read_index(data, end)
        subroutines, _ = _read_index(data, end)
        if others or subroutines:
            raise ValueError('several fonts, or subroutines')
        self._top = _read_dictionary(top)
        self._glyphs, _ = _read_index(data, _numbers(self._top[CHARSTRINGS])[0])
        count = len(self._glyphs)
        self._charset = _read_charset(data, _numbers(self._top.get(CHARSET, b'\x8b'))[0], count)
        self._keyed = ROS in self._top
        if self._keyed:
            dictionaries, _ = _read_index(data, _numbers(self._top[FD_ARRAY])[0])
            self._fonts = [_read_font(data, _read_dictionary(entry)) for entry in dictionaries]
            self._select = _read_select(data, _numbers(self._top[FD_SELECT])[0], count)
        else:
            self._fonts = [_read_font(data, {PRIVATE: self._top[PRIVATE]})]
            self._select = [0] * count

    def unite(self, other: CompactFont) -> bool:
        """Take in the glyphs of another program; False, and nothing done, if the two are not of one font."""
        if self._keyed != other._keyed or self._top.get(FONT_MATRIX) != other._top.get(FONT_MATRIX):
            return False
        if not sfnt.same_scale(self._tables, other._tables) or (not self._keyed and self._fonts != other._fonts):
            return False
        common = zip(self._glyphs, other._glyphs, strict=False)
        if any(not EMPTY & {mine, theirs} and mine != theirs for mine, theirs in common):
            return False
        if len(other._glyphs) > len(self._glyphs):  # names of glyphs are strings of the program that has them
            more = len(other._glyphs) - len(self._glyphs)
            self._glyphs += [b'\x0e'] * more
            self._select += [self._select[-1]] * more
            if self._keyed:
                self._charset += other._charset[len(self._charset) :]
            else:
                self._charset, self._strings, self._top = list(other._charset), other._strings, other._top
        for glyph, charstring in enumerate(other._glyphs):
            if self._glyphs[glyph] in EMPTY and charstring not in EMPTY:
                self._take(glyph, other)
        sfnt.unite_metrics(self._metrics, other._metrics)
        return True

    def _take(self, glyph: int, other: CompactFont) -> None:
        self._glyphs[glyph] = other._glyphs[glyph]
        if self._keyed:
            font = other._fonts[other._select[glyph]]
            if font not in self._fonts:
                self._fonts.append(font)
            self._select[glyph] = self._fonts.index(font)
            self._charset[glyph] = other._charset[glyph]

    def write(self) -> bytes:
        """The program as a file."""
        tables = {**self._tables, b'CFF ': self._write_outlines()}
        return sfnt.write_file(sfnt.OPENTYPE, tables, self._metrics)

    def _write_outlines(self) -> bytes:
        """Everything in a fixed order; the top dictionary has as many bytes wherever the rest is."""
        charset, glyphs = _charset(self._charset), _index(self._glyphs)
        select = _select(self._select) if self._keyed else b''
        before = HEADER + _index(self._names)
        after = _index(self._strings) + NO_INDEX
        start = len(before) + len(_index([self._top_dictionary(0, 0, 0, 0, 0)])) + len(after)
        charset_at = start
        select_at = charset_at + len(charset)
        glyphs_at = select_at + len(select)
        fonts_at = glyphs_at + len(glyphs)
        fonts = _font_array(self._fonts, fonts_at) if self._keyed else b''
        private_at = fonts_at + len(fonts)
        top = self._top_dictionary(charset_at, select_at, glyphs_at, fonts_at, private_at)
        privates = b''.join(font.private for font in self._fonts)
        return b''.join((before, _index([top]), after, charset, select, glyphs, fonts, privates))

    def _top_dictionary(self, charset: int, select: int, glyphs: int, fonts: int, private: int) -> bytes:
        kept = b''.join(operands + _operator(key) for key, operands in self._top.items() if key not in PLACES)
        entries = {CHARSET: _number(charset), CHARSTRINGS: _number(glyphs)}
        if self._keyed:
            entries |= {FD_SELECT: _number(select), FD_ARRAY: _number(fonts)}
        else:
            entries[PRIVATE] = _number(len(self._fonts[0].private)) + _number(private)
        return kept + b''.join(operands + _operator(key) for key, operands in entries.items())


def _read_index(data: bytes, offset: int) -> tuple[list[bytes], int]:
    """The items of an INDEX and the offset behind it."""
    (count,) = struct.unpack_from('>H', data, offset)
    if not count:
        return [], offset + 2
    size, start = data[offset + 2], offset + 3
    base = start + (count + 1) * size - 1
    places = [int.from_bytes(data[start + size * n : start + size * (n + 1)]) + base for n in range(count + 1)]
    return [data[begin:end] for begin, end in pairwise(places)], places[-1]


def _index(items: Sequence[bytes]) -> bytes:
    if not items:
        return NO_INDEX
    places = list(accumulate((len(item) for item in items), initial=1))
    size = (places[-1].bit_length() + 7) // 8
    offsets = b''.join(place.to_bytes(size) for place in places)
    return struct.pack('>HB', len(items), size) + offsets + b''.join(items)


def _read_dictionary(data: bytes) -> Entries:
    """Operands, as they are, by operator."""
    found: Entries = {}
    start = place = 0
    while place < len(data):
        first = data[place]
        if first <= 21:
            length = 2 if first == 12 else 1
            operator = first * 256 + data[place + 1] if first == 12 else first
            found[operator] = data[start:place]
            place += length
            start = place
        else:
            place += _operand_length(data, place)
    return found


def _operand_length(data: bytes, place: int) -> int:
    first = data[place]
    if first == 30:  # a real number ends with a half-byte of 15
        length = 1
        while data[place + length] & 15 != 15 and data[place + length] >> 4 != 15:
            length += 1
        return length + 1
    return {28: 3, 29: 5}.get(first, 1 if first < 247 else 2)


def _numbers(operands: bytes) -> list[int]:
    """Operands that are integers."""
    found, place = [], 0
    while place < len(operands):
        first, length = operands[place], _operand_length(operands, place)
        rest = operands[place + 1 : place + length]
        if first in {28, 29}:
            found.append(int.from_bytes(rest, signed=True))
        elif first < 247:
            found.append(first - 139)
        elif first < 251:
            found.append((first - 247) * 256 + rest[0] + 108)
        else:
            found.append(-(first - 251) * 256 - rest[0] - 108)
        place += length
    return found


def _number(value: int) -> bytes:
    """An integer in its longest form, which leaves the length of a dictionary alone."""
    return b'\x1d' + value.to_bytes(4)


def _operator(key: int) -> bytes:
    return bytes([12, key % 256]) if key >= 256 else bytes([key])


def _read_font(data: bytes, entries: Entries) -> _FontDictionary:
    size, offset = _numbers(entries[PRIVATE])
    private = data[offset : offset + size]
    if SUBROUTINES in _read_dictionary(private):
        raise ValueError('subroutines')
    kept = b''.join(operands + _operator(key) for key, operands in entries.items() if key != PRIVATE)
    return _FontDictionary(kept, private)


def _font_array(fonts: Sequence[_FontDictionary], offset: int) -> bytes:
    """The INDEX of font dictionaries; their private ones follow it in order."""

    def written(place: int) -> bytes:
        items = []
        for font in fonts:
            items.append(font.entries + _number(len(font.private)) + _number(place) + _operator(PRIVATE))
            place += len(font.private)
        return _index(items)

    return written(offset + len(written(0)))


def _read_charset(data: bytes, offset: int, count: int) -> list[int]:
    """Name or CID of each glyph."""
    if offset <= 2:  # one of the predefined ones, of which PDF readers need none here
        return list(range(count))
    found, kind, place = [0], data[offset], offset + 1
    if kind == 0:
        return found + list(sfnt.integers('H', data[place:], count - 1))
    while len(found) < count:
        (first,) = struct.unpack_from('>H', data, place)
        more = data[place + 2] if kind == 1 else struct.unpack_from('>H', data, place + 2)[0]
        found += range(first, first + more + 1)
        place += 3 if kind == 1 else 4
    return found[:count]


def _charset(names: Sequence[int]) -> bytes:
    """In runs of names that follow each other."""
    runs: list[list[int]] = []
    for name in names[1:]:
        if runs and runs[-1][-1] + 1 == name:
            runs[-1].append(name)
        else:
            runs.append([name])
    return b'\2' + b''.join(struct.pack('>HH', run[0], len(run) - 1) for run in runs)


def _read_select(data: bytes, offset: int, count: int) -> list[int]:
    """The font dictionary of each glyph."""
    if data[offset] == 0:
        return list(data[offset + 1 : offset + 1 + count])
    (ranges,) = struct.unpack_from('>H', data, offset + 1)
    found: list[int] = []
    for index in range(ranges):
        first, font, end = struct.unpack_from('>HBH', data, offset + 3 + 3 * index)
        found += [font] * (end - first)
    return found[:count]


def _select(fonts: Sequence[int]) -> bytes:
    """In ranges of glyphs that have the same one."""
    ranges = list(_ranges(fonts))
    body = b''.join(struct.pack('>HB', first, font) for first, font in ranges)
    return struct.pack('>BH', 3, len(ranges)) + body + struct.pack('>H', len(fonts))


def _ranges(fonts: Sequence[int]) -> Iterator[tuple[int, int]]:
    place = 0
    for font, run in groupby(fonts):
        yield place, font
        place += len(list(run))
