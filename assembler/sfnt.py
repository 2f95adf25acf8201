"""The container of a font program (ISO/IEC 14496-22, 4): its tables, and the metrics of its glyphs."""

from __future__ import annotations

import struct
from array import array
from sys import byteorder
from typing import Final

TRUETYPE: Final = b'\0\1\0\0'
OPENTYPE: Final = b'OTTO'
#: tables that a PDF reader may look at, beside those with the outlines
KEPT: Final = frozenset({b'OS/2', b'cmap', b'head', b'hhea', b'hmtx', b'maxp', b'name', b'post'})
CHECKSUM: Final = 0xB1B0AFBA
NO_METRICS: Final = bytes(4)


def read_tables(program: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Kind of outlines, and tables by tag. Raises ValueError, struct.error."""
    kind = TRUETYPE if program[:4] == b'true' else program[:4]
    if kind not in {TRUETYPE, OPENTYPE}:
        raise ValueError('not a font program')
    (count,) = struct.unpack_from('>H', program, 4)
    found = {}
    for index in range(count):
        tag, _, offset, length = struct.unpack_from('>4sIII', program, 12 + 16 * index)
        found[tag] = program[offset : offset + length]
    missing = {b'head', b'hhea', b'hmtx', b'maxp'} - found.keys()
    if missing:
        raise ValueError('a font program without metrics')
    return kind, found


def glyph_count(tables: dict[bytes, bytes]) -> int:
    count: int = struct.unpack_from('>H', tables[b'maxp'], 4)[0]
    return count


def read_metrics(tables: dict[bytes, bytes]) -> list[bytes]:
    """Advance and left bearing of each glyph, four bytes."""
    count = glyph_count(tables)
    (advances,) = struct.unpack_from('>H', tables[b'hhea'], 34)
    data = tables[b'hmtx']
    found = [data[4 * index : 4 * index + 4] for index in range(min(advances, count))]
    last, rest = found[-1][:2], data[4 * advances :]
    found += [last + rest[2 * index : 2 * index + 2].ljust(2, b'\0') for index in range(count - len(found))]
    return found


def unite_metrics(mine: list[bytes], theirs: list[bytes]) -> None:
    """Take in the metrics of glyphs that have none yet."""
    mine += [NO_METRICS] * (len(theirs) - len(mine))
    for glyph, metrics in enumerate(theirs):
        if mine[glyph] == NO_METRICS:
            mine[glyph] = metrics


def same_scale(one: dict[bytes, bytes], other: dict[bytes, bytes]) -> bool:
    """Whether two fonts have as many units per em."""
    return one[b'head'][18:20] == other[b'head'][18:20]


def write_file(kind: bytes, tables: dict[bytes, bytes], metrics: list[bytes]) -> bytes:
    """The program as a file."""
    advances = _advances(metrics)
    tables = {
        **tables,
        b'maxp': with_short(tables[b'maxp'], 4, len(metrics)),
        b'hhea': with_short(tables[b'hhea'], 34, advances),
        b'hmtx': b''.join(metrics[:advances]) + b''.join(item[2:] for item in metrics[advances:]),
        b'head': tables[b'head'][:8] + bytes(4) + tables[b'head'][12:],
    }
    count = len(tables)
    power = 2 ** (count.bit_length() - 1)
    directory = [kind + struct.pack('>HHHH', count, power * 16, power.bit_length() - 1, (count - power) * 16)]
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


def _advances(metrics: list[bytes]) -> int:
    """How many glyphs must say their advance: from there on it is that of the last."""
    count = len(metrics)
    while count > 1 and metrics[count - 2][:2] == metrics[-1][:2]:
        count -= 1
    return count


def _checksum(data: bytes) -> int:
    return sum(integers('I', data, len(data) // 4)) % 2**32


def with_short(table: bytes, offset: int, value: int) -> bytes:
    return table[:offset] + struct.pack('>H', value) + table[offset + 2 :]


def integers(kind: str, data: bytes, count: int) -> array[int]:
    """So many big-endian integers."""
    values = array(kind)
    values.frombytes(data[: count * values.itemsize])
    if byteorder == 'little':
        values.byteswap()
    return values


def packed(kind: str, numbers: list[int]) -> bytes:
    values = array(kind, numbers)
    if byteorder == 'little':
        values.byteswap()
    return values.tobytes()
