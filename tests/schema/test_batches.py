"""Finishing a batch, whoever believes that it is time."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import Connection

from schema.batches import finish_batch
from tests.schema.given import completed, event_keys, painting, status

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
