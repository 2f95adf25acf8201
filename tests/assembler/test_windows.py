"""Windows of one document, each painted from a document of its own, join into what WeasyPrint writes in one go."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from PIL import Image
from weasyprint import Attachment

from renderer.weasy import PlaceInDocument, paint_window
from runtime.errors import ObjectCorrupt
from tests.assembler.compact import compact_font
from tests.assembler.documents import attachment, joined, laid_out, render, texts
from tests.assembler.test_fonts import host_font
from tests.oracle.same import assert_same

WINDOWS = 20
Split = Callable[..., list[Path]]

pytestmark = pytest.mark.filterwarnings('ignore:.*sRGB2014:pytest.PytestUnraisableExceptionWarning')

STYLE = """
  @page { size: A6; margin: 1cm; @bottom-center { content: counter(page) } }
  section { break-after: page; font-size: 9pt } input { appearance: auto } img { width: 1cm }
"""
PAGE = """<section lang="en"><h{level} id="s{number}">Section {number} of many</h{level}>
  <h6 id="same" style="bookmark-state: closed">Skipped levels {number} (see 5 0 R) 100% \\ ✓</h6>
  <p>{letter} <b>bold</b> <i>slanted</i> <a href="#s{next}">next</a> <a href="#same">the first</a>
  <a href="#s0">back</a> <a href="http://example.com/{number}">out</a> <a href="#nowhere">dead</a>
  <p style="opacity: 0.5; background: linear-gradient(red, transparent)">mixed</p>
  <img src="{picture}" alt="a picture"><table><tr><th>Head<th>Row<tr><td>{number}<td>cell</table>
  <ul><li>item<ul><li>below</ul></ul>
  <form><input name="who" value="{number}"><input type="checkbox" checked><input type="radio" name="r"></form>
  <p><a rel="attachment" href="data:text/plain,shared">same file</a>
  <a rel="attachment" href="data:text/plain,{number}">own file</a>
</section>"""


def picture() -> str:
    """A PNG with an alpha channel, as a URL."""
    file = io.BytesIO()
    image = Image.new('RGBA', (120, 80), (10, 20, 30, 128))
    for x in range(120):
        image.putpixel((x, x % 80), (255, x, 0, 255 - x))
    image.save(file, 'PNG')
    return 'data:image/png;base64,' + base64.b64encode(file.getvalue()).decode()


def document(sections: int = WINDOWS) -> str:
    pages = ''.join(
        PAGE.format(
            number=number,
            next=(number + 1) % sections,
            level=1 + number % 3,
            letter=chr(ord('a') + number) * 3,
            picture=picture(),
        )
        for number in range(sections)
    )
    return f'<html lang="en"><title>All of it</title><meta name="author" content="A"><style>{STYLE}</style>{pages}'


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Paints every page of a document as a window of it, with fonts of its own; `apart`: each laid out anew."""

    def split(html: str, *, apart: bool = False, **options: Any) -> list[Path]:
        whole = laid_out(html, **options)
        anchors = frozenset(name for page in whole.pages for name in page.anchors)
        paths = []
        for window, page in enumerate(whole.pages):
            place = PlaceInDocument(window=window, windows=len(whole.pages), anchors=anchors)
            paths.append(tmp_path / f'{window}.bundle')
            with paths[-1].open('wb') as file:
                own = laid_out(html, **options).pages[window] if apart else page
                assert paint_window(whole.copy([own]), file, place=place, options=options).pages == 1
        return paths

    return split


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger='weasyprint')


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'pdf_variant': 'pdf/a-3a', 'pdf_forms': True},
        {'pdf_variant': 'pdf/ua-2', 'pdf_forms': True},
        {'uncompressed_pdf': True, 'pdf_tags': True, 'full_fonts': True, 'pdf_identifier': 'own'},
    ],
    ids=str,
)
def test_twenty_windows_are_one_document(split: Split, tmp_path: Path, options: dict[str, Any]) -> None:
    html = document()

    out = joined(split(html, **options, attachments=terms()), tmp_path / 'out.pdf')

    expected = render(html, **options, attachments=terms())
    assert_same(expected, out.read_bytes())
    assert out.stat().st_size < 1.05 * len(expected)
    with pikepdf.open(out) as pdf:
        assert pdf.check_pdf_syntax() == []
        assert not pdf.get_warnings()


def terms() -> list[Attachment]:
    return [attachment('terms.txt', b'of the document')]


def test_windows_of_an_old_version_are_one_document(split: Split, tmp_path: Path) -> None:
    html = document().replace('rel="attachment"', '')

    out = joined(split(html, pdf_variant='pdf/a-1b'), tmp_path / 'out.pdf')

    assert_same(render(html, pdf_variant='pdf/a-1b'), out.read_bytes())


