"""A font with compact outlines, for hosts that have none: DejaVu's outlines as cubic curves."""

from __future__ import annotations

import io
from functools import cache
from string import ascii_letters
from typing import Any

from fontTools.cffLib import FDArrayIndex, FDSelect, FontDict, PrivateDict
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.qu2cuPen import Qu2CuPen
from fontTools.pens.t2CharStringPen import T2CharStringPen
from fontTools.ttLib import TTFont

from renderer.weasy import system_fonts

LETTERS = ascii_letters + ' .,éßΩ'


@cache
def compact_font(*, keyed: bool = False) -> bytes:
    """The font; `keyed`: by CID, with two private dictionaries, as fonts of East Asia are."""
    source = TTFont(next(path for path in system_fonts() if path.name == 'DejaVuSans.ttf'))
    glyphs, shown = source.getGlyphSet(), source.getBestCmap()
    names = {letter: f'cid{number:05d}' for number, letter in enumerate(LETTERS, 1)}
    charstrings, metrics = {}, {}
    for name, drawn in (('.notdef', '.notdef'), *((names[letter], shown[ord(letter)]) for letter in LETTERS)):
        pen = T2CharStringPen(glyphs[drawn].width, glyphs)
        glyphs[drawn].draw(Qu2CuPen(pen, 1.0, all_cubic=True))
        charstrings[name], metrics[name] = pen.getCharString(), (glyphs[drawn].width, 0)
    builder = FontBuilder(2048, isTTF=False)
    builder.setupGlyphOrder(list(charstrings))
    builder.setupCharacterMap({ord(letter): name for letter, name in names.items()})
    builder.setupCFF('Compact', {}, charstrings, {})
    if keyed:
        lower = [name in names.values() and name < names['A'] for name in charstrings]
        _key(builder.font['CFF '].cff.topDictIndex[0], lower)
    builder.setupHorizontalMetrics(metrics)
    builder.setupHorizontalHeader(ascent=1900, descent=-483)
    builder.setupNameTable({'familyName': 'Compact', 'styleName': 'Regular'})
    builder.setupOS2(sTypoAscender=1900, sTypoDescender=-483, usWinAscent=1900, usWinDescent=483)
    builder.setupPost()
    out = io.BytesIO()
    builder.save(out)
    return out.getvalue()


def _key(top: Any, lower: list[bool]) -> None:
    """Make a font keyed by CID: lower-case letters have a private dictionary of their own."""
    array = FDArrayIndex()
    array.strings, array.GlobalSubrs = None, top.GlobalSubrs
    for number in range(2):
        font = FontDict()
        font.Private = PrivateDict()
        font.Private.defaultWidthX, font.Private.nominalWidthX = 0, 0
        font.Private.BlueValues = [-20, number]
        font.FontName = f'Compact-{number}'
        array.append(font)
    select = FDSelect()
    select.format = 3
    select.gidArray = [int(is_lower) for is_lower in lower]
    for charstring, index in zip(top.CharStrings.charStrings.values(), select.gidArray, strict=True):
        charstring.private, charstring.fdSelectIndex = array[index].Private, index
    top.ROS, top.CIDCount = ('Adobe', 'Identity', 0), len(lower)
    top.FDArray, top.FDSelect = array, select
    top.CharStrings.fdArray, top.CharStrings.fdSelect = array, select
    del top.Private
