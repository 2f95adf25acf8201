"""Values of an existing PDF as source with slots, read by pypdf.

Strings keep their bytes and numbers their value. What refers to pages or names is looked after on the way: names of
destinations and of fields get a prefix, keys into the structure tree go, since the tree does not come along.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    ByteStringObject,
    DictionaryObject,
    FloatObject,
    IndirectObject,
    NameObject,
    NullObject,
    NumberObject,
    TextStringObject,
)

from assembler.encoding import string
from assembler.tables import Template, object_slot

#: entries of any dictionary that do not come along: keys into the structure tree, scripts, private data of programs
LEFT_OUT: Final = frozenset({'/StructParents', '/StructParent', '/AA', '/PieceInfo', '/Thumb', '/B', '/OC'})
#: actions that lead somewhere; all others, as scripts and programs to be started, are left out
ACTIONS: Final = frozenset({'/GoTo', '/URI', '/SubmitForm', '/ResetForm', '/Named'})


class ForeignEncoder:
    """Writes values of one PDF. `number_of` gives an object's number in the bundle, 0 for one that is left out."""

    def __init__(self, number_of: Callable[[IndirectObject], int], prefix: str) -> None:
        self._number_of = number_of
        self._prefix = prefix.encode()
        self._text: list[bytes] = []
        self._slots: list[int] = []
        #: what was left out on the way
        self.left_out: set[str] = set()

    def encode(self, value: Any, *, without: frozenset[str] = frozenset()) -> Template:
        """Source of a value, for a dictionary without some of its entries. Raises RecursionError, TypeError."""
        outer = self._text, self._slots
        self._text, self._slots = [], []
        try:
            if isinstance(value, DictionaryObject):
                self._put_dictionary(value, without)
            else:
                self._put(value)
            return Template(text=b''.join(self._text), slots=self._slots)
        finally:
            self._text, self._slots = outer

    def named(self, name: Any) -> bytes:
        """The bytes of a destination's name, with the prefix; names were once PDF names."""
        raw: bytes = str(name)[1:].encode() if isinstance(name, NameObject) else name.original_bytes
        return self._prefix + raw

    def _put(self, value: Any) -> None:
        if isinstance(value, IndirectObject):
            number = self._number_of(value)
            if number:
                self._text.append(b'%d 0 R')
                self._slots.append(object_slot(number))
            else:
                self._text.append(b'null')
        elif isinstance(value, DictionaryObject):
            self._put_dictionary(value, frozenset())
        elif isinstance(value, ArrayObject):
            self._text.append(b'[')
            for index, item in enumerate(value):
                self._text.append(b' ' if index else b'')
                self._put(item)
            self._text.append(b']')
        else:
            self._text.append(_plain(value).replace(b'%', b'%%'))

    def _put_dictionary(self, value: DictionaryObject, without: frozenset[str]) -> None:
        self._text.append(b'<<')
        for key, item in value.items():
            if key in LEFT_OUT or key in without or (key == '/A' and self._is_unwanted(item)):
                continue
            self._text.append(NameObject(key).renumber().replace(b'%', b'%%') + b' ')
            if key in {'/Dest', '/D'} and isinstance(item, TextStringObject | ByteStringObject | NameObject):
                # the state of an appearance is called /D as well, but is a dictionary or stream
                self._text.append(string(self.named(item)).replace(b'%', b'%%'))
            else:
                self._put(item)
        self._text.append(b'>>')

    def _is_unwanted(self, action: Any) -> bool:
        content = action.get_object()
        kind = content.get('/S') if isinstance(content, DictionaryObject) else None
        if kind in ACTIONS:
            return False
        self.left_out.add('scripts and other actions')
        return True


def _plain(value: Any) -> bytes:
    """Source of a value that holds no others."""
    if isinstance(value, NameObject):
        return value.renumber()
    if isinstance(value, TextStringObject):
        return string(value.original_bytes)
    if isinstance(value, ByteStringObject):
        return string(bytes(value))
    if isinstance(value, BooleanObject):
        return b'true' if value.value else b'false'
    if isinstance(value, NumberObject):
        return b'%d' % value
    if isinstance(value, FloatObject):
        text = float.__repr__(value)
        return (format(Decimal(text), 'f') if 'e' in text else text).removesuffix('.0').encode()
    if isinstance(value, NullObject) or value is None:
        return b'null'
    raise TypeError(f'no value of a PDF: {type(value).__name__}')
