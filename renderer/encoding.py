"""pydyf's objects as PDF source with slots, as bundles hold it.

WeasyPrint gives references as bytes (`b'12 0 R'`), and keys into the structure parent tree as numbers under names that
say so. It also makes names of object numbers: ids of header cells, default names of form fields. All of these become
slots here, so that nobody has to look for them in finished source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pydyf

from assembler.encoding import number, string, text_bytes
from assembler.tables import Template, key_slot, object_slot

#: the name WeasyPrint gives to a field without one: number of the page's content, place on the page
DEFAULT_FIELD_NAME: Final = re.compile(r'unknown-(\d+)-(\d+)')


class Encoder:
    """Writes the objects of one document. `number_of` gives an object's number in the bundle.

    `contents` are the numbers of page contents, after which fields without a name are called.
    """

    def __init__(
        self, number_of: Callable[[int], int], *, prefix: str, first_key: int, contents: frozenset[int]
    ) -> None:
        self._number_of = number_of
        self._contents = contents
        self._prefix = prefix
        self._first_key = first_key
        self._text: list[bytes] = []
        self._slots: list[int] = []
        self._special: dict[str, Callable[[dict[str, Any], Any], None]] = {
            'StructParents': self._parent_key,
            'StructParent': self._parent_key,
            'Dest': self._destination,
            'T': self._field_name,
            'ID': self._header_id,
            'Headers': self._headers,
        }

    def encode(self, value: Any) -> Template:
        """Source of a value; it has no line feed."""
        outer = self._text, self._slots
        self._text, self._slots = [], []
        try:
            self._put(value)
            return Template(text=b''.join(self._text), slots=self._slots)
        finally:
            self._text, self._slots = outer

    def key(self, key: int) -> int:
        """The slot of a key into the structure parent tree."""
        return key_slot(self._first_key + key)

    def _put(self, value: Any) -> None:
        if isinstance(value, bytes):
            self._put_bytes(value)
        elif isinstance(value, pydyf.String):
            self._put_string(value.string)
        elif isinstance(value, dict):
            self._put_dictionary(value)
        elif isinstance(value, list):
            self._put_array(value)
        elif isinstance(value, float):
            self._text.append(number(value))
        else:
            self._put_bytes(str(value).encode('ascii'))

    def _put_bytes(self, value: bytes) -> None:
        if value.endswith(b' 0 R'):
            slot = object_slot(self._number_of(int(value[:-4])))  # which may encode other objects first
            self._put_slot(b'%d 0 R', slot)
        else:
            self._text.append(value.replace(b'%', b'%%').replace(b'\n', b' '))

    def _put_string(self, value: Any) -> None:
        data = value if isinstance(value, bytes) else text_bytes(str(value))
        if data.isascii():  # line ends as readers understand them in a literal string (ISO 32000-1, 7.3.4.2)
            data = data.replace(b'\r\n', b'\n').replace(b'\r', b'\n')
        self._text.append(string(data).replace(b'%', b'%%'))

    def _put_dictionary(self, value: dict[str, Any]) -> None:
        self._text.append(b'<<')
        for key, item in value.items():
            self._text.append(b'/%b ' % str(key).encode('ascii').replace(b'%', b'%%'))
            special = self._special.get(key)
            if special is None:
                self._put(item)
            else:
                special(value, item)
        self._text.append(b'>>')

    def _put_array(self, value: list[Any]) -> None:
        self._text.append(b'[')
        for index, item in enumerate(value):
            if index:
                self._text.append(b' ')
            self._put(item)
        self._text.append(b']')

    def _put_slot(self, text: bytes, slot: int) -> None:
        self._text.append(text)
        self._slots.append(slot)

    def _parent_key(self, _: dict[str, Any], value: int) -> None:
        self._put_slot(b'%d', self.key(value))

    def _destination(self, _: dict[str, Any], value: Any) -> None:
        if isinstance(value, pydyf.String):
            self._put_string(self._prefix + value.string)
        else:
            self._put(value)

    def _field_name(self, owner: dict[str, Any], value: Any) -> None:
        """A field has its name from its document; one below another field, and an annotation, keeps what it has."""
        if 'FT' not in owner or 'Parent' in owner or not isinstance(value, pydyf.String):
            self._put(value)
            return
        name = value.string.decode('utf-8', 'replace') if isinstance(value.string, bytes) else value.string
        default = DEFAULT_FIELD_NAME.fullmatch(name)
        if default is None or int(default[1]) not in self._contents:
            self._put_string(self._prefix + name)
            return
        slot = object_slot(self._number_of(int(default[1])))
        self._put_slot(f'({self._prefix}unknown-%d-{default[2]})'.encode(), slot)

    def _header_id(self, owner: dict[str, Any], value: Any) -> None:
        if 'S' in owner and isinstance(value, pydyf.String):
            self._put_id(value)
        else:
            self._put(value)

    def _headers(self, _: dict[str, Any], value: list[Any]) -> None:
        self._text.append(b'[')
        for header in value:
            self._put_id(header)
        self._text.append(b']')

    def _put_id(self, value: Any) -> None:
        """An id of a header cell: number of the table's element, row, column."""
        table, _, place = value.string.partition('-')
        self._put_slot(f'(%d-{place})'.encode(), object_slot(self._number_of(int(table))))
