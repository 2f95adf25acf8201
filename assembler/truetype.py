"""Uniting TrueType programs that were reduced to different glyphs of one font (ISO/IEC 14496-22).

Reducing kept the glyph ids, so a glyph of either program can stand in the union under its own id. Outlines and
metrics are merged; tables that hints are made of must be the same; what a PDF reader does not look at comes
from the first program.
"""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise
from sys import byteorder
from typing import Final

#: tables that the outlines rely on: programs that differ in one are not of one font
SAME: Final = (b'cvt ', b'fpgm', b'prep')
KEPT: Final = frozenset({*SAME, b'OS/2', b'cmap', b'gasp', b'head', b'hhea', b'maxp', b'name', b'post'})
NEEDED: Final = frozenset({b'glyf', b'loca', b'head', b'hhea', b'hmtx', b'maxp'})
TRUETYPE: Final = b'\0\1\0\0'
CHECKSUM: Final = 0xB1B0AFBA
NO_METRICS: Final = bytes(4)
#: offsets of glyphs in short form are half the bytes, 16 bits
LONGEST_SHORT: Final = 2 * 0xFFFF


class TrueType:
    """A program taken apart. It grows: `unite` takes the glyphs of another one in."""

    def __init__(self, program: bytes) -> None:
        """Raises ValueError if this is not TrueType, struct.error or IndexError if it is broken."""
        tables = _tables(program)
        if not tables.keys() >= NEEDED:
            raise ValueError('not a TrueType program with outlines')
        self._tables = {tag: data for tag, data in tables.items() if tag in KEPT}
        (count,) = struct.unpack_from('>H', tables[b'maxp'], 4)
        (long_offsets,) = struct.unpack_from('>h', tables[b'head'], 50)
        offsets = _integers('I' if long_offsets else 'H', tables[b'loca'], count + 1)
        places = list(offsets) if long_offsets else [2 * offset for offset in offsets]
        outlines = tables[b'glyf']
        self._glyphs = [outlines[start:end] for start, end in pairwise(places)]
        self._metrics = _metrics(tables, count)

    def unite(self, other: TrueType) -> bool:
        """Take in the glyphs of another program; False, and nothing done, if the two are not of one font."""
        if any(self._tables.get(tag) != other._tables.get(tag) for tag in SAME):
            return False
        if self._tables[b'head'][18:20] != other._tables[b'head'][18:20]:  # units per em
            return False
        common = zip(self._glyphs, other._glyphs, strict=False)
        if any(mine and theirs and mine.rstrip(b'\0') != theirs.rstrip(b'\0') for mine, theirs in common):
            return False
        more = len(other._glyphs) - len(self._glyphs)
        if more > 0:
            self._glyphs += [b''] * more
            self._metrics += [NO_METRICS] * more
        for glyph, (outline, metrics) in enumerate(zip(other._glyphs, other._metrics, strict=True)):
            self._glyphs[glyph] = self._glyphs[glyph] or outline
            if self._metrics[glyph] == NO_METRICS:
                self._metrics[glyph] = metrics
        self._tables[b'maxp'] = _largest(self._tables[b'maxp'], other._tables[b'maxp'])
        return True

    def write(self) -> bytes:
        """The program as a file."""
        tables = dict(self._tables)
        padded = [glyph + bytes(-len(glyph) % 4) for glyph in self._glyphs]
        places = [0]
        for glyph in padded:
            places.append(places[-1] + len(glyph))
        short = places[-1] <= LONGEST_SHORT
        tables[b'glyf'] = b''.join(padded)
        tables[b'loca'] = _packed('H', [place // 2 for place in places]) if short else _packed('I', places)
        tables[b'head'] = _with_short(tables[b'head'], 50, 0 if short else 1)
        tables[b'maxp'] = _with_short(tables[b'maxp'], 4, len(padded))
        advances = _advances(self._metrics)
        tables[b'hhea'] = _with_short(tables[b'hhea'], 34, advances)
        tables[b'hmtx'] = b''.join(self._metrics[:advances]) + b''.join(item[2:] for item in self._metrics[advances:])
        return _file(tables)


def _tables(program: bytes) -> dict[bytes, bytes]:
    if program[:4] not in {TRUETYPE, b'true'}:
        raise ValueError('not a TrueType program')
    (count,) = struct.unpack_from('>H', program, 4)
    found = {}
    for index in range(count):
        tag, _, offset, length = struct.unpack_from('>4sIII', program, 12 + 16 * index)
        found[tag] = program[offset : offset + length]
    return found


def _metrics(tables: dict[bytes, bytes], count: int) -> list[bytes]:
    """Advance and left bearing of each glyph, four bytes."""
    (advances,) = struct.unpack_from('>H', tables[b'hhea'], 34)
    data = tables[b'hmtx']
    found = [data[4 * index : 4 * index + 4] for index in range(min(advances, count))]
    last, rest = found[-1][:2], data[4 * advances :]
    found += [last + rest[2 * index : 2 * index + 2].ljust(2, b'\0') for index in range(count - len(found))]
    return found


def _advances(metrics: list[bytes]) -> int:
    """How many glyphs must say their advance: from there on it is that of the last."""
    count = len(metrics)
    while count > 1 and metrics[count - 2][:2] == metrics[-1][:2]:
        count -= 1
    return count


def _largest(one: bytes, other: bytes) -> bytes:
    """The maximum profile that both fit in; version and number of glyphs are the first one's."""
    values = zip(_integers('H', one, len(one) // 2), _integers('H', other, len(other) // 2), strict=False)
    return one[:6] + _packed('H', [max(pair) for pair in values])[6:]


def _with_short(table: bytes, offset: int, value: int) -> bytes:
    return table[:offset] + struct.pack('>H', value) + table[offset + 2 :]


def _file(tables: dict[bytes, bytes]) -> bytes:
    count = len(tables)
    power = 2 ** (count.bit_length() - 1)
    directory = [TRUETYPE + struct.pack('>HHHH', count, power * 16, power.bit_length() - 1, (count - power) * 16)]
    tables[b'head'] = tables[b'head'][:8] + bytes(4) + tables[b'head'][12:]
    bodies, offset, head_at = [], 12 + 16 * count, 0
    for tag in sorted(tables):
        body = tables[tag] + bytes(-len(tables[tag]) % 4)
        directory.append(struct.pack('>4sIII', tag, _checksum(body), offset, len(tables[tag])))
        bodies.append(body)
        head_at = offset if tag == b'head' else head_at
        offset += len(body)
    program = bytearray(b''.join((*directory, *bodies)))
    struct.pack_into('>I', program, head_at + 8, (CHECKSUM - _checksum(bytes(program))) % 2**32)
    return bytes(program)


def _checksum(data: bytes) -> int:
    return sum(_integers('I', data, len(data) // 4)) % 2**32


def _integers(kind: str, data: bytes, count: int) -> array[int]:
    """So many big-endian integers."""
    values = array(kind)
    values.frombytes(data[: count * values.itemsize])
    if byteorder == 'little':
        values.byteswap()
    return values


def _packed(kind: str, numbers: list[int]) -> bytes:
    values = array(kind, numbers)
    if byteorder == 'little':
        values.byteswap()
    return values.tobytes()
