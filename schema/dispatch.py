"""Dispatch: which parts workers should be told about, fair over tenants and jobs.

Being told is a hint. A part that nobody claims is due again after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from schema.rows import DuePart, PartKey
from schema.statements import many, run

if TYPE_CHECKING:
    from psycopg import Connection


def due_parts(
    conn: Connection[Any],
    *,
    window: int,
    limit: int,
    resend_after: timedelta,
    total_window: int | None = None,
    now: datetime | None = None,
) -> list[DuePart]:
    """At most `limit` parts to dispatch, in the order to do it.

    No job gets more than `window` parts in flight (leased, or dispatched within `resend_after`), all
    jobs together no more than `total_window`. The least served tenant comes first, and of its jobs
    the least served.
    """
    return many(
        conn,
        DuePart,
        'due_parts',
        window=window,
        limit=limit,
        resend_after=resend_after,
        total_window=total_window,
        now=now,
    )


def mark_dispatched(conn: Connection[Any], keys: Sequence[PartKey], now: datetime | None = None) -> int:
    """Remember that workers were told of these parts; return how many were still waiting."""
    return run(
        conn,
        'mark_dispatched',
        job_ids=[key.job_id for key in keys],
        batch_nos=[key.batch_no for key in keys],
        part_indexes=[key.part_index for key in keys],
        now=now,
    ).rowcount
