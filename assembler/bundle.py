"""The file format of a painted part: PDF objects with slots for their numbers, made to be concatenated.

    fanfold-bundle 2\\n       magic and version
    blocks                   objects: sheets of many without a stream, and single streams
    font programs            deflated, where the tables say
    tables                   JSON, deflated (see `tables`)
    result                   JSON, deflated: what painting said of the part; none until it is sealed
    trailer                  of a fixed size: where the tables are, the number of pages, SHA-256 of all before

A part that was cut short has no trailer; one that was changed has another checksum. Either is refused by name.
The format is described in docs/bundle.md.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self

from assembler.tables import Tables, Template
from runtime.errors import ObjectCorrupt

MAGIC: Final = b'fanfold-bundle '
VERSION: Final = b'2'
HEADER: Final = MAGIC + VERSION + b'\n'
MEDIA_TYPE: Final = 'application/vnd.fanfold.part'

#: kind of block, group, objects (sheet) or number (stream), bytes of source, slots, bytes of data
BLOCK: Final = struct.Struct('<BBIQIQ')
SHEET: Final = 1
STREAM: Final = 2
#: offset and bytes of the tables, bytes of the result, pages, SHA-256 of all before, magic
TRAILER: Final = struct.Struct('<QQQI32s8s')
END: Final = b'fanfold\n'

#: source of objects gathered into one sheet
SHEET_BYTES: Final = 64 * 1024
#: tables may not unpack to more
LARGEST_TABLES: Final = 2**30
CHUNK: Final = 2**20

Group = Literal['pages', 'structure', 'index']
GROUPS: Final[tuple[Group, ...]] = ('pages', 'structure', 'index')


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Objects without a stream; the source of each ends with a line feed, of which it has no other."""

    group: Group
    numbers: Sequence[int]
    source: Template


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamObject:
    """`dictionary` says /Length; `offset` is that of the data, which `read` gives while the bundle stands there."""

    number: int
    dictionary: Template
    offset: int
    length: int
    file: BinaryIO

    def read(self) -> bytes:
        return self.file.read(self.length)


class _Gathering:
    """Objects on their way into a sheet."""

    def __init__(self) -> None:
        self.numbers = array('I')
        self.texts: list[bytes] = []
        self.slots = array('I')
        self.size = 0


