"""Documents that would take for ever or all memory, rendered in a real zygote."""

from __future__ import annotations

from typing import Any

import pytest

from assembler.assemble import assemble
from renderer.runs import fingerprint
from tests.renderer.bundles import Job, MakeJob, invoice_files, invoice_records
from tests.renderer.looks import looks
from worker.outcomes import Died, Done, Refused
from worker.requests import RenderRequest
from worker.zygote import Zygote

MIB = 1 << 20


def paint_in(zygote: Zygote, job: Job, **how: Any) -> Any:
    limits = {'memory_bytes': 400 * MIB, 'cpu_seconds': 20, 'wall_seconds': 30.0, 'placeholders': False}
    request = RenderRequest(
        archive=job.archive(), spec=job.spec, part=job.whole, output=job.folder / 'child.bundle', **{**limits, **how}
    )
    outcome = zygote.start(request).wait(40)
    assert outcome is not None
    return outcome


def test_a_child_paints_what_this_process_paints(zygote: Zygote, make_job: MakeJob):
    job = make_job(files=invoice_files()).template('invoice.html', invoice_records(3)).html('<img src=none.png>')
    outcome = paint_in(zygote, job)
    result, pdf = job.paint()
    assert isinstance(outcome, Done)
    assert b''.join(assemble([job.folder / 'child.bundle'])) == pdf
    timing = outcome.result.pop('timing')
    assert outcome.result == result
    assert timing['started_at'] < timing['finished_at']
    assert timing['cpu_seconds'] > 0
    assert 10 * MIB < timing['max_rss_bytes'] < 400 * MIB


def test_a_refusal_comes_with_its_record(zygote: Zygote, make_job: MakeJob):
    outcome = paint_in(zygote, make_job(files={'t.html': b'{{ n }}'}).template('t.html', [{'n': 1}, {}]))
    assert isinstance(outcome, Refused)
    assert (outcome.problem['type'], outcome.problem['record']) == ('urn:fanfold:record-field-missing', 1)


def test_placeholders_and_skipped_items_go_through_the_zygote(zygote: Zygote, make_job: MakeJob):
    job = make_job(files={'t.html': b'{{ n }}'}).template('t.html', [{'n': 'one'}, {}, {'n': 'three'}])
    outcome = paint_in(zygote, job, placeholders=True, skip=frozenset({0}))
    assert [(entry['document'], entry['record']) for entry in outcome.result['missing']] == [(0, 0), (0, 1)]
    texts = [page['text'] for page in looks(b''.join(assemble([job.folder / 'child.bundle'])))]
    assert [text.splitlines()[0] for text in texts] == [
        'Missing: document 0, record 0', 'Missing: document 0, record 1', 'three',
    ]  # fmt: skip


ENDLESS = b'{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}'


@pytest.mark.parametrize(
    ('limits', 'reason'),
    [({'cpu_seconds': 1}, 'cpu-limit'), ({'wall_seconds': 0.5}, 'wall-limit')],
    ids=['cpu', 'wall'],
)
def test_an_endless_template_meets_its_limit(zygote: Zygote, make_job: MakeJob, limits: dict[str, Any], reason: str):
    files = {'t.html': b'{% if n == 1 %}' + ENDLESS + b'{% endif %}{{ n }}'}
    outcome = paint_in(zygote, make_job(files=files).template('t.html', [{'n': 0}, {'n': 1}]), **limits)
    assert isinstance(outcome, Died)
    assert (outcome.reason, outcome.position) == (reason, (0, 1))


@pytest.mark.parametrize(
    'template',
    [
        b'{{ "x" * 2000000000 }}',
        b'{% for i in range(90000) %}<p>{{ i }} <b>bold</b> <i>italic</i></p>{% endfor %}',
        b'{% set ns = namespace(s="x" * 1000) %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}',
    ],
    ids=['string', 'page', 'doubling'],
)
def test_a_document_that_takes_all_memory_meets_its_limit(zygote: Zygote, make_job: MakeJob, template: bytes):
    job = make_job(files={'t.html': template}).template('t.html', [{}])
    outcome = paint_in(zygote, job, memory_bytes=40 * MIB)
    assert isinstance(outcome, Died)
    assert (outcome.reason, outcome.position) == ('memory-limit', (0, 0))


def test_the_zygote_goes_on_after_all_that(zygote: Zygote, make_job: MakeJob):
    assert isinstance(paint_in(zygote, make_job().html('<p>still here')), Done)


def test_the_zygote_knows_the_fonts_of_this_host(zygote: Zygote):
    assert zygote.warmed['fingerprint'] == fingerprint()
