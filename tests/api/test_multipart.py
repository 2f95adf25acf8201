from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from api.files import Files
from api.multipart import parse_disposition, read_multipart
from api.problems import ApiProblem

TYPE = 'multipart/form-data; boundary=xx'


def part(disposition: str, content: bytes = b'content') -> bytes:
    return b'--xx\r\nContent-Disposition: form-data; ' + disposition.encode() + b'\r\n\r\n' + content + b'\r\n'


def file(filename: str, content: bytes = b'content') -> bytes:
    return part(f'name="files"; filename="{filename}"', content)


END = b'--xx--\r\n'


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files()
    yield files
    files.close()


def read(files: Files, *parts: bytes, content_type: str = TYPE, max_files: int = 10) -> bytes | None:
    return read_multipart(io.BytesIO(b''.join(parts)), content_type, files, max_files=max_files)


def problem(files: Files, *parts: bytes, **how: object) -> tuple[str, list[dict[str, object]]]:
    with pytest.raises(ApiProblem) as caught:
        read(files, *parts, **how)  # type: ignore[arg-type]
    return caught.value.problem.name, caught.value.problem.extra.get('errors', [])


def test_files_keep_their_relative_names_and_bytes(files: Files) -> None:
    content = bytes(range(256)) * 5000 + b'\r\n--x'
    job = read(files, part('name="job"', b'{}'), file('css/a.css', content), file('ä ö.html', b''), END)
    assert job == b'{}'
    assert files.names == ['css/a.css', 'ä ö.html']
    assert files.read('css/a.css') == content
    assert files.read('ä ö.html') == b''


@pytest.mark.parametrize(
    ('disposition', 'filename'),
    [
        (b'form-data; name="files"; filename="css/a.css"', 'css/a.css'),
        (b'form-data; name=files; filename=a.css', 'a.css'),
        (b'form-data;name="files";filename="a;b.css"', 'a;b.css'),
        ('form-data; name="files"; filename="ä.css"'.encode(), 'ä.css'),
        (b'form-data; name="files"; filename="a%22b.css"', 'a"b.css'),
        (b'form-data; name="files"; filename="a\\"b.css"', 'a"b.css'),
        (b'form-data; name="files"; filename="100%25.css"', '100%25.css'),
        (b'form-data; name="files"; filename="C:\\dir\\a.css"', 'C:\\dir\\a.css'),
        (b'form-data; name="files"; filename="\\\\host\\a.css"', '\\host\\a.css'),
        (b"form-data; name=files; filename*=UTF-8''css/%C3%A4.css", 'css/ä.css'),
        (b'form-data; name=files; filename="a.css"; filename*=utf-8\'en\'%C3%A4.css', 'ä.css'),
        (b'form-data; name="files"', None),
    ],
)
def test_file_name_is_read_as_it_was_meant(disposition: bytes, filename: str | None) -> None:
    found = parse_disposition(disposition)
    assert (found.name, found.filename) == ('files', filename)


@pytest.mark.parametrize('name', ['../x.css', '/x.css', 'C:\\x.css', 'a\\..\\x.css', '', 'a/../../x'])
def test_file_named_outside_the_job_is_refused(files: Files, name: str) -> None:
    assert problem(files, file(name), END)[0] == 'file-name-invalid'


def test_every_bad_name_is_reported_at_once(files: Files) -> None:
    name, errors = problem(files, file('../x'), file('good'), file('/y'), END)
    assert name == 'file-name-invalid'
    assert [error['detail'] for error in errors] == [
        "'../x' leads outside the job",
        "'/y' is absolute; names are relative to the job",
    ]


def test_masses_of_bad_names_are_not_all_read(files: Files) -> None:
    name, errors = problem(files, *[file(f'../{number}') for number in range(1_000)])
    assert name == 'file-name-invalid'
    assert len(errors) == 20


@pytest.mark.parametrize('again', ['a.css', './a.css', './/a.css'])
def test_same_name_twice_is_refused(files: Files, again: str) -> None:
    name, errors = problem(files, file('a.css'), file(again), END)
    assert name == 'invalid-request'
    assert 'twice' in str(errors[0]['detail'])


def test_name_that_is_not_utf8_is_refused(files: Files) -> None:
    bad = b'--xx\r\nContent-Disposition: form-data; name="files"; filename="\xff.css"\r\n\r\nx\r\n'
    assert problem(files, bad, END)[0] == 'file-name-invalid'


def test_unknown_part_is_refused_with_those_there_are(files: Files) -> None:
    name, errors = problem(files, part('name="file"; filename="a.css"'), END)
    assert name == 'unknown-field'
    assert errors == [{'field': 'file', 'detail': 'there is no such part', 'valid': ['job', 'files']}]


@pytest.mark.parametrize(
    'parts',
    [
        [part('name="job"', b'{}'), part('name="job"', b'{}'), END],
        [part('name="files"', b'x'), END],
        [file('a.css')],
        [file('a.css')[:-10]],
        [b''],
        [b'hello'],
        [b'--yy\r\n', END],
        [b'--xx\r\nno header\r\n\r\nx\r\n', END],
    ],
)
def test_body_that_is_not_such_a_form_is_refused(files: Files, parts: list[bytes]) -> None:
    assert problem(files, *parts)[0] == 'invalid-request'


def test_form_needs_a_boundary(files: Files) -> None:
    name, errors = problem(files, END, content_type='multipart/form-data')
    assert (name, errors[0]['field']) == ('invalid-request', 'Content-Type')


def test_more_files_than_allowed_are_refused_naming_the_setting(files: Files) -> None:
    with pytest.raises(ApiProblem, match='FANFOLD_MAX_FILES') as caught:
        read(files, file('a'), file('b'), file('c'), END, max_files=2)
    assert caught.value.problem.name == 'too-many-files'
    assert caught.value.problem.extra['limit'] == 2


def test_job_may_come_as_a_file(files: Files) -> None:
    assert read(files, part('name="job"; filename="job.json"', b'{"a":1}'), END) == b'{"a":1}'


def test_body_in_any_pieces_gives_the_same_files(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('api.multipart.READ_BYTES', 1)
    content = b'a\r\n--x\r\n--xxx\r\n-'
    read(files, file('ä.css', content), file('b', b''), END)
    assert files.read('ä.css') == content
    assert files.names == ['b', 'ä.css']
