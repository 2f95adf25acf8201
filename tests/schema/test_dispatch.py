"""Which parts workers are told about, and when."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection

import schema
from schema import PartKey
from tests.schema.given import LEASE, claimed, completed, failed, painting, painting_at_once, plan_key, submitted

Conn = Connection[Any]
SECOND = timedelta(seconds=1)


def now() -> datetime:
    return datetime.now(UTC)


def due(conn: Conn, **how: Any) -> list[PartKey]:
    parts = schema.due_parts(conn, **{'window': 4, 'limit': 100, 'resend_after': 10 * SECOND, **how})
    return [part.key for part in parts]


def test_waiting_parts_are_due_in_order_up_to_the_window(conn: Conn) -> None:
    keys = painting_at_once(conn, 10)

    assert due(conn) == keys[:4]
    assert [part.kind for part in schema.due_parts(conn, window=1, limit=1, resend_after=SECOND)] == ['paint']


def test_what_is_in_flight_counts_against_the_window(conn: Conn) -> None:
    keys = painting_at_once(conn, 10)
    assert schema.mark_dispatched(conn, keys[:3]) == 3
    claimed(conn, keys[0])

    assert due(conn) == [keys[3]]
    claimed(conn, keys[5])
    assert due(conn) == []


def test_a_finished_part_makes_room(conn: Conn) -> None:
    keys = painting_at_once(conn, 10)
    schema.mark_dispatched(conn, keys[:4])
    completed(conn, keys[2])

    assert due(conn) == [keys[4]]


def test_a_dispatched_part_that_nobody_claims_is_due_again(conn: Conn) -> None:
    keys = painting_at_once(conn, 3)
    schema.mark_dispatched(conn, keys)

    assert due(conn) == []
    assert due(conn, now=now() + 11 * SECOND) == keys


def test_a_leased_part_is_not_due_however_long_ago_it_was_dispatched(conn: Conn) -> None:
    keys = painting_at_once(conn, 2)
    schema.mark_dispatched(conn, keys)
    claimed(conn, keys[0])

    assert due(conn, now=now() + 11 * SECOND) == [keys[1]]


def test_a_part_that_failed_is_due_after_its_pause(conn: Conn) -> None:
    keys = painting_at_once(conn, 1)
    claimed(conn, keys[0])
    failed(conn, keys[0], retry_after=5 * SECOND)

    assert due(conn) == []
    assert due(conn, now=now() + 6 * SECOND) == keys


def test_a_returned_part_is_due_at_once(conn: Conn) -> None:
    keys = painting_at_once(conn, 1)
    schema.mark_dispatched(conn, keys)
    schema.return_part(conn, keys[0], epoch=claimed(conn, keys[0]).lease_epoch)

    assert due(conn) == keys


def test_parts_of_ended_batches_are_not_due(conn: Conn) -> None:
    schema.cancel_job(conn, painting(conn, 3)[0].job_id)

    assert due(conn) == []


def test_what_was_claimed_meanwhile_is_not_marked(conn: Conn) -> None:
    keys = painting_at_once(conn, 2)
    claimed(conn, keys[0])
    completed(conn, keys[1])

    assert schema.mark_dispatched(conn, keys) == 0
    assert schema.mark_dispatched(conn, []) == 0


def test_marking_passes_what_others_are_working_on(pool: schema.Pool) -> None:
    with pool.connection() as one, pool.connection() as other:
        keys = painting_at_once(one, 2)
        with one.transaction():
            claimed(one, keys[0])
            assert schema.mark_dispatched(other, keys) == 1


def test_ten_thousand_parts_do_not_starve_a_single_page(conn: Conn) -> None:
    big = painting_at_once(conn, 10_000)
    small = plan_key(submitted(conn))

    first = due(conn, window=16, limit=8)

    assert small in first[:2]
    schema.mark_dispatched(conn, first)
    for key in big[:7]:
        claimed(conn, key)
    another = plan_key(submitted(conn))
    assert due(conn, window=16, limit=8)[0] == another, 'a job with nothing in flight comes first'
    assert len(due(conn, window=16, limit=10_000)) == 16 - 7 + 1


def test_jobs_take_turns(conn: Conn) -> None:
    jobs = [painting_at_once(conn, 5) for _ in range(3)]

    order = due(conn, window=5)

    assert [key.part_index for key in order] == [index for index in range(5) for _ in range(3)]
    assert [key.job_id for key in order[:3]] == sorted(keys[0].job_id for keys in jobs)


def test_tenants_take_turns_however_many_jobs_they_have(conn: Conn) -> None:
    for _ in range(20):
        submitted(conn, tenant_id='many')
    few = [submitted(conn, tenant_id='few').id for _ in range(2)]

    order = due(conn, limit=4)

    assert Counter(key.job_id in few for key in order) == {True: 2, False: 2}


def test_a_tenant_with_much_in_flight_waits_for_the_others(conn: Conn) -> None:
    busy = [plan_key(submitted(conn, tenant_id='busy')) for _ in range(6)]
    for key in busy[:4]:
        claimed(conn, key)
    idle = [plan_key(submitted(conn, tenant_id='idle')) for _ in range(4)]

    assert set(due(conn, limit=4)) == set(idle)


def test_all_jobs_together_stay_in_the_total_window(conn: Conn) -> None:
    keys = [plan_key(submitted(conn)) for _ in range(6)]
    claimed(conn, keys[0])

    assert len(due(conn, total_window=4)) == 3
    assert due(conn, total_window=1) == []
    assert due(conn, total_window=0) == []


def test_nothing_due_is_an_empty_list(conn: Conn) -> None:
    assert due(conn, total_window=4) == due(conn) == []


def test_a_hint_delivered_many_times_is_claimed_once(conn: Conn) -> None:
    keys = painting_at_once(conn, 3)

    claims = [schema.claim_part(conn, key, owner='me', lease=LEASE) for key in keys * 5]

    assert [part.key for part in claims if part] == keys
