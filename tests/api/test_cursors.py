from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from api.cursors import job_cursor, part_cursor, read_job_cursor, read_part_cursor
from api.problems import ApiProblem

JOB = UUID('01890000-0000-7000-8000-000000000001')
THEN = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b'=').decode()


def test_cursor_comes_back_as_it_went() -> None:
    assert read_job_cursor(job_cursor(THEN, JOB)) == (THEN, JOB)
    assert read_part_cursor(part_cursor(3, 14)) == (3, 14)


MALFORMED = [
    '', 'x', '!!!', 'ä', '===', 'a' * 400, encoded(None), encoded(1), encoded('ab'), encoded([]), encoded([1, 2, 3]),
    encoded({'a': 1, 'b': 2}), encoded([None, None]), encoded([[], []]), encoded(['2025-01-01', str(JOB)]),
    encoded(['2025-01-01T00:00:00+00:00', 'nobody']), encoded(['9999-12-31T23:59:59-10:00', str(JOB)]),
    '\0', '%00',
]  # fmt: skip


@pytest.mark.parametrize('cursor', [*MALFORMED, part_cursor(1, 2)])
def test_malformed_job_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ApiProblem, match='cursor'):
        read_job_cursor(cursor)


@pytest.mark.parametrize(
    'cursor',
    [*MALFORMED, encoded([-1, 0]), encoded([0, 2**31]), encoded([True, 1]), encoded([1.5, 1]), job_cursor(THEN, JOB)],
)
def test_malformed_part_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ApiProblem, match='cursor'):
        read_part_cursor(cursor)
