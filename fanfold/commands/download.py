"""`fanfold download`: the PDF of a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fanfold.commands.service import connect, url_option

if TYPE_CHECKING:
    from fanfold.client import Client
    from fanfold.progress import Display

STANDARD_OUTPUT: Final = Path('-')


@click.command()
@click.argument('job_id', metavar='ID')
@click.option(
    '--output', '-o', type=click.Path(path_type=Path), help='File, folder, or - for stdout.  [default: ID.pdf]'
)
@click.option('--wait', is_flag=True, help='Wait until the job is finished.')
@url_option
def command(job_id: str, output: Path | None, wait: bool, url: str | None) -> None:
    """Save the PDF of a completed job and print where it is.

    A broken connection is taken up where it broke. The file appears when it is complete.
    """
    from fanfold.progress import showing_progress

    target = checked_target(output or Path(f'{job_id}.pdf'))
    with connect(url) as client, showing_progress() as display:
        if wait:
            client.wait(job_id, progress=display.job)
        path = save(client, job_id, target, display)
    if path:
        click.echo(path)


def checked_target(output: Path) -> Path:
    """Where a PDF can be written; a usage error if it cannot, before anything is done for it."""
    if output == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise click.BadParameter('a PDF is not for the terminal; pipe it on', param_hint="'--output'")
    elif not output.parent.is_dir():
        raise click.BadParameter(f'there is no folder {output.parent}', param_hint="'--output'")
    return output


def save(client: Client, job_id: str, output: Path, display: Display) -> Path | None:
    """Write the PDF to a file and return its path, or to standard output and return None."""
    if output == STANDARD_OUTPUT:
        client.download(job_id, sys.stdout.buffer, progress=display.received)
        return None
    path = output / f'{job_id}.pdf' if output.is_dir() else output
    client.download(job_id, path, progress=display.received)
    return path
