"""`fanfold up`: the whole stack on this machine, in one command."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.option(
    '--data',
    type=click.Path(file_okay=False, path_type=Path),
    default=Path('.fanfold'),
    show_default=True,
    help='Folder for what is kept between runs.',
)
@click.option('--host', default='127.0.0.1', show_default=True, help='Address that the API listens on.')
@click.option(
    '--port',
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help='Port of the API; 0 for any that is free.',
)
@click.option('--workers', type=click.IntRange(min=1), default=1, show_default=True, help='Renderer workers.')
@click.option(
    '--threads', type=click.IntRange(min=1), help='Parts that each worker renders at once.  [default: its cores]'
)
@click.option('--database-url', envvar='FANFOLD_DATABASE_URL', help='An outside PostgreSQL, instead of one in DATA.')
@click.option('--redis-url', envvar='FANFOLD_REDIS_URL', help='An outside Valkey or Redis, instead of one in DATA.')
@click.option(
    '--s3-endpoint-url', envvar='FANFOLD_S3_ENDPOINT_URL', help='An outside S3 service, instead of one in DATA.'
)
@click.option('--s3-bucket', envvar='FANFOLD_S3_BUCKET', default='fanfold', show_default=True, help='Its bucket.')
@click.option('--s3-region', envvar='FANFOLD_S3_REGION', default='us-east-1', show_default=True, help='Its region.')
@click.option(
    '--s3-access-key-id',
    envvar='FANFOLD_S3_ACCESS_KEY_ID',
    help='Its access key; the secret comes from FANFOLD_S3_SECRET_ACCESS_KEY.',
)
@click.option(
    '--postgres-bin',
    envvar='FANFOLD_POSTGRES_BIN',
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help='Folder with the `postgres` and `initdb` to use.  [default: as found]',
)
@click.option('--servers-only', is_flag=True, help='Only PostgreSQL, Valkey and the S3 service.')
@click.option(
    '--ready-file',
    type=click.Path(dir_okay=False, path_type=Path),
    help='Write URLs, keys and process ids to this file (JSON) once all is ready.',
)
@click.option('--stop-with-parent', is_flag=True, help='Stop when the process that started this one ends.')
def command(
    data: Path,
    host: str,
    port: int,
    workers: int,
    threads: int | None,
    database_url: str | None,
    redis_url: str | None,
    s3_endpoint_url: str | None,
    s3_bucket: str,
    s3_region: str,
    s3_access_key_id: str | None,
    postgres_bin: Path | None,
    servers_only: bool,
    ready_file: Path | None,
    stop_with_parent: bool,
) -> None:
    """Run the whole stack: PostgreSQL, Valkey, an S3 service, the API, workers, the assembler.

    Each server may be an outside one, given by URL. Runs until Ctrl-C or SIGTERM; what is in DATA stays for the next
    run.
    """
    from fanfold.stack.spawn import die_with_parent
    from fanfold.stack.up import Wish, run_stack

    if stop_with_parent:
        die_with_parent()
    wish = Wish(
        data=data,
        host=host,
        port=port,
        workers=workers,
        threads=threads,
        database_url=database_url,
        redis_url=redis_url,
        s3=outside_store(s3_endpoint_url, s3_bucket, s3_region, s3_access_key_id),
        postgres_bin=postgres_bin,
        servers_only=servers_only,
        ready_file=ready_file,
    )
    run_stack(wish)


def outside_store(endpoint: str | None, bucket: str, region: str, access_key_id: str | None) -> dict[str, str] | None:
    """The variables that lead to an outside S3 service; None without an endpoint."""
    if endpoint is None:
        return None
    variables = {
        'FANFOLD_S3_ENDPOINT_URL': endpoint,
        'FANFOLD_S3_BUCKET': bucket,
        'FANFOLD_S3_REGION': region,
        'FANFOLD_S3_ACCESS_KEY_ID': access_key_id,
        'FANFOLD_S3_SECRET_ACCESS_KEY': os.environ.get('FANFOLD_S3_SECRET_ACCESS_KEY'),
    }
    return {name: value for name, value in variables.items() if value is not None}
