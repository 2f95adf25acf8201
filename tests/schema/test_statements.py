"""The named SQL: every statement is described, used, and takes its time as a parameter."""

from __future__ import annotations

import re
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

import schema
from schema.statements import HEADER, STATEMENTS
from tests.schema.given import submitted, worked_off

Conn = Connection[Any]
SOURCES = {path.name: path.read_text('utf-8') for path in Path(str(files('schema'))).glob('*.py')}


def test_every_statement_is_used() -> None:
    code = '\n'.join(SOURCES.values())

    assert [name for name in STATEMENTS if f"'{name}'" not in code] == []


def test_every_statement_has_a_description_that_is_a_sentence() -> None:
    texts = [file.read_text('utf-8') for file in (files('schema') / 'sql').iterdir()]
    headers = [header for text in texts for header in HEADER.findall(text)]

    assert len(headers) == len(STATEMENTS) == sum(text.count('-- name:') for text in texts)
    assert [name for name, lines in headers if not lines.strip().endswith('.')] == []


@pytest.mark.parametrize('name', STATEMENTS)
def test_the_clock_is_the_databases_and_can_be_set(name: str) -> None:
    text = STATEMENTS[name].decode()

    assert not re.search(r'(?<!\.)\bnow\(\)|current_timestamp', text)
    for clock in re.findall(r'.{0,34}clock_timestamp\(\)', text):
        assert clock.endswith('coalesce(%(now)s::timestamptz, clock_timestamp()')


def test_a_new_column_disturbs_nobody(conn: Conn) -> None:
    """A migration runs while older processes are at work, whose statements are prepared."""
    old_ways = [lambda: submitted(conn), lambda: worked_off(conn), lambda: schema.list_jobs(conn, limit=1)]
    for way in old_ways * 6:
        way()
    with conn.transaction(force_rollback=True):
        for table in ('job', 'batch', 'part', 'outbox'):
            conn.execute(f'ALTER TABLE {table} ADD COLUMN news text'.encode())
        for way in old_ways:
            way()
        assert len(schema.list_jobs(conn, limit=50)) == 7, 'one job a round, the one after the change included'


@pytest.mark.parametrize('function', ['expire_jobs', 'fail_overdue_jobs'])
def test_the_clock_is_read_by_the_server(conn: Conn, function: str) -> None:
    submitted(conn, time_limit=timedelta(days=1))

    assert getattr(schema, function)(conn, 10) == []


@pytest.mark.parametrize('module', [name for name in SOURCES if name not in {'migrate.py', 'connection.py'}])
def test_sql_is_in_sql_files_only(module: str) -> None:
    assert not re.search(r"""['"](SELECT|UPDATE|INSERT|DELETE)\b""", SOURCES[module])


def test_only_the_schema_speaks_to_postgres() -> None:
    """Others may name its types, in blocks for the type checker."""
    root = Path(str(files('schema'))).parent
    others = [
        path
        for package in ('api', 'assembler', 'fanfold', 'renderer', 'runtime', 'worker')
        for path in (root / package).rglob('*.py')
        if re.search(r'^(import|from) psycopg', path.read_text('utf-8'), re.MULTILINE)
    ]

    assert others == [], 'psycopg is imported elsewhere'
