"""`fanfold delete`: delete jobs and all they hold."""

from __future__ import annotations

import click

from fanfold.commands.service import connect, url_option


@click.command()
@click.argument('job_ids', metavar='ID...', nargs=-1, required=True)
@url_option
def command(job_ids: tuple[str, ...], url: str | None) -> None:
    """Cancel jobs if they are not finished, and remove all they hold, the PDF included."""
    with connect(url) as client:
        for job_id in job_ids:
            client.delete(job_id)
            click.echo(job_id)
