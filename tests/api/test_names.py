from __future__ import annotations

import pytest

from api.names import fault_of, normal


@pytest.mark.parametrize(
    ('name', 'fault'),
    [
        ('../x', 'leads outside'),
        ('a/../../x', 'leads outside'),
        ('a/..', 'leads outside'),
        ('/etc/passwd', 'is absolute'),
        ('C:/x.html', 'is absolute'),
        ('c:x.html', 'is absolute'),
        ('a\\b.css', 'has a backslash'),
        ('C:\\x.html', 'has a backslash'),
        ('a\0b', 'has a control character'),
        ('a\nb', 'has a control character'),
        ('http://example.org/x.css', 'is a URL'),
        ('bundle:///x.css', 'is a URL'),
        ('', 'is empty'),
        ('.', 'is a folder'),
        ('a/', 'is a folder'),
        ('./', 'is a folder'),
        ('\ud800', 'is not valid Unicode'),
        ('ä' * 501, 'is longer than 1000 bytes'),
    ],
)
def test_name_that_cannot_be_a_files_is_told_why(name: str, fault: str) -> None:
    assert fault in (fault_of(name) or '')


@pytest.mark.parametrize(
    'name', ['index.html', 'css/a.css', 'ä/ö ü.html', '..a', 'a..b', 'a/...', '100%.html', 'note: 1.html']
)
def test_relative_name_is_good(name: str) -> None:
    assert fault_of(name) is None


def test_each_file_has_one_spelling() -> None:
    assert normal('./a//b/./c.css') == 'a/b/c.css'
    assert normal('a\u0308.css') == 'ä.css'
