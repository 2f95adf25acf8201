"""`fanfold render`: one HTML document to PDF on this machine: the `weasyprint` command, in parallel.

What `weasyprint` takes on its command line is taken here, under the same names and with the same meaning.
"""

from __future__ import annotations

import json
import logging
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fanfold.local import LocalJob, Plan, WantedWindows

Command = TypeVar('Command', bound=Callable[..., object])

STANDARD: Final = '-'
VARIANTS: Final = (
    'pdf/a-1b', 'pdf/a-2b', 'pdf/a-3b', 'pdf/a-2u', 'pdf/a-3u', 'pdf/a-4u', 'pdf/a-1a', 'pdf/a-2a', 'pdf/a-3a',
    'pdf/a-4e', 'pdf/a-4f', 'pdf/ua-1', 'pdf/ua-2', 'pdf/x-1a', 'pdf/x-3', 'pdf/x-4', 'pdf/x-5g', 'debug',
)  # fmt: skip
#: the parameters that are options of WeasyPrint's rendering, by its names for them
RENDERING: Final = (
    'stylesheets', 'attachments', 'attachment_relationships', 'pdf_identifier', 'pdf_variant', 'pdf_version',
    'pdf_forms', 'pdf_tags', 'uncompressed_pdf', 'xmp_metadata', 'custom_metadata', 'output_intent',
    'presentational_hints', 'optimize_images', 'jpeg_quality', 'dpi', 'full_fonts', 'hinting', 'cache',
)  # fmt: skip


def _windows(_context: click.Context, _parameter: click.Parameter, value: str) -> WantedWindows:
    if value in ('auto', 'all'):
        return value  # type: ignore[return-value]  # one of the two literals
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise click.BadParameter(f'{value!r} is neither a number from 1 on nor all or auto')


def _tell_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        import fanfold
        from renderer.weasy import versions

        click.echo(f'WeasyPrint version {versions()["weasyprint"]}\nFanfold version {fanfold.__version__}')
        context.exit()


