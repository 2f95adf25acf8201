"""What clients see of how a long document is laid out in windows."""

from schema.migrations import run_sql

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    run_sql(__file__)
