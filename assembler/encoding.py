"""Values as PDF source (ISO 32000-1, 7.3). No source has a line feed in it."""

from __future__ import annotations

from codecs import BOM_UTF16_BE
from collections.abc import Iterable, Mapping
from typing import Final

_ESCAPES: Final = ((b'\\', b'\\\\'), (b'(', b'\\('), (b')', b'\\)'), (b'\r', b'\\r'), (b'\n', b'\\n'))


def number(value: float) -> bytes:
    """A number with at most six decimals, as WeasyPrint writes it."""
    if isinstance(value, float) and not value.is_integer():
        return f'{value:f}'.rstrip('0').encode()
    return b'%d' % value


def text_bytes(text: str) -> bytes:
    """The bytes of a text string (7.9.2.2), by which name trees are sorted."""
    try:
        return text.encode('ascii')
    except UnicodeEncodeError:
        return BOM_UTF16_BE + text.encode('utf-16-be', 'surrogatepass')


def string(value: bytes) -> bytes:
    """A string: literal where it is plain, else hexadecimal."""
    if not value.isascii():
        return b'<' + value.hex().encode() + b'>'
    for character, escape in _ESCAPES:
        value = value.replace(character, escape)
    return b'(' + value + b')'


def text(value: str) -> bytes:
    return string(text_bytes(value))


def reference(target: int) -> bytes:
    return b'%d 0 R' % target


def array(items: Iterable[bytes]) -> bytes:
    return b'[' + b' '.join(items) + b']'


def references(targets: Iterable[int]) -> bytes:
    return array(map(b'%d 0 R'.__mod__, targets))


def dictionary(entries: Mapping[str, bytes]) -> bytes:
    """Keys come without their solidus."""
    return b'<<' + b''.join(b'/%b %b' % (key.encode(), value) for key, value in entries.items()) + b'>>'
