"""Makes `wave.ttf`, a variable font for the tests: letters are bars of several heights, wider the heavier they are."""

from __future__ import annotations

from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib.tables.TupleVariation import TupleVariation

LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,-'
NAMES = {letter: f'u{ord(letter):04x}' for letter in LETTERS}


def bar(height: int, width: int):
    pen = TTGlyphPen(None)
    if height:
        pen.moveTo((60, 0))
        for point in ((60, height), (60 + width, height), (60 + width, 0)):
            pen.lineTo(point)
        pen.closePath()
    return pen.glyph()


def make() -> FontBuilder:
    builder = FontBuilder(1000)
    names = ['.notdef', 'space', *NAMES.values()]
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(' '): 'space', **{ord(letter): name for letter, name in NAMES.items()}})
    heights = {name: 200 + 37 * position % 600 for position, name in enumerate(NAMES.values())}
    glyphs = {name: bar(heights.get(name, 0), 150) for name in names}
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics({name: (320, 60 if name in heights else 0) for name in names})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({'familyName': 'Wave', 'styleName': 'Regular'})
    builder.setupFvar([('wght', 100, 400, 900, 'Weight')], [])
    heavier = [(0, 0), (0, 0), (200, 0), (200, 0), (0, 0), (220, 0), (0, 0), (0, 0)]
    lighter = [(0, 0), (0, 0), (-90, 0), (-90, 0), (0, 0), (-80, 0), (0, 0), (0, 0)]
    variations = [TupleVariation({'wght': (0, 1, 1)}, heavier), TupleVariation({'wght': (-1, -1, 0)}, lighter)]
    builder.setupGvar(dict.fromkeys(heights, variations))
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    return builder


if __name__ == '__main__':
    make().save(Path(__file__).with_name('wave.ttf'))
