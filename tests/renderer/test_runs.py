from __future__ import annotations

from typing import Any

import pytest

from renderer.runs import fingerprint, input_hash, plan_runs
from renderer.sources import HtmlDocument, Input, Item, JobSpec, Metadata, TemplateDocument

INPUT = Input(key='jobs/x/input.zip', sha256='ab', bytes=3)


def job_of(records: int, parts: Any = 'auto', **more: Any) -> JobSpec:
    template = TemplateDocument(
        source='files/t.html', base_url='bundle:///t.html', records='files/r.json', record_count=records
    )
    return JobSpec(documents=(template,), input=INPUT, parts=parts, **more)


def lengths(job: JobSpec) -> list[int]:
    parts = plan_runs(job.to_json())
    assert [part['first_item'] for part in parts] == [
        sum(part['item_count'] for part in parts[:index]) for index in range(len(parts))
    ]
    return [part['item_count'] for part in parts]


def test_a_spec_survives_json():
    page = HtmlDocument(source='files/a/b.html', base_url='bundle:///a/b.html', title_name='a/b.html')
    job = JobSpec(
        documents=(page, *job_of(3).documents),
        input=INPUT,
        options={'pdf_tags': True, 'stylesheets': ['x.css']},
        parts=4,
        metadata=Metadata(title='T', keywords=('a', 'b')),
    )
    assert JobSpec.from_json(job.to_json()) == job


def test_what_a_spec_leaves_out_has_defaults():
    job = JobSpec.from_json({'documents': [], 'input': INPUT.to_json()})
    assert (job.parts, job.metadata, job.item_count) == ('auto', Metadata(), 0)


def test_an_unknown_kind_of_document_is_an_error():
    with pytest.raises(ValueError, match='unknown kind'):
        JobSpec.from_json({'documents': [{'kind': 'tiff'}], 'input': INPUT.to_json()})


def test_items_are_numbered_over_all_documents():
    page = HtmlDocument(source='files/a.html', base_url='bundle:///a.html')
    job = JobSpec(documents=(page, *job_of(2).documents, page), input=INPUT)
    assert [(item.number, item.document, item.record) for item in job.items()] == [
        (0, 0, None), (1, 1, 0), (2, 1, 1), (3, 2, None),
    ]  # fmt: skip
    assert list(job.items(2, 1)) == [Item(number=2, document=1, record=1)]
    assert [item.number for item in job.items(2, 2)] == [2, 3]


@pytest.mark.parametrize(
    ('items', 'parts', 'expected'),
    [
        (0, 'auto', []),
        (1, 'auto', [1]),
        (3, 'auto', [1, 1, 1]),
        (8, 'auto', [1] * 8),
        (20, 'auto', [2, 3, 2, 3, 2, 3, 2, 3]),
        (200, 'auto', [25] * 8),
        (1_000, 'auto', [25] * 40),
        (10, 3, [3, 3, 4]),
        (2, 5, [1, 1]),
        (7, 1, [7]),
    ],
)
def test_runs_are_of_equal_length(items: int, parts: Any, expected: list[int]):
    assert lengths(job_of(items, parts)) == expected


def test_long_runs_stay_near_25_items():
    assert {24, 25} == set(lengths(job_of(9_999)))


def test_the_input_hash_covers_all_that_pages_depend_on():
    spec, part = job_of(10).to_json(), {'first_item': 0, 'item_count': 5}
    base = input_hash(spec, part, 'f')
    assert base == input_hash(job_of(10).to_json(), dict(reversed(part.items())), 'f')
    others = [
        input_hash(spec, {**part, 'item_count': 4}, 'f'),
        input_hash(spec, part, 'g'),
        input_hash({**spec, 'options': {'zoom': 2}}, part, 'f'),
        input_hash({**spec, 'metadata': {'title': 'x'}}, part, 'f'),
        input_hash({**spec, 'input': {**spec['input'], 'sha256': 'other'}}, part, 'f'),
        input_hash(job_of(11).to_json(), part, 'f'),
    ]
    assert len({base, *others}) == 7


def test_the_fingerprint_is_stable():
    first = fingerprint()
    fingerprint.cache_clear()
    assert fingerprint() == first
