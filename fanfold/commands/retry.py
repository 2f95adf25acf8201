"""`fanfold retry`: render again what failed."""

from __future__ import annotations

import click

from fanfold.commands.service import connect, url_option


@click.command()
@click.argument('job_id', metavar='ID')
@click.option('--wait', is_flag=True, help='Wait until the job is finished.')
@url_option
def command(job_id: str, wait: bool, url: str | None) -> None:
    """Render again what failed in a failed job; parts that were painted are kept."""
    from fanfold.progress import showing_progress

    with connect(url) as client:
        job = client.retry(job_id)
        click.echo(job.id)
        if wait:
            with showing_progress() as display:
                client.wait(job, progress=display.job)
