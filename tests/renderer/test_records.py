from __future__ import annotations

import json

import pytest

from renderer.records import Records, count_records
from runtime.errors import Problem, Refusal


def refused(data: bytes) -> Problem:
    with pytest.raises(Refusal) as caught:
        count_records(data, 'files/r.json')
    return caught.value.problem


@pytest.mark.parametrize(
    'data',
    [
        b'[{"a": 1}, {"a": 2}]',
        b' \n[\n{"a": 1},\n{"a": 2}]\n',
        b'{"a": 1}\n{"a": 2}\n',
        b'{"a": 1}\r\n\r\n{"a": 2}',
        b'\xef\xbb\xbf{"a": 1}\n{"a": 2}',
        b'\xef\xbb\xbf[{"a": 1}, {"a": 2}]',
    ],
)
def test_an_array_and_ndjson_hold_the_same_records(data: bytes):
    records = Records.read(data, 'files/r')
    assert [records[0], records[1]] == [{'a': 1}, {'a': 2}]
    assert count_records(data, 'files/r') == 2


@pytest.mark.parametrize('data', [b'', b'  \n', b'[]'])
def test_no_records_are_counted_as_none(data: bytes):
    assert count_records(data, 'files/r') == 0


def test_line_separators_inside_strings_do_not_split_records():
    data = json.dumps({'a': 'x\u2028y\x0bz'}, ensure_ascii=False).encode() + b'\n{"a": "\xc2\x85"}'
    assert count_records(data, 'files/r') == 2


def test_a_bad_line_is_named():
    problem = refused(b'{"a": 1}\n\n{"a": }\n')
    assert problem.name == 'records-invalid'
    assert problem.extra == {'file': 'r.json', 'record': 1, 'line': 3}
    assert 'line 3 (record 1)' in problem.detail


def test_an_object_over_several_lines_is_told_what_a_records_file_is():
    assert 'a JSON array, or one object a line' in refused(b'{\n"records": []\n}').detail


def test_a_broken_array_names_its_line():
    assert refused(b'[{"a": 1},\n{"a" 2}]').extra['line'] == 2


@pytest.mark.parametrize(
    ('data', 'kind'),
    [(b'[{}, 3]', 'a number'), (b'{}\n"x"', 'a string'), (b'[{}, [1]]', 'an array'), (b'{}\nnull', 'null'),
     (b'[{}, true]', 'a boolean')],
)  # fmt: skip
def test_records_are_objects(data: bytes, kind: str):
    problem = refused(data)
    assert f'record 1 is {kind}, not an object' in problem.detail
    assert problem.extra['record'] == 1


@pytest.mark.parametrize('data', [b'[{"a": NaN}]', b'{"a": Infinity}', b'[' * 100_000, b'{"a":' * 100_000])
def test_what_is_not_json_is_refused(data: bytes):
    assert refused(data).name == 'records-invalid'


def test_invalid_utf8_names_file_and_line():
    problem = refused(b'{"a": 1}\n{"a": "\xff"}')
    assert (problem.name, problem.extra) == ('invalid-encoding', {'file': 'r.json', 'line': 2})


def test_a_record_is_only_parsed_when_it_is_asked_for():
    records = Records.read(b'{"a": 1}\nnonsense\n', 'files/r')
    assert (len(records), records[0]) == (2, {'a': 1})
