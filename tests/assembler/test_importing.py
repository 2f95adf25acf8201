"""Existing PDFs among the parts: as they look, with outline, names, fields and files; hostile ones are refused."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from assembler.importing import Imported, check_pdf, import_pdf
from runtime.errors import Refusal
from tests.assembler.documents import attachment, bundle, destinations, document, joined, outline, pixels, render, texts

FORM = (
    '<style>input { appearance: auto }</style><form><input name="who" value="Ada"><input type="checkbox" name="yes">'
    '<input type="radio" name="pick" value="a" checked><input type="radio" name="pick" value="b"></form>'
)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A PDF of four pages that has all that comes along."""
    html = document(3, extra=FORM)
    path = tmp_path / 'foreign.pdf'
    path.write_bytes(render(html, pdf_forms=True, attachments=[attachment('terms.txt', b'old terms')]))
    return path


def imported(path: Path, out: Path, *, item: int = 1) -> Imported:
    with path.open('rb') as source, out.open('wb') as file:
        return import_pdf(
            source, file, name=path.name, item=item, prefix=f'd{item}/', version='1.7', compress=True
        )  # fmt: skip


def check(path: Path) -> int:
    with path.open('rb') as file:
        return check_pdf(file, 'cover.pdf')


@pytest.fixture
def between(foreign: Path, tmp_path: Path) -> Path:
    """The PDF between two documents of ours."""
    parts = [bundle(tmp_path / f'{number}.bundle', document(number), item=number) for number in (0, 2)]
    assert imported(foreign, tmp_path / 'foreign.bundle') == Imported(pages=4, left_out=())
    return joined([parts[0], tmp_path / 'foreign.bundle', parts[1]], tmp_path / 'out.pdf')


def test_pages_look_as_they_did_and_lie_between_the_others(between: Path, foreign: Path) -> None:
    assert texts(between)[3:7] == texts(foreign)
    assert pixels(between)[3:7] == pixels(foreign)
    with pikepdf.open(between) as pdf:
        assert len(pdf.pages) == 10
        assert pdf.check_pdf_syntax() == []


def test_the_outline_leads_to_the_same_pages(between: Path, foreign: Path) -> None:
    def shifted(entries: list) -> list:
        return [(title, folded, page + 3, shifted(below)) for title, folded, page, below in entries]

    with pikepdf.open(between) as pdf, pikepdf.open(foreign) as alone:
        assert outline(pdf)[3:6] == shifted(outline(alone))


def test_destinations_and_links_keep_to_their_document(between: Path) -> None:
    with pikepdf.open(between) as pdf:
        found = destinations(pdf)
        assert {name: page for name, page in found.items() if name.startswith('d1/')} == {
            f'd1/s{section}': 3 + section for section in range(3)
        }
        inside, outside = [item for item in pdf.pages[3].Annots if item.Subtype == '/Link'][:2]
        assert str(inside.Dest) == 'd1/s1'
        assert str(outside.A.URI) == 'http://example.com/3'


def test_fields_and_files_come_along_under_names_of_their_own(between: Path) -> None:
    with pikepdf.open(between) as pdf:
        form = pdf.Root.AcroForm
        assert sorted(str(field.T) for field in form.Fields) == ['d1/pick', 'd1/who', 'd1/yes']
        widgets = [item for item in pdf.pages[6].Annots if item.Subtype == '/Widget']
        assert len(widgets) == 4
        assert {kid.objgen for field in form.Fields for kid in field.get('/Kids', [field])} == {
            item.objgen for item in widgets
        }
        assert str(form.Fields[0].DA).split()[-3] in form.DR.Font
        assert {name: file.get_file().read_bytes() for name, file in pdf.attachments.items()} == {
            'terms.txt': b'old terms'
        }


def test_a_pdf_alone_keeps_its_title_and_language(foreign: Path, tmp_path: Path) -> None:
    imported(foreign, tmp_path / 'only.bundle', item=0)

    with pikepdf.open(joined([tmp_path / 'only.bundle'], tmp_path / 'out.pdf')) as pdf:
        assert (str(pdf.docinfo.Title), str(pdf.Root.Lang)) == ('Title 3', 'en')


