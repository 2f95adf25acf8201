"""`fanfold demo`: see it work, with nothing running beforehand and nothing left afterwards."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fanfold.client import Client, Job, Part


@click.command()
@click.option(
    '--documents', type=click.IntRange(min=1), default=200, show_default=True, help='Delivery notes to render.'
)
@click.option('--parts', type=click.IntRange(min=1), default=8, show_default=True, help='Parts to render them in.')
@click.option(
    '--output',
    '-o',
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path('out/demo.pdf'),
    show_default=True,
    help='Where the PDF goes.',
)
@click.option(
    '--data',
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the stack's data.  [default: a temporary one]",
)
@click.option('--log', type=click.Path(path_type=Path, dir_okay=False), help='Keep the log of the stack here.')
@click.pass_context
def command(ctx: click.Context, documents: int, parts: int, output: Path, data: Path | None, log: Path | None) -> None:
    """Render delivery notes in parallel on a stack of its own, and show that it was so.

    Starts PostgreSQL, Valkey, an S3 server, the API, a worker and the assembler on free ports,
    submits one job, downloads and checks the PDF, shows when each part was painted, stops
    everything. Exits with 1 if the PDF is not as it should be, or was not painted in parallel.
    """
    from fanfold.client import Client
    from fanfold.demo.evidence import faults_of_pdf, faults_of_spans, spans_of
    from fanfold.demo.stack import running_stack
    from runtime.settings import usable_cores

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to stop is no reason to leave things behind
    output = output.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    cores = usable_cores()
    click.echo('Starting the stack …')
    began = time.monotonic()
    with running_stack(data, log=log) as url:
        click.echo(f'It is ready at {url} after {time.monotonic() - began:.1f} s.')
        with Client(url) as client:
            job = _render(client, documents, parts, output)
            painted = [part for part in client.parts(job) if part.kind == 'paint']
        click.echo('Stopping the stack …')
    _report(job, painted, output, cores)
    faults = faults_of_pdf(output, documents=documents, pages=job.pages)
    faults += faults_of_spans(spans_of(painted), parts=min(parts, documents), cores=cores)
    for fault in faults:
        click.echo(f'WRONG: {fault}', err=True)
    if faults:
        ctx.exit(1)
    click.echo(f'Checked: all {documents} notes are there, each with all its pages, in order.')


def _render(client: Client, documents: int, parts: int, output: Path) -> Job:
    """Submit the notes, follow the job to its end, download the PDF."""
    import fanfold.demo
    from fanfold.demo.records import ndjson
    from fanfold.progress import showing_progress

    folder = Path(fanfold.demo.__file__).parent
    files: dict[str, Path | bytes] = {name: folder / name for name in ('note.html', 'note.css', 'note.svg')}
    click.echo(f'Rendering {documents} documents in {parts} parts …')
    with showing_progress() as display:
        job = client.submit(
            [{'template_file': 'note.html', 'records_file': 'notes.ndjson'}],
            files={**files, 'notes.ndjson': ndjson(documents)},
            options={'parts': parts, 'metadata': {'title': f'{documents} delivery notes'}},
        )
        job = client.wait(job, progress=display.job)
        client.download(job, output, progress=display.received)
    return job


def _report(job: Job, painted: list[Part], output: Path, cores: int) -> None:
    from fanfold.demo.evidence import chart, overlapping, spans_of
    from fanfold.progress import counted_pages

    spans = spans_of(painted)
    size = output.stat().st_size
    click.echo(f'\nPDF      {output}\n         {counted_pages(job.pages or 0)}, {size:,} bytes')
    click.echo('Seconds  ' + ', '.join(f'{step} {seconds:.2f}' for step, seconds in job.timings.items()))
    click.echo('\n' + '\n'.join(chart(spans)) + '\n')
    processes = len({span.pid for span in spans})
    click.echo(f'{len(spans)} parts by {processes} processes, up to {overlapping(spans)} at the same time.')
    if cores == 1:
        click.echo('This machine lets us use one core, so one part is painted after the other.')
