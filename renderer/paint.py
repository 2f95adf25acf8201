"""A run of documents → one bundle, in order. What a child of the worker's zygote runs.

Each document has the pages WeasyPrint gives it, and all that WeasyPrint writes beside them. In a job of several
documents whatever has a name is named after its item: `d12/total`. With placeholders, a document that cannot be
rendered becomes one page that says so.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final

from PIL import Image

from assembler.importing import import_pdf
from renderer import weasy
from renderer.archive import INLINE, Archive, read_text
from renderer.fetch import BundleFetcher, file_url
from renderer.notices import Notices
from renderer.records import Records
from renderer.runs import fingerprint
from renderer.sources import HtmlDocument, Item, JobSpec, Metadata, PdfDocument, TemplateDocument
from renderer.templates import Template
from runtime.errors import Problem, Refusal
from worker.faults import is_of_host

#: is told the item that comes next, or None where what follows belongs to no item
Report = Callable[[tuple[int, int | None] | None], None]

#: limits of the child, which are not for the document to answer for
LIMIT_ERRORS: Final = frozenset({errno.EFBIG, errno.ENOMEM})

#: what a first document would otherwise import, in each child again
LOADED_LATE: Final = ('decimal', 'email.contentmanager', 'email.policy', 'encodings.cp437', 'encodings.utf_8_sig')

#: what a problem may have to say of an item that is missing, beside its type and detail
TOLD_OF_MISSING: Final = ('field', 'file', 'line')

PLACEHOLDER: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<style>
  @page {{ margin: 3cm }}
  body {{ font: 12pt/1.5 sans-serif; border: 1pt solid; padding: 1cm; bookmark-level: none }}
  h1 {{ font-size: 18pt; margin: 0 0 1em; bookmark-level: none }}
  p {{ overflow-wrap: anywhere }}
</style>
<h1>Missing: {what}</h1><p>{why}</p>"""


