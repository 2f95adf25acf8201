"""Programs reduced to different glyphs of one font are united, and the union shows what each has shown."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

from assembler.compactfont import CompactFont
from assembler.fonts import taken_apart
from assembler.fontuse import FontFace, FontUse
from renderer.weasy import system_fonts
from tests.assembler.compact import compact_font

FACE = FontFace(
    key='ABCDEF', name='/ABCDEF+Some', family='Some', flags=4, ascent=900, descent=-200, italic_angle=0, stem_v=80,
    stem_h=80,
)  # fmt: skip


def host_font(name: str = 'DejaVuSans.ttf') -> Path:
    return next(path for path in system_fonts() if path.name == name)


def reduced(text: str, font: bytes | None = None) -> bytes:
    """A font with the glyphs of a text, under their ids."""
    source = TTFont(io.BytesIO(font or host_font().read_bytes()))
    options = Options(retain_gids=True, notdef_outline=True, glyph_names=False, hinting=True, desubroutinize=True)
    subsetter = Subsetter(options)
    subsetter.populate(text=text)
    subsetter.subset(source)
    out = io.BytesIO()
    source.save(out)
    return out.getvalue()


def outlines(program: bytes, text: str, whole: bytes | None = None) -> list[object]:
    """Advance and outline of each letter, by the glyph id it has in the whole font."""
    source, font = TTFont(io.BytesIO(whole or host_font().read_bytes())), TTFont(io.BytesIO(program))
    found = []
    for letter in text:
        name = font.getGlyphName(source.getGlyphID(source.getBestCmap()[ord(letter)]))
        pen = DecomposingRecordingPen(font.getGlyphSet())
        font.getGlyphSet()[name].draw(pen)
        found.append((font['hmtx'][name], pen.value))
    return found


@pytest.fixture(params=[False, True], ids=['by name', 'by CID'])
def compact(request: pytest.FixtureRequest) -> bytes:
    return compact_font(keyed=request.param)


@pytest.mark.parametrize(('one', 'other'), [('abé ', 'aZΩ,'), ('aZΩ,', 'abé '), ('A', 'a'), ('Z', 'éB')])
def test_a_union_of_compact_outlines_has_the_glyphs_of_both(compact: bytes, one: str, other: str) -> None:
    union, theirs = taken_apart(reduced(one, compact)), taken_apart(reduced(other, compact))

    assert isinstance(union, CompactFont)
    assert isinstance(theirs, CompactFont)
    assert union.unite(theirs)
    program = union.write()

    assert outlines(program, one + other, compact) == outlines(compact, one + other, compact)
    again = taken_apart(program)
    assert isinstance(again, CompactFont)
    assert again.write() == program


def test_compact_outlines_by_name_and_by_cid_are_not_united() -> None:
    union, other = (taken_apart(reduced('ab', compact_font(keyed=keyed))) for keyed in (False, True))

    assert not union.unite(other)  # type: ignore[arg-type]


def test_a_union_has_the_glyphs_of_both() -> None:
    union = taken_apart(reduced('abé '))

    assert union.unite(taken_apart(reduced('aZäﬁ')))
    program = union.write()

    assert outlines(program, 'abé ') == outlines(reduced('abé '), 'abé ')
    assert outlines(program, 'aZäﬁ') == outlines(reduced('aZäﬁ'), 'aZäﬁ')


def test_a_union_has_the_checksums_that_the_format_asks_for() -> None:
    union = taken_apart(reduced('ab'))
    union.unite(taken_apart(reduced('yz')))

    TTFont(io.BytesIO(union.write()), checkChecksums=2, lazy=False)


def test_a_union_is_no_larger_than_the_font_reduced_to_all_glyphs() -> None:
    union = taken_apart(reduced('abcdef'))
    union.unite(taken_apart(reduced('ABCDEF')))

    assert len(union.write()) < 1.02 * len(reduced('abcdefABCDEF'))


def test_programs_of_other_fonts_are_not_united() -> None:
    union = taken_apart(reduced('ab'))

    assert not union.unite(taken_apart(reduced('cd', host_font('DejaVuSerif.ttf').read_bytes())))
    assert not union.unite(taken_apart(reduced('ab', host_font('DejaVuSans-Bold.ttf').read_bytes())))


@pytest.mark.parametrize('program', [b'', b'OTTO' + bytes(40), b'\0\1\0\0\0\0', b'\0\1\0\0\xff\xff' + bytes(6)])
def test_what_is_not_truetype_is_refused(program: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        taken_apart(program)


def use(**more: object) -> FontUse:
    given = {'widths': {}, 'to_unicode': {}, 'missing': {}, **more}
    return FontUse(face=FACE, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ('one', 'other', 'within', 'across'),
    [
        (use(widths={1: 500}), use(widths={1: 500, 2: 600}), True, True),
        (use(widths={1: 500}), use(widths={1: 501}), False, False),
        (use(missing={65: 900}), use(missing={66: 900}), False, False),
        (use(missing={65: 900}), use(missing={65: 901}), False, False),
        (use(missing={65: 900}), use(missing={66: 901}), True, True),
        (use(to_unicode={1: 'é'}), use(to_unicode={1: 'e\u0301'}), True, False),
        (use(all_widths={1: 500.5}), use(widths={1: 500}), True, False),
    ],
)
def test_uses_share_a_dictionary_where_they_agree(one: FontUse, other: FontUse, within: bool, across: bool) -> None:
    assert one.admits(other, same_document=True) == within
    assert one.admits(other, same_document=False) == across


def test_the_first_use_wins() -> None:
    one = use(widths={1: 500}, to_unicode={1: 'a'})

    one.add(use(widths={1: 500, 2: 600}, to_unicode={1: 'b', 2: 'c'}, missing={66: 900}))

    assert (one.widths, one.to_unicode, one.missing) == ({1: 500, 2: 600}, {1: 'a', 2: 'c'}, {66: 900})
    assert FontUse.from_json(one.to_json()) == one
