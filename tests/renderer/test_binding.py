"""What documents bring to the catalog is all there, under names of their own, and what they share is there once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pikepdf
import pytest

from tests.renderer.bundles import Job, MakeJob, a_png, fixture, invoice_files, invoice_records
from tests.renderer.looks import destinations, looks, outline

pytestmark = pytest.mark.filterwarnings('ignore:.*sRGB2014:pytest.PytestUnraisableExceptionWarning')


@contextmanager
def painted(job: Job, **how: Any) -> Iterator[pikepdf.Pdf]:
    _, pdf = job.paint(**how)
    with pikepdf.open(io.BytesIO(pdf)) as checked:  # qpdf repairs what it checks
        # it wants names in the order of their text, the standard in that of their bytes
        assert [line for line in checked.check_pdf_syntax() if 'keys are not sorted' not in line] == []
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        yield opened


def streams(pdf: pikepdf.Pdf, key: str, value: str) -> list[pikepdf.Stream]:
    return [item for item in pdf.objects if isinstance(item, pikepdf.Stream) and item.get(key) == value]


def font_files(pdf: pikepdf.Pdf) -> list[Any]:
    descriptors = [item for item in pdf.objects if isinstance(item, pikepdf.Dictionary) and '/FontName' in item]
    return [item[key] for item in descriptors for key in ('/FontFile2', '/FontFile3') if key in item]


@pytest.mark.parametrize(
    'options', [{}, {'uncompressed_pdf': True}, {'pdf_version': '1.4'}, {'pdf_version': '2.0'}], ids=str
)
def test_the_file_is_sound_in_every_version(make_job: MakeJob, options: dict[str, Any]):
    job = make_job(files=invoice_files(), options=options).template('invoice.html', invoice_records(3))
    with painted(job) as pdf:
        assert len(pdf.pages) == 3
        assert pdf.pdf_version == options.get('pdf_version', '1.7')


def test_destinations_and_links_are_named_after_their_item(make_job: MakeJob):
    page = '<p id=top>top<p id="ünder">under<p><a href=#top>up</a><a href="#ünder">down</a>'
    with painted(make_job().html(page).html(page).html('<p>plain'), part={'first_item': 1, 'item_count': 2}) as pdf:
        names = [str(name) for name, _ in destinations(pdf)]
        links = [str(item.Dest) for item in pdf.pages[0].Annots]
    assert sorted(names) == ['d1/top', 'd1/ünder']
    assert sorted(links) == ['d1/top', 'd1/ünder']


def test_destinations_are_sorted_by_their_bytes(make_job: MakeJob):
    page = ''.join(f'<p id="{name}"><a href="#{name}">x</a>' for name in ['é', 'a', 'Z', '漢', 'm n', '('])
    job = make_job()
    for _ in range(11):
        job.html(page)
    with painted(job) as pdf:
        names = [bytes(name) for name, _ in destinations(pdf)]
    assert names == sorted(names)
    assert len(names) == 66


def test_outlines_are_chained_in_order_with_their_nesting(make_job: MakeJob):
    nested = '<h1>A{0}</h1><h2>B{0}</h2><h1 style="bookmark-state: closed">C{0}</h1><h2>D{0}</h2>'
    job = make_job().html(nested.format(0)).html('<p>nothing').html('<h1>Alone').html(nested.format(3))
    with painted(job) as pdf:
        assert outline(pdf) == [
            (0, 'A0'), (1, 'B0'), (0, 'C0'), (1, 'D0'), (0, 'Alone'), (0, 'A3'), (1, 'B3'), (0, 'C3'), (1, 'D3'),
        ]  # fmt: skip
        assert pdf.Root.Outlines.Count == 7  # as many as are visible
        places = {page.objgen: index for index, page in enumerate(pdf.pages)}
        assert places[pdf.Root.Outlines.First.Dest[0].objgen] == 0
        assert places[pdf.Root.Outlines.Last.Dest[0].objgen] == 3


def test_fonts_are_embedded_and_described_once_for_all_documents(make_job: MakeJob):
    files = invoice_files()
    with painted(make_job(files=files).template('invoice.html', invoice_records(6))) as pdf:
        found = font_files(pdf)
        assert len(found) == len({item.objgen for item in found}) == 3


def test_a_glyph_that_says_something_else_in_another_document_has_a_description_of_its_own(make_job: MakeJob):
    """Composed or not, it is the same glyph."""
    with painted(make_job().html('<p>e\u0301').html('<p>\u00e9')) as pdf:
        found = font_files(pdf)
        assert (len(found), len({item.objgen for item in found})) == (2, 1)
        assert [page['text'] for page in looks(saved(pdf))] == ['e\u0301', '\u00e9']


def test_a_font_that_forms_of_one_document_need_whole_is_reduced_for_the_others(make_job: MakeJob):
    """A whole font keeps its hints, and hints show."""
    job = make_job(options={'pdf_forms': True}).html('<p>plain').html('<form><input name=a></form>').html('<p>text')
    with painted(job) as pdf:
        sizes = [len(item.read_bytes()) for item in {item.objgen: item for item in font_files(pdf)}.values()]
    assert max(sizes) > 20 * min(sizes)


def test_where_glyphs_are_listed_the_list_has_those_of_all_documents(make_job: MakeJob):
    job = make_job(files=invoice_files(), options={'pdf_variant': 'pdf/a-1b'})
    with painted(job.template('invoice.html', invoice_records(3))) as pdf:
        descriptors = [item for item in pdf.objects if isinstance(item, pikepdf.Dictionary) and '/CIDSet' in item]
        assert len(descriptors) == 3
        for descendant in (item for item in pdf.objects if isinstance(item, pikepdf.Dictionary) and '/W' in item):
            bits = descendant.FontDescriptor.CIDSet.read_bytes()
            assert all(bits[glyph // 8] & 0x80 >> glyph % 8 for glyph in glyphs(descendant.W))


def glyphs(widths: Any) -> Iterator[int]:
    for first, run in zip(widths[::2], widths[1::2], strict=True):
        yield from range(int(first), int(first) + len(run))


def saved(pdf: pikepdf.Pdf) -> bytes:
    file = io.BytesIO()
    pdf.save(file)
    return file.getvalue()


def test_equal_images_and_profiles_are_written_once(make_job: MakeJob):
    files = {'a.png': a_png(), 'b.png': a_png('red'), 'c.png': a_png()}
    job = make_job(files=files, options={'pdf_variant': 'pdf/a-3b'})
    for name in ('a', 'b', 'c', 'a'):
        job.html(f'<img src={name}.png>')
    with painted(job) as pdf:
        images = streams(pdf, '/Subtype', '/Image')
        assert len(images) == 3  # two images; they have the same soft mask
        assert all('/SMask' in image for image in images if image.ColorSpace == '/DeviceRGB')
        profiles = [item for item in streams(pdf, '/N', 3) if item.get('/Type') != '/ObjStm']  # type: ignore[arg-type]
        assert len(profiles) == 1


def test_an_image_of_a_document_that_failed_is_still_there_for_the_next(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
):
    from weasyprint.pdf import metadata

    include = metadata.DocumentMetadata.include_in_pdf

    def fail_once(self: Any, *args: Any, **kwargs: Any) -> None:
        if self.title == 'bad':
            raise ValueError('after the images')
        include(self, *args, **kwargs)

    monkeypatch.setattr(metadata.DocumentMetadata, 'include_in_pdf', fail_once)
    job = make_job(files={'a.png': a_png()}, options={'pdf_variant': 'pdf/a-3b'})
    job.html('<title>bad</title><img src=a.png>').html('<title>good</title><img src=a.png>')
    with painted(job, placeholders=True) as pdf:
        (image,) = pdf.pages[1].Resources.XObject.values()
        assert image.read_bytes()


def test_attachments_are_all_there(make_job: MakeJob):
    files = {**fixture('report'), 'img/data.csv': b'another'}
    job = make_job(files=files).file('report.html').file('report.html')
    job.html('<link rel=attachment href=img/data.csv><p><a rel=attachment href=data.csv>here</a>')
    with painted(job) as pdf:
        found = {name: file.get_file().read_bytes() for name, file in pdf.attachments.items()}
        assert found == {'data.csv': files['data.csv'], 'd2/data.csv': b'another'}  # the same file is there once
        assert [item.Subtype for item in pdf.pages[-1].Annots] == ['/FileAttachment']


def test_form_fields_have_names_of_their_own(make_job: MakeJob):
    form = """<form><input name=who value=Ada><input type=radio name=r value=1 checked><input type=radio name=r value=2>
      <select name=s><option selected>x</option></select><textarea name=t>long</textarea></form>"""
    with painted(make_job(options={'pdf_forms': True}).html(form).html(form)) as pdf:
        form_dictionary = pdf.Root.AcroForm
        roots = {str(field.T) for field in form_dictionary.Fields if '/Parent' not in field}
        assert roots == {f'd{item}/{name}' for item in (0, 1) for name in ['who', 'r', 's', 't']}
        for page in pdf.pages:
            for field in page.Annots:
                if '/DA' in field:
                    assert '/' + str(field.DA).split(' Tf')[0].split()[-2].lstrip('/') in form_dictionary.DR.Font


def structure(pdf: pikepdf.Pdf, page: int) -> list[str]:
    """The tags that the marked contents of a page belong to, through the parent tree."""
    tree = pdf.Root.StructTreeRoot
    row = pikepdf.NumberTree(tree.ParentTree)[int(pdf.pages[page].StructParents)]
    tags = []
    for element in row:
        while element.P.objgen != tree.objgen:
            element, inner = element.P, element
        assert element.S == '/Document'
        tags.append(str(inner.S))
    return tags


@pytest.mark.parametrize('variant', ['pdf/ua-1', 'pdf/ua-2'])
def test_structure_trees_are_joined(make_job: MakeJob, variant: str):
    pages = ['<html lang=en><h1>One</h1><p>a <a href="#x">b</a> c<p id=x>d', '<html lang=de><h2>Two</h2><ul><li>e</ul>']
    job = make_job(options={'pdf_variant': variant})
    for html in pages * 2:
        job.html(html)
    with painted(job) as pdf:
        tree = pdf.Root.StructTreeRoot
        assert str(pdf.Root.Lang) == 'en'
        assert [str(element.get('/Lang', '')) for element in tree.K] == ['', 'de', '', 'de']
        assert [str(element.S) for element in tree.K] == ['/Document'] * 4
        assert structure(pdf, 0) == structure(pdf, 2)
        assert structure(pdf, 1) == structure(pdf, 3) != structure(pdf, 0)
        parents = pikepdf.NumberTree(tree.ParentTree)
        assert list(parents) == list(range(tree.ParentTreeNextKey))
        link = pdf.pages[2].Annots[0]
        assert parents[int(link.StructParent)].S == '/Link'
        assert ('/Namespaces' in tree) == (variant == 'pdf/ua-2')
        assert pdf.Root.MarkInfo.Marked


def test_what_a_file_has_once_comes_from_the_first_document(make_job: MakeJob):
    job = make_job(options={'pdf_variant': 'pdf/a-3b'})
    job.html('<html lang=fr><title>Un</title>').html('<html lang=en><title>Two</title>')
    with painted(job) as pdf:
        assert (str(pdf.Root.Lang), str(pdf.docinfo['/Title'])) == ('fr', 'Un')
        assert b'Un' in pdf.Root.Metadata.read_bytes()
        assert len(pdf.Root.OutputIntents) == 1
        assert pdf.Root.OutputIntents[0].DestOutputProfile.read_bytes()


def test_the_same_documents_give_the_same_bytes(make_job: MakeJob):
    job = make_job(files=invoice_files()).template('invoice.html', invoice_records(3))
    assert job.paint()[1] == job.paint()[1]
