"""Migrations: Alembic running the plain SQL of `schema/migrations`, configured here, without an ini file."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.errors import UndefinedColumn, UndefinedTable

if TYPE_CHECKING:
    from alembic.config import Config

#: what statements raise where the database does not have the schema that they were written for
NotMigrated: Final = (UndefinedTable, UndefinedColumn)
#: Alembic keeps what it is doing in globals; other processes are kept out by a lock in the database
ONE_AT_A_TIME: Final = Lock()


def migrate(url: str) -> None:
    """Bring the database at a postgresql:// URL to the present schema. Safe to run at the same time by many.

    Raises Unavailable.
    """
    from alembic import command
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    engine = create_engine(make_url(url).set(drivername='postgresql+psycopg'), poolclass=NullPool)
    try:
        with ONE_AT_A_TIME, engine.begin() as connection:
            config = alembic_config()
            config.attributes['connection'] = connection
            command.upgrade(config, 'head')
    except DBAPIError as error:
        raise (error.orig or error) from error  # callers know psycopg's errors, not SQLAlchemy's


def schema_is_current(conn: psycopg.Connection[Any]) -> bool:
    """Whether the database has exactly the migrations that this version of Fanfold brings."""
    known = conn.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    if known is None or not known[0]:
        return False
    return [row[0] for row in conn.execute('SELECT version_num FROM alembic_version')] == [latest_migration()]


@cache
def latest_migration() -> str | None:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def alembic_config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option('script_location', 'schema:migrations')
    config.set_main_option('path_separator', 'os')
    return config
