"""The way from an empty database to `schema/schema.sql`, one plain SQL file for each step.

A migration that has been released is never edited.
"""

from pathlib import Path

from alembic import op


def run_sql(migration: str) -> None:
    """Run the SQL file beside a migration module; `migration` is the module's __file__.

    It goes to the driver itself, without parameters: only so may a text hold several statements.
    """
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute(Path(migration).with_suffix('.sql').read_text('utf-8'))
