"""What documents, templates and records are checked for before anything is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.intake import Prepared
from tests.api.preparing import HTML, problem_of


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
