"""Files attached to the merged file, each under a name of its own."""

from __future__ import annotations

from assembler.encoding import reference, references
from assembler.pdf_file import PdfFile
from assembler.tables import Tables
from assembler.trees import NameTree


class Attachments:
    def __init__(self) -> None:
        self._tree = NameTree()
        self._numbers: dict[bytes, int] = {}
        self._associated: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._tree)

    def take(self, tables: Tables, numbers: list[int]) -> None:
        for name, other, slot in tables.attachments:
            number = numbers[slot]
            unique, suffix = name, 1
            while self._numbers.get(unique, number) != number:
                unique = other if suffix == 1 else b'%b-%d' % (other, suffix)
                suffix += 1
            self._numbers[unique] = number
            self._tree.add(unique, reference(number))
        self._associated.update((numbers[slot], None) for slot in tables.associated)

    def names(self, file: PdfFile) -> dict[str, bytes]:
        """Write the names; their entry of the name dictionary, none if nothing is attached."""
        return {'EmbeddedFiles': self._tree.write(file)} if self._tree else {}

    def associated(self) -> dict[str, bytes]:
        return {'AF': references(self._associated)} if self._associated else {}
