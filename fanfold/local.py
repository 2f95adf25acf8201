"""Rendering one HTML document on this machine, with no services at all: the PDF that WeasyPrint writes.

    report = render(LocalJob(source='book.html', workers=2), output)

What WeasyPrint has to say goes to the logger `weasyprint`, as ever; each warning comes once, in the order of the
document. Files and addresses that the document names are loaded as the `weasyprint` command loads them: anything that
this user may read.
"""

from __future__ import annotations

import io
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from weasyprint import HTML
from weasyprint.urls import FatalURLFetchingError, URLFetcher

from fanfold.telling import warnings_once
from fanfold.windowed import WindowedRendering
from renderer import weasy
from renderer.parallel import RenderedWindow, RenderWhole, Step
from renderer.seams import NO_FORCED_BREAK, ONE_WINDOW_ASKED, Seam, Windows, cut
from renderer.weasy.prepared import PreparedDocument
from runtime.errors import Problem, Refusal

WantedWindows = int | Literal['auto', 'all']

NOT_LINUX: Final = 'several processes can share a document on Linux only'
DIRTY_SEAMS: Final = 'floats or footnotes go over every page break where it could be split'


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetching:
    """How files and addresses are loaded; what is None is as WeasyPrint has it."""

    timeout: float | None = None
    allowed_protocols: frozenset[str] | None = None
    follow_redirects: bool = True
    fail_on_errors: bool = False

    def fetcher(self) -> URLFetcher:
        given: dict[str, Any] = {'allow_redirects': self.follow_redirects, 'fail_on_errors': self.fail_on_errors}
        if self.timeout is not None:
            given['timeout'] = self.timeout
        if self.allowed_protocols is not None:
            given['allowed_protocols'] = set(self.allowed_protocols)
        return URLFetcher(**given)


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalJob:
    """A document to render. Raises ValueError for a number of workers or windows that makes no sense."""

    #: a path or URL, or the document itself
    source: str | bytes
    base_url: str | None = None
    encoding: str | None = None
    media_type: str = 'print'
    #: WeasyPrint's, under their own names
    options: Mapping[str, Any] = field(default_factory=dict)
    zoom: float = 1
    fetching: Fetching = Fetching()
    workers: int = 1
    windows: WantedWindows = 'auto'

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f'workers: {self.workers} is less than 1')
        if isinstance(self.windows, int) and self.windows < 1:
            raise ValueError(f'windows: {self.windows} is less than 1')

    @property
    def name(self) -> str:
        return self.source if isinstance(self.source, str) else 'the document'

    def to_json(self, folder: Path) -> dict[str, Any]:
        """For another process of this machine; a document that has no name is put into a file of this folder."""
        file = None
        if isinstance(self.source, bytes):
            file = folder / 'source'
            file.write_bytes(self.source)
        fetching = {**asdict(self.fetching)}
        if self.fetching.allowed_protocols is not None:
            fetching['allowed_protocols'] = sorted(self.fetching.allowed_protocols)
        return {
            'source': None if file else self.source,
            'file': None if file is None else str(file),
            'base_url': self.base_url,
            'encoding': self.encoding,
            'media_type': self.media_type,
            'options': _options_to_json(self.options),
            'zoom': self.zoom,
            'fetching': fetching,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LocalJob:
        given = dict(value)
        file = given.pop('file')
        fetching = given.pop('fetching')
        if fetching['allowed_protocols'] is not None:
            fetching['allowed_protocols'] = frozenset(fetching['allowed_protocols'])
        named = given.pop('source')
        source = named if file is None else Path(file).read_bytes()
        options = _options_from_json(given.pop('options'))
        return cls(source=source, options=options, fetching=Fetching(**fetching), **given)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Where a document can be split, and where it would be for this job."""

    seams: tuple[Seam, ...]
    windows: Windows

    def to_json(self) -> dict[str, Any]:
        return {
            'seams': [seam.to_json() for seam in self.seams],
            'windows': [
                {'window': number, 'label': label, 'weight': weight}
                for number, (label, weight) in enumerate(zip(self._labels(), self.windows.weights, strict=True))
            ],
            'whole_because': self.windows.whole_because,
        }

    def _labels(self) -> list[str]:
        return ['', *(seam.label for seam in self.windows.seams)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One window as it was rendered. Times are CPU seconds, memory is the process's largest resident set."""

    window: int
    #: where it begins: `#id`, or a heading; empty for the beginning of the document
    label: str
    #: of its first page, from 1
    first_page: int
    pages: int
    #: how often it was laid out
    rounds: int
    layout_seconds: float
    paint_seconds: float
    memory_bytes: int
    #: of `layout_seconds`, those of each round
    round_seconds: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        told = {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}
        return {**told, 'round_seconds': [round(seconds, 3) for seconds in self.round_seconds]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What rendering took."""

    pages: int
    seams: tuple[Seam, ...]
    parts: tuple[Part, ...]
    #: rounds of layout until all windows agreed
    rounds: int
    #: why the document was not split; None if it was
    whole_because: str | None
    seconds: float
    cpu_seconds: float
    #: CPU seconds of what is done once: preparing the document, making one PDF of the windows
    prepare_seconds: float = 0.0
    assemble_seconds: float = 0.0

    @property
    def windows(self) -> int:
        return len(self.parts)

    def to_json(self) -> dict[str, Any]:
        return {
            'pages': self.pages,
            'windows': self.windows,
            'rounds': self.rounds,
            'whole_because': self.whole_because,
            'seconds': round(self.seconds, 3),
            'cpu_seconds': round(self.cpu_seconds, 3),
            'prepare_seconds': round(self.prepare_seconds, 3),
            'assemble_seconds': round(self.assemble_seconds, 3),
            'seams': [seam.to_json() for seam in self.seams],
            'parts': [part.to_json() for part in self.parts],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far rendering is."""

    step: Literal['preparing', 'laying out', 'painting', 'assembling']
    #: windows that have done this step, and all
    done: int = 0
    total: int | None = None
    #: pages, as far as they are known
    pages: int | None = None


Watcher = Callable[[Progress], None]


def plan(job: LocalJob) -> Plan:
    """Where the document would be split. Raises Refusal if it cannot be read."""
    with warnings_once(), _refusing(job):
        prepared = PreparedDocument(open_html(job), job.options)
    windows = cut(prepared.seams, prepared.weight, windows=job.windows, workers=job.workers)
    return Plan(seams=tuple(prepared.seams), windows=windows)


def render(job: LocalJob, output: BinaryIO, *, progress: Watcher | None = None) -> Report:
    """Write the PDF. Raises Refusal, with one line that says what could not be read or rendered."""
    with warnings_once():
        return _render(job, output, progress or _nobody)


def _render(job: LocalJob, output: BinaryIO, watcher: Watcher) -> Report:
    if job.windows == 1 or (job.windows == 'auto' and job.workers == 1):
        return _render_whole(job, output, watcher, whole_because=ONE_WINDOW_ASKED)
    if sys.platform != 'linux':
        return _render_whole(job, output, watcher, whole_because=NOT_LINUX)
    try:
        return _render_in_windows(job, output, watcher)
    except RenderWhole as whole:
        return _render_whole(job, output, watcher, whole_because=str(whole))


def _render_in_windows(job: LocalJob, output: BinaryIO, progress: Watcher) -> Report:
    """A window each in a child of the press. Raises RenderWhole where that is not to be."""
    started = time.monotonic()
    cpu_started = _cpu_seconds()
    progress(Progress(step='preparing'))
    with WindowedRendering(job) as rendering:
        seams, windows = rendering.plan()
        if windows.count == 1:
            raise RenderWhole(windows.whole_because or NO_FORCED_BREAK)
        rendered = rendering.render(windows, output, lambda step: progress(_progress_of(step)))
        rounds, timings = rendering.rounds, rendering.timings
    labels = ['', *(seam.label for seam in windows.seams)]
    return Report(
        pages=sum(window.pages for window in rendered),
        seams=seams,
        parts=tuple(_part(window, labels[window.number]) for window in rendered),
        rounds=rounds,
        whole_because=None if len(rendered) > 1 else DIRTY_SEAMS,
        seconds=time.monotonic() - started,
        cpu_seconds=_cpu_seconds() - cpu_started,
        prepare_seconds=timings['prepare'],
        assemble_seconds=timings['assemble'],
    )


def _progress_of(step: Step) -> Progress:
    name: Literal['laying out', 'painting'] = 'laying out' if step.step == 'layout' else 'painting'
    return Progress(step=name, done=step.done, total=step.total, pages=step.pages)


def _part(window: RenderedWindow, label: str) -> Part:
    ended = [float(timing['cpu_seconds']) for timing in window.layout]
    rounds = [max(0.0, after - before) for before, after in pairwise([0.0, *ended])]
    return Part(
        window=window.number,
        label=label,
        first_page=window.first_page,
        pages=window.pages,
        rounds=window.rounds,
        layout_seconds=sum(rounds),
        paint_seconds=max(0.0, window.paint['cpu_seconds'] - (ended[-1] if ended else 0.0)),
        memory_bytes=window.paint['max_rss_bytes'],
        round_seconds=tuple(rounds),
    )


def _cpu_seconds() -> float:
    """Of this process and all that it waited for."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _render_whole(job: LocalJob, output: BinaryIO, progress: Watcher, *, whole_because: str) -> Report:
    """One window, in this process."""
    weasy.tune()
    started, cpu_started = time.monotonic(), time.process_time()
    progress(Progress(step='preparing'))
    with _refusing(job):
        html = open_html(job)
        progress(Progress(step='laying out', total=1))
        document = html.render(**job.options)
    laid_out = time.process_time()
    progress(Progress(step='painting', total=1, pages=len(document.pages)))
    with _refusing(job):
        pdf = io.BytesIO()
        document.write_pdf(pdf, job.zoom, **job.options)
    output.write(pdf.getbuffer())
    cpu_ended = time.process_time()
    part = Part(
        window=0,
        label='',
        first_page=1,
        pages=len(document.pages),
        rounds=1,
        layout_seconds=laid_out - cpu_started,
        paint_seconds=cpu_ended - laid_out,
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    return Report(
        pages=part.pages,
        seams=(),
        parts=(part,),
        rounds=1,
        whole_because=whole_because,
        seconds=time.monotonic() - started,
        cpu_seconds=cpu_ended - cpu_started,
    )


def open_html(job: LocalJob) -> HTML:
    """The document, parsed, as the `weasyprint` command reads it."""
    source = io.BytesIO(job.source) if isinstance(job.source, bytes) else job.source
    return HTML(
        source,
        base_url=job.base_url,
        encoding=job.encoding,
        media_type=job.media_type,
        url_fetcher=job.fetching.fetcher(),
    )


@contextmanager
def _refusing(job: LocalJob) -> Iterator[None]:
    """Turn what WeasyPrint raises into a Refusal of one line."""
    try:
        yield
    except (OSError, FatalURLFetchingError) as error:
        what = error.filename if isinstance(error, OSError) and error.filename else job.name
        reason = (error.strerror if isinstance(error, OSError) else None) or _told(error)
        raise Refusal(Problem(name='file-missing', detail=f'{what} cannot be read: {reason}')) from error
    except (Refusal, MemoryError):
        raise
    except Exception as error:
        detail = f'{job.name} cannot be rendered: {type(error).__name__}: {error}'
        raise Refusal(Problem(name='render-error', detail=detail)) from error


def _options_to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON; bytes as text of one character each."""
    return {
        name: {'latin-1': value.decode('latin-1')} if isinstance(value, bytes) else value
        for name, value in options.items()
    }


def _options_from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value['latin-1'].encode('latin-1') if isinstance(value, dict) else value
        for name, value in options.items()
    }


def _told(error: BaseException) -> str:
    cause = f': {error.__cause__}' if error.__cause__ else ''
    return f'{error}{cause}'


def _nobody(_progress: Progress) -> None:
    """Watches when nobody else does."""