class BundleWriter:
    """A bundle being written to `out`, front to back."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._hash = hashlib.sha256()
        self._position = 0
        self._gathering: dict[Group, _Gathering] = {group: _Gathering() for group in GROUPS}
        self._write(HEADER)

    def put(self, number: int, source: Template, group: Group = 'pages') -> None:
        """Add an object without a stream, whose source has no line feed."""
        gathering = self._gathering[group]
        gathering.numbers.append(number)
        gathering.texts.append(source.text)
        gathering.slots.extend(source.slots)
        gathering.size += len(source.text)
        if gathering.size >= SHEET_BYTES:
            self._flush(group)

    def put_stream(self, number: int, dictionary: Template, data: bytes) -> None:
        """Add a stream. Its dictionary says /Length."""
        head = BLOCK.pack(STREAM, 0, number, len(dictionary.text), len(dictionary.slots), len(data))
        self._write(head, dictionary.text, array('I', dictionary.slots).tobytes(), data)

    def put_program(self, data: bytes) -> tuple[int, int]:
        """Add a font program, once all objects are there; its offset and length."""
        self._flush(*GROUPS)
        packed = zlib.compress(data)
        offset = self._position
        self._write(packed)
        return offset, len(packed)

    def close(self, tables: Tables) -> None:
        self._flush(*GROUPS)
        offset, packed = self._position, zlib.compress(json.dumps(tables.to_json(), separators=(',', ':')).encode())
        self._write(packed)
        self._out.write(TRAILER.pack(offset, len(packed), 0, tables.pages, self._hash.digest(), END))

    def _flush(self, *groups: Group) -> None:
        for group in groups:
            gathering = self._gathering[group]
            if gathering.numbers:
                text = b'\n'.join((*gathering.texts, b''))
                count, slots = len(gathering.numbers), len(gathering.slots)
                head = BLOCK.pack(SHEET, GROUPS.index(group), count, len(text), slots, 0)
                self._write(head, gathering.numbers.tobytes(), text, gathering.slots.tobytes())
                self._gathering[group] = _Gathering()

    def _write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._out.write(piece)
            self._hash.update(piece)
            self._position += len(piece)


def seal(path: Path, result: dict[str, Any]) -> None:
    """Add to a bundle what painting said of the part. Raises ObjectCorrupt."""
    with path.open('r+b') as file:
        trailer = _read_trailer(file, path.name)
        end = trailer.offset + trailer.tables
        digest = _digest_to(file, end)
        packed = zlib.compress(json.dumps(result, separators=(',', ':')).encode())
        digest.update(packed)
        file.seek(end)
        file.write(packed)
        file.write(TRAILER.pack(trailer.offset, trailer.tables, len(packed), trailer.pages, digest.digest(), END))
        file.truncate()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trailer:
    offset: int
    tables: int
    result: int
    pages: int
    digest: bytes


class Bundle:
    """A whole bundle, open for reading. Its tables are in memory, its objects come one block after another."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        """Raises ObjectCorrupt."""
        self._file = file
        self.path, self.name = path, path.name
        name = self.name
        trailer = _read_trailer(file, name)
        if _digest_to(file, trailer.offset + trailer.tables + trailer.result).digest() != trailer.digest:
            raise ObjectCorrupt(f'{name}: its checksum is not the one in its trailer')
        file.seek(trailer.offset)
        try:
            self.tables = Tables.from_json(json.loads(_inflate(file.read(trailer.tables))))
            packed = file.read(trailer.result)
            self.result: dict[str, Any] | None = json.loads(_inflate(packed)) if packed else None
        except (ValueError, TypeError, LookupError, AttributeError, zlib.error) as error:
            raise ObjectCorrupt(f'{name}: its tables cannot be read') from error
        if self.tables.pages != trailer.pages:
            raise ObjectCorrupt(f'{name}: {self.tables.pages} pages in its tables, {trailer.pages} in its trailer')
        self._size = trailer.offset + trailer.tables
        self._end = min((program.offset for program in self.tables.programs), default=trailer.offset)

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Raises ObjectCorrupt, naming what is wrong."""
        file = path.open('rb')
        try:
            return cls(file, path)
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def pages(self) -> int:
        return self.tables.pages

    def blocks(self) -> Iterator[Sheet | StreamObject]:
        """All objects, in the order they were written. Raises ObjectCorrupt."""
        position = len(HEADER)
        while position < self._end:
            self._file.seek(position)
            kind, group, count, source, slots, data = BLOCK.unpack(self._read(BLOCK.size))
            if kind == SHEET and group < len(GROUPS):
                numbers = _integers(self._read(4 * count))
                template = Template(text=self._read(source), slots=_integers(self._read(4 * slots)))
                yield Sheet(group=GROUPS[group], numbers=numbers, source=template)
                position += BLOCK.size + 4 * count + source + 4 * slots
            elif kind == STREAM:
                template = Template(text=self._read(source), slots=_integers(self._read(4 * slots)))
                position += BLOCK.size + source + 4 * slots
                yield StreamObject(number=count, dictionary=template, offset=position, length=data, file=self._file)
                position += data
            else:
                raise ObjectCorrupt(f'{self.name}: there is no block at {position}')

    def program(self, index: int) -> bytes:
        """A font program. Raises ObjectCorrupt."""
        entry = self.tables.programs[index]
        self._file.seek(entry.offset)
        try:
            return zlib.decompress(self._read(entry.length))
        except zlib.error as error:
            raise ObjectCorrupt(f'{self.name}: font program {index} cannot be read') from error

    def _read(self, length: int) -> bytes:
        if length > CHUNK and length > self._size:
            raise ObjectCorrupt(f'{self.name}: a block is longer than the file')
        data = self._file.read(length)
        if len(data) != length:
            raise ObjectCorrupt(f'{self.name}: a block ends too early')
        return data


def _integers(data: bytes) -> array[int]:
    values = array('I')
    values.frombytes(data)
    return values


def _read_trailer(file: BinaryIO, name: str) -> _Trailer:
    head = file.read(len(HEADER))
    if not head.startswith(MAGIC):
        raise ObjectCorrupt(f'{name}: not a bundle')
    if head != HEADER:
        version = head.removeprefix(MAGIC).split(b'\n')[0].decode('latin-1')
        raise ObjectCorrupt(f'{name}: a bundle of version {version}, not {VERSION.decode()}')
    size = file.seek(0, 2)
    if size < len(HEADER) + TRAILER.size:
        raise ObjectCorrupt(f'{name}: cut short')
    file.seek(size - TRAILER.size)
    offset, tables, result, pages, digest, end = TRAILER.unpack(file.read(TRAILER.size))
    if end != END or offset + tables + result + TRAILER.size != size:
        raise ObjectCorrupt(f'{name}: cut short, its trailer is missing')
    return _Trailer(offset=offset, tables=tables, result=result, pages=pages, digest=digest)


def _digest_to(file: BinaryIO, end: int) -> Any:
    """SHA-256 of the file up to `end`, to be gone on with."""
    digest = hashlib.sha256()
    file.seek(0)
    while end > 0 and (chunk := file.read(min(CHUNK, end))):
        digest.update(chunk)
        end -= len(chunk)
    return digest


def _inflate(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, LARGEST_TABLES)
    if not unpacking.eof:
        raise ValueError('longer than tables may be')
    return unpacked
