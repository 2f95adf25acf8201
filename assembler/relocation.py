"""Moving the objects of one part into the merged file: every reference gets its new number, the rest stays as it is.

pypdf reads the objects; they are encoded here, since its own writer rounds numbers and rewrites strings.
Strings keep their bytes, numbers their value. An object that comes again with the same bytes (a font, an
image, an ICC profile that every part brings) is written once and shared.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from pypdf import PdfReader
from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    ByteStringObject,
    DecodedStreamObject,
    DictionaryObject,
    EncodedStreamObject,
    FloatObject,
    IndirectObject,
    NameObject,
    NullObject,
    NumberObject,
    StreamObject,
    TextStringObject,
)

from assembler.pdf_file import Group, PdfFile, stream_body

#: keys into the structure parent tree, on pages, form XObjects and annotations (ISO 32000-1, 14.7.4.4)
PARENT_TREE_KEYS: Final = frozenset({'/StructParents', '/StructParent'})
SHARED_TYPES: Final = frozenset({'/Font', '/FontDescriptor'})

#: SHA-256 of an encoded object → its number in the merged file
SharedObjects = dict[bytes, int]


class Relocation:
    """The way of one part's objects into `target`."""

    def __init__(self, reader: PdfReader, target: PdfFile, shared: SharedObjects) -> None:
        self.target = target
        #: added to the part's keys into the structure parent tree
        self.parent_tree_base = 0
        #: put in front of structure element ids; None: the part has none
        self.id_prefix: bytes | None = None
        self._reader = reader
        self._shared = shared
        self._numbers: dict[int, int] = {}
        self._queue: deque[tuple[int, Any]] = deque()
        self._being_shared: set[int] = set()

    def pin(self, reference: IndirectObject, number: int) -> None:
        """Let all references to an object lead to `number`; the object itself is not copied."""
        self._numbers[reference.idnum] = number

    def number(self, reference: IndirectObject) -> int:
        """The object's number in the merged file; it is copied there by the next `copy_queued`."""
        number = self._numbers.get(reference.idnum)
        return self._place(reference) if number is None else number

    def encode(self, value: Any) -> bytes:
        """A value as PDF source, its references renumbered."""
        return _ENCODERS[type(value)](self, value)

    def encode_dictionary(self, value: DictionaryObject, *, without: Iterable[str] = ()) -> bytes:
        left_out = frozenset(without)
        pieces = [b'<<']
        for name, item in value.items():
            if name not in left_out:
                pieces += (encode_name(name), b' ', self._encode_entry(value, name, item))
        pieces.append(b'>>')
        return b''.join(pieces)

    def copy_queued(self) -> None:
        """Write every object that something refers to and that is not written yet."""
        while self._queue:
            number, value = self._queue.popleft()
            self._put(number, value, self._encode_whole(value))

    def _encode_entry(self, owner: DictionaryObject, name: str, item: Any) -> bytes:
        if name in PARENT_TREE_KEYS and isinstance(item, NumberObject):
            return b'%d' % (item + self.parent_tree_base)
        if self.id_prefix is not None:
            if name == '/ID' and '/S' in owner and '/P' in owner:
                return encode_bytes(self.id_prefix + item.original_bytes)
            if name == '/Headers' and isinstance(item, ArrayObject):
                return b'[%b]' % b''.join(encode_bytes(self.id_prefix + header.original_bytes) for header in item)
        return self.encode(item)

    def _place(self, reference: IndirectObject) -> int:
        identity = reference.idnum
        value = self._reader.get_object(reference)
        if not _is_sharable(value) or identity in self._being_shared:
            number = self._numbers[identity] = self.target.reserve()
            self._queue.append((number, NullObject() if value is None else value))
            return number
        self._being_shared.add(identity)
        body = self._encode_whole(value)
        self._being_shared.discard(identity)
        if identity in self._numbers:  # it leads back to itself: already queued as an object of its own
            return self._numbers[identity]
        digest = hashlib.sha256(body).digest()
        number = self._shared.get(digest, 0)
        if not number:
            number = self._shared[digest] = self.target.reserve()
            self._put(number, value, body)
        self._numbers[identity] = number
        return number

    def _encode_whole(self, value: Any) -> bytes:
        body = self.encode(value)
        return stream_body(body, value._data) if isinstance(value, StreamObject) else body

    def _put(self, number: int, value: Any, body: bytes) -> None:
        if isinstance(value, StreamObject):
            self.target.put_stream(number, body)
        else:
            self.target.put(number, body, _group(value))


def _is_sharable(value: Any) -> bool:
    """Objects worth comparing, and that do not lead to pages: those below them must have their final numbers first."""
    return isinstance(value, StreamObject) or (
        isinstance(value, DictionaryObject) and value.get('/Type') in SHARED_TYPES
    )


def _group(value: Any) -> Group:
    return 'structure' if isinstance(value, DictionaryObject) and value.get('/Type') == '/StructElem' else 'pages'


def _reference(relocation: Relocation, value: Any) -> bytes:
    return b'%d 0 R' % relocation.number(value)


def _name(_: Relocation, value: Any) -> bytes:
    return encode_name(str(value))


@lru_cache(maxsize=4096)
def encode_name(value: str) -> bytes:
    """A name, its solidus included, as PDF source."""
    return NameObject(value).renumber()


def _float(_: Relocation, value: Any) -> bytes:
    text = float.__repr__(value)
    if 'e' in text:  # PDF has no exponents
        text = format(Decimal(text), 'f')
    return text.removesuffix('.0').encode()


def encode_bytes(value: bytes) -> bytes:
    """A byte string as PDF source."""
    if value.isascii() and value.decode().isprintable():
        return b'(' + value.replace(b'\\', b'\\\\').replace(b'(', b'\\(').replace(b')', b'\\)') + b')'
    return b'<' + value.hex().encode() + b'>'


def encode_text(value: str) -> bytes:
    """A text string as PDF source: PDFDocEncoding where it can say it, else UTF-16."""
    return encode_bytes(TextStringObject(value).original_bytes)


_ENCODERS: Final[dict[type, Callable[[Relocation, Any], bytes]]] = {
    IndirectObject: _reference,
    NameObject: _name,
    NumberObject: lambda _, value: b'%d' % value,
    FloatObject: _float,
    BooleanObject: lambda _, value: b'true' if value.value else b'false',
    NullObject: lambda *_: b'null',
    TextStringObject: lambda _, value: encode_bytes(value.original_bytes),
    ByteStringObject: lambda _, value: encode_bytes(bytes(value)),
    ArrayObject: lambda relocation, value: b'[' + b' '.join(relocation.encode(item) for item in value) + b']',
    DictionaryObject: Relocation.encode_dictionary,
    EncodedStreamObject: Relocation.encode_dictionary,
    DecodedStreamObject: Relocation.encode_dictionary,
}
