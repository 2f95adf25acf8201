"""`fanfold list`: the jobs of a service."""

from __future__ import annotations

import sys

import click

from fanfold.commands.service import connect, json_option, print_json, url_option


@click.command()
@click.option('--status', help='Only jobs in this state, as `completed` or `failed`.')
@click.option('--limit', '-n', type=click.IntRange(min=1), default=20, show_default=True, help='How many at most.')
@click.option('--all', 'every', is_flag=True, help='All of them.')
@json_option
@url_option
def command(status: str | None, limit: int, every: bool, as_json: bool, url: str | None) -> None:
    """List jobs, newest first.

    In a pipe the columns are separated by tabs: id, status, pages, time of creation. With --json
    each job is a JSON object on a line of its own.
    """
    from fanfold.description import local_time

    columns = '{:<36}  {:<11}  {:>8}  {}' if sys.stdout.isatty() else '{}\t{}\t{}\t{}'
    with connect(url) as client:
        for job in client.list(status=status, limit=None if every else limit):
            if as_json:
                print_json(job.raw)
                continue
            created = local_time(job.created_at) if job.created_at else ''
            click.echo(columns.format(job.id, job.status, '' if job.pages is None else job.pages, created))
