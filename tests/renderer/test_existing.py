"""Existing PDFs among the documents of a job: parts of their own, with all that comes along."""

from __future__ import annotations

import io
from pathlib import Path

import pikepdf
import pytest

from assembler.assemble import assemble
from renderer.runs import plan_runs
from runtime.errors import Refusal
from tests.assembler.documents import document, render, texts
from tests.renderer.bundles import Job, MakeJob

COVER = render(document(7), pdf_tags=True)


def painted(job: Job, folder: Path) -> tuple[list[dict], bytes]:
    """All parts of a job, painted and put together."""
    results, paths = [], []
    for part in plan_runs(job.spec):
        result, _ = job.paint(part=part)
        results.append(result)
        paths.append((folder / 'part.bundle').rename(folder / f'{len(paths)}.bundle'))
    return results, b''.join(assemble(paths))


def test_a_pdf_is_a_part_of_its_own_between_the_runs(make_job: MakeJob) -> None:
    job = make_job(files={'cover.pdf': COVER})
    for _ in range(3):
        job.html('<p>x')
    job.pdf('cover.pdf').pdf('cover.pdf').html('<p>y')

    bounds = [(part['first_item'], part['item_count']) for part in plan_runs({**job.spec, 'parts': 2})]

    assert bounds == [(0, 3), (3, 1), (4, 1), (5, 1)]


def test_the_pages_of_a_pdf_lie_where_it_stands_in_the_job(make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job(files={'cover.pdf': COVER}).html('<h1 id=s0>Before').pdf('cover.pdf').html('<p>After')

    results, pdf = painted(job, job.folder)

    assert [result['items'] for result in results] == [[[0, None, 1]], [[1, None, 3]], [[2, None, 1]]]
    assert results[1]['warnings'] == ['document 1: cover.pdf: left out are tags']
    assert texts(pdf) == ['Before', *texts(COVER), 'After']
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert opened.check_pdf_syntax() == []
        links = [str(item.Dest) for item in opened.pages[1].Annots if '/Dest' in item]
        assert links == ['d1/s1']


def test_a_pdf_alone_is_what_it_was(make_job: MakeJob) -> None:
    result, pdf = make_job(files={'cover.pdf': COVER}).pdf('cover.pdf').paint()

    assert (result['pages'], result['missing']) == (3, [])
    assert texts(pdf) == texts(COVER)
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert str(opened.docinfo.Title) == 'Title 7'
        assert [str(item.Dest) for item in opened.pages[0].Annots if '/Dest' in item] == ['s1']


def test_a_pdf_that_turns_out_broken_is_refused_by_document_and_name(make_job: MakeJob) -> None:
    job = make_job(files={'cover.pdf': b'%PDF-1.7 broken'}).html('<p>x').pdf('cover.pdf')

    with pytest.raises(Refusal, match=r'cover\.pdf: it cannot be read') as refused:
        job.paint(part={'first_item': 1, 'item_count': 1})

    assert refused.value.problem.name == 'pdf-invalid'
    assert refused.value.problem.extra['document'] == 1


def test_a_pdf_that_is_left_out_is_a_page_that_says_so(make_job: MakeJob) -> None:
    job = make_job(files={'cover.pdf': COVER}).html('<p>x').pdf('cover.pdf')

    result, pdf = job.paint(part={'first_item': 1, 'item_count': 1}, placeholders=True, skip=frozenset({1}))

    assert [entry['document'] for entry in result['missing']] == [1]
    assert 'Missing: document 1' in texts(pdf)[0]
