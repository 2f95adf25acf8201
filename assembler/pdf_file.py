"""Writing a PDF file front to back: objects come in, bytes go out, only positions stay in memory.

Objects without a stream are gathered into compressed object streams where the version allows it
(ISO 32000-1, 7.5.7), so that a merged file is about as small as its parts. Structure elements are kept
apart from pages, outline and destinations: a reader that only wants those need not unpack them. The
same objects in the same order give the same bytes; `/ID` is a hash of what was written.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import BinaryIO, Final, Literal

Group = Literal['pages', 'structure']

OBJECTS_PER_STREAM: Final = 200
FIRST_WITH_OBJECT_STREAMS: Final = (1, 5)
#: a comment of four bytes above 127 tells transfer programs that the file is binary (7.5.2)
BINARY_MARK: Final = b'%\xf0\x9f\x96\xa4\n'


class PdfFile:
    """One PDF on its way to `out`. Numbers are reserved first, so that objects can refer to later ones."""

    def __init__(self, out: BinaryIO, *, version: str, compress: bool) -> None:
        self._out = out
        self._position = 0
        self._hash = hashlib.sha256()
        self._packs = compress and tuple(int(part) for part in version.split('.')) >= FIRST_WITH_OBJECT_STREAMS
        self._waiting: dict[Group, list[tuple[int, bytes]]] = {'pages': [], 'structure': []}
        #: per object number: (type, position or object stream, generation or index), as in an xref stream (7.5.8.3)
        self._places: list[tuple[int, int, int]] = [(0, 0, 65535)]
        self._write(f'%PDF-{version}\n'.encode() + BINARY_MARK)

    def reserve(self) -> int:
        self._places.append((0, 0, 0))
        return len(self._places) - 1

    def put(self, number: int, body: bytes, group: Group = 'pages') -> None:
        """Write an object that has no stream."""
        if not self._packs:
            self.put_stream(number, body)
            return
        waiting = self._waiting[group]
        waiting.append((number, body))
        if len(waiting) == OBJECTS_PER_STREAM:
            self._pack(group)

    def put_stream(self, number: int, body: bytes) -> None:
        """Write a stream as `stream_body` makes it."""
        self._places[number] = (1, self._position, 0)
        self._write(b'%d 0 obj\n%b\nendobj\n' % (number, body))

    def add(self, body: bytes, group: Group = 'pages') -> int:
        number = self.reserve()
        self.put(number, body, group)
        return number

    def close(self, *, root: int, info: int | None) -> None:
        """Write what is waiting and the cross-reference."""
        for group in self._waiting:
            self._pack(group)
        identifier = self._hash.hexdigest()[:32].encode()
        trailer = b'/Root %d 0 R/ID [<%b><%b>]' % (root, identifier, identifier)
        if info is not None:
            trailer += b'/Info %d 0 R' % info
        start = self._position
        if self._packs:
            self._write_xref_stream(trailer)
        else:
            self._write_xref_table(trailer)
        self._write(b'startxref\n%d\n%%%%EOF\n' % start)

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        self._hash.update(data)
        self._position += len(data)

    def _pack(self, group: Group) -> None:
        objects = self._waiting[group]
        if not objects:
            return
        stream = self.reserve()
        index, bodies, offset = [], [], 0
        for place, (number, body) in enumerate(objects):
            self._places[number] = (2, stream, place)
            index.append(b'%d %d' % (number, offset))
            bodies.append(body)
            offset += len(body) + 1
        head = b' '.join(index) + b'\n'
        dictionary = b'<</Type/ObjStm/N %d/First %d/Filter/FlateDecode>>' % (len(objects), len(head))
        self.put_stream(stream, stream_body(dictionary, zlib.compress(head + b'\n'.join(bodies))))
        objects.clear()

    def _write_xref_stream(self, trailer: bytes) -> None:
        number = self.reserve()
        self._places[number] = (1, self._position, 0)  # its own row too
        width = (max(place for _, place, _ in self._places).bit_length() + 7) // 8
        rows = b''.join(
            kind.to_bytes(1) + place.to_bytes(width) + extra.to_bytes(2) for kind, place, extra in self._places
        )
        dictionary = b'<</Type/XRef/Size %d/W [1 %d 2]%b/Filter/FlateDecode>>' % (len(self._places), width, trailer)
        self.put_stream(number, stream_body(dictionary, zlib.compress(rows)))

    def _write_xref_table(self, trailer: bytes) -> None:
        self._write(b'xref\n0 %d\n' % len(self._places))
        self._write(
            b''.join(
                b'%010d %05d %b \n' % (place, extra, b'n' if kind else b'f') for kind, place, extra in self._places
            )
        )
        self._write(b'trailer\n<</Size %d%b>>\n' % (len(self._places), trailer))


def stream_body(dictionary: bytes, data: bytes) -> bytes:
    """A stream as PDF source; `dictionary` comes without /Length."""
    return extended(dictionary, b'/Length %d' % len(data)) + b'\nstream\n' + data + b'\nendstream'


def extended(dictionary: bytes, entries: bytes) -> bytes:
    """An encoded dictionary with more entries."""
    return dictionary[:-2] + entries + b'>>'
