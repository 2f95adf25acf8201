"""`fanfold cancel`: cancel jobs that are not finished."""

from __future__ import annotations

import click

from fanfold.commands.service import connect, url_option


@click.command()
@click.argument('job_ids', metavar='ID...', nargs=-1, required=True)
@url_option
def command(job_ids: tuple[str, ...], url: str | None) -> None:
    """Cancel jobs. A job that is finished stays as it is, and the service refuses."""
    with connect(url) as client:
        for job_id in job_ids:
            client.cancel(job_id)
            click.echo(job_id)
