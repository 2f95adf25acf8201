from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pikepdf
import pytest

from assembler.merge import merge, merge_child
from runtime.errors import Refusal
from tests.assembler.documents import attachment, destinations, document, outline, pixels, texts, write

Make = Callable[..., list[Path]]


@pytest.fixture
def parts(tmp_path: Path) -> Make:
    """Parts painted from documents numbered from 0."""

    def make(count: int = 3, *, extra: Callable[[int], str] = lambda _: '', **options: object) -> list[Path]:
        return [
            write(tmp_path / f'{number}.pdf', document(number, extra=extra(number)), **options)
            for number in range(count)
        ]

    return make


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / 'merged.pdf'


def test_pages_follow_in_the_order_given_and_look_the_same(parts: Make, out: Path) -> None:
    first, second, third = parts()

    contents = merge([third, first, second], out)

    assert contents is not None
    assert contents.pages == 9
    assert texts(out) == texts(third) + texts(first) + texts(second)
    assert pixels(out) == pixels(third) + pixels(first) + pixels(second)


def test_the_file_is_sound(parts: Make, out: Path) -> None:
    merge(parts(), out)

    with pikepdf.open(out) as pdf:
        assert pdf.check_pdf_syntax() == []
        assert not pdf.get_warnings()


def test_the_outline_keeps_its_nesting_and_what_is_folded(parts: Make, out: Path) -> None:
    paths = parts()

    merge(paths, out)

    expected, before = [], 0
    for path in paths:
        with pikepdf.open(path) as pdf:
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
    plain = write(tmp_path / 'plain.pdf', '<p>no heading')

    merge([plain, first, plain, second, plain], out)

    with pikepdf.open(out) as pdf:
        assert [entry[2] for entry in outline(pdf)] == [1, 2, 3, 5, 6, 7]


def test_destinations_and_links_lead_to_their_own_document(parts: Make, out: Path) -> None:
    merge(parts(), out)

    with pikepdf.open(out) as pdf:
        found = destinations(pdf)
        assert found == {f'd{number}/s{section}': number * 3 + section for number in range(3) for section in range(3)}
        for index, page in enumerate(pdf.pages):
            inside, outside = page.Annots
            assert found[str(inside.Dest)] == index // 3 * 3 + (index + 1) % 3
            assert str(outside.A.URI) == f'http://example.com/{index // 3}'


def test_many_destinations_are_found_in_the_order_of_their_bytes(tmp_path: Path, out: Path) -> None:
    paths = [
        write(tmp_path / f'{number}.pdf', ''.join(f'<p id="d{number}/ä{item}">{item}' for item in range(100)))
        for number in range(2)
    ]

    merge(paths, out)

    with pikepdf.open(out) as pdf:
        tree = pikepdf.NameTree(pdf.Root.Names.Dests)
        assert len(tree) == 200
        assert all(f'd{number}/ä{item}' in tree for number in range(2) for item in range(100))
        assert '/Limits' in pdf.Root.Names.Dests.Kids[0]


def test_one_part_passes_through_byte_for_byte(parts: Make, out: Path) -> None:
    [only] = parts(1)

    assert merge([only], out, metadata={'title': 'ignored: painting has written it'}) is None

    assert out.read_bytes() == only.read_bytes()


def test_the_same_parts_give_the_same_bytes(parts: Make, tmp_path: Path) -> None:
    paths = parts(3, pdf_variant='pdf/a-3u')
    results = []
    for attempt in ('first', 'second'):
        merge(paths, tmp_path / attempt, metadata={'title': 'T'})
        results.append((tmp_path / attempt).read_bytes())

    assert results[0] == results[1]
    assert b'/ID' in results[0]


def test_the_jobs_metadata_wins_over_the_first_documents(parts: Make, out: Path) -> None:
    paths = parts(2)

    merge(paths, out, metadata={'title': 'Çà ✓', 'author': None, 'keywords': ['a', 'b']})

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
    paths = parts(2, pdf_variant=variant)

    merge(paths, out)

    with pikepdf.open(out) as pdf, pikepdf.open(paths[0]) as first:
        assert pdf.pdf_version == version
        assert pdf.Root.Metadata.read_bytes() == first.Root.Metadata.read_bytes()
        assert ('/OutputIntents' in pdf.Root) == ('/OutputIntents' in first.Root)
        if variant == 'pdf/ua-2':
            assert len(pdf.Root.StructTreeRoot.Namespaces) == 2
    assert (b'/ObjStm' in out.read_bytes()) == packed


def test_nothing_is_packed_where_the_job_says_so(parts: Make, out: Path) -> None:
    merge(parts(2, uncompressed_pdf=True), out, compress=False)

    assert b'/ObjStm' not in out.read_bytes()
    assert b'\nxref\n' in out.read_bytes()
    with pikepdf.open(out) as pdf:
        assert len(pdf.pages) == 6


TABLE = '<table><tr><th>Head<tr><td>{}</table>'


def test_tags_lead_from_every_page_to_its_own_elements(parts: Make, out: Path) -> None:
    merge(parts(3, pdf_tags=True, extra=TABLE.format), out)

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
    merge(parts(2, pdf_tags=True, extra=TABLE.format), out)

    with pikepdf.open(out) as pdf:
        elements = [item for item in pdf.objects if isinstance(item, pikepdf.Dictionary)]
        heads = [str(item.ID) for item in elements if item.get('/S') == '/TH']
        cells = [[str(head) for head in item.A.Headers] for item in elements if item.get('/S') == '/TD']
    assert len(set(heads)) == 2
    assert sorted(cells) == sorted([head] for head in heads)


