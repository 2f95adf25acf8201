"""What can be known of a document, a template or records before anything is rendered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from api.problems import ApiProblem, refused

#: beginnings of what people submit by mistake instead of HTML
_MAGIC: Final = (b'%PDF-', b'PK\x03\x04', b'\x89PNG', b'\xff\xd8\xff', b'GIF8', b'\x1f\x8b')
_UTF16: Final = (b'\xff\xfe', b'\xfe\xff')
_HALF_A_PAIR: Final = re.compile(r'\\u[dD][89a-fA-F]')


class NotJson(ValueError):
    """What Python's parser takes, and JSON does not have."""


def html_fault(chunks: Iterable[bytes]) -> str | None:
    """Why these bytes are not HTML, or None. Any text will do: WeasyPrint renders what has no tags too."""
    blank = True
    first = True
    for chunk in chunks:
        if first and chunk.startswith(_MAGIC):
            return 'is not HTML but a binary file'
        if first and chunk.startswith(_UTF16):
            return None
        if b'\0' in chunk:
            return 'is not HTML: it has zero bytes'
        blank = blank and not chunk.removeprefix(b'\xef\xbb\xbf').strip()
        first = False
    return 'is empty' if blank else None


def decode_json(data: bytes, where: str) -> Any:
    """The value of a JSON text in UTF-8. Raises ApiProblem (invalid-encoding, invalid-json); `where` is its field."""
    try:
        text = data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        detail = f'is not valid UTF-8 at byte {error.start} (0x{data[error.start]:02x})'
        raise refused('invalid-encoding', where, detail) from error
    if not text.strip():
        raise refused('invalid-json', where, 'is empty')
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        detail = f'line {error.lineno}, column {error.colno}: {error.msg}'
        fault = {'field': where, 'detail': detail}
        raise ApiProblem(
            'invalid-json', f'{where}: {detail}', line=error.lineno, column=error.colno, errors=[fault]
        ) from error
    except RecursionError as error:
        raise refused('invalid-json', where, 'is nested too deeply') from error
    except NotJson as error:
        raise refused('invalid-json', where, str(error)) from error
    except ValueError as error:  # Python's own limit on the digits of an integer
        raise refused('invalid-json', where, 'has a number that is too long') from error
    if _HALF_A_PAIR.search(text):
        _refuse_surrogates(value, where)
    return value


def _refuse_surrogates(value: Any, where: str) -> None:
    try:
        at = _surrogate_at(value, ())
    except RecursionError as error:
        raise refused('invalid-json', where, 'is nested too deeply') from error
    if at is not None:
        field = '.'.join(map(str, at)) or where
        raise refused('invalid-encoding', field, 'has half of a surrogate pair, which is no character')


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f'{name} is not a JSON value')


def _surrogate_at(value: Any, path: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    """The path of the first string that cannot be encoded."""
    if isinstance(value, str):
        return None if _encodable(value) else path
    if isinstance(value, dict):
        for key, item in value.items():
            if not _encodable(key):
                return path
            if (found := _surrogate_at(item, (*path, key))) is not None:
                return found
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if (found := _surrogate_at(item, (*path, index))) is not None:
                return found
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
