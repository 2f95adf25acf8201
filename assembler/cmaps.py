"""Character maps of embedded fonts: glyphs to text, and around missing glyphs (ISO 32000-1, 9.7.5 and 9.10.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

ENTRIES_PER_BLOCK: Final = 100
#: name of the map that shows a missing glyph as the first one of its font
MISSING: Final = b'Fanfold-Missing'


def to_unicode_cmap(texts: Mapping[int, str]) -> bytes:
    """The text of each glyph."""
    entries = (f'<{glyph:04x}> <{text.encode("utf-16-be").hex()}>'.encode() for glyph, text in texts.items())
    system = b'<< /Registry (Adobe)\n/Ordering (UCS)\n/Supplement 0\n>> def\n'
    return _cmap(b'Adobe-Identity-UCS', 2, system, b'bfchar', entries)


def missing_cmap(texts: Mapping[int, str], missing: Collection[int]) -> bytes:
    """Glyphs as they are, and those that are missing as the first of the font."""
    entries = (b'<%04x> %d' % (glyph, 0 if glyph in missing else glyph) for glyph in texts)
    system = b'3 dict dup begin\n/Registry (Adobe) def\n/Ordering (Identity) def\n/Supplement 0 def\nend def\n'
    return _cmap(MISSING, 1, system, b'cidchar', entries)


def _cmap(name: bytes, kind: int, system: bytes, entry: bytes, entries: Iterable[bytes]) -> bytes:
    head = b'/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CIDSystemInfo\n'
    named = b'/CMapName /%b def\n/CMapType %d def\n' % (name, kind)
    space = b'1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n'
    tail = b'endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend'
    return b''.join((head, system, named, space, *_blocks(entry, iter(entries)), tail))


def _blocks(entry: bytes, entries: Iterator[bytes]) -> Iterator[bytes]:
    while block := list(islice(entries, ENTRIES_PER_BLOCK)):
        yield b'%d begin%b\n%b\nend%b\n' % (len(block), entry, b'\n'.join(block), entry)
