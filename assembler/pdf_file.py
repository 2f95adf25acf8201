"""Writing a PDF file front to back: objects come in, bytes go out, only positions stay in memory.

Objects without a stream are gathered into compressed object streams where the version allows it
(ISO 32000-1, 7.5.7), so that a merged file is about as small as its parts. Structure elements are kept
apart from pages, and page tree, outline and names from both: a reader that only wants those need not unpack the
rest. The same objects in the same order give the same bytes; `/ID` is a hash of what was written.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from sys import byteorder
from typing import Final, Literal

Group = Literal['pages', 'structure', 'index']

#: source of objects in one object stream
STREAM_BYTES: Final[dict[Group, int]] = {'pages': 64 * 1024, 'structure': 192 * 1024, 'index': 64 * 1024}
#: how hard zlib tries. Structure elements are most of a tagged file's objects: level 9 takes twice the time of level
#: 5 there, for one percent of the file
LEVELS: Final[dict[Group, int]] = {'pages': 9, 'structure': 5, 'index': 9}
FIRST_WITH_OBJECT_STREAMS: Final = (1, 5)
#: a comment of four bytes above 127 tells transfer programs that the file is binary (7.5.2)
BINARY_MARK: Final = b'%\xf0\x9f\x96\xa4\n'
FREE, PLAIN, PACKED = range(3)


@dataclass(slots=True)
class _Waiting:
    """Objects on their way into one object stream."""

    numbers: array[int] = field(default_factory=lambda: array('L'))
    texts: list[bytes] = field(default_factory=list)
    size: int = 0


class PdfFile:
    """One PDF on its way out. Numbers are reserved first, so that objects can refer to later ones."""

    def __init__(self, *, version: str, compress: bool) -> None:
        self._pieces: list[bytes] = []
        self._position = 0
        self._hash = hashlib.sha256()
        self.compress = compress
        self.version = tuple(int(part) for part in version.split('.'))
        self._packs = compress and self.version >= FIRST_WITH_OBJECT_STREAMS
        self._waiting: dict[Group, _Waiting] = {group: _Waiting() for group in STREAM_BYTES}
        #: rows of the cross-reference (7.5.8.3): type, position or object stream, generation or index
        self._kinds = bytearray([FREE])
        self._places = array('Q', [0])
        self._extras = array('H', [65535])
        self._write(f'%PDF-{version}\n'.encode() + BINARY_MARK)

    def drain(self) -> Iterator[bytes]:
        """What has been written since the last time."""
        pieces, self._pieces = self._pieces, []
        yield from pieces

    def reserve(self, count: int = 1) -> int:
        """The first of so many numbers."""
        first = len(self._kinds)
        self._kinds.extend(bytes(count))
        self._places.frombytes(bytes(8 * count))
        self._extras.frombytes(bytes(2 * count))
        return first

    def put(self, number: int, body: bytes, group: Group = 'pages') -> None:
        """Write an object that has no stream, and no line feed in its source."""
        self.put_sheet([number], body + b'\n', group)

    def put_sheet(self, numbers: Sequence[int], source: bytes, group: Group) -> None:
        """Write objects without a stream; the source of each ends with a line feed, of which it has no other."""
        if not self._packs:
            for number, body in zip(numbers, source.split(b'\n'), strict=False):
                self._put_plain(number, (body,))
            return
        waiting = self._waiting[group]
        waiting.numbers.extend(numbers)
        waiting.texts.append(source)
        waiting.size += len(source)
        if waiting.size >= STREAM_BYTES[group]:
            self._pack(group)

    def put_stream(self, number: int, dictionary: bytes, data: bytes) -> None:
        """Write a stream whose dictionary says /Length."""
        self._put_plain(number, (dictionary, b'\nstream\n', data, b'\nendstream'))

    def put_data(self, number: int, entries: bytes, data: bytes) -> None:
        """Write a stream, deflated where the file is; `entries` of its dictionary come without /Filter and /Length."""
        if self.compress:
            data = zlib.compress(data, 9)
            entries += b'/Filter/FlateDecode'
        self.put_stream(number, b'<<%b/Length %d>>' % (entries, len(data)), data)

    def add(self, body: bytes, group: Group = 'pages') -> int:
        number = self.reserve()
        self.put(number, body, group)
        return number

    def close(self, *, root: int, info: int | None, identifier: str = '') -> None:
        """Write what is waiting and the cross-reference. The identifier is a hash unless one is given."""
        for group in self._waiting:
            self._pack(group)
        now = self._hash.hexdigest()[:32].encode()
        first = identifier.encode('latin-1', 'replace').hex().encode() if identifier else now
        trailer = b'/Root %d 0 R/ID [<%b><%b>]' % (root, first, now)
        if info is not None:
            trailer += b'/Info %d 0 R' % info
        start = self._position
        if self._packs:
            self._write_xref_stream(trailer)
        else:
            self._write_xref_table(trailer)
        self._write(b'startxref\n%d\n%%%%EOF\n' % start)

    def _write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._hash.update(data)
        self._position += len(data)

    def _put_plain(self, number: int, pieces: Sequence[bytes]) -> None:
        self._kinds[number], self._places[number], self._extras[number] = PLAIN, self._position, 0
        self._write(b'%d 0 obj\n' % number)
        for piece in pieces:
            self._write(piece)
        self._write(b'\nendobj\n')

    def _pack(self, group: Group) -> None:
        waiting = self._waiting[group]
        if not waiting.numbers:
            return
        stream, numbers = self.reserve(), waiting.numbers
        source = b''.join(waiting.texts)
        ends = accumulate(len(body) + 1 for body in source.split(b'\n'))
        offsets = [0, *ends]
        for index, number in enumerate(numbers):
            self._kinds[number], self._places[number], self._extras[number] = PACKED, stream, index
        head = b' '.join(map(b'%d %d'.__mod__, zip(numbers, offsets, strict=False))) + b'\n'
        data = zlib.compress(head + source, LEVELS[group])
        dictionary = b'<</Type/ObjStm/N %d/First %d/Filter/FlateDecode/Length %d>>'
        self.put_stream(stream, dictionary % (len(numbers), len(head), len(data)), data)
        self._waiting[group] = _Waiting()

    def _write_xref_stream(self, trailer: bytes) -> None:
        number = self.reserve()
        self._kinds[number], self._places[number] = PLAIN, self._position  # its own row too
        width = (max(self._places).bit_length() + 7) // 8
        row = 1 + width + 2
        rows = bytearray(row * len(self._kinds))
        rows[0::row] = self._kinds
        places, extras = _big_endian(self._places), _big_endian(self._extras)
        for column in range(width):
            rows[1 + column :: row] = places[8 - width + column :: 8]
        rows[1 + width :: row], rows[2 + width :: row] = extras[0::2], extras[1::2]
        data = zlib.compress(rows)
        dictionary = b'<</Type/XRef/Size %d/W [1 %d 2]%b/Filter/FlateDecode/Length %d>>'
        self.put_stream(number, dictionary % (len(self._kinds), width, trailer, len(data)), data)

    def _write_xref_table(self, trailer: bytes) -> None:
        self._write(b'xref\n0 %d\n' % len(self._kinds))
        rows = zip(self._places, self._extras, self._kinds, strict=True)
        self._write(
            b''.join(b'%010d %05d %b \n' % (place, extra, b'n' if kind else b'f') for place, extra, kind in rows)
        )
        self._write(b'trailer\n<</Size %d%b>>\n' % (len(self._kinds), trailer))


def _big_endian(values: array[int]) -> bytes:
    swapped = values[:]
    if byteorder == 'little':
        swapped.byteswap()
    return swapped.tobytes()
