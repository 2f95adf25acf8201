"""docs/state_machine.md says what the database allows and what the statements do."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from psycopg import Connection

import schema
from schema import NewPart, PartKey
from schema.statements import STATEMENTS
from tests.schema.given import (
    HOUR,
    WHY,
    claimed,
    completed,
    failed,
    finish,
    painting,
    plan_key,
    relay,
    submitted,
    waiting_events,
    worked_off,
)

Conn = Connection[Any]
Machine = Literal['job', 'batch', 'part']
PAGE = (Path(__file__).parents[2] / 'docs' / 'state_machine.md').read_text('utf-8')
TYPES = {'job': schema.JobStatus, 'batch': schema.BatchStatus, 'part': schema.PartStatus}
NOWHERE = '[*]'

#: notes every change of a status, for the length of a test
RECORDER = """
CREATE TABLE transition (machine text, before text, after text);
CREATE FUNCTION record_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO transition VALUES (
        TG_TABLE_NAME,
        CASE TG_OP WHEN 'INSERT' THEN '[*]' ELSE OLD.status END,
        CASE TG_OP WHEN 'DELETE' THEN '[*]' ELSE NEW.status END
    );
    RETURN NULL;
END $$;
CREATE TRIGGER record AFTER INSERT OR UPDATE OR DELETE ON job FOR EACH ROW EXECUTE FUNCTION record_transition();
CREATE TRIGGER record AFTER INSERT OR UPDATE ON batch FOR EACH ROW EXECUTE FUNCTION record_transition();
CREATE TRIGGER record AFTER INSERT OR UPDATE ON part FOR EACH ROW EXECUTE FUNCTION record_transition();
"""


def arrows(machine: Machine) -> set[tuple[str, str]]:
    """The transitions that the page draws."""
    drawing = re.search(rf'as {machine} {{\n(.*?)\n    }}', PAGE, re.DOTALL)
    assert drawing is not None
    return set(re.findall(r'^\s+(\S+) --> ([^\s:]+)', drawing[1], re.MULTILINE))


@pytest.mark.parametrize('machine', get_args(Machine))
def test_the_states_drawn_are_those_the_database_allows(conn: Conn, machine: Machine) -> None:
    row = conn.execute(
        'SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s', [f'{machine}_status']
    ).fetchone()
    assert row is not None
    allowed = set(re.findall(r"'(\w+)'", row[0]))

    assert {state for arrow in arrows(machine) for state in arrow} - {NOWHERE} == allowed
    assert set(get_args(TYPES[machine])) == allowed


def test_the_statements_named_exist() -> None:
    table = PAGE.partition('## What makes')[2].partition('## Events')[0]
    named = set(re.findall(r'`(\w+)`', table))

    assert named
    assert named <= set(STATEMENTS)


def test_the_arrows_are_what_jobs_go_through(conn: Conn) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute(RECORDER.encode())
        go_every_way(conn)
        rows = conn.execute('SELECT DISTINCT * FROM transition WHERE before <> after').fetchall()

    for machine in get_args(Machine):
        assert {row[1:] for row in rows if row[0] == machine} == arrows(machine), machine


def go_every_way(conn: Conn) -> None:
    """Jobs that between them take every road."""
    for leave in ('cancel', 'fail'):
        queued = submitted(conn).id
        rendering = painting(conn, 1)[0].job_id
        assembling = to_assembly(conn).job_id
        for job_id in (queued, rendering, assembling):
            schema.cancel_job(conn, job_id) if leave == 'cancel' else schema.fail_job(conn, job_id, WHY)
    to_assembly(conn)
    worked_off(conn)
    repainted_and_retried(conn)
    under_partial(conn)
    without_parts(conn)
    later = datetime.now(UTC) + 2 * HOUR
    schema.expire_jobs(conn, 100, now=later)
    schema.prune_jobs(conn, HOUR, 100, now=later + 2 * HOUR)


def to_assembly(conn: Conn) -> PartKey:
    keys = painting(conn, 1)
    completed(conn, keys[0])
    relay(conn)
    return PartKey(job_id=keys[0].job_id, batch_no=2, part_index=0)


def repainted_and_retried(conn: Conn) -> None:
    assemble = to_assembly(conn)
    completed(conn, assemble)
    [event] = [event for event in waiting_events(conn) if event.job_id == assemble.job_id]
    assert schema.begin_advance(conn, event)
    schema.create_batch(conn, assemble.job_id, 'paint', [NewPart(part_index=0, generation=1)], 'rendering')
    completed(conn, PartKey(job_id=assemble.job_id, batch_no=3, part_index=0))
    relay(conn)
    again = PartKey(job_id=assemble.job_id, batch_no=4, part_index=0)
    claimed(conn, again)
    failed(conn, again, permanent=True)
    schema.retry_job(conn, assemble.job_id)
    worked_off(conn)


def under_partial(conn: Conn) -> None:
    keys = painting(conn, 1, 'partial', claim=True)
    failed(conn, keys[0], permanent=True)
    relay(conn)
    worked_off(conn)


def without_parts(conn: Conn) -> None:
    job = submitted(conn)
    completed(conn, plan_key(job))
    [event] = [event for event in waiting_events(conn) if event.job_id == job.id]
    assert schema.begin_advance(conn, event)
    schema.create_batch(conn, job.id, 'paint', [], 'rendering')
    finish(conn, job, pages=1)
