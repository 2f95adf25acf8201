"""The commands for people who debug: putting parts together, and looking into parts and PDFs."""

from __future__ import annotations

import json
from pathlib import Path

import pikepdf
import pytest

from assembler.sequence import join
from tests.assembler.documents import bundle, document, outline, render, rendered


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return [bundle(tmp_path / f'{number}.part', document(number), item=number) for number in range(3)]


def test_parts_are_put_together_in_the_order_given(fanfold, parts, tmp_path):
    pair = tmp_path / 'pair.part'
    join(parts[:2], pair)
    before = sorted(tmp_path.iterdir())

    ran = fanfold('assemble', parts[2], pair, '-o', tmp_path / 'out.pdf')

    assert (ran.code, ran.out, ran.err) == (0, f'{tmp_path / "out.pdf"}: 9 pages\n', '')
    with pikepdf.open(tmp_path / 'out.pdf') as pdf:
        assert [str(pdf.pages[index].Annots[1].A.URI) for index in (0, 3, 6)] == [
            f'http://example.com/{number}' for number in (2, 0, 1)
        ]
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / 'out.pdf'])


def test_a_part_that_is_cut_short_is_refused_by_name_and_nothing_is_written(fanfold, parts, tmp_path):
    parts[1].write_bytes(parts[1].read_bytes()[:-9])

    ran = fanfold('assemble', *parts, '-o', tmp_path / 'out.pdf')

    assert (ran.code, ran.out, ran.err) == (1, '', 'Error: 1.part: cut short, its trailer is missing\n')
    assert not list(tmp_path.glob('*.pdf*'))


def test_a_bundle_says_what_it_holds_and_what_that_takes(fanfold, parts):
    ran = fanfold('inspect', parts[1])

    lines = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, '')
    assert lines[0] == f'{parts[1]}: bundle, 3 pages, {parts[1].stat().st_size:,} bytes'
    assert lines[1:3] == ['document 1: whole, 9 bookmarks', 'PDF 1.7']
    assert any('pages and resources' in line for line in lines)
    assert any('DejaVu-Sans' in line and 'glyphs' in line for line in lines)


def test_a_pdf_says_what_it_holds_and_what_that_takes(fanfold, tmp_path):
    path = tmp_path / 'some.pdf'
    path.write_bytes(rendered(document(0)))

    found = json.loads(fanfold('inspect', path, '--json').out)

    assert (found['kind'], found['pages'], found['version']) == ('PDF', 3, '1.7')
    assert found['objects']['font']['count'] == len(found['fonts']) > 0
    assert found['objects']['content and others']['count'] >= 3
    assert 0 < sum(kind['bytes'] for kind in found['objects'].values()) < found['bytes']


@pytest.mark.parametrize('content', [b'', b'nothing of ours', b'%PDF-1.7 and no more'])
def test_what_is_neither_is_refused_by_name(fanfold, tmp_path, content):
    path = tmp_path / 'odd'
    path.write_bytes(content)

    ran = fanfold('inspect', path)

    assert (ran.code, ran.out) == (1, '')
    assert ran.err.startswith(f'Error: {path}: ')


def test_a_pdf_among_the_parts_comes_along_and_what_does_not_is_said(fanfold, parts, tmp_path):
    cover = tmp_path / 'cover.pdf'
    cover.write_bytes(render('<html lang="en"><title>The cover</title><h1 id="s0">Cover</h1>', pdf_tags=True))

    ran = fanfold('assemble', cover, parts[0], '-o', tmp_path / 'out.pdf', '--document-bookmarks')

    assert (ran.code, ran.out) == (0, f'{tmp_path / "out.pdf"}: 4 pages\n')
    assert ran.err == f'{cover}: left out are tags\n'
    with pikepdf.open(tmp_path / 'out.pdf') as pdf:
        assert [entry[0] for entry in outline(pdf)] == ['The cover', 'Title 0']
        assert pdf.check_pdf_syntax() == []


def test_an_encrypted_pdf_among_the_parts_is_refused_by_name(fanfold, parts, tmp_path):
    cover = tmp_path / 'cover.pdf'
    with pikepdf.new() as pdf:
        pdf.add_blank_page()
        pdf.save(cover, encryption=pikepdf.Encryption(owner='o', user='u'))

    ran = fanfold('assemble', parts[0], cover, '-o', tmp_path / 'out.pdf')

    assert (ran.code, ran.err) == (1, f'Error: {cover}: it is encrypted\n')
