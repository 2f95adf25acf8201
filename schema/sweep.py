"""What may be swept from the bucket."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from schema.rows import Disposition, Fate
from schema.statements import run

if TYPE_CHECKING:
    from psycopg import Connection


def disposition(
    conn: Connection[Any], job_ids: Collection[UUID], *, grace: timedelta, now: datetime | None = None
) -> dict[UUID, Disposition]:
    """What may be done with the objects of each of these jobs.

    KEEP: it may still run, or ended within `grace`. ONLY_RESULT: completed. DELETE: cancelled or
    expired. UNKNOWN: there is no such job; whether its objects are old enough is for the caller.
    """
    found = {job_id: Disposition(fate=Fate.UNKNOWN) for job_id in job_ids}
    for job_id, fate, result_key in run(conn, 'dispositions', job_ids=list(job_ids), grace=grace, now=now):
        only_result = fate == Fate.ONLY_RESULT.value
        found[job_id] = Disposition(fate=Fate(fate), result_key=result_key if only_result else None)
    return found
