"""`fanfold submit`: from files on this machine to a PDF."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fanfold.commands.download import STANDARD_OUTPUT, checked_target, save
from fanfold.commands.service import connect, duration, json_option, print_json, url_option

if TYPE_CHECKING:
    from fanfold.client import Client, Job
    from fanfold.submission import Submission

#: options whose value is text even where it looks like a number, and those that are lists of text
TEXT: Final = frozenset(
    {
        'pdf_variant',
        'pdf_version',
        'output_intent',
        'media_type',
        'metadata.title',
        'metadata.author',
        'metadata.subject',
        'encrypt.owner_password',
        'encrypt.user_password',
    }
)
LISTS: Final = frozenset(
    {'stylesheets', 'attachments', 'attachment_relationships', 'metadata.keywords', 'encrypt.permissions'}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to ask of the service beside the files, and what to do with its answer."""

    options: dict[str, Any]
    on_part_failure: str | None
    idempotency_key: str | None
    deadline: float | None
    expires_in: float | None
    output: Path | None
    wait: bool
    as_json: bool


@click.command(no_args_is_help=True)
@click.argument('paths', metavar='[PATH...]', nargs=-1, type=click.Path(path_type=Path))
@click.option('--template', type=click.Path(path_type=Path), help='A Jinja2 template, poured full with each record.')
@click.option('--records', type=click.Path(path_type=Path), help='Its records: NDJSON, or a JSON array. - is stdin.')
@click.option('--css', multiple=True, type=click.Path(path_type=Path), help='A style sheet for every document.')
@click.option('--files', type=click.Path(path_type=Path, file_okay=False, exists=True), help='Send this whole folder.')
@click.option('--output', '-o', type=click.Path(path_type=Path), help='Save the PDF here; - is stdout.')
@click.option('--wait/--no-wait', default=True, help='Wait until the job is finished, or only submit it.')
@click.option('--option', 'assignments', metavar='KEY=VALUE', multiple=True, help='A rendering option; see above.')
@click.option('--parts', metavar='N', help='Render in so many parts at most.  [default: auto]')
@click.option(
    '--on-part-failure',
    type=click.Choice(['fail', 'partial']),
    help='Fail, or put placeholder pages for what fails.  [default: fail]',
)
@click.option('--idempotency-key', help='The same key and content mean the same job, however often submitted.')
@click.option('--deadline', metavar='TIME', callback=duration, help='How long it may take, as 90, 15m, 2h.')
@click.option('--expires-in', metavar='TIME', callback=duration, help='How long it is kept after its end, as 1d.')
@click.option('--verbose', '-v', is_flag=True, help='List the files that are sent, and those that are not.')
@json_option
@url_option
def command(
    paths: tuple[Path, ...],
    template: Path | None,
    records: Path | None,
    css: tuple[Path, ...],
    files: Path | None,
    assignments: tuple[str, ...],
    parts: str | None,
    verbose: bool,
    url: str | None,
    **request: Any,
) -> None:
    """Render HTML files, in the order given, or a template with records, to one PDF.

    A PATH is an HTML file, a PDF that comes along as it is, - for standard input, or a folder with
    an index.html. With an HTML file go the style sheets, images and fonts that it names, as far as
    they lie in its folder; --files sends a folder as it is instead.

    Prints the job's id, or with -o the path of the PDF once it is there. Exits with 1 if the job
    fails, 3 if the service does not answer, 4 if it refuses the job. Ctrl-C ends the wait, not the
    job.

    \b
    Options are WeasyPrint's, under their own names, and metadata.title, .author, .subject, .keywords:
      --option pdf_variant=pdf/ua-1 --option metadata.title='Invoices of May'
    """
    from fanfold.submission import Sources, gather

    output: Path | None = request['output']
    if output:
        if not request['wait']:
            raise click.UsageError('-o needs the job to be finished, so it does not go with --no-wait')
        checked_target(output)
    options = parse_options(assignments)
    if parts is not None:
        options['parts'] = int(parts) if parts.isdecimal() else parts
    stdin = sys.stdin.buffer.read() if Path('-') in (*paths, records) else b''
    submission = gather(Sources(paths=paths, template=template, records=records, css=css, folder=files, stdin=stdin))
    if submission.stylesheets:
        options['stylesheets'] = [*submission.stylesheets, *options.get('stylesheets', [])]
    _tell(submission, verbose=verbose)
    with connect(url) as client:
        _run(client, submission, Request(options=options, **request))


def parse_options(assignments: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs as the service takes them: JSON where a value is JSON, else text. A dot nests."""
    options: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition('=')
        if not key or not equals:
            raise click.BadParameter(f'{assignment!r} is not KEY=VALUE', param_hint="'--option'")
        group, dot, name = key.partition('.')
        place = options.setdefault(group, {}) if dot else options
        if not isinstance(place, dict):
            raise click.BadParameter(f'{group} is given as a value and as a group', param_hint="'--option'")
        place[name if dot else key] = _value(key, text)
    return options


def _value(key: str, text: str) -> Any:
    if key in TEXT:
        return text
    if key in LISTS and not text.startswith('['):
        return [item.strip() for item in text.split(',')]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tell(submission: Submission, *, verbose: bool) -> None:
    """On standard error: what is sent if that is asked for, and always what a document names and does not get."""
    if verbose:
        for name in submission.files:
            click.echo(f'sent      {name}', err=True)
    for text in submission.left_out:
        click.echo(f'not sent  {text}', err=True)


def _run(client: Client, submission: Submission, request: Request) -> None:
    from fanfold.progress import showing_progress

    job = client.submit(
        submission.documents,
        files=submission.files,
        options=request.options,
        on_part_failure=request.on_part_failure,
        deadline=request.deadline,
        expires_in=request.expires_in,
        idempotency_key=request.idempotency_key,
    )
    path = None
    if not request.output and not request.as_json:
        click.echo(job.id)
    if request.wait:
        with _told_if_interrupted(job), showing_progress() as display:
            job = client.wait(job, progress=display.job)
            if request.output:
                path = save(client, job.id, request.output, display)
    if request.as_json and request.output != STANDARD_OUTPUT:
        print_json(job.raw)
    elif path:
        click.echo(path)
    _remark(job)


def _remark(job: Job) -> None:
    from fanfold.description import remarks

    for line in remarks(job):
        click.echo(line, err=True)


@contextmanager
def _told_if_interrupted(job: Job) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f'\njob {job.id} goes on; fanfold cancel {job.id} ends it', err=True)
        raise
