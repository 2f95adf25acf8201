"""Fonts of the merged file: each program embedded once, as the union of the glyphs that the parts use.

A font dictionary serves all parts whose uses agree (see `fontuse`); dictionaries of one font share its program. Where
programs cannot be united (another optical size, subroutines) each keeps a program of its own.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from assembler import sfnt
from assembler.bundle import Bundle
from assembler.cmaps import MISSING, missing_cmap, to_unicode_cmap
from assembler.compactfont import CompactFont
from assembler.encoding import array, dictionary, number, reference, text
from assembler.fontuse import FontUse
from assembler.pdf_file import PdfFile
from assembler.tables import Program
from assembler.truetype import TrueType

#: from this version on, descriptors no longer say which glyphs are there
FIRST_WITHOUT_CID_SET: Final = (1, 5)
#: of dictionaries and programs that contradict each other only the latest are looked at: time stays in proportion
MOST_COMPARED: Final = 32
SYSTEM: Final = dictionary({'Registry': b'(Adobe)', 'Ordering': b'(Identity)', 'Supplement': b'0'})


@dataclass(slots=True, kw_only=True)
class _Instance:
    """A font dictionary: its number, what it shows, and the last document that uses it."""

    number: int
    use: FontUse
    document: int


@dataclass(slots=True, kw_only=True)
class _Embedded:
    """A program with the dictionaries over it. `parts` is there once two programs were united."""

    content: bytes
    glyphs: set[int]
    whole: bool
    #: the document that uses it, -1 if it is that of several
    document: int
    parts: TrueType | CompactFont | None = None
    instances: list[_Instance] = field(default_factory=list)

    def is_for(self, program: Program, document: int) -> bool:
        """Whether a program may stand for another: a whole one keeps hints, so within a document only."""
        return self.whole == (not program.glyphs) or 0 <= self.document == document

    def covers(self, program: Program) -> bool:
        return self.whole or (bool(program.glyphs) and self.glyphs.issuperset(program.glyphs))

    def unite(self, program: Program, content: bytes) -> bool:
        """Take another program in, if that can be."""
        if not program.glyphs:  # it has all glyphs
            self.content, self.parts, self.whole = content, None, True
            return True
        if content == self.content:
            self.glyphs.update(program.glyphs)
            return True
        try:
            parts = self.parts or taken_apart(self.content)
            other = taken_apart(content)
            united = type(other) is type(parts) and parts.unite(other)  # type: ignore[arg-type]  # of the same type
        except (ValueError, LookupError, struct.error):
            return False
        if united:
            self.parts = parts
            self.glyphs.update(program.glyphs)
        return united

    @property
    def united(self) -> bytes:
        return self.content if self.parts is None else self.parts.write()


def taken_apart(program: bytes) -> TrueType | CompactFont:
    """Raises ValueError, LookupError or struct.error for a program that cannot be united with others."""
    kind, tables = sfnt.read_tables(program)
    return CompactFont(tables) if kind == sfnt.OPENTYPE else TrueType(tables)


class Fonts:
    """All fonts of the file."""

    def __init__(self, file: PdfFile) -> None:
        self._file = file
        self._embedded: dict[str, list[_Embedded]] = defaultdict(list)

    def take(self, bundle: Bundle, document: int) -> list[int]:
        """Numbers of the font dictionaries that stand for the fonts of a bundle, in their order.

        `document` is the number of the document that all of the bundle belongs to, or -1.
        """
        return [self._take(bundle, index, document) for index in range(len(bundle.tables.fonts))]

    def _take(self, bundle: Bundle, index: int, document: int) -> int:
        font = bundle.tables.fonts[index]
        embedded = self._embed(bundle, font.program, document)
        for instance in embedded.instances[-MOST_COMPARED:]:
            if instance.use.face.key != font.use.face.key:
                continue
            same_document = document >= 0 and instance.document == document
            if instance.use.admits(font.use, same_document=same_document):
                instance.use.add(font.use)
                instance.document = document
                return instance.number
        new = _Instance(number=self._file.reserve(), use=font.use, document=document)
        embedded.instances.append(new)
        return new.number

    def _embed(self, bundle: Bundle, index: int, document: int) -> _Embedded:
        program = bundle.tables.programs[index]
        known = self._embedded[program.identity]
        fit = [embedded for embedded in known[-MOST_COMPARED:] if embedded.is_for(program, document)]
        found = next((embedded for embedded in fit if embedded.covers(program)), None)
        if found is None:
            content = bundle.program(index)
            found = next((embedded for embedded in fit if embedded.unite(program, content)), None)
        if found is None:
            new = _Embedded(content=content, glyphs=set(program.glyphs), whole=not program.glyphs, document=document)
            known.append(new)
            return new
        if found.document != document:
            found.document = -1
        return found

    def finish(self) -> None:
        """Write all fonts."""
        for programs in self._embedded.values():
            for embedded in programs:
                self._write(embedded)

    def _write(self, embedded: _Embedded) -> None:
        content = embedded.united
        open_type = content[:4] == b'OTTO'
        program = self._file.reserve()
        self._file.put_data(program, b'/Subtype/OpenType' if open_type else b'/Length1 %d' % len(content), content)
        entries = {'FontFile3' if open_type else 'FontFile2': reference(program)}
        if self._file.version < FIRST_WITHOUT_CID_SET:
            entries['CIDSet'] = reference(self._write_cid_set(embedded))
        for instance in embedded.instances[-MOST_COMPARED:]:
            self._write_instance(instance, entries, open_type=open_type)

    def _write_cid_set(self, embedded: _Embedded) -> int:
        glyphs = {glyph for instance in embedded.instances for glyph in instance.use.widths}
        bits = bytearray(max(glyphs, default=0) // 8 + 1)
        for glyph in glyphs:
            bits[glyph // 8] |= 0x80 >> glyph % 8
        stream = self._file.reserve()
        self._file.put_data(stream, b'', bytes(bits))
        return stream

    def _write_instance(self, instance: _Instance, files: dict[str, bytes], *, open_type: bool) -> None:
        use, file = instance.use, self._file
        widths = use.widths if use.all_widths is None else use.all_widths
        texts = use.to_unicode if use.all_to_unicode is None else use.all_to_unicode
        name = use.face.name.encode('latin-1')
        descriptor = file.add(dictionary({**_descriptor(use, widths), **files}))
        kind = b'/CIDFontType0' if open_type else b'/CIDFontType2'
        descendant = file.add(
            dictionary({
                'Type': b'/Font', 'Subtype': kind, 'BaseFont': name, 'CIDSystemInfo': SYSTEM,
                'CIDToGIDMap': b'/Identity', 'W': _widths(widths), 'FontDescriptor': reference(descriptor),
            })
        )  # fmt: skip
        to_unicode = file.reserve()
        file.put_data(to_unicode, b'', to_unicode_cmap(texts))
        encoding = b'/Identity-H'
        if use.missing:
            cmap = file.reserve()
            data = missing_cmap(use.to_unicode, frozenset(use.missing.values()))
            file.put_data(cmap, b'/Type/CMap/CMapName/%b/CIDSystemInfo %b' % (MISSING, SYSTEM), data)
            encoding = reference(cmap)
        file.put(
            instance.number,
            dictionary({
                'Type': b'/Font', 'Subtype': b'/Type0', 'BaseFont': name, 'ToUnicode': reference(to_unicode),
                'Encoding': encoding, 'DescendantFonts': array((reference(descendant),)),
            }),
        )  # fmt: skip


def _descriptor(use: FontUse, widths: dict[int, float]) -> dict[str, bytes]:
    face = use.face
    fixed_pitch = len(widths) > 1 and len(set(use.widths.values())) == 1
    box = (0, face.descent, max(widths.values(), default=0), face.ascent)
    return {
        'Type': b'/FontDescriptor', 'FontName': face.name.encode('latin-1'), 'FontFamily': text(face.family),
        'Flags': number(face.flags + fixed_pitch), 'FontBBox': array(map(number, box)),
        'ItalicAngle': number(face.italic_angle), 'Ascent': number(face.ascent), 'Descent': number(face.descent),
        'CapHeight': number(face.ascent), 'StemV': number(face.stem_v), 'StemH': number(face.stem_h),
    }  # fmt: skip


def _widths(widths: dict[int, float]) -> bytes:
    """Widths by runs of glyphs that follow each other (ISO 32000-1, 9.7.4.3)."""
    runs: list[bytes] = []
    run: list[bytes] = []
    previous = -2
    for glyph in sorted(widths):
        if glyph != previous + 1:
            if run:
                runs.append(array(run))
            runs.append(number(glyph))
            run = []
        run.append(number(widths[glyph]))
        previous = glyph
    if run:
        runs.append(array(run))
    return array(runs)