def _tell_info(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        import platform

        from renderer.weasy import versions

        found, system = versions(), platform.uname()
        click.echo(f'System: {system.system}\nMachine: {system.machine}')
        click.echo(f'Version: {system.version}\nRelease: {system.release}\n')
        click.echo(f'Fanfold version: {found["fanfold"]}\nWeasyPrint version: {found["weasyprint"]}')
        click.echo(f'Python version: {platform.python_version()}\nPydyf version: {found["pydyf"]}')
        click.echo(f'Pango version: {found["pango"]}')
        context.exit()


def weasyprint_options(command: Command) -> Command:
    """The options of the `weasyprint` command, in its order."""
    for option in reversed(WEASYPRINT):
        command = option(command)
    return command


WEASYPRINT: Final = (
    click.option('-i', '--info', is_flag=True, is_eager=True, expose_value=False, callback=_tell_info,
                 help='Print system information and exit.'),
    click.option('--version', is_flag=True, is_eager=True, expose_value=False, callback=_tell_version,
                 help='Print version numbers and exit.'),
    click.option('-s', '--stylesheet', 'stylesheets', multiple=True, help='URL or file of a user style sheet.'),
    click.option('-a', '--attachment', 'attachments', multiple=True, help='URL or file to attach to the PDF.'),
    click.option('--attachment-relationship', 'attachment_relationships', multiple=True,
                 help='How an attached file is related to the PDF; one for each -a.'),
    click.option('--pdf-identifier', help='The file identifier of the PDF.'),
    click.option('--pdf-variant', type=click.Choice(VARIANTS), help='The PDF variant to generate.'),
    click.option('--pdf-version', help='The version number of the PDF.'),
    click.option('--pdf-forms', is_flag=True, help='Include PDF forms.'),
    click.option('--pdf-tags', is_flag=True, help='Tag the PDF for accessibility.'),
    click.option('--uncompressed-pdf', is_flag=True, help='Do not compress the content, mainly to debug it.'),
    click.option('--xmp-metadata', multiple=True, help='URL or file to include into the XMP metadata.'),
    click.option('--custom-metadata', is_flag=True, help="Include the document's own meta tags in the metadata."),
    click.option('--output-intent', help='srgb, device-cmyk, or the CSS name of the output color space.'),
    click.option('-p', '--presentational-hints', is_flag=True, help='Follow presentational hints of the HTML.'),
    click.option('--optimize-images', is_flag=True, help='Make images smaller without loss.'),
    click.option('-j', '--jpeg-quality', type=int, help='JPEG quality from 0 (worst) to 95 (best).'),
    click.option('-D', '--dpi', type=int, help='The highest resolution of images.'),
    click.option('--full-fonts', is_flag=True, help='Embed whole fonts where that is possible.'),
    click.option('--hinting', is_flag=True, help='Keep hinting information in the fonts.'),
    click.option('-c', '--cache-folder', 'cache', help='Keep images in this folder meanwhile, not in memory.'),
    click.option('-e', '--encoding', help='The character encoding of IN, whatever it says itself.'),
    click.option('-m', '--media-type', default='print', show_default=True, help='The media type for @media.'),
    click.option('-u', '--base-url', help='What relative URLs in IN are relative to.  [default: IN]'),
    click.option('-t', '--timeout', type=int, help='Seconds an HTTP request may take.'),
    click.option('--allowed-protocols', help='The only protocols to load from, with commas between them.'),
    click.option('--no-http-redirects', is_flag=True, help='Do not follow HTTP redirects.'),
    click.option('--fail-on-http-errors', is_flag=True, help='Give up on any HTTP error.'),
    click.option('-v', '--verbose', is_flag=True, help='Show information messages too.'),
    click.option('-d', '--debug', is_flag=True, help='Show debugging messages too.'),
    click.option('-q', '--quiet', is_flag=True, help='Show no messages.'),
)  # fmt: skip


@click.command(no_args_is_help=True)
@click.argument('source', metavar='IN')
@click.argument('target', metavar='[OUT]', required=False)
@click.option('-o', '--output', metavar='OUT', help='The same as OUT after IN.')
@click.option('--workers', type=click.IntRange(min=1), metavar='N', help='Processes.  [default: the usable cores]')
@click.option(
    '--windows',
    default='auto',
    metavar='N|all',
    callback=_windows,
    help='Render in N windows, or in one at every seam.  [default: as many as pay]',
)
@click.option('--plan', 'only_plan', is_flag=True, help='Print seams and windows, and render nothing.')
@click.option('--report', metavar='FILE', help='Write what rendering took to this file, as JSON.')
@weasyprint_options
def command(
    source: str,
    target: str | None,
    output: str | None,
    only_plan: bool,
    report: str | None,
    verbose: bool,
    debug: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Render one HTML document to PDF on this machine, in parallel, with no service.

    IN is a file or a URL, or - for standard input; OUT is a file, or - for standard output. Without
    OUT it is IN's name with .pdf, in this folder; its path is printed then.

    The PDF is what `weasyprint IN OUT` writes, and its options have the same names. A document is
    split at forced page breaks (`break-before: page` and its kin) into windows, which are rendered
    at the same time; without one it is rendered whole, and --report says so.
    """
    if sum((verbose, debug, quiet)) > 1:
        raise click.UsageError('--verbose, --debug and --quiet do not go together')
    if target and output:
        raise click.UsageError('OUT is given twice')
    level = logging.DEBUG if debug else logging.INFO if verbose else None if quiet else logging.WARNING
    where = output or target
    path = where or _default_output(source)
    if not only_plan:
        _check_output(path)
    _check_report(report, path)
    job = _job(source, given)
    if only_plan:
        _plan(job, report, level)
    else:
        _render(job, path, report, level)
        if where is None and STANDARD not in (path, report):
            click.echo(path)


def _default_output(source: str) -> str:
    if source == STANDARD or '://' in source:
        return STANDARD
    return Path(source).with_suffix('.pdf').name


def _check_output(path: str) -> None:
    if path == STANDARD and sys.stdout.isatty():
        raise click.UsageError('a PDF is not for the terminal; name a file, or pipe it on')
    if path != STANDARD and Path(path).is_dir():
        raise click.UsageError(f'{path} is a folder; name a file')


def _check_report(report: str | None, path: str) -> None:
    if report == STANDARD and path == STANDARD:
        raise click.UsageError('the PDF goes to standard output, so the report cannot')


def _job(source: str, given: dict[str, Any]) -> LocalJob:
    from fanfold.local import Fetching, LocalJob
    from runtime.settings import usable_cores

    base_url: str | None = given['base_url']
    if source == STANDARD:
        base_url = '.' if base_url is None else base_url or None  # what it is for `weasyprint`
    fetching = Fetching(
        timeout=given['timeout'],
        allowed_protocols=_protocols(given['allowed_protocols']),
        follow_redirects=not given['no_http_redirects'],
        fail_on_errors=given['fail_on_http_errors'],
    )
    return LocalJob(
        source=sys.stdin.buffer.read() if source == STANDARD else source,
        base_url=base_url,
        encoding=given['encoding'],
        media_type=given['media_type'],
        options=_rendering_options(given),
        fetching=fetching,
        workers=given['workers'] or usable_cores(),
        windows=given['windows'],
    )


def _protocols(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(word.strip().lower() for word in text.split(','))


def _rendering_options(given: dict[str, Any]) -> dict[str, Any]:
    """Those that were given; the others are as WeasyPrint has them."""
    values = {name: list(given[name]) if isinstance(given[name], tuple) else given[name] for name in RENDERING}
    return {name: value for name, value in values.items() if value is not None and value is not False and value != []}


def _render(job: LocalJob, path: str, report_path: str | None, level: int | None) -> None:
    from fanfold.local import render
    from fanfold.telling import telling

    signal.signal(signal.SIGTERM, _stop)
    with telling(level) as told, _written(path), _opened(path) as file:
        report = render(job, file, progress=told.progress)
    if report_path:
        _write_json(report_path, report.to_json())


def _stop(number: int, _frame: object) -> None:
    """Leave as with Ctrl-C: children and temporary files go along."""
    raise SystemExit(128 + number)


def _plan(job: LocalJob, report_path: str | None, level: int | None) -> None:
    from fanfold.local import plan
    from fanfold.telling import telling

    with telling(level):
        found = plan(job)
    if report_path:
        _write_json(report_path, found.to_json())
    if report_path != STANDARD:
        for line in _described(found):
            click.echo(line)


def _described(plan: Plan) -> Iterator[str]:
    """A line on the whole, then one for each window: its share of the document, and where it begins."""
    windows = plan.windows
    seams, count = len(plan.seams), windows.count
    yield f'{seams} {"seam" if seams == 1 else "seams"}, {count} {"window" if count == 1 else "windows"}'
    if windows.whole_because:
        yield f'whole: {windows.whole_because}'
        return
    total = sum(windows.weights) or 1
    starts = ['the beginning', *(f'{seam.label} ({seam.page_break})' for seam in windows.seams)]
    for number, (weight, start) in enumerate(zip(windows.weights, starts, strict=True)):
        yield f'{number:>4}  {100 * weight / total:5.1f} %  {start}'


def _opened(path: str) -> AbstractContextManager[Any]:
    """Where the PDF goes: a file that appears when it is whole, a device or pipe as it is, standard output."""
    if path == STANDARD:
        return nullcontext(sys.stdout.buffer)
    from fanfold.appearing import appearing_whole

    is_plain = not Path(path).exists() or stat.S_ISREG(Path(path).stat().st_mode)
    return appearing_whole(Path(path).resolve()) if is_plain else Path(path).open('wb')


@contextmanager
def _written(path: str) -> Iterator[None]:
    """What the system says of a file that cannot be written, as one line."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f'{path} cannot be written: {error.strerror or error}') from error


def _write_json(path: str, value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2) + '\n'
    if path == STANDARD:
        click.echo(text, nl=False)
        return
    with _written(path):
        Path(path).write_text(text, encoding='utf-8')
