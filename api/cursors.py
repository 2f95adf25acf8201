"""Cursors: where the next page of a list begins, opaque to clients."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any
from uuid import UUID

from api.problems import ApiProblem, refused


def _encode(values: list[str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(',', ':')).encode()).rstrip(b'=').decode()


def _decode(cursor: str) -> Any:
    padded = cursor + '=' * (-len(cursor) % 4)
    return json.loads(base64.b64decode(padded.encode('ascii'), altchars=b'-_', validate=True))


def _malformed() -> ApiProblem:
    return refused('invalid-request', 'cursor', 'is not a cursor of this list; take it from `next`, unchanged')


def job_cursor(created_at: datetime, job_id: UUID) -> str:
    """The cursor that goes on behind this job."""
    return _encode([created_at.isoformat(), str(job_id)])


def read_job_cursor(cursor: str) -> tuple[datetime, UUID]:
    """Raises ApiProblem unless the cursor is one of job_cursor's."""
    try:
        created_at, job_id = _decode(cursor)
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is None or not 1970 <= moment.year <= 9000:
            raise ValueError(created_at)
        return moment, UUID(job_id)
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise _malformed() from error


def part_cursor(batch_no: int, part_index: int) -> str:
    """The cursor that goes on behind this part."""
    return _encode([batch_no, part_index])


def read_part_cursor(cursor: str) -> tuple[int, int]:
    """Raises ApiProblem unless the cursor is one of part_cursor's."""
    try:
        batch_no, part_index = _decode(cursor)
        if any(type(number) is not int or not 0 <= number < 2**31 for number in (batch_no, part_index)):
            raise ValueError(cursor)
        return batch_no, part_index
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise _malformed() from error
