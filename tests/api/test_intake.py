"""What a submission is checked for before anything is stored, and what it is turned into."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.intake import Prepared, prepare, with_key
from api.models import RECORDS, SOURCES
from api.problems import ApiProblem
from renderer.runs import plan_runs
from renderer.sources import JobSpec
from runtime.settings import Settings
from tests.api.preparing import HTML, members, multipart, problem_of


def test_documents_become_a_spec_that_the_renderer_reads(submit: Callable[..., Prepared]) -> None:
    prepared = submit(
        {
            'documents': [
                {'html': HTML},
                {'file': './a/ä b.html'},
                {'template': '{{ n }}', 'records': [{'n': 1}, {'n': 'ü'}]},
                {'template_file': 't.html', 'records_file': 'r.ndjson'},
            ],
            'options': {'pdf_tags': True, 'stylesheets': ['./s.css'], 'parts': 2, 'metadata': {'title': 'T'}},
        },
        {'a/ä b.html': b'<p>x', 't.html': b'{{ n }}', 'r.ndjson': b'{"n":1}\n\n{"n":2}\n', 's.css': b'p{}'},
    )
    spec = with_key(prepared.spec, 'jobs/x/input.zip')
    assert spec == {
        'documents': [
            {'kind': 'html', 'source': 'inline/0.html', 'base_url': 'bundle:///'},
            {
                'kind': 'html',
                'source': 'files/a/ä b.html',
                'base_url': 'bundle:///a/%C3%A4%20b.html',
                'title_name': 'a/ä b.html',
            },
            {
                'kind': 'template',
                'source': 'inline/2.template.html',
                'base_url': 'bundle:///',
                'records': 'inline/2.records.ndjson',
                'record_count': 2,
            },
            {
                'kind': 'template',
                'source': 'files/t.html',
                'base_url': 'bundle:///t.html',
                'records': 'files/r.ndjson',
                'record_count': 2,
            },
        ],
        'options': {'pdf_tags': True, 'stylesheets': ['s.css']},
        'parts': 2,
        'metadata': {'title': 'T'},
        'input': {'key': 'jobs/x/input.zip', 'sha256': prepared.archive.sha256, 'bytes': prepared.archive.size},
    }
    assert JobSpec.from_json(spec).item_count == 6
    assert len(plan_runs(spec)) == 2
    assert members(prepared) == {
        'files/a/ä b.html': b'<p>x',
        'files/r.ndjson': b'{"n":1}\n\n{"n":2}\n',
        'files/s.css': b'p{}',
        'files/t.html': b'{{ n }}',
        'inline/0.html': HTML.encode(),
        'inline/2.template.html': b'{{ n }}',
        'inline/2.records.ndjson': '{"n":1}\n{"n":"ü"}'.encode(),
    }


def test_without_a_job_the_index_is_the_document(submit: Callable[..., Prepared]) -> None:
    prepared = submit(None, {'index.html': b'<p>', 'css/a.css': b''})
    assert [document.source for document in prepared.spec.documents] == ['files/index.html']


def test_a_job_without_documents_takes_the_index_too(submit: Callable[..., Prepared]) -> None:
    prepared = submit({'options': {'dpi': 100}}, {'index.html': b'<p>'})
    assert [document.source for document in prepared.spec.documents] == ['files/index.html']


def test_without_a_job_and_an_index_the_files_there_are_are_named(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, None, {'a.html': b'<p>'})
    assert problem['name'] == 'file-missing'
    assert 'index.html' in problem['detail']
    assert problem['errors'][0]['valid'] == ['a.html']


def test_times_are_the_jobs_own_or_the_settings(submit: Callable[..., Prepared], intake_settings: Settings) -> None:
    plain = submit({'documents': [{'html': HTML}]})
    assert plain.time_limit == timedelta(seconds=intake_settings.default_deadline)
    assert plain.keep_for == timedelta(seconds=intake_settings.default_expires_in)
    own = submit({'documents': [{'html': HTML}], 'deadline': 99.5, 'expires_in': 1_000, 'on_part_failure': 'partial'})
    assert (own.time_limit, own.keep_for) == (timedelta(seconds=99.5), timedelta(seconds=1_000))
    assert own.failure_policy == 'partial'


@pytest.mark.parametrize(
    ('body', 'name', 'detail'),
    [
        (b'', 'invalid-json', 'body: is empty'),
        (b'  \n', 'invalid-json', 'body: is empty'),
        (b'{"documents": [', 'invalid-json', 'line 1, column 16'),
        (b'{\n"a": x}', 'invalid-json', 'line 2, column 6'),
        (b'{"a": NaN}', 'invalid-json', 'NaN is not a JSON value'),
        (b'{"a": 1' + b'0' * 5000 + b'}', 'invalid-json', 'has a number that is too long'),
        (b'[' * 100_000, 'invalid-json', 'nested too deeply'),
        (b'{"documents": [{"html": "\xff"}]}', 'invalid-encoding', 'byte 25'),
        (b'{"documents": [{"html": "\\ud800"}]}', 'invalid-encoding', 'documents.0.html'),
        (b'{"documents": [{"template": "t", "records": [{"\\udc00": 1}]}]}', 'invalid-encoding', 'surrogate'),
        (b'\xff\xfe{\0}\0', 'invalid-encoding', 'UTF-8'),
        (b'[]', 'invalid-request', 'must be an object'),
        (b'"job"', 'invalid-request', 'must be an object'),
        (b'null', 'invalid-request', 'must be an object'),
        (b'{}', 'invalid-request', 'documents: is required'),
        (b'{"documents": {}}', 'invalid-request', 'documents: must be a list'),
        (b'{"documents": ["x"]}', 'invalid-request', 'documents.0: must be an object'),
        (b'{"documents": [{}]}', 'invalid-request', 'exactly one of html, file, template, template_file'),
        (b'{"documents": []}', 'nothing-to-print', 'documents: is empty'),
    ],
)
def test_body_that_is_no_job_is_refused(submit: Callable[..., Prepared], body: bytes, name: str, detail: str) -> None:
    problem = problem_of(submit, body=body)
    assert problem['name'] == name
    assert detail in problem['detail']


def test_pairs_of_surrogates_are_characters(submit: Callable[..., Prepared]) -> None:
    prepared = submit(body=b'{"documents": [{"html": "<p>\\ud83d\\ude00 \\\\ud800"}]}')
    assert members(prepared)['inline/0.html'] == '<p>😀 \\ud800'.encode()


@pytest.mark.parametrize(
    ('document', 'field', 'valid'),
    [
        ({'html': 1}, 'documents.0.html', None),
        ({'htm': '<p>'}, 'documents.0.htm', [*SOURCES[:2], 'pdf_file', *SOURCES[2:4], *RECORDS]),
        ({'html': HTML, 'file': 'a'}, 'documents.0', [*SOURCES]),
        ({'html': HTML, 'records': []}, 'documents.0', ['template', 'template_file']),
        ({'template': 't'}, 'documents.0', ['records', 'records_file']),
        ({'template': 't', 'records': [], 'records_file': 'r'}, 'documents.0', ['records', 'records_file']),
        ({'template': 't', 'records': {}}, 'documents.0.records', None),
        ({'template': 't', 'records': [{}, 7]}, 'documents.0.records.1', None),
        ({'file': ''}, 'documents.0.file', None),
    ],
)
def test_malformed_document_is_refused_by_field(
    submit: Callable[..., Prepared], document: dict[str, Any], field: str, valid: list[str] | None
) -> None:
    error = problem_of(submit, {'documents': [document]})['errors'][0]
    assert (error['field'], error.get('valid')) == (field, valid)


@pytest.mark.parametrize(
    ('option', 'value', 'detail', 'valid'),
    [
        ('pdf_variant', 'pdf/a-9z', 'valid values', 'pdf/a-3b'),
        ('pdf_version', '3.0', 'valid values', '1.7'),
        ('pdf_tags', 'yes', 'true or false', True),
        ('jpeg_quality', 96, 'at most 95', None),
        ('jpeg_quality', 9.5, 'whole number', None),
        ('dpi', 0, 'at least 1', None),
        ('zoom', 0, 'at least 0.01', None),
        ('zoom', '1', 'must be a number', None),
        ('media_type', 'Print Screen', 'must match', None),
        ('stylesheets', 'a.css', 'must be a list', None),
        ('attachment_relationships', ['Sauce'], 'valid values', 'Source'),
        ('parts', 0, 'whole number from 1', 'auto'),
        ('parts', 'many', 'whole number from 1', 'auto'),
        ('parts', 2.5, 'whole number from 1', 'auto'),
        ('metadata', {'titel': 'x'}, 'no such field', 'title'),
        ('metadata', {'title': 'a\0b'}, 'control characters', None),
        ('pdf_identifier', 'x', 'no such field', 'pdf_variant'),
        ('srgb', True, 'no such field', 'output_intent'),
    ],
)
def test_malformed_option_is_refused_with_its_valid_values(
    submit: Callable[..., Prepared], option: str, value: Any, detail: str, valid: Any
) -> None:
    problem = problem_of(submit, {'documents': [{'html': HTML}], 'options': {option: value}})
    [error] = problem['errors']
    assert error['field'].startswith(f'options.{option}')
    assert detail in error['detail']
    assert valid is None or valid in error['valid']


@pytest.mark.parametrize('where', ['job', 'options', 'document', 'metadata'])
def test_object_with_masses_of_fields_is_refused_shortly(submit: Callable[..., Prepared], where: str) -> None:
    masses = {f'x{number}': 1 for number in range(5_000)}
    job: dict[str, Any] = {
        'job': {'documents': [{'html': HTML}], **masses},
        'options': {'documents': [{'html': HTML}], 'options': masses},
        'document': {'documents': [{'html': HTML, **masses}]},
        'metadata': {'documents': [{'html': HTML}], 'options': {'metadata': masses}},
    }[where]
    problem = problem_of(submit, job)
    assert problem['name'] == 'unknown-field'
    assert len(json.dumps(problem)) < 20_000


def test_unknown_fields_alone_have_a_problem_of_their_own(submit: Callable[..., Prepared]) -> None:
    job = {'documents': [{'html': HTML}], 'option': {}, 'webhook': 'x'}
    problem = problem_of(submit, job)
    assert problem['name'] == 'unknown-field'
    assert [error['field'] for error in problem['errors']] == ['option', 'webhook']
    assert problem_of(submit, {**job, 'deadline': 'soon'})['name'] == 'invalid-request'


@pytest.mark.parametrize(
    ('field', 'value', 'detail'),
    [
        ('deadline', 101, 'at most 100 seconds (FANFOLD_MAX_DEADLINE)'),
        ('expires_in', 1001, 'at most 1000 seconds (FANFOLD_MAX_EXPIRES_IN)'),
        ('deadline', 1e400, 'at most 100'),
        ('deadline', 0, 'at least 1'),
        ('expires_in', -5, 'at least 1'),
        ('deadline', '2h', 'must be a number'),
        ('on_part_failure', 'ignore', 'valid values'),
    ],
)
def test_times_and_policy_out_of_bounds_are_refused(
    submit: Callable[..., Prepared], field: str, value: Any, detail: str
) -> None:
    body = json.dumps({'documents': [{'html': HTML}], field: value}).replace('Infinity', '1e400')
    problem = problem_of(submit, body=body.encode())
    assert problem['errors'][0]['field'] == field
    assert detail in problem['detail']


@pytest.mark.parametrize('name', ['../x.html', '/x.html', 'C:\\x.html', 'a/../../x.html', 'a\0.html', 'http://h/x'])
def test_document_outside_the_job_is_refused(submit: Callable[..., Prepared], name: str) -> None:
    problem = problem_of(submit, {'documents': [{'file': name}]}, {'x.html': b'<p>'})
    assert problem['name'] == 'file-name-invalid'
    assert problem['errors'][0]['field'] == 'documents.0.file'


def test_every_missing_file_is_named_with_those_there_are(submit: Callable[..., Prepared]) -> None:
    job = {
        'documents': [
            {'file': 'A.html'},
            {'file': 'a.html'},
            {'template_file': 't.html', 'records_file': 'r.json'},
        ],
        'options': {'stylesheets': ['s.css'], 'attachments': ['../a.html']},
    }
    problem = problem_of(submit, job, {'a.html': b'<p>'})
    assert problem['name'] == 'file-missing'
    assert problem['document'] == 0
    assert [(error['field'], error['type'].rsplit(':', 1)[1]) for error in problem['errors']] == [
        ('documents.0.file', 'file-missing'),
        ('documents.2.records_file', 'file-missing'),
        ('documents.2.template_file', 'file-missing'),
        ('options.stylesheets.0', 'file-missing'),
        ('options.attachments.0', 'file-name-invalid'),
    ]
    assert problem['errors'][0]['valid'] == ['a.html']


def test_json_alone_has_no_files(submit: Callable[..., Prepared]) -> None:
    assert problem_of(submit, {'documents': [{'file': 'a.html'}]})['name'] == 'file-missing'


def test_limits_hold_over_the_whole_job(submit: Callable[..., Prepared]) -> None:
    too_many = problem_of(submit, {'documents': [{'html': HTML}] * 5})
    assert (too_many['name'], too_many['setting']) == ('too-many-documents', 'FANFOLD_MAX_DOCUMENTS')
    template = {'template': 't', 'records': [{}] * 3}
    assert submit({'documents': [template] * 2}).spec.item_count == 6
    too_many = problem_of(submit, {'documents': [template, template, {'template': 't', 'records': [{}]}]})
    assert (too_many['name'], too_many['setting']) == ('too-many-records', 'FANFOLD_MAX_RECORDS')
    too_many = problem_of(submit, None, {f'{number}.html': b'<p>' for number in range(6)})
    assert (too_many['name'], too_many['setting']) == ('too-many-files', 'FANFOLD_MAX_FILES')


@pytest.mark.parametrize('content_type', ['', 'text/html', 'application/x-www-form-urlencoded', 'application/xml'])
def test_other_media_types_are_refused_naming_those_taken(
    intake_settings: Settings, tmp_path: Path, content_type: str
) -> None:
    with pytest.raises(ApiProblem) as caught:
        prepare(io.BytesIO(b'<p>'), content_type, intake_settings, tmp_path)
    assert caught.value.problem.name == 'unsupported-media-type'
    assert caught.value.problem.extra['valid'] == ['application/json', 'multipart/form-data']


def test_same_payload_has_the_same_archive_and_fingerprint(intake_settings: Settings, tmp_path: Path) -> None:
    job = {'documents': [{'file': 'a.html'}], 'options': {}}
    files = {'a.html': b'<p>a', 'b.css': b'p{}'}
    backwards = dict(reversed(files.items()))
    found = []
    for number, (said, sent, boundary) in enumerate(
        [(job, files, 'xx'), (job, backwards, 'other-boundary'), ({**job, 'on_part_failure': 'fail'}, files, 'xx')]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        body, content_type = multipart(said, sent, boundary)
        found.append(prepare(io.BytesIO(body), content_type, intake_settings, folder))
    assert len({prepared.fingerprint for prepared in found}) == 1
    assert len({prepared.archive.path.read_bytes() for prepared in found}) == 1


@pytest.mark.parametrize(
    ('job', 'files'),
    [
        ({}, {'index.html': b'<p>b'}),
        ({}, {'index.html': b'<p>a', 'x.css': b''}),
        ({'deadline': 50}, {'index.html': b'<p>a'}),
        ({'expires_in': 50}, {'index.html': b'<p>a'}),
        ({'on_part_failure': 'partial'}, {'index.html': b'<p>a'}),
        ({'options': {'dpi': 90}}, {'index.html': b'<p>a'}),
        ({'options': {'parts': 2}}, {'index.html': b'<p>a'}),
        ({'options': {'metadata': {'title': 'x'}}}, {'index.html': b'<p>a'}),
    ],
)
def test_another_payload_has_another_fingerprint(
    submit: Callable[..., Prepared], job: dict[str, Any], files: dict[str, bytes]
) -> None:
    assert submit({}, {'index.html': b'<p>a'}).fingerprint != submit(job, files).fingerprint
