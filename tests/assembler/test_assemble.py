"""Parts become one file that has all they bring, each document's names apart from those of the others."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from assembler.merge import merge_child
from runtime.errors import Refusal
from tests.assembler.documents import (
    attachment,
    bundle,
    destinations,
    document,
    joined,
    outline,
    pixels,
    render,
    rendered,
    texts,
)

Make = Callable[..., list[Path]]

pytestmark = pytest.mark.filterwarnings('ignore:.*sRGB2014:pytest.PytestUnraisableExceptionWarning')


@pytest.fixture
def parts(tmp_path: Path) -> Make:
    """Parts of one document each, numbered from 0."""

    def make(count: int = 3, *, extra: Callable[[int], str] = lambda _: '', **options: Any) -> list[Path]:
        return [
            bundle(tmp_path / f'{number}.bundle', document(number, extra=extra(number)), item=number, **options)
            for number in range(count)
        ]

    return make


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / 'merged.pdf'


def test_pages_follow_in_the_order_given_and_look_the_same(parts: Make, out: Path) -> None:
    first, second, third = parts()
    alone = [rendered(document(number)) for number in (2, 0, 1)]

    joined([third, first, second], out)

    assert texts(out) == [text for pdf in alone for text in texts(pdf)]
    assert pixels(out) == [look for pdf in alone for look in pixels(pdf)]


def test_the_file_is_sound(parts: Make, out: Path) -> None:
    joined(parts(), out)

    with pikepdf.open(out) as pdf:
        assert pdf.check_pdf_syntax() == []
        assert not pdf.get_warnings()


def test_the_outline_keeps_its_nesting_and_what_is_folded(parts: Make, out: Path) -> None:
    joined(parts(), out)

    expected, before = [], 0
    for number in range(3):
        with pikepdf.open(io.BytesIO(rendered(document(number)))) as pdf:
            expected += shifted(outline(pdf), before)
            before += len(pdf.pages)
    with pikepdf.open(out) as pdf:
        assert outline(pdf) == expected
        assert expected[0][3][0][1], 'h2 is folded'
        assert pdf.Root.Outlines.Count == 9 * 2
        backwards, item = [], pdf.Root.Outlines.Last
        while item is not None:
            assert item.Parent == pdf.Root.Outlines
            backwards.append(str(item.Title))
            item = item.get('/Prev')
        assert backwards == [entry[0] for entry in reversed(expected)]


def shifted(entries: list, pages: int) -> list:
    return [(title, folded, page + pages, shifted(below, pages)) for title, folded, page, below in entries]


def test_a_part_without_an_outline_leaves_no_gap_in_it(parts: Make, tmp_path: Path, out: Path) -> None:
    first, second = parts(2)
    plain = bundle(tmp_path / 'plain.bundle', '<p>no heading')

    joined([plain, first, plain, second, plain], out)

    with pikepdf.open(out) as pdf:
        assert [entry[2] for entry in outline(pdf)] == [1, 2, 3, 5, 6, 7]


def test_each_document_has_a_bookmark_above_its_own_where_the_job_wants_it(
    parts: Make, tmp_path: Path, out: Path
) -> None:
    plain = bundle(tmp_path / 'plain.bundle', '<p>no heading', item=7)

    joined([*parts(2), plain], out, document_bookmarks=True)

    with pikepdf.open(out) as pdf:
        found = outline(pdf)
        assert [(title, page) for title, _, page, _ in found] == [('Title 0', 0), ('Title 1', 3), ('Document 8', 6)]
        with pikepdf.open(io.BytesIO(rendered(document(0)))) as first:
            assert found[0][3] == outline(first)
        assert found[2][3] == []


def test_an_only_document_needs_no_bookmark_of_its_own(parts: Make, out: Path) -> None:
    joined(parts(1), out, document_bookmarks=True)

    with pikepdf.open(out) as pdf, pikepdf.open(io.BytesIO(rendered(document(0)))) as serial:
        assert outline(pdf) == outline(serial)


def test_destinations_and_links_lead_to_their_own_document(parts: Make, out: Path) -> None:
    joined(parts(), out)

    with pikepdf.open(out) as pdf:
        found = destinations(pdf)
        assert found == {f'd{number}/s{section}': number * 3 + section for number in range(3) for section in range(3)}
        for index, page in enumerate(pdf.pages):
            inside, outside = page.Annots
            assert found[str(inside.Dest)] == index // 3 * 3 + (index + 1) % 3
            assert str(outside.A.URI) == f'http://example.com/{index // 3}'


def test_many_destinations_are_found_in_the_order_of_their_bytes(tmp_path: Path, out: Path) -> None:
    html = ''.join(f'<p id="ä{item}">{item}' for item in range(100))

    joined([bundle(tmp_path / f'{number}.bundle', html, item=number) for number in range(2)], out)

    with pikepdf.open(out) as pdf:
        tree = pikepdf.NameTree(pdf.Root.Names.Dests)
        assert len(tree) == 200
        assert all(f'd{number}/ä{item}' in tree for number in range(2) for item in range(100))
        assert '/Limits' in pdf.Root.Names.Dests.Kids[0]


def test_the_same_parts_give_the_same_bytes(parts: Make, tmp_path: Path) -> None:
    paths = parts(3, pdf_variant='pdf/a-3u')
    first, second = (
        joined(paths, tmp_path / attempt, metadata={'title': 'T'}).read_bytes() for attempt in ('first', 'second')
    )

    assert first == second
    assert b'/ID' in first


def test_an_identifier_that_the_job_gives_is_kept(parts: Make, out: Path) -> None:
    joined(parts(2, pdf_identifier='job 4711'), out)

    with pikepdf.open(out) as pdf:
        assert bytes(pdf.trailer.ID[0]) == b'job 4711'


def test_the_jobs_metadata_wins_over_the_first_documents(parts: Make, out: Path) -> None:
    joined(parts(2), out, metadata={'title': 'Çà ✓', 'author': None, 'keywords': ['a', 'b']})

    with pikepdf.open(out) as pdf:
        assert {name: str(value) for name, value in pdf.docinfo.items()} == {
            '/Title': 'Çà ✓',
            '/Author': 'Author 0',
            '/Keywords': 'a, b',
            '/Producer': 'WeasyPrint 70.0',
        }
        assert str(pdf.Root.Lang) == 'en'


@pytest.mark.parametrize(
    ('variant', 'version', 'packed'),
    [('pdf/a-1b', '1.4', False), ('pdf/a-3u', '1.7', True), ('pdf/ua-2', '2.0', True)],
)
def test_a_variant_keeps_its_version_its_intent_and_its_xmp(
    parts: Make, out: Path, variant: str, version: str, packed: bool
) -> None:
    joined(parts(2, pdf_variant=variant), out)

    with pikepdf.open(out) as pdf, pikepdf.open(io.BytesIO(render(document(0), pdf_variant=variant))) as first:
        assert pdf.pdf_version == version
        assert pdf.Root.Metadata.read_bytes() == first.Root.Metadata.read_bytes()
        assert ('/OutputIntents' in pdf.Root) == ('/OutputIntents' in first.Root)
        if '/OutputIntents' in first.Root:
            [intent] = pdf.Root.OutputIntents
            assert intent.DestOutputProfile.read_bytes() == first.Root.OutputIntents[0].DestOutputProfile.read_bytes()
        assert sum(item.get('/Type') == '/Metadata' for item in pdf.objects if isinstance(item, pikepdf.Stream)) == 1
        assert pdf.check_pdf_syntax() == []
    assert (b'/ObjStm' in out.read_bytes()) == packed
    assert (b'\nxref\n' in out.read_bytes()) != packed


def test_a_version_without_information_has_none(parts: Make, out: Path) -> None:
    joined(parts(2, pdf_variant='pdf/a-4u'), out, metadata={'title': 'only in XMP'})

    with pikepdf.open(out) as pdf:
        assert '/Info' not in pdf.trailer


def test_nothing_is_packed_where_the_job_says_so(parts: Make, out: Path) -> None:
    joined(parts(2, uncompressed_pdf=True), out)

    assert b'/ObjStm' not in out.read_bytes()
    assert b'/FlateDecode' not in out.read_bytes()
    with pikepdf.open(out) as pdf:
        assert len(pdf.pages) == 6


TABLE = '<table><tr><th>Head<tr><td>{}</table>'


def test_tags_lead_from_every_page_to_its_own_elements(parts: Make, out: Path) -> None:
    joined(parts(3, pdf_tags=True, extra=TABLE.format), out)

    with pikepdf.open(out) as pdf:
        assert pdf.check_pdf_syntax() == []
        root = pdf.Root.StructTreeRoot
        assert [str(kid.S) for kid in root.K] == ['/Document'] * 3
        assert all(root == kid.P for kid in root.K)
        parents = pikepdf.NumberTree(root.ParentTree)
        for page in pdf.pages:
            for element in parents[int(page.StructParents)]:
                assert pikepdf.Page(element.Pg) == page
            for annotation in page.get('/Annots', ()):
                assert any(
                    kid.get('/Obj') == annotation
                    for kid in parents[int(annotation.StructParent)].K
                    if is_reference(kid)
                )
        assert max(int(key) for key in parents) + 1 == root.ParentTreeNextKey


def is_reference(kid: object) -> bool:
    return isinstance(kid, pikepdf.Dictionary) and '/Obj' in kid


def test_cells_name_the_headers_of_their_own_table(parts: Make, out: Path) -> None:
    joined(parts(2, pdf_tags=True, extra=TABLE.format), out)

    with pikepdf.open(out) as pdf:
        elements = [item for item in pdf.objects if isinstance(item, pikepdf.Dictionary)]
        heads = [str(item.ID) for item in elements if item.get('/S') == '/TH']
        cells = [[str(head) for head in item.A.Headers] for item in elements if item.get('/S') == '/TD']
    assert len(set(heads)) == 2
    assert sorted(cells) == sorted([head] for head in heads)


def test_documents_of_another_language_say_so_on_their_element(tmp_path: Path, out: Path) -> None:
    paths = [
        bundle(tmp_path / language, f'<html lang="{language}"><p>text', item=number, pdf_tags=True)
        for number, language in enumerate(('en', 'fr'))
    ]

    joined(paths, out)

    with pikepdf.open(out) as pdf:
        english, french = pdf.Root.StructTreeRoot.K
        assert str(pdf.Root.Lang) == 'en'
        assert '/Lang' not in english
        assert str(french.Lang) == 'fr'


LINKED = '<a rel=attachment href="data:text/plain,the same">a</a> <a rel=attachment href="data:text/plain,{0}">b</a>'


def test_attachments_are_kept_and_the_same_file_only_once(parts: Make, out: Path) -> None:
    joined(parts(3, extra=LINKED.format, attachments=[attachment('terms.txt', b'of the job')]), out)

    with pikepdf.open(out) as pdf:
        tree = pikepdf.NameTree(pdf.Root.Names.EmbeddedFiles)
        assert {str(name): item.EF.F.read_bytes() for name, item in tree.items()} == {'terms.txt': b'of the job'}
        linked = [
            item.FS.EF.F.read_bytes() for page in pdf.pages for item in page.Annots if item.Subtype == '/FileAttachment'
        ]
        assert linked == [b'the same', b'0', b'the same', b'1', b'the same', b'2']


FORM = (
    '<style>input {{ appearance: auto }}</style><form><input name="name" value="{0}"><input name="yes" type="checkbox">'
    '<input name="pick" type="radio" value="a" checked><input name="pick" type="radio" value="b"><input></form>'
)


def test_fields_of_two_documents_do_not_share_their_value(parts: Make, out: Path) -> None:
    joined(parts(2, pdf_forms=True, extra=FORM.format), out)

    with pikepdf.open(out) as pdf:
        form = pdf.Root.AcroForm
        names = [str(field.T) for field in form.Fields]
        assert names[:3] == ['d0/name', 'd0/yes', 'd0/pick']
        assert names[4:7] == ['d1/name', 'd1/yes', 'd1/pick']
        assert [name.split('/')[1].split('-')[0] for name in names[3::4]] == ['unknown', 'unknown']
        assert len(set(names)) == 8
        assert [str(field.V) for field in form.Fields if field.get('/FT') == '/Tx'] == ['0', '', '1', '']
        assert [len(field.Kids) for field in form.Fields if '/Kids' in field] == [2, 2]
        assert form.NeedAppearances
        font = str(form.Fields[0].DA).split()[-3]
        assert font in form.DR.Font


def test_what_every_part_brings_is_written_once(parts: Make, out: Path) -> None:
    paths = parts(5, pdf_variant='pdf/a-3u')

    joined(paths, out)

    alone = render(document(0), pdf_variant='pdf/a-3u')
    with pikepdf.open(out) as pdf, pikepdf.open(io.BytesIO(alone)) as first:
        assert len(fonts_and_profiles(pdf)) == len(fonts_and_profiles(first)) > 1
    assert out.stat().st_size < 2 * len(alone)


def fonts_and_profiles(pdf: pikepdf.Pdf) -> list[pikepdf.Object]:
    streams = [item for item in pdf.objects if isinstance(item, pikepdf.Stream)]
    return [
        item for item in streams if '/Length1' in item or item.get('/Subtype') == '/OpenType' or item.get('/N') == 3
    ]


def test_assembling_takes_time_in_proportion_to_the_parts(parts: Make, out: Path) -> None:
    [part] = parts(1)
    joined([part] * 2, out)  # whatever is loaded on first use

    def seconds(count: int) -> float:
        started = time.process_time()
        joined([part] * count, out)
        return time.process_time() - started

    few = min(seconds(20) for _ in range(3))
    many = min(seconds(160) for _ in range(2))
    assert many < few * 8 * 2


def test_a_part_that_cannot_be_read_is_named(parts: Make, out: Path) -> None:
    paths = parts()
    paths[1].write_bytes(paths[1].read_bytes()[:-600])

    with pytest.raises(Refusal, match=r'1\.bundle: cut short') as refused:
        merge_child(payload(paths, out), lambda _: None)

    assert refused.value.problem.name == 'merge-error'
    assert refused.value.problem.extra == {'part': 1}


def test_the_child_tells_where_it_is_and_what_it_made(parts: Make, out: Path) -> None:
    positions: list[object] = []

    result = merge_child(payload(parts(2), out), positions.append)

    assert result['pages'] == 6
    assert result['bytes'] == out.stat().st_size
    assert positions == [(0, None), (1, None)]


def test_the_child_refuses_a_result_without_all_pages(parts: Make, out: Path) -> None:
    wrong = payload(parts(2), out)
    wrong['parts'][1]['pages'] = 4

    with pytest.raises(Refusal, match='declares 6 pages and has 6; its parts have 7') as refused:
        merge_child(wrong, lambda _: None)

    assert refused.value.problem.name == 'page-count-mismatch'


def payload(paths: list[Path], out: Path) -> dict:
    return {
        'parts': [{'paths': [str(path)], 'pages': 3} for path in paths],
        'out': str(out),
        'metadata': {},
        'document_bookmarks': False,
        'finishing': None,
    }
