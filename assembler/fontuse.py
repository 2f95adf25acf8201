"""What a part or a document uses of a font, and when two of them may share one font dictionary.

Glyph ids are those of the font's file, so that programs reduced to different glyphs can be united. Only a glyph
that is missing has an id by the order of its appearance, and a width is rounded at the size of its first use: where
two uses do not agree on one of these, each has a font dictionary of its own, over the same program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FontFace:
    """What a font descriptor says of a font (ISO 32000-1, 9.8.1), taken from its first use.

    `key` is the name that content streams give it; `name` is the PostScript name, a PDF name with its solidus.
    """

    key: str
    name: str
    family: str
    flags: int
    ascent: int
    descent: int
    italic_angle: int
    stem_v: int
    stem_h: int

    def to_json(self) -> list[Any]:
        return [
            self.key, self.name, self.family, self.flags, self.ascent, self.descent, self.italic_angle, self.stem_v,
            self.stem_h,
        ]  # fmt: skip

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> FontFace:
        key, name, family, flags, ascent, descent, italic_angle, stem_v, stem_h = value
        return cls(
            key=key, name=name, family=family, flags=flags, ascent=ascent, descent=descent, italic_angle=italic_angle,
            stem_v=stem_v, stem_h=stem_h,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class FontUse:
    """Glyphs with their widths and texts. It grows: `add` takes another use in."""

    face: FontFace
    widths: dict[int, float]
    to_unicode: dict[int, str]
    #: code point → glyph id beyond those of the font
    missing: dict[int, int]
    #: widths and texts of all glyphs, where the font is embedded whole
    all_widths: dict[int, float] | None = None
    all_to_unicode: dict[int, str] | None = None

    @property
    def is_whole(self) -> bool:
        return self.all_widths is not None

    def admits(self, other: FontUse, *, same_document: bool) -> bool:
        """Whether a dictionary made of this use shows what the other has drawn.

        Within a document the first text of a glyph wins, and a font that is whole anywhere is whole everywhere, as in
        WeasyPrint; another document keeps its own.
        """
        return (
            _agree(self.widths, other.widths)
            and _agree(self.missing, other.missing)
            and _agree(_turned(self.missing), _turned(other.missing))
            and (same_document or self._says_as(other))
        )

    def _says_as(self, other: FontUse) -> bool:
        return self.is_whole == other.is_whole and _agree(self.to_unicode, other.to_unicode)

    def add(self, other: FontUse) -> None:
        _complete(self.widths, other.widths)
        _complete(self.to_unicode, other.to_unicode)
        _complete(self.missing, other.missing)
        if self.all_widths is None and other.all_widths is not None:
            self.all_widths, self.all_to_unicode = other.all_widths, other.all_to_unicode

    def to_json(self) -> list[Any]:
        tables = (self.widths, self.to_unicode, self.missing, self.all_widths, self.all_to_unicode)
        return [self.face.to_json(), *(None if table is None else list(table.items()) for table in tables)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> FontUse:
        face, widths, to_unicode, missing, all_widths, all_to_unicode = value
        return cls(
            face=FontFace.from_json(face),
            widths=dict(widths),
            to_unicode=dict(to_unicode),
            missing=dict(missing),
            all_widths=None if all_widths is None else dict(all_widths),
            all_to_unicode=None if all_to_unicode is None else dict(all_to_unicode),
        )


def _agree(one: Mapping[int, Any], other: Mapping[int, Any]) -> bool:
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def _turned(missing: Mapping[int, int]) -> dict[int, int]:
    return {glyph: code for code, glyph in missing.items()}


def _complete(mine: dict[int, Any], theirs: Mapping[int, Any]) -> None:
    for key, value in theirs.items():
        mine.setdefault(key, value)
