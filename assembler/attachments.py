"""Files attached to the parts (ISO 32000-1, 7.11.4): the same file from several parts is attached once."""

from __future__ import annotations

import hashlib
from typing import Any

from pypdf.generic import DictionaryObject, IndirectObject, StreamObject

from assembler.part import Part, dictionary, lookup
from assembler.pdf_file import PdfFile
from assembler.trees import NameTree, entries


class Attachments:
    """Different files of one name are all kept, under names made unique; what a reader shows is the file's own name."""

    def __init__(self, target: PdfFile) -> None:
        self._tree = NameTree(target)
        self._numbers: dict[tuple[bytes, bytes], int] = {}
        self._associated: list[bytes] = []

    def __len__(self) -> int:
        return len(self._tree)

    def take(self, part: Part) -> None:
        names = dictionary(part.catalog, '/Names')
        tree = names and dictionary(names, '/EmbeddedFiles')
        for key, value in entries(tree, '/Names') if tree else ():
            self._take_file(part, key.original_bytes, value)
        for value in lookup(part.catalog, '/AF') or ():
            self._associated.append(part.relocation.encode(value))

    def _take_file(self, part: Part, key: bytes, value: Any) -> None:
        content = _content_hash(value)
        number = self._numbers.get((key, content))
        if number is not None and isinstance(value, IndirectObject):
            part.relocation.pin(value, number)
            return
        unique, suffix = key, 1
        while unique in self._tree:
            suffix += 1
            unique = b'%b-%d' % (key, suffix)
        self._tree.add(unique, part.relocation.encode(value))
        if isinstance(value, IndirectObject):
            self._numbers[key, content] = part.relocation.number(value)

    def finish(self) -> dict[str, bytes]:
        found = {'/EmbeddedFiles': b'%d 0 R' % self._tree.write()} if self._tree else {}
        if self._associated:
            found['/AF'] = b'[%b]' % b' '.join(dict.fromkeys(self._associated))
        return found


def _content_hash(specification: Any) -> bytes:
    """SHA-256 of the embedded bytes as they are stored; dates do not count."""
    embedded = dictionary(specification.get_object(), '/EF') or DictionaryObject()
    stream = lookup(embedded, '/F') or lookup(embedded, '/UF')
    data = stream._data if isinstance(stream, StreamObject) else b''
    return hashlib.sha256(data).digest()
