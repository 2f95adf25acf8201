"""The tables of the completion protocol."""

from schema.migrations import run_sql

revision = '0001'
down_revision = None


def upgrade() -> None:
    run_sql(__file__)
