"""`fanfold migrate`: make the database and the bucket what this version needs."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Bring the database to the present schema and make the bucket if there is none.

    The addresses come from FANFOLD_DATABASE_URL and FANFOLD_S3_…; several may run at once.
    """
    import math

    import schema
    from runtime.errors import Retryable
    from runtime.logs import configure_logs
    from runtime.settings import load_settings
    from runtime.storage import Storage

    settings = load_settings()
    configure_logs(settings, process='migrate')
    try:
        schema.migrate(settings.database_url)
    except schema.Unavailable as error:
        raise Retryable(f'FANFOLD_DATABASE_URL: {str(error).strip()}') from error
    # Objects that the sweeper somehow missed go by the bucket's own rule, a week after the last job could need them.
    Storage(settings).ensure_bucket(retention_days=math.ceil(settings.max_expires_in / 86_400) + 7)
    click.echo(f'database and bucket {settings.s3_bucket} are ready')
