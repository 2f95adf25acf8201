"""What Alembic runs: all pending migrations in the caller's transaction, one migrating process at a time."""

from typing import Final

from alembic import context
from sqlalchemy import text

#: any number, the same in every version of Fanfold
MIGRATION_LOCK: Final = 7_241_093_551

connection = context.config.attributes['connection']
connection.execute(text('SELECT pg_advisory_xact_lock(:lock)'), {'lock': MIGRATION_LOCK})
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
