"""Finishing a batch, whoever believes that it is time."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import Connection

import schema
from schema import NewPart, PaintedOutcome
from schema.batches import finish_batch
from tests.schema.given import LEASE, WHY, claimed, completed, event_keys, failed, painting, relay, status

Conn = Connection[Any]


def test_a_batch_that_waits_for_a_part_is_not_finished(conn: Conn) -> None:
    keys = painting(conn, 2)
    completed(conn, keys[0])

    with pytest.raises(RuntimeError, match='changed under its lock'):
        finish_batch(conn, keys[0].job_id, 1)
    assert status(conn, keys[0])[1] == 'running'


def test_a_batch_is_finished_once(conn: Conn) -> None:
    keys = painting(conn, 1)
    completed(conn, keys[0])
    before = event_keys(conn, keys[0])

    with pytest.raises(RuntimeError, match='changed under its lock'):
        finish_batch(conn, keys[0].job_id, 1)
    assert event_keys(conn, keys[0]) == before


def test_outcomes_of_painting_are_counts_instead_of_results(conn: Conn) -> None:
    keys = painting(conn, 3, 'partial', claim=True)
    gone = [{'document': 0, 'record': index, 'detail': f'record {index}'} for index in range(2)]
    completed(conn, keys[0], items=[[0, None, 3], [0, 1, 2]], missing=gone, warnings=['w' * 500] * 100)
    failed(conn, keys[1], permanent=True)

    assert schema.painting_outcomes(conn, keys[0].job_id) == [
        PaintedOutcome(
            part_index=0,
            generation=0,
            spec={'first_item': 0, 'item_count': 1},
            completed=True,
            items=2,
            missing=2,
            first_missing=gone[0],
            failure=None,
        ),
        PaintedOutcome(
            part_index=1,
            generation=0,
            spec={'first_item': 1, 'item_count': 1},
            completed=False,
            items=0,
            missing=0,
            first_missing=None,
            failure=WHY,
        ),
    ]


def test_a_repaired_part_counts_for_its_index_and_a_failed_repair_does_not(conn: Conn) -> None:
    keys = painting(conn, 2, 'partial', claim=True)
    for key in keys:
        completed(conn, key)
    relay(conn)
    job_id = keys[0].job_id
    assemble = schema.PartKey(job_id=job_id, batch_no=2, part_index=0)
    claimed(conn, assemble)
    completed(conn, assemble)
    again = [NewPart(part_index=index, spec={}, generation=1) for index in range(2)]
    [event] = schema.claim_events(conn, limit=1, lease=LEASE)
    schema.create_batch(conn, job_id, 'paint', again, 'rendering')
    schema.mark_sent(conn, event.id)
    repairs = [schema.PartKey(job_id=job_id, batch_no=3, part_index=index) for index in range(2)]
    for key in repairs:
        claimed(conn, key)
    completed(conn, repairs[0], items=[[0, None, 1]])
    failed(conn, repairs[1], permanent=True)

    outcomes = schema.painting_outcomes(conn, job_id)

    assert [(each.completed, each.generation, each.items) for each in outcomes] == [(True, 1, 1), (True, 0, 0)]
