from __future__ import annotations

import pytest

from api.ranges import Span, Unsatisfiable, not_modified, requested_span

ETAG = '"abc"'


def span(header: str | None, if_range: str | None = None, size: int = 100) -> tuple[int, int] | None:
    found: Span | None = requested_span(header, if_range, etag=ETAG, size=size)
    return None if found is None else (found.start, found.end)


@pytest.mark.parametrize(
    ('header', 'expected'),
    [
        ('bytes=0-9', (0, 9)),
        ('bytes=10-', (10, 99)),
        ('bytes=-10', (90, 99)),
        ('bytes=-1000', (0, 99)),
        ('bytes=90-1000', (90, 99)),
        ('bytes=99-99', (99, 99)),
        ('Bytes = 5 - 6', (5, 6)),
    ],
)
def test_one_range_is_answered(header: str, expected: tuple[int, int]) -> None:
    assert span(header) == expected


@pytest.mark.parametrize(
    'header', [None, '', 'bytes=', 'bytes=-', 'bytes=9-2', 'bytes=0-1,5-6', 'pages=1-2', 'bytes=a-b', 'bytes=1']
)
def test_what_is_not_one_range_is_ignored(header: str | None) -> None:
    assert span(header) is None


@pytest.mark.parametrize('header', ['bytes=100-', 'bytes=100-200', 'bytes=-0'])
def test_range_behind_the_end_cannot_be_satisfied(header: str) -> None:
    with pytest.raises(Unsatisfiable):
        span(header)


def test_range_holds_only_for_the_version_that_if_range_names() -> None:
    assert span('bytes=5-', ETAG) == (5, 99)
    assert span('bytes=5-', '"other"') is None
    assert span('bytes=5-', 'W/"abc"') is None, 'a weak tag never matches'
    assert span('bytes=5-', 'Wed, 21 Oct 2015 07:28:00 GMT') is None


@pytest.mark.parametrize('header', ['"abc"', 'W/"abc"', '"x", "abc"', '*', ' "abc" '])
def test_client_that_has_it_needs_no_body(header: str) -> None:
    assert not_modified(header, ETAG)


@pytest.mark.parametrize('header', [None, '', '"ab"', 'abc', '"x", "y"'])
def test_client_that_has_another_needs_the_body(header: str | None) -> None:
    assert not not_modified(header, ETAG)
