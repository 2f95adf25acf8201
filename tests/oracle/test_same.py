"""The comparison itself: whatever of a PDF is changed, it tells."""

from __future__ import annotations

import io
from collections.abc import Callable

import pikepdf
import pytest

from tests.oracle.same import assert_same, differences, first_difference
from tests.oracle.serial import Source, serial

HTML = b"""<!doctype html><html lang=en><title>Title</title>
<style>@page { size: A6 } h1 { break-before: page } i { opacity: .5 }</style>
<h1 id=a>A</h1><a href="#b">to B</a> <a href="http://example.org/">out</a>
<form><input name=q value=text><input type=checkbox checked></form>
<h1 id=b>B</h1><i>half</i>
<img alt=red src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect width='9'
height='9' fill='red'/></svg>">
<h2>C</h2><p>text"""


@pytest.fixture(scope='module')
def pdf() -> bytes:
    attached = 'data:text/plain,attached'
    source = Source(
        html=HTML, options={'pdf_variant': 'pdf/a-3u', 'pdf_tags': True, 'pdf_forms': True, 'attachments': [attached]}
    )
    return serial(source).pdf


def changed(pdf: bytes, change: Callable[[pikepdf.Pdf], object]) -> bytes:
    output = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as raw:
        change(raw)
        raw.save(output, fix_metadata_version=False)
    return output.getvalue()


def annotation(raw: pikepdf.Pdf, name: str, value: str) -> pikepdf.Object:
    return next(item for item in raw.pages[0].Annots if str(item.get(name)) == value)


def draw(raw: pikepdf.Pdf, before: bytes, after: bytes) -> None:
    page = raw.pages[1]
    page.Contents = raw.make_stream(page.Contents.read_bytes().replace(before, after))


def deepest(raw: pikepdf.Pdf) -> pikepdf.Object:
    element = raw.Root.StructTreeRoot
    while isinstance(element.get('/K'), pikepdf.Array) and isinstance(element.K[0], pikepdf.Dictionary):
        element = element.K[0]
    return element


def swap_bookmark(raw: pikepdf.Pdf) -> None:
    raw.Root.Outlines.First.Next.Dest[3] = 1


CHANGES: dict[str, Callable[[pikepdf.Pdf], object]] = {
    'page count': lambda raw: raw.pages.append(raw.pages[0]),
    'boxes': lambda raw: raw.pages[0].TrimBox.__setitem__(2, 100),
    'content': lambda raw: draw(raw, b'BT', b'0 w\nBT'),
    'text': lambda raw: draw(raw, b'<0025>', b'<0024>'),
    'pixels': lambda raw: raw.pages[1].__setattr__('Rotate', 90),
    'links': lambda raw: annotation(raw, '/Dest', 'b').__setattr__('Dest', pikepdf.String('a')),
    'fields': lambda raw: annotation(raw, '/T', 'q').__setattr__('V', pikepdf.String('other')),
    'tab order': lambda raw: raw.pages[1].__delitem__('/Tabs'),
    'outline': swap_bookmark,
    'destinations': lambda raw: raw.Root.Names.Dests.Names[1].__setitem__(3, 1),
    'information': lambda raw: raw.docinfo.__setitem__('/Title', 'Other'),
    'language': lambda raw: raw.Root.__delitem__('/Lang'),
    'XMP': lambda raw: raw.Root.__delitem__('/Metadata'),
    'output intents': lambda raw: raw.Root.__delitem__('/OutputIntents'),
    'attachments': lambda raw: raw.Root.Names.EmbeddedFiles.Names[1].EF.F.write(b'other'),
    'form': lambda raw: raw.Root.AcroForm.__delitem__('/NeedAppearances'),
    'fonts': lambda raw: raw.pages[0].Resources.__delitem__('/Font'),
    'marked': lambda raw: raw.Root.__delitem__('/MarkInfo'),
    'page labels': lambda raw: raw.Root.__setattr__('PageLabels', pikepdf.Dictionary(Nums=[])),
    'structure': lambda raw: deepest(raw).__setattr__('S', pikepdf.Name.Other),
    'marked content': lambda raw: raw.Root.StructTreeRoot.ParentTree.Nums[1].__delitem__(-1),
}


@pytest.mark.parametrize('kind', CHANGES)
def test_a_change_is_told(pdf, kind):
    assert kind in {line.partition(':')[0] for line in differences(pdf, changed(pdf, CHANGES[kind]))}


def test_a_file_written_anew_is_the_same_document(pdf):
    again = changed(pdf, lambda raw: None)
    assert again != pdf
    assert_same(pdf, again)


def test_a_difference_is_told_in_words(pdf):
    other = changed(pdf, lambda raw: raw.docinfo.__setitem__('/Title', 'Other'))
    assert first_difference(pdf, other) == "information: '/Title': 'Title' expected, 'Other' found (at 0)"
    with pytest.raises(AssertionError, match='Other'):
        assert_same(pdf, other)
    assert_same(pdf, other, but=frozenset({'information'}))
