"""What the database holds of the windows of a long document, and who is told of them first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import schema
from schema import NewPart, PartKey
from tests.schema.given import claimed, completed, failed, plan_key, submitted

Conn = Connection[Any]
SECOND = timedelta(seconds=1)
PLAN = {'windows': 2, 'pages': None, 'seams': []}


def layout(conn: Conn, *, hosts: tuple[str | None, ...] = (None, None), **changes: Any) -> list[PartKey]:
    """The parts of the layout batch of a new job, one for each host."""
    job = submitted(conn, **changes)
    completed(conn, plan_key(job), seams=['a'], fingerprint='f')
    return round_of(conn, plan_key(job), dict(enumerate(hosts)), PLAN)


def round_of(conn: Conn, key: PartKey, hosts: dict[int, str | None], plan: schema.Json | None = None) -> list[PartKey]:
    parts = [NewPart(part_index=index, spec={'host': host, 'entry': {'long': 1}}) for index, host in hosts.items()]
    batch_no = schema.create_batch(conn, key.job_id, 'layout', parts, 'rendering', plan=plan)
    return [PartKey(job_id=key.job_id, batch_no=batch_no, part_index=index) for index in hosts]


def told(conn: Conn, **how: Any) -> list[str | None]:
    return [part.host for part in schema.due_parts(conn, window=9, limit=9, resend_after=10 * SECOND, **how)]


def snapshot(conn: Conn, key: PartKey) -> schema.Snapshot:
    found = schema.get_snapshot(conn, key.job_id)
    assert found is not None
    return found


def test_the_host_that_has_a_window_is_told_first_and_then_all(conn: Conn) -> None:
    keys = layout(conn, hosts=('one', 'two', None))
    assert told(conn) == ['one', 'two', None]
    schema.mark_dispatched(conn, keys)
    assert told(conn, now=datetime.now(UTC) + 11 * SECOND) == [None, None, None]


def test_a_window_that_was_lost_is_for_all(conn: Conn) -> None:
    [key] = layout(conn, hosts=('one',))
    claimed(conn, key)
    schema.return_part(conn, key, epoch=1)
    assert told(conn) == [None]


def test_the_latest_layout_of_each_window_counts(conn: Conn) -> None:
    keys = layout(conn)
    for key in keys:
        completed(conn, key, pages=3, host='one')
    [again] = round_of(conn, keys[0], {1: 'one'})
    completed(conn, again, pages=5, host='two')
    found = schema.laid_out_parts(conn, keys[0].job_id)
    assert [(part.part_index, part.result['pages'], part.result['host']) for part in found] == [
        (0, 3, 'one'), (1, 5, 'two'),
    ]  # fmt: skip
    assert snapshot(conn, keys[0]).pages_laid_out == 8


def test_a_layout_that_is_not_completed_leaves_the_one_before(conn: Conn) -> None:
    keys = layout(conn, failure_policy='partial')
    for key in keys:
        completed(conn, key, pages=3)
    [again] = round_of(conn, keys[0], {1: None})
    claimed(conn, again)
    failed(conn, again, permanent=True)
    assert [part.result['pages'] for part in schema.laid_out_parts(conn, keys[0].job_id)] == [3, 3]


def test_a_plan_is_known_once_it_is_completed_and_stays_until_it_is_changed(conn: Conn) -> None:
    job = submitted(conn)
    assert schema.planned(conn, job.id) is None
    [key, _] = layout(conn)
    found = schema.planned(conn, key.job_id)
    assert found is not None
    assert (found[0]['fingerprint'], found[1]) == ('f', PLAN)
    for index in range(2):
        completed(conn, PartKey(job_id=key.job_id, batch_no=1, part_index=index))
    round_of(conn, key, {0: None})
    assert snapshot(conn, key).plan == PLAN


def test_pages_are_known_from_the_layout_on(conn: Conn) -> None:
    keys = layout(conn)
    versions = {snapshot(conn, keys[0]).version}
    completed(conn, keys[0], pages=3)
    assert snapshot(conn, keys[0]).pages_known == 3
    versions.add(snapshot(conn, keys[0]).version)
    completed(conn, keys[1], pages=4)
    round_of(conn, keys[0], {0: None}, {**PLAN, 'pages': 6})
    assert snapshot(conn, keys[0]).pages_known == 6, 'one window ran on over a page of another'
    assert snapshot(conn, keys[0]).pages == 0
    assert len({*versions, snapshot(conn, keys[0]).version}) == 3


def test_what_windows_tell_each_other_is_not_listed(conn: Conn) -> None:
    [key, _] = layout(conn)
    completed(conn, key, report={'long': 1}, host='one')
    part = schema.list_parts(conn, key.job_id, after=(1, -1), limit=1)[0]
    assert part.spec == {'host': None}
    assert part.result == {'pages': 1, 'host': 'one'}


def test_a_job_past_its_deadline_says_which_window_was_unfinished(conn: Conn) -> None:
    keys = layout(conn)
    completed(conn, keys[0])
    job = schema.get_job(conn, keys[0].job_id)
    assert job is not None
    schema.fail_overdue_jobs(conn, 1, now=job.deadline_at)
    job = schema.get_job(conn, keys[0].job_id)
    assert job is not None
    assert job.failure is not None
    assert job.failure['detail'] == '1 of 2 windows was unfinished; window 1 had not been begun'


def test_a_plan_is_an_object(conn: Conn) -> None:
    [key, _] = layout(conn)
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute("UPDATE job SET plan = '[]' WHERE id = %s", [key.job_id])