def render_child(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Paint the part that the payload describes (RenderRequest) and return its result. Raises Refusal."""
    started = time.time()
    with Archive(Path(payload['archive'])) as archive:
        painting = Painting(archive, JobSpec.from_json(payload['spec']), part=payload['part'])
        result = painting.paint(
            Path(payload['output']),
            report=report,
            placeholders=payload['placeholders'],
            skip=frozenset(payload['skip']),
        )
    used = resource.getrusage(resource.RUSAGE_SELF)
    result['timing'] = {
        'started_at': started,
        'finished_at': time.time(),
        'cpu_seconds': used.ru_utime + used.ru_stime,
        'max_rss_bytes': used.ru_maxrss * 1024,
        'child_pid': os.getpid(),
    }
    return result


@dataclass(slots=True)
class _Outcome:
    items: list[list[int | None]] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    problem: Problem | None = None

    def add(self, item: Item, pages: int, problem: Problem | None = None) -> None:
        self.items.append([item.document, item.record, pages])
        if problem is not None:
            self.problem = self.problem or problem
            told = problem.to_json()
            more: dict[str, Any] = {key: told[key] for key in ('type', 'detail', *TOLD_OF_MISSING) if key in told}
            self.missing.append({'document': item.document, 'record': item.record, **more})


class Painting:
    """One part being painted."""

    def __init__(self, archive: Archive, job: JobSpec, *, part: Mapping[str, int]) -> None:
        self._archive = archive
        self._job = job
        self._items = list(job.items(part['first_item'], part['item_count']))
        self._alone = job.item_count == 1
        self._fetcher = BundleFetcher(archive)
        self._notices = Notices(name_items=not self._alone)
        self._sources: dict[int, _Source] = {}

    @cached_property
    def _typesetter(self) -> weasy.Typesetter:
        return weasy.Typesetter(self._fetcher, options_of(self._job, self._archive))

    def paint(
        self, output: Path, *, report: Report, placeholders: bool = False, skip: frozenset[int] = frozenset()
    ) -> dict[str, Any]:
        """Write the bundle; the result of a paint part, timing aside. Raises Refusal."""
        outcome = _Outcome()
        with self._notices.listening(), output.open('wb') as file:
            if self._existing is not None and not skip:
                self._import(file, self._existing, outcome, report)
            elif self._alone:
                self._paint_alone(file, outcome, report, skip)
            else:
                self._paint_run(file, outcome, report, placeholders=placeholders, skip=skip)
        if outcome.problem is not None and len(outcome.missing) == self._job.item_count:
            raise Refusal(outcome.problem)  # nothing but placeholders is no result
        return {
            'pages': sum(pages or 0 for _, _, pages in outcome.items),
            'items': outcome.items,
            'missing': outcome.missing,
            'warnings': self._notices.warnings(self._fetcher.refusals),
        }

    @property
    def _existing(self) -> PdfDocument | None:
        """The existing PDF that the part is, if it is one."""
        document = self._job.documents[self._items[0].document]
        return document if isinstance(document, PdfDocument) else None

    def _import(self, file: Any, document: PdfDocument, outcome: _Outcome, report: Report) -> None:
        (item,) = self._items
        report(item.position)
        self._notices.at(item)
        options = self._job.options
        with _refusing(item):
            made = import_pdf(
                io.BytesIO(self._archive.read(document.source)),
                file,
                name=document.title_name,
                item=item.number,
                prefix='' if self._alone else f'd{item.number}/',
                version=weasy.version_of(options),
                compress=not options.get('uncompressed_pdf'),
            )
        if made.left_out:
            self._notices.add(f'{document.title_name}: left out are {", ".join(made.left_out)}')
        outcome.add(item, made.pages)

    def _paint_alone(self, file: Any, outcome: _Outcome, report: Report, skip: frozenset[int]) -> None:
        """The only document of a job: there is nothing to show if it cannot be rendered."""
        (item,) = self._items
        report(item.position)
        if item.number in skip:
            raise Refusal(_skipped(item))
        document = self._set(item)
        dress(document.metadata, self._job.metadata)
        volume = self._typesetter.volume(file)
        with _refusing(item):
            volume.add_alone(document)
        outcome.add(item, len(document.pages))
        volume.close()

    def _paint_run(
        self, file: Any, outcome: _Outcome, report: Report, *, placeholders: bool, skip: frozenset[int]
    ) -> None:
        volume = self._typesetter.volume(file)
        for item in self._items:
            report(item.position)
            self._notices.at(item)
            problem = _skipped(item) if item.number in skip else None
            if problem is None:
                try:
                    document = self._set(item)
                    with _refusing(item):
                        self._bind(volume, document, item)
                except Refusal as refusal:
                    if not placeholders:
                        raise
                    problem = refusal.problem
            if problem is not None:
                document = self._typesetter.set(_placeholder(item, problem), 'bundle:///')
                self._bind(volume, document, item)
            outcome.add(item, len(document.pages), problem)
            self._typesetter.tidy(len(document.pages))
            del document
        report(None)
        volume.close()

    def _bind(self, volume: weasy.Volume, document: Any, item: Item) -> None:
        if item.number == 0:
            dress(document.metadata, self._job.metadata)
        volume.add(document, item.number)

    def _set(self, item: Item) -> Any:
        """Lay an item's document out. Raises Refusal, naming the item."""
        with _refusing(item):
            if item.document not in self._sources:
                document = self._job.documents[item.document]
                assert not isinstance(document, PdfDocument), 'a part of its own, which is imported'
                self._sources[item.document] = _Source(self._archive, document)
            source = self._sources[item.document]
            return self._typesetter.set(source.html(item), source.base_url)


def options_of(job: JobSpec, archive: Archive) -> dict[str, Any]:
    """The job's options, with its files given by URL. Raises Refusal for one that is not there."""
    options = dict(job.options)
    for key in ('stylesheets', 'attachments'):
        if options.get(key):
            options[key] = [_url(name, archive) for name in options[key]]
    return options


def _url(name: str, archive: Archive) -> str:
    if not archive.has_file(name):
        raise Refusal(Problem(name='file-missing', detail=f'the job has no file {name!r}', extra={'file': name}))
    return file_url(name)


def dress(metadata: Any, given: Metadata) -> None:
    """Give a document's metadata what the job sets."""
    metadata.title = given.title or metadata.title
    metadata.authors = [given.author] if given.author else metadata.authors
    metadata.description = given.subject or metadata.description
    metadata.keywords = list(given.keywords) or metadata.keywords


def read_html(document: HtmlDocument, archive: Archive) -> str | bytes:
    """The HTML; of a file as bytes, for WeasyPrint to find out about the encoding. Raises Refusal."""
    if document.source.startswith(INLINE):
        return read_text(archive, document.source)
    return archive.read(document.source)


class _Source:
    """The HTML of one document of the job; template and records are read once, when they are first needed."""

    def __init__(self, archive: Archive, document: HtmlDocument | TemplateDocument) -> None:
        self._archive = archive
        self._document = document
        self.base_url = document.base_url

    def html(self, item: Item) -> str | bytes:
        """Raises Refusal."""
        if item.record is not None:
            records = self._records
            if item.record >= len(records):
                detail = f'{records.name} has {len(records)} records, not {self._document.item_count}'
                raise Refusal(Problem(name='records-invalid', detail=detail))
            return self._template.fill(records[item.record], item.record)
        assert isinstance(self._document, HtmlDocument)
        return read_html(self._document, self._archive)

    @cached_property
    def _template(self) -> Template:
        member = self._document.source
        return Template(read_text(self._archive, member), member, self._archive)

    @cached_property
    def _records(self) -> Records:
        assert isinstance(self._document, TemplateDocument)
        return Records.read(self._archive.read(self._document.records), self._document.records)


@contextmanager
def _refusing(item: Item) -> Iterator[None]:
    """Turn whatever a document raises into a Refusal that names it; failures of the host come through."""
    try:
        yield
    except Refusal as refusal:
        raise Refusal(_placed(refusal.problem, item)) from refusal
    except MemoryError:
        raise
    except Exception as error:
        if is_of_host(error) or (isinstance(error, OSError) and error.errno in LIMIT_ERRORS):
            raise
        detail = f'{_name(item)}: {type(error).__name__}: {error}'
        raise Refusal(_placed(Problem(name='render-error', detail=detail), item)) from error


def _placed(problem: Problem, item: Item) -> Problem:
    where: dict[str, Any] = {'document': item.document}
    if item.record is not None:
        where['record'] = item.record
    return Problem(name=problem.name, detail=problem.detail, extra=where | problem.extra)


def _skipped(item: Item) -> Problem:
    return _placed(
        Problem(name='render-error', detail=f'{_name(item)} could not be rendered within the limits of a part'), item
    )


def _name(item: Item) -> str:
    return f'document {item.document}' + ('' if item.record is None else f', record {item.record}')


def _placeholder(item: Item, problem: Problem) -> str:
    return PLACEHOLDER.format(what=escape(_name(item)), why=escape(problem.detail))


def preload(may_render: bool) -> dict[str, Any]:
    """What a zygote does before it forks: load and warm everything a document waits for."""
    weasy.tune()
    Image.preinit()
    for module in LOADED_LATE:
        importlib.import_module(module)
    if may_render:
        weasy.warm()
    return {'fingerprint': fingerprint()}
