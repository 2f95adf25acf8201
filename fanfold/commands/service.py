"""What commands that talk to a service share: its address, many jobs at once, how durations and JSON are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import click

if TYPE_CHECKING:
    from fanfold.client import Client

PATIENCE: Final = 60.0  # seconds; a service that restarts is back by then
_SECONDS: Final = {'': 1, 's': 1, 'm': 60, 'h': 3_600, 'd': 86_400}


Command = TypeVar('Command', bound=Callable[..., object])


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A click callback: seconds, from a number that may carry s, m, h or d."""
    if value is None:
        return None
    match = re.fullmatch(r'(\d+(?:\.\d+)?)([smhd]?)', value.strip())
    if not match:
        raise click.BadParameter(f'{value!r} is not a duration; write seconds, or 90s, 15m, 2h, 1d', ctx, param)
    return float(match[1]) * _SECONDS[match[2]]


def url_option(command: Command) -> Command:
    option = click.option(
        '--url',
        envvar='FANFOLD_URL',
        show_envvar=True,
        help='Address of the service.  [default: http://127.0.0.1:8000]',
    )
    return option(command)


def json_option(command: Command) -> Command:
    return click.option('--json', 'as_json', is_flag=True, help='Print JSON, as the service sent it.')(command)


def connect(url: str | None) -> Client:
    from fanfold.client import Client

    return Client(url, patience=PATIENCE)


def for_each(job_ids: Sequence[str], act: Callable[[str], object]) -> int:
    """Do something with each job, whatever comes of the others. Returns the worst exit code.

    A service that has gone away ends it: it would be waited for again for each.
    """
    from fanfold.cli import report
    from fanfold.client import ClientError, Unreachable

    codes = [0]
    for job_id in job_ids:
        try:
            act(job_id)
        except ClientError as error:
            codes.append(report(error))
            if isinstance(error, Unreachable):
                break
    return max(codes)


def print_json(value: object) -> None:
    """One line of JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))