def test_what_a_page_inherits_stays_with_it(tmp_path: Path) -> None:
    path = tmp_path / 'inherited.pdf'
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(100, 200))
        del page.MediaBox
        pdf.Root.Pages.MediaBox, pdf.Root.Pages.Rotate = [0, 0, 300, 400], 90
        pdf.save(path)
    imported(path, tmp_path / 'it.bundle')

    with pikepdf.open(joined([tmp_path / 'it.bundle'], tmp_path / 'out.pdf')) as pdf:
        assert (list(pdf.pages[0].MediaBox), pdf.pages[0].Rotate) == ([0, 0, 300, 400], 90)


def changed(path: Path, change: Callable[[pikepdf.Pdf], object], **how: Any) -> Path:
    with pikepdf.open(path, allow_overwriting_input=True) as pdf:
        change(pdf)
        pdf.save(path, **how)
    return path


def with_scripts(pdf: pikepdf.Pdf) -> None:
    script = pikepdf.Dictionary(S=pikepdf.Name.JavaScript, JS='app.alert(1)')
    pdf.Root.OpenAction = script
    pdf.pages[0].Annots[0].A = script
    pdf.Root.OCProperties = pikepdf.Dictionary()
    pdf.Root.AcroForm.XFA = pikepdf.String('<xdp/>')


def test_what_is_left_out_is_said(foreign: Path, tmp_path: Path) -> None:
    changed(foreign, with_scripts)

    found = imported(foreign, tmp_path / 'it.bundle')

    assert found.left_out == ('XFA', 'layers', 'scripts and other actions')
    assert b'app.alert' not in (tmp_path / 'it.bundle').read_bytes()
    with pikepdf.open(joined([tmp_path / 'it.bundle'], tmp_path / 'out.pdf')) as pdf:
        assert '/OpenAction' not in pdf.Root
        assert not any('/JS' in item for item in pdf.objects if isinstance(item, pikepdf.Dictionary))


def looping_pages(pdf: pikepdf.Pdf) -> None:
    pdf.Root.Pages.Kids.append(pdf.Root.Pages)


def deep_value(pdf: pikepdf.Pdf) -> None:
    value = pikepdf.Array([])
    for _ in range(400):
        value = pikepdf.Array([value])
    pdf.pages[0].Deep = value


def test_an_encrypted_pdf_is_refused_by_name(foreign: Path, tmp_path: Path) -> None:
    changed(foreign, lambda _: None, encryption=pikepdf.Encryption(owner='o', user='u'))

    for refused in (lambda: check(foreign), lambda: imported(foreign, tmp_path / 'it.bundle')):
        with pytest.raises(Refusal, match=r'\.pdf: it is encrypted') as caught:
            refused()
        assert caught.value.problem.name == 'pdf-invalid'


@pytest.mark.parametrize('content', [b'', b'<p>no PDF', b'%PDF-1.7\nand no more'])
def test_what_is_no_pdf_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / 'odd'
    path.write_bytes(content)

    with pytest.raises(Refusal, match=r'^cover\.pdf: it cannot be read'):
        check(path)


def test_a_page_tree_that_leads_back_to_itself_is_refused(foreign: Path) -> None:
    changed(foreign, looping_pages)

    with pytest.raises(Refusal, match='leads back to itself'):
        check(foreign)


def test_values_nested_without_end_are_refused_or_kept_but_never_crash(foreign: Path, tmp_path: Path) -> None:
    changed(foreign, deep_value)

    with contextlib.suppress(Refusal):
        assert imported(foreign, tmp_path / 'it.bundle').pages == 4


def test_an_outline_that_leads_back_to_itself_ends(foreign: Path, tmp_path: Path) -> None:
    changed(foreign, lambda pdf: setattr(pdf.Root.Outlines.First, 'Next', pdf.Root.Outlines.First))

    assert imported(foreign, tmp_path / 'it.bundle').pages == 4


def test_a_pdf_says_how_many_pages_it_has(foreign: Path) -> None:
    assert check(foreign) == 4
    with pikepdf.open(io.BytesIO(foreign.read_bytes())) as pdf:
        assert len(pdf.pages) == 4
