"""Images that windows of one document reduced, each to what it needs: the one with most pixels serves them all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assembler.bundle import StreamObject
from assembler.pdf_file import PdfFile
from assembler.tables import Tables, object_slot


@dataclass(slots=True, kw_only=True)
class _Image:
    """The best so far: its ratio, and where it is to be read when all windows are known."""

    number: int
    ratio: float = 0
    path: Path = Path()
    dictionary: bytes = b''
    offset: int = 0
    length: int = 0


class Images:
    """Images by name."""

    def __init__(self, file: PdfFile) -> None:
        self._file = file
        self._images: dict[str, _Image] = {}
        self._expected: dict[int, tuple[str, float]] = {}

    def assign(self, tables: Tables, numbers: list[int]) -> set[int]:
        """Give a part's reduced images their numbers; those of them in the part, none of which is to be written yet."""
        self._expected = {number: (name, ratio) for number, name, ratio in tables.images}
        for number, (name, _) in self._expected.items():
            if name not in self._images:
                self._images[name] = _Image(number=self._file.reserve())
            numbers[object_slot(number)] = self._images[name].number
        return set(self._expected)

    def has(self, number: int) -> bool:
        """Whether this is a reduced image of the part."""
        return number in self._expected

    def take(self, path: Path, block: StreamObject, numbers: list[int]) -> None:
        """Note a reduced image of the part, if there is none with more pixels."""
        name, ratio = self._expected[block.number]
        image = self._images[name]
        if ratio > image.ratio:
            image.ratio, image.path, image.dictionary = ratio, path, block.dictionary.fill(numbers)
            image.offset, image.length = block.offset, block.length

    def finish(self) -> None:
        """Write the images."""
        for image in self._images.values():
            with image.path.open('rb') as file:
                file.seek(image.offset)
                self._file.put_stream(image.number, image.dictionary, file.read(image.length))