def test_documents_of_another_language_say_so_on_their_element(tmp_path: Path, out: Path) -> None:
    paths = [
        write(tmp_path / f'{language}.pdf', f'<html lang="{language}"><p>text', pdf_tags=True)
        for language in ('en', 'fr')
    ]

    merge(paths, out)

    with pikepdf.open(out) as pdf:
        english, french = pdf.Root.StructTreeRoot.K
        assert str(pdf.Root.Lang) == 'en'
        assert '/Lang' not in english
        assert str(french.Lang) == 'fr'


def test_attachments_are_kept_and_the_same_file_only_once(tmp_path: Path, out: Path) -> None:
    paths = [
        write(
            tmp_path / f'{number}.pdf',
            document(number),
            attachments=[attachment('terms.txt', b'the same'), attachment('data.xml', f'record {number}'.encode())],
        )
        for number in range(3)
    ]

    merge(paths, out)

    with pikepdf.open(out) as pdf:
        tree = pikepdf.NameTree(pdf.Root.Names.EmbeddedFiles)
        files = {str(name): (str(item.UF), item.EF.F.read_bytes()) for name, item in tree.items()}
    assert files == {
        'terms.txt': ('terms.txt', b'the same'),
        'data.xml': ('data.xml', b'record 0'),
        'data.xml-2': ('data.xml', b'record 1'),
        'data.xml-3': ('data.xml', b'record 2'),
    }


FORM = (
    '<style>input {{ appearance: auto }}</style><form><input name="name" value="{0}"><input name="yes" type="checkbox">'
    '<input name="pick" type="radio" value="a" checked><input name="pick" type="radio" value="b"></form>'
)


def test_fields_of_two_documents_do_not_share_their_value(parts: Make, out: Path) -> None:
    merge(parts(2, pdf_forms=True, extra=FORM.format), out)

    with pikepdf.open(out) as pdf:
        form = pdf.Root.AcroForm
        assert [str(field.T) for field in form.Fields] == ['name', 'yes', 'pick', '1/name', '1/yes', '1/pick']
        assert [str(field.V) for field in form.Fields if field.get('/FT') == '/Tx'] == ['0', '1']
        assert [len(field.Kids) for field in form.Fields if '/Kids' in field] == [2, 2]
        assert form.NeedAppearances
        font = str(form.Fields[0].DA).split()[-3]
        assert font in form.DR.Font


def test_page_labels_count_on_where_only_some_parts_have_them(parts: Make, tmp_path: Path, out: Path) -> None:
    first, second = parts(2)
    labelled = tmp_path / 'labelled.pdf'
    with pikepdf.open(first) as pdf:
        pdf.Root.PageLabels = pikepdf.Dictionary(
            Nums=[0, pikepdf.Dictionary(S=pikepdf.Name.r), 2, pikepdf.Dictionary(P='A-', S=pikepdf.Name.D)]
        )
        pdf.save(labelled)

    merge([second, labelled, second], out)

    with pikepdf.open(out) as pdf:
        assert [page.label for page in pdf.pages] == ['1', '2', '3', 'i', 'ii', 'A-1', '7', '8', '9']


def test_a_nested_page_tree_with_inherited_entries_is_kept(parts: Make, tmp_path: Path, out: Path) -> None:
    first, second = parts(2)
    merge([first, second], tmp_path / 'nested.pdf')

    merge([tmp_path / 'nested.pdf', first], out)

    assert texts(out) == texts(first) + texts(second) + texts(first)
    with pikepdf.open(out) as pdf:
        assert pdf.Root.Pages.Count == 9


def test_what_every_part_brings_is_written_once(parts: Make, out: Path) -> None:
    picture = (
        '<svg width="9" height="9"><linearGradient id="g"><stop stop-color="red"/><stop offset="1" stop-opacity="0"/>'
        '</linearGradient><rect width="9" height="9" fill="url(#g)"/></svg>'
    )
    same = [write(path, document(0, extra=picture), pdf_variant='pdf/a-3u') for path in parts(5)]

    merge(same, out)

    with pikepdf.open(out) as pdf, pikepdf.open(same[0]) as first:
        assert len(fonts_and_profiles(pdf)) == len(fonts_and_profiles(first)) > 2
    assert out.stat().st_size < 2 * same[0].stat().st_size


def fonts_and_profiles(pdf: pikepdf.Pdf) -> list[pikepdf.Object]:
    streams = [item for item in pdf.objects if isinstance(item, pikepdf.Stream)]
    return [
        item for item in streams if '/Length1' in item or item.get('/Subtype') == '/OpenType' or item.get('/N') == 3
    ]


def test_merging_takes_time_in_proportion_to_the_parts(parts: Make, out: Path) -> None:
    [part] = parts(1)
    merge([part] * 2, out)  # whatever is loaded on first use

    def seconds(count: int) -> float:
        started = time.process_time()
        merge([part] * count, out)
        return time.process_time() - started

    few = min(seconds(20) for _ in range(3))
    many = min(seconds(160) for _ in range(2))
    assert many < few * 8 * 2


def test_a_part_that_cannot_be_read_is_named(parts: Make, out: Path) -> None:
    first, second, third = parts()
    second.write_bytes(second.read_bytes()[:-600])

    with pytest.raises(Refusal, match='part 1 cannot be read') as refused:
        merge([first, second, third], out)

    assert refused.value.problem.name == 'merge-error'
    assert refused.value.problem.extra == {'part': 1}


def test_the_child_tells_where_it_is_and_what_it_made(parts: Make, out: Path) -> None:
    paths = parts(2)
    positions: list[object] = []

    result = merge_child(payload(paths, out), positions.append)

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
        'parts': [{'path': str(path), 'pages': 3} for path in paths],
        'out': str(out),
        'metadata': {},
        'compress': True,
    }
