"""`fanfold delete`: delete jobs and all they hold."""

from __future__ import annotations

import click

from fanfold.commands.service import connect, for_each, url_option


@click.command()
@click.argument('job_ids', metavar='ID...', nargs=-1, required=True)
@url_option
@click.pass_context
def command(ctx: click.Context, job_ids: tuple[str, ...], url: str | None) -> None:
    """Cancel jobs if they are not finished, and remove all they hold, the PDF included."""
    with connect(url) as client:

        def end(job_id: str) -> None:
            client.delete(job_id)
            click.echo(job_id)

        code = for_each(job_ids, end)
    ctx.exit(code)
