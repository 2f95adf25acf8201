"""`fanfold status`: how far a job is."""

from __future__ import annotations

import sys

import click

from fanfold.commands.service import connect, json_option, print_json, url_option


@click.command()
@click.argument('job_id', metavar='ID')
@click.option('--watch', '-w', is_flag=True, help='Follow the job until it is finished.')
@json_option
@url_option
@click.pass_context
def command(ctx: click.Context, job_id: str, watch: bool, as_json: bool, url: str | None) -> None:
    """Show how far a job is. Exits with 1 if the job failed, was cancelled or has expired.

    With --watch it follows the job: bars on a terminal, else a line for each change, with --json a
    JSON object for each.
    """
    from fanfold.description import describe, summarize
    from fanfold.progress import showing_progress

    with connect(url) as client:
        if not watch:
            job = client.get(job_id)
            if as_json:
                print_json(job.raw)
        else:
            with showing_progress(wanted=not as_json) as display:
                for job in client.follow(job_id):
                    display.job(job)
                    if as_json:
                        print_json(job.raw)
                    elif not sys.stderr.isatty():
                        click.echo(summarize(job))
    if not as_json and (not watch or sys.stderr.isatty()):
        click.echo('\n'.join(describe(job)))
    if job.is_finished and not job.is_completed:
        ctx.exit(1)