def test_fonts_images_and_files_are_there_once(split: Split, tmp_path: Path) -> None:
    html = document()

    out = joined(split(html), tmp_path / 'out.pdf')

    with pikepdf.open(out) as pdf, pikepdf.open(io.BytesIO(render(html))) as serial:
        for key, value in (('/Type', '/EmbeddedFile'), ('/Subtype', '/Image')):
            assert len(streams(pdf, key, value)) == len(streams(serial, key, value)) > 1
        assert len(font_files(pdf)) == len(font_files(serial)) == 4


def streams(pdf: pikepdf.Pdf, key: str, value: str) -> list[pikepdf.Object]:
    return [item for item in pdf.objects if isinstance(item, pikepdf.Stream) and item.get(key) == value]


def font_files(pdf: pikepdf.Pdf) -> list[pikepdf.Object]:
    return [item for item in pdf.objects if isinstance(item, pikepdf.Stream) and '/Length1' in item]


def test_a_glyph_that_is_missing_is_read_back_from_every_window(split: Split, tmp_path: Path) -> None:
    html = ''.join(f'<p style="break-after: page">missing {sign}' for sign in '\U0001f995\U0001f996\U0001f995')

    out = joined(split(html), tmp_path / 'out.pdf')

    assert texts(out) == texts(render(html))
    with pikepdf.open(out) as pdf:
        assert len(font_files(pdf)) == 1


@pytest.mark.parametrize('compact', [False, True], ids=['TrueType', 'compact outlines'])
def test_windows_with_other_letters_share_one_font_program(split: Split, tmp_path: Path, compact: bool) -> None:
    font = tmp_path / 'some.font'
    font.write_bytes(compact_font() if compact else host_font().read_bytes())
    style = f'<style>@font-face {{ font-family: some; src: url({font.as_uri()}) }} p {{ font-family: some }}</style>'
    words = ('a small cat', 'Éléphant, Über', 'ZEBRA.', 'ß Ω é')
    html = style + ''.join(f'<p style="break-after: page">{word}' for word in words)

    out = joined(split(html), tmp_path / 'out.pdf')

    assert_same(render(html), out.read_bytes())
    with pikepdf.open(out) as pdf:
        programs = [*font_files(pdf), *streams(pdf, '/Subtype', '/OpenType')]
        assert len(programs) == (2 if compact else 1)  # the compact font lacks a letter


def test_the_window_that_needs_most_pixels_of_an_image_decides(split: Split, tmp_path: Path) -> None:
    widths = (1, 6, 2)
    html = ''.join(f'<p style="break-after: page"><img src="{picture()}" style="width: {cm}cm">' for cm in widths)

    out = joined(split(html, apart=True, dpi=40), tmp_path / 'out.pdf')

    assert_same(render(html, dpi=40), out.read_bytes())
    with pikepdf.open(out) as pdf:
        assert len(streams(pdf, '/Subtype', '/Image')) == 2  # and its soft mask


def test_a_link_that_leads_nowhere_is_told_once_by_its_own_window(
    split: Split, caplog: pytest.LogCaptureFixture
) -> None:
    html = '<p style="break-after: page"><a href="#b">there</a><p id="b"><a href="#nowhere">not there</a>'
    with caplog.at_level(logging.ERROR, logger='weasyprint'):
        split(html)

    assert [record.getMessage() for record in caplog.records] == ['No anchor #nowhere for internal URI reference']


def test_windows_out_of_order_are_refused(split: Split, tmp_path: Path) -> None:
    first, second, third = split('<p style="break-after: page">1<p style="break-after: page">2<p>3')

    with pytest.raises(ObjectCorrupt, match=r'2\.bundle: window 2 of 3 where 1 was expected'):
        joined([first, third, second], tmp_path / 'out.pdf')
    with pytest.raises(ObjectCorrupt, match='the last 1 windows of a document are missing'):
        joined([first, second], tmp_path / 'out.pdf')


def test_some_windows_of_a_tagged_document_are_a_pdf_of_their_own(split: Split, tmp_path: Path) -> None:
    html = document(6)
    paths = split(html, pdf_variant='pdf/ua-1')

    out = joined(paths[2:4], tmp_path / 'out.pdf', partial=True)

    assert texts(out) == texts(render(html, pdf_variant='pdf/ua-1'))[2:4]
    with pikepdf.open(out) as pdf:
        assert pdf.check_pdf_syntax() == []
        assert [str(kid.S) for kid in pdf.Root.StructTreeRoot.K] == ['/Document']
