from __future__ import annotations

from typing import Any

import pytest

from renderer.templates import Template, check_template
from runtime.errors import Problem, Refusal


class Files(dict[str, bytes]):
    def file(self, name: str) -> bytes | None:
        return self.get(name)


FILES = Files({
    'a/row.html': b'{{ x.y }}', 'top.html': b'top {{ n }}', 'a/bad.html': b'\n{% if %}', 'a/latin.html': b'\xe9',
})  # fmt: skip


def fill(source: str, record: dict[str, Any]) -> str:
    return Template(source, 'files/a/t.html', FILES).fill(record, 17)


def refused(source: str, record: dict[str, Any]) -> Problem:
    with pytest.raises(Refusal) as caught:
        fill(source, record)
    return caught.value.problem


def test_fields_are_variables_and_escaped():
    assert fill('<p>{{ n }} {{ s }}</p>\n', {'n': 1, 's': '<&>'}) == '<p>1 &lt;&amp;&gt;</p>\n'


def test_includes_are_found_beside_the_template_then_from_the_root():
    assert fill('{% include "row.html" %} {% include "top.html" %}', {'x': {'y': 5}, 'n': 6}) == '5 top 6'
    assert fill('{% include "../top.html" %} {% include "/top.html" %}', {'n': 6}) == 'top 6 top 6'


@pytest.mark.parametrize('name', ['none.html', '../../etc/passwd', '/etc/passwd'])
def test_an_include_that_is_not_among_the_files_is_named(name: str):
    problem = refused(f'{{% include "{name}" %}}', {})
    assert problem.name == 'file-missing'
    assert name.rpartition('../')[2].lstrip('/') in problem.detail


@pytest.mark.parametrize(
    ('source', 'record', 'field', 'line', 'file'),
    [
        ('\n\n{{ total }}', {}, 'total', 3, 'a/t.html'),
        ('{{ customer.name }}', {'customer': {}}, 'name', 1, 'a/t.html'),
        ('\n{% for line in lines %}\n{{ line["price"] }}{% endfor %}', {'lines': [{'price': 1}, {}]}, 'price', 3,
         'a/t.html'),
        ('{% include "row.html" %}', {'x': {}}, 'y', 1, 'a/row.html'),
        ('{% if vip %}{% endif %}', {}, 'vip', 1, 'a/t.html'),
    ],
)  # fmt: skip
def test_a_missing_field_names_record_field_and_line(
    source: str, record: dict[str, Any], field: str, line: int, file: str
):
    problem = refused(source, record)
    assert problem.name == 'record-field-missing'
    assert problem.extra == {'record': 17, 'file': file, 'line': line, 'field': field}
    assert problem.detail.startswith(f"record 17 has no field '{field}'")


def test_a_field_may_be_declared_optional():
    assert fill('{{ a|default("-") }}{% if b is defined %}{{ b }}{% endif %}', {}) == '-'


@pytest.mark.parametrize(
    'source',
    [
        '{{ n / 0 }}',
        '{{ n.__class__.__mro__ }}',
        '{{ items.append(1) }}',
        '{% for i in range(10 ** 9) %}{% endfor %}',
        '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}',
        '{{ "a" + n }}',
        '{{ ""["__class__"] }}',
    ],
)
def test_what_fails_or_is_forbidden_is_a_template_error(source: str):
    problem = refused('\n' + source, {'n': 1, 'items': []})
    assert problem.name in {'template-error', 'record-field-missing'}
    assert (problem.extra['record'], problem.extra['line']) == (17, 2)


def test_a_template_cannot_change_its_record():
    record = {'items': [1]}
    refused('{{ items.clear() }}', record)
    assert record == {'items': [1]}


@pytest.mark.parametrize('source', ['\n{% if %}', '\n{{ a b }}', '\n{{ a|nofilter }}', '\n{% for %}'])
def test_a_syntax_error_names_its_line(source: str):
    problem = check_template(source, 'x.html')
    assert problem is not None
    assert (problem.name, problem.extra) == ('template-syntax', {'file': 'x.html', 'line': 2})


def test_a_syntax_error_in_an_include_names_the_included_file():
    problem = refused('{% include "bad.html" %}', {})
    assert (problem.name, problem.extra['file'], problem.extra['line']) == ('template-syntax', 'a/bad.html', 2)


def test_an_include_that_is_not_utf8_names_the_included_file():
    problem = refused('{% include "latin.html" %}', {})
    assert (problem.name, problem.extra['file']) == ('invalid-encoding', 'a/latin.html')


def test_a_good_template_has_no_problem():
    assert check_template('{% for x in y %}{{ x }}{% endfor %}') is None
