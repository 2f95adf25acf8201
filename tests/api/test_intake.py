"""What a submission is checked for before anything is stored, and what it is turned into."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.intake import Prepared, prepare, with_key
from api.problems import ApiProblem
from renderer.runs import plan_runs
from renderer.sources import JobSpec
from runtime.settings import Settings, load_settings

HTML = '<!doctype html><p>Hello'
JSON = 'application/json'


@pytest.fixture
def settings() -> Settings:
    return load_settings(max_files=5, max_documents=4, max_records=6, max_deadline=100, max_expires_in=1_000)


@pytest.fixture
def submit(settings: Settings, tmp_path: Path) -> Callable[..., Prepared]:
    """Prepare a job from its JSON, as JSON or, with files, as multipart."""

    def submit(job: Any = None, files: dict[str, bytes] | None = None, body: bytes | None = None) -> Prepared:
        if body is None and files is None:
            body = json.dumps(job).encode()
        if body is not None:
            return prepare(io.BytesIO(body), JSON, settings, tmp_path)
        form, content_type = multipart(job, files or {})
        return prepare(io.BytesIO(form), content_type, settings, tmp_path)

    return submit


def multipart(job: Any, files: dict[str, bytes], boundary: str = 'xx') -> tuple[bytes, str]:
    parts = [(f'name="files"; filename="{name}"', content) for name, content in files.items()]
    if job is not None:
        parts.insert(0, ('name="job"', json.dumps(job).encode()))
    body = b''.join(
        f'--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n'.encode() + content + b'\r\n'
        for disposition, content in parts
    )
    return body + f'--{boundary}--\r\n'.encode(), f'multipart/form-data; boundary={boundary}'


def members(prepared: Prepared) -> dict[str, bytes]:
    with zipfile.ZipFile(prepared.archive.path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def problem_of(submit: Callable[..., Prepared], *args: Any, **kwargs: Any) -> dict[str, Any]:
    with pytest.raises(ApiProblem) as caught:
        submit(*args, **kwargs)
    problem = caught.value.problem
    return {'name': problem.name, 'detail': problem.detail, **problem.extra}


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


def test_times_are_the_jobs_own_or_the_settings(submit: Callable[..., Prepared], settings: Settings) -> None:
    plain = submit({'documents': [{'html': HTML}]})
    assert plain.time_limit == timedelta(seconds=settings.default_deadline)
    assert plain.keep_for == timedelta(seconds=settings.default_expires_in)
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
        ({'htm': '<p>'}, 'documents.0.htm', ['html', 'file', 'template', 'template_file', 'records', 'records_file']),
        ({'html': HTML, 'file': 'a'}, 'documents.0', ['html', 'file', 'template', 'template_file']),
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


@pytest.mark.parametrize(
    ('content', 'detail'),
    [
        (b'', 'is empty'),
        (b' \r\n\t ', 'is empty'),
        (b'\xef\xbb\xbf\n', 'is empty'),
        (b'%PDF-1.7 ...', 'binary'),
        (b'PK\x03\x04...', 'binary'),
        (b'\x89PNG\r\n\x1a\n', 'binary'),
        (b'<p>a\0b', 'zero bytes'),
    ],
)
def test_what_is_not_html_is_refused(submit: Callable[..., Prepared], content: bytes, detail: str) -> None:
    problem = problem_of(submit, {'documents': [{'file': 'a'}, {'html': HTML}]}, {'a': content})
    assert (problem['name'], problem['document']) == ('not-html', 0)
    assert detail in problem['detail']


@pytest.mark.parametrize('content', [b'just text', b'<p>', b'\xe4 <p>', '<p>ä'.encode('utf-16')])
def test_any_text_is_html_in_any_charset(submit: Callable[..., Prepared], content: bytes) -> None:
    assert submit({'documents': [{'file': 'a'}]}, {'a': content}).spec.item_count == 1


@pytest.mark.parametrize('html', ['', '  \n', '\ufeff'])
def test_empty_inline_html_is_refused(submit: Callable[..., Prepared], html: str) -> None:
    problem = problem_of(submit, {'documents': [{'html': HTML}, {'html': html}]})
    assert (problem['name'], problem['document']) == ('not-html', 1)
    assert problem['errors'][0]['field'] == 'documents.1.html'


def test_syntax_error_in_a_template_names_its_line(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, {'documents': [{'template': '<p>\n{{ a }\n', 'records': [{}]}]})
    assert (problem['name'], problem['document'], problem['line']) == ('template-syntax', 0, 2)
    assert problem['errors'][0]['field'] == 'documents.0.template'
    in_file = problem_of(
        submit, {'documents': [{'template_file': 't/x.html', 'records': [{}]}]}, {'t/x.html': b'\n\n{% for %}'}
    )
    assert (in_file['name'], in_file['file'], in_file['line']) == ('template-syntax', 't/x.html', 3)


@pytest.mark.parametrize('template', ['{{ "a" * 10**11 }}', '{{ "%99999999999d" | format(1) }}', '{{ 9**9**9 }}'])
def test_template_is_checked_without_being_computed(submit: Callable[..., Prepared], template: str) -> None:
    assert submit({'documents': [{'template': template, 'records': [{}]}]}).spec.item_count == 1


def test_template_with_a_number_beyond_reason_is_refused(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, {'documents': [{'template': '{{ ' + '1' * 5000 + ' }}', 'records': [{}]}]})
    assert problem['name'] == 'template-syntax'


def test_huge_templates_are_left_to_rendering(submit: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('api.intake.CHECKED_CHARACTERS', 10)
    broken = {'template': '{{ ' + 'x' * 10, 'records': [{}]}
    assert submit({'documents': [broken]}).spec.item_count == 1


def test_template_that_is_not_utf8_is_refused(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, {'documents': [{'template_file': 't', 'records': [{}]}]}, {'t': b'<p>\xff'})
    assert (problem['name'], problem['file']) == ('invalid-encoding', 't')


@pytest.mark.parametrize(
    ('content', 'name', 'extra'),
    [
        (b'', 'nothing-to-print', {}),
        (b'[]', 'nothing-to-print', {}),
        (b'\n\n', 'nothing-to-print', {}),
        (b'{"a": 1}\n{"a": }', 'records-invalid', {'record': 1, 'line': 2}),
        (b'[{"a": 1},\n{"a" 2}]', 'records-invalid', {'line': 2}),
        (b'[{}, 3]', 'records-invalid', {'record': 1}),
        (b'{}\n[]', 'records-invalid', {'record': 1}),
        (b'{"a": "\xff"}', 'invalid-encoding', {'line': 1}),
        (b'{}\n' * 7, 'too-many-records', {'limit': 6, 'setting': 'FANFOLD_MAX_RECORDS'}),
    ],
)
def test_bad_records_in_a_file_are_refused(
    submit: Callable[..., Prepared], content: bytes, name: str, extra: dict[str, Any]
) -> None:
    problem = problem_of(submit, {'documents': [{'template': 't', 'records_file': 'r'}]}, {'r': content})
    assert problem['name'] == name
    assert extra.items() <= problem.items()
    assert problem['errors'][0]['field'] == 'documents.0.records_file'


def test_file_that_many_documents_name_is_read_once(
    submit: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    from renderer.records import Records

    read: list[str] = []
    monkeypatch.setattr(
        'api.intake.Records.read', lambda data, name: read.append(name) or Records(name=name, _values=[1])
    )
    document = {'template': 't', 'records_file': 'r'}
    assert len(problem_of(submit, {'documents': [document] * 3}, {'r': b''})['errors']) == 3
    assert read == ['r']


def test_no_inline_records_are_nothing_to_print(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, {'documents': [{'html': HTML}, {'template': 't', 'records': []}]})
    assert (problem['name'], problem['document']) == ('nothing-to-print', 1)


def test_record_with_a_number_that_json_cannot_hold_is_refused(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, body=b'{"documents": [{"template": "t", "records": [{}, {"a": 1e999}]}]}')
    assert (problem['name'], problem['record']) == ('records-invalid', 1)


def test_inline_record_that_is_no_object_is_refused_as_one_in_a_file(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, {'documents': [{'html': HTML}, {'template': 't', 'records': [{}, 3]}]})
    assert (problem['name'], problem['document'], problem['record']) == ('records-invalid', 1, 1)


def test_fault_of_an_inline_template_names_its_field_once(submit: Callable[..., Prepared]) -> None:
    problem = problem_of(submit, {'documents': [{'template': '\n{% if %}', 'records': [{}]}]})
    assert problem['detail'].startswith('documents.0.template: line 2: ')
    assert problem['line'] == 2
    empty = problem_of(submit, {'documents': [{'template': ' ', 'records': [{}]}]})
    assert empty['detail'] == 'documents.0.template: is empty'


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
    settings: Settings, tmp_path: Path, content_type: str
) -> None:
    with pytest.raises(ApiProblem) as caught:
        prepare(io.BytesIO(b'<p>'), content_type, settings, tmp_path)
    assert caught.value.problem.name == 'unsupported-media-type'
    assert caught.value.problem.extra['valid'] == ['application/json', 'multipart/form-data']


def test_same_payload_has_the_same_archive_and_fingerprint(settings: Settings, tmp_path: Path) -> None:
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
        found.append(prepare(io.BytesIO(body), content_type, settings, folder))
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
