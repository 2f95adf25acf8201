"""`fanfold retry`: render again what failed."""

from __future__ import annotations

import click

from fanfold.commands.service import connect, for_each, url_option


@click.command()
@click.argument('job_ids', metavar='ID...', nargs=-1, required=True)
@click.option('--wait', is_flag=True, help='Wait until the jobs are finished.')
@url_option
@click.pass_context
def command(ctx: click.Context, job_ids: tuple[str, ...], wait: bool, url: str | None) -> None:
    """Render again what failed in failed jobs; parts that were painted are kept."""
    from fanfold.progress import showing_progress

    with connect(url) as client:
        retried: list[str] = []

        def retry(job_id: str) -> None:
            retried.append(client.retry(job_id).id)
            click.echo(retried[-1])

        def follow(job_id: str) -> None:
            with showing_progress() as display:
                client.wait(job_id, progress=display.job)

        code = for_each(job_ids, retry)
        if wait:
            code = max(code, for_each(retried, follow))
    ctx.exit(code)
