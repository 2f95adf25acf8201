"""What the demo shows and checks: the spans of the parts, and the pages of the PDF."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from fanfold.client import Part
from fanfold.demo.evidence import Span, chart, faults_of_pdf, faults_of_spans, overlapping, spans_of
from fanfold.demo.records import ndjson, records


def span(index: int, start: float, end: float, pid: int = 1) -> Span:
    return Span(index=index, pid=pid, pages=1, cpu=0.5, start=start, end=end)


def painted(index: int, start: float, end: float) -> Part:
    moments = [datetime.fromtimestamp(1_700_000_000 + seconds, UTC).isoformat() for seconds in (start, end)]
    value = {'index': index, 'kind': 'paint', 'batch': 1, 'status': 'completed', 'child_pid': 7, 'pages': 3}
    return Part.from_json({**value, 'started_at': moments[0], 'finished_at': moments[1]})


@pytest.fixture
def pdf(tmp_path):
    """A PDF whose pages have these footers."""
    import weasyprint

    def make(*footers: tuple[int, int, int]):
        html = ''.join(
            f'<p style="break-after: page">Delivery note {note} · page {page} of {pages}</p>'
            for note, page, pages in footers
        )
        # The last paragraph's page break makes no page of its own.
        weasyprint.HTML(string=html).write_pdf(tmp_path / 'notes.pdf')
        return tmp_path / 'notes.pdf'

    return make


def test_spans_count_from_the_first_part_on():
    parts = [painted(1, 12.5, 14), painted(0, 12, 13), Part(index=0, kind='plan', batch=0, status='completed')]
    assert spans_of(parts) == [
        Span(index=0, pid=7, pages=3, cpu=0, start=0, end=1),
        Span(index=1, pid=7, pages=3, cpu=0, start=0.5, end=2),
    ]


@pytest.mark.parametrize(
    ('spans', 'most'),
    [
        ([], 0),
        ([span(0, 0, 1), span(1, 1, 2)], 1),
        ([span(0, 0, 2), span(1, 1, 3)], 2),
        ([span(0, 0, 9), span(1, 1, 2), span(2, 1.5, 3), span(3, 4, 5)], 3),
    ],
)
def test_overlap_is_the_most_parts_at_one_moment(spans, most):
    assert overlapping(spans) == most


def test_the_chart_has_a_bar_for_each_part():
    header, first, second = chart([span(0, 0, 1), span(1, 0.5, 2)])
    assert header.index('0 s') == first.index('█')
    assert len(second) == len(header)
    assert first.count('█') == 20


def test_parts_one_after_the_other_are_a_fault_but_on_one_core_or_with_little_to_do():
    serial = [span(0, 0, 1, pid=1), span(1, 1, 2, pid=1)]
    assert faults_of_spans(serial, parts=2, cores=2) == [
        'all parts came from one process',
        'no two parts were painted at the same time',
    ]
    assert faults_of_spans(serial, parts=2, cores=1) == []
    assert faults_of_spans([span(0, 0, 0.1), span(1, 0.1, 0.2)], parts=2, cores=2) == []
    assert faults_of_spans([span(0, 0, 1, pid=1), span(1, 0, 1, pid=2)], parts=2, cores=2) == []
    assert faults_of_spans(serial, parts=3, cores=1) == ['2 painted parts are known, not 3']


def test_a_pdf_with_all_pages_in_order_has_no_fault(pdf):
    assert faults_of_pdf(pdf((1, 1, 1), (2, 1, 2), (2, 2, 2), (3, 1, 1)), documents=3, pages=4) == []


@pytest.mark.parametrize(
    ('footers', 'documents', 'pages', 'fault'),
    [
        ([(1, 1, 1), (3, 1, 1), (2, 1, 1)], 3, 3, 'page 2 is page 1 of note 3'),
        ([(1, 1, 2), (2, 1, 1)], 2, 2, 'page 2 is page 1 of note 2, not page 2 of note 1'),
        ([(1, 1, 1), (2, 1, 1)], 3, 2, 'ends before page 1 of note 3, of 3 notes'),
        ([(1, 1, 1), (2, 1, 2)], 2, 2, 'ends before page 2 of note 2'),
        ([(1, 1, 1), (1, 1, 1)], 1, 2, 'page 2 is page 1 of note 1'),
        ([(1, 1, 1)], 1, 2, 'the job says 2 pages, the PDF has 1'),
    ],
)
def test_pages_that_are_missing_or_out_of_order_are_faults(pdf, footers, documents, pages, fault):
    assert fault in '\n'.join(faults_of_pdf(pdf(*footers), documents=documents, pages=pages))


def test_the_notes_are_the_same_ones_each_time():
    assert list(records(3)) == list(records(3))
    lines = ndjson(30).splitlines()
    assert [json.loads(line)['number'] for line in lines] == list(range(1, 31))
