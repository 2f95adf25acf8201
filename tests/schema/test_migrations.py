"""The migrations and the readable schema are the same database."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.resources import files
from multiprocessing import get_context

import psycopg
import pytest

import schema

CATALOG = {
    'columns': """
        SELECT table_name, column_name, data_type, udt_name, is_nullable, column_default, is_identity,
            is_generated, generation_expression
        FROM information_schema.columns WHERE table_schema = 'public'""",
    'constraints': """
        SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    'indexes': "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    'storage': """
        SELECT relname, relkind, reloptions FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i', 'S', 'v')""",
    'functions': "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
    'triggers': 'SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal',
}


def catalog(url: str) -> dict[str, set[str]]:
    with psycopg.connect(url) as conn:
        return {
            what: {repr(row) for row in conn.execute(query) if not str(row[0]).startswith('alembic_version')}
            for what, query in CATALOG.items()
        }


def test_migrations_lead_to_the_readable_schema(database_url: str, empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as conn:
        conn.execute((files('schema') / 'schema.sql').read_bytes())

    readable, migrated = catalog(empty_database_url), catalog(database_url)

    for what in CATALOG:
        assert readable[what] == migrated[what], what
    assert readable['columns']
    assert readable['constraints']


def test_many_may_migrate_at_once(empty_database_url: str) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context('spawn')) as processes, ThreadPoolExecutor(2) as threads:
        running = [executor.submit(schema.migrate, empty_database_url) for executor in (processes, threads) * 3]
        for future in running:
            future.result()

    with psycopg.connect(empty_database_url) as conn:
        assert schema.schema_is_current(conn)


def test_an_empty_database_is_not_current(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as conn:
        assert not schema.schema_is_current(conn)


def test_a_failing_migration_leaves_nothing_behind(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as conn:
        conn.execute('CREATE TABLE processed_event (in_the_way integer)')

    with pytest.raises(Exception, match='processed_event'):
        schema.migrate(empty_database_url)

    with psycopg.connect(empty_database_url) as conn:
        tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [('processed_event',)]
