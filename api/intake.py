"""From a request's body to all that a new job needs: its spec, its input archive, its fingerprint.

What can be known at once is checked at once, and everything that is found is reported together.
Nothing here touches the database or the storage; bodies and archives are on disk, not in memory.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from api.archive import Chunks, Packed, pack
from api.content import decode_json, html_fault
from api.files import Files
from api.models import Document, JobRequest, parse_job
from api.multipart import read_multipart
from api.names import fault_of, normal
from api.problems import MOST_ERRORS, ApiProblem, refused
from assembler.importing import check_pdf
from renderer.archive import decode
from renderer.records import Records
from renderer.sources import Document as SpecDocument
from renderer.sources import HtmlDocument, Input, JobSpec, Metadata, PdfDocument, TemplateDocument
from renderer.templates import check_template
from runtime.errors import PROBLEM_PREFIX, Problem, Refusal

if TYPE_CHECKING:
    from runtime.settings import Settings

JSON_TYPE: Final = 'application/json'
MULTIPART_TYPE: Final = 'multipart/form-data'
INDEX: Final = 'index.html'
#: what the syntax check calls a template that is not a file
INLINE: Final = 'template'
ROOT_URL: Final = 'bundle:///'
NAMES_SHOWN: Final = 20
#: more than any object of a request can have
MOST_FIELDS: Final = 100
#: of one job, characters of templates whose syntax is checked at submission; the rest shows while rendering
CHECKED_CHARACTERS: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job ready to be created. `spec.input.key` is empty until the job has an id."""

    spec: JobSpec
    archive: Packed
    fingerprint: str
    failure_policy: Literal['fail', 'partial']
    time_limit: timedelta
    keep_for: timedelta


def prepare(body: IO[bytes], content_type: str, settings: Settings, folder: Path) -> Prepared:
    """Check a submission and pack its archive into `folder`. Raises ApiProblem."""
    with closing(Files(str(folder))) as files:
        request = _read(body, content_type, files, settings)
        _check_times(request, settings)
        gathering = Gathering(files, settings)
        documents = gathering.documents(request)
        gathering.conformance(request)
        gathering.named_files(request.options.stylesheets, 'options.stylesheets')
        gathering.named_files(request.options.attachments, 'options.attachments')
        gathering.raise_faults()
        archive = pack(gathering.members(), folder / 'input.zip')
    metadata = request.options.metadata
    spec = JobSpec(
        documents=tuple(documents),
        options=_named_options(request),
        parts=request.options.parts,
        document_bookmarks=bool(request.options.document_bookmarks),
        finishing=request.options.finishing(),
        metadata=Metadata.from_json(metadata.model_dump() if metadata else None),
        input=Input(key='', sha256=archive.sha256, bytes=archive.size),
    )
    return Prepared(
        spec=spec,
        archive=archive,
        fingerprint=_fingerprint(spec, archive, request),
        failure_policy=request.on_part_failure,
        time_limit=timedelta(seconds=request.deadline or settings.default_deadline),
        keep_for=timedelta(seconds=request.expires_in or settings.default_expires_in),
    )


def with_key(spec: JobSpec, key: str) -> dict[str, Any]:
    """`job.spec` as JSON, once the archive's key is known."""
    return replace(spec, input=replace(spec.input, key=key)).to_json()


def _read(body: IO[bytes], content_type: str, files: Files, settings: Settings) -> JobRequest:
    kind = content_type.partition(';')[0].strip().lower()
    if kind == JSON_TYPE:
        return _parse(decode_json(body.read(), 'body'), settings)
    if kind != MULTIPART_TYPE:
        raise ApiProblem(
            'unsupported-media-type',
            f'a job is {JSON_TYPE} or {MULTIPART_TYPE}, not {kind or "a body without Content-Type"}',
            valid=[JSON_TYPE, MULTIPART_TYPE],
        )
    job = read_multipart(body, content_type, files, max_files=settings.max_files)
    request = JobRequest() if job is None else _parse(decode_json(job, 'job'), settings)
    if request.documents is not None:
        return request
    if INDEX not in files:
        detail = f'names no documents, and there is no file {INDEX}'
        raise refused('file-missing', 'job', detail, files.names[:NAMES_SHOWN])
    return request.model_copy(update={'documents': [Document(file=INDEX)]})


def _parse(raw: object, settings: Settings) -> JobRequest:
    """The job, once it is known to be of a size that is worth a look at every fault in it."""
    if isinstance(raw, dict):
        documents = raw.get('documents')
        listed = documents if isinstance(documents, list) else []
        if len(listed) > settings.max_documents:
            raise _over('too-many-documents', 'documents', settings.max_documents, 'FANFOLD_MAX_DOCUMENTS')
        inline = [
            item['records'] for item in listed if isinstance(item, dict) and isinstance(item.get('records'), list)
        ]
        if sum(map(len, inline)) > settings.max_records:
            raise _over('too-many-records', 'documents', settings.max_records, 'FANFOLD_MAX_RECORDS')
        for item in (raw, raw.get('options'), *listed):
            if isinstance(item, dict) and len(item) > MOST_FIELDS:
                raise ApiProblem('unknown-field', f'an object has {len(item)} fields; none has so many')
    return parse_job(raw)


def _check_times(request: JobRequest, settings: Settings) -> None:
    bounds = {'deadline': settings.max_deadline, 'expires_in': settings.max_expires_in}
    for field, bound in bounds.items():
        seconds = getattr(request, field)
        if seconds is not None and seconds > bound:
            setting = f'FANFOLD_MAX_{field.upper()}'
            raise refused('invalid-request', field, f'must be at most {bound:g} seconds ({setting})')


def _named_options(request: JobRequest) -> dict[str, object]:
    options = request.options.rendering()
    for field in ('stylesheets', 'attachments'):
        if names := getattr(request.options, field):
            options[field] = [normal(name) for name in names]
    return options


def _fingerprint(spec: JobSpec, archive: Packed, request: JobRequest) -> str:
    """The payload's identity: what the job says and the content of its files, however it was transferred."""
    said: dict[str, Any] = {name: value for name, value in spec.to_json().items() if name != 'input'}
    said |= {
        'members': archive.members,
        'on_part_failure': request.on_part_failure,
        'deadline': request.deadline,
        'expires_in': request.expires_in,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(',', ':')).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    name: str
    field: str
    detail: str
    extra: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {'type': PROBLEM_PREFIX + self.name, 'field': self.field, 'detail': self.detail, **self.extra}


class Gathering:
    """Looks at each source of a job, notes what is wrong, and collects the members of the archive."""

    def __init__(self, files: Files, settings: Settings) -> None:
        self._files = files
        self._settings = settings
        self._inline: dict[str, bytes] = {}
        self._faults: list[_Fault] = []
        self._checked: dict[tuple[str, str], Any] = {}
        self._records = 0
        self._checkable = CHECKED_CHARACTERS

    def documents(self, request: JobRequest) -> list[SpecDocument]:
        """The documents as the spec has them; those at fault are left out. Raises ApiProblem over a limit."""
        if request.documents is None:
            raise refused('invalid-request', 'documents', 'is required')
        if not request.documents:
            raise refused('nothing-to-print', 'documents', 'is empty: a job has at least one document')
        found = [self._document(index, document) for index, document in enumerate(request.documents)]
        return [document for document in found if document is not None]

    def conformance(self, request: JobRequest) -> None:
        """An existing PDF is taken as it is: nothing makes it conform to a variant."""
        for index, document in enumerate(request.documents or ()):
            if document.pdf_file is not None and request.options.pdf_variant is not None:
                detail = f'an existing PDF cannot be made {request.options.pdf_variant} (options.pdf_variant)'
                self._note('pdf-invalid', f'documents.{index}.pdf_file', detail, {'document': index})

    def named_files(self, names: list[str] | None, field: str) -> None:
        """Check that an option's files are there."""
        for index, name in enumerate(names or ()):
            self._file(name, f'{field}.{index}', {})

    def members(self) -> dict[str, Chunks]:
        """All members of the archive by name."""
        members: dict[str, Chunks] = {f'files/{name}': partial(self._files.chunks, name) for name in self._files.names}
        for name, data in self._inline.items():
            members[name] = partial(iter, (data,))
        return members

    def raise_faults(self) -> None:
        """Raises ApiProblem for all faults noted; its type is that of the first."""
        if not self._faults:
            return
        first = self._faults[0]
        more = f' (and {len(self._faults) - 1} more)' if len(self._faults) > 1 else ''
        errors = [fault.to_json() for fault in self._faults[:MOST_ERRORS]]
        extra = {name: value for name, value in first.extra.items() if name != 'valid'}
        raise ApiProblem(first.name, f'{first.field}: {first.detail}{more}', errors=errors, **extra)

    def _note(self, name: str, field: str, detail: str, extra: Mapping[str, Any]) -> None:
        self._faults.append(_Fault(name=name, field=field, detail=detail, extra=extra))

    def _document(self, index: int, document: Document) -> SpecDocument | None:
        at = f'documents.{index}'
        if document.html is not None or document.file is not None:
            return self._html(index, at, document)
        if document.pdf_file is not None:
            return self._pdf(index, f'{at}.pdf_file', document.pdf_file)
        return self._template(index, at, document)

    def _html(self, index: int, at: str, document: Document) -> SpecDocument | None:
        where = {'document': index}
        if document.html is not None:
            data = document.html.encode()
            if (fault := html_fault([data])) is not None:
                self._note('not-html', f'{at}.html', fault, where)
            return HtmlDocument(source=self._keep(f'inline/{index}.html', data), base_url=ROOT_URL)
        name = self._file(document.file or '', f'{at}.file', where)
        if name is None:
            return None
        if (fault := self._once('html', name, lambda: html_fault(self._files.chunks(name)))) is not None:
            self._note('not-html', f'{at}.file', f'{name!r} {fault}', where)
        return HtmlDocument(source=f'files/{name}', base_url=ROOT_URL + quote(name), title_name=name)

    def _pdf(self, index: int, field: str, given: str) -> SpecDocument | None:
        where = {'document': index}
        name = self._file(given, field, where)
        if name is None:
            return None
        self._note_problem(self._once('pdf', name, lambda: self._pdf_problem(name)), field, where)
        return PdfDocument(source=f'files/{name}', title_name=name)

    def _pdf_problem(self, name: str) -> Problem | None:
        try:
            check_pdf(io.BytesIO(self._files.read(name)), name)
        except Refusal as refusal:
            return refusal.problem
        return None

    def _template(self, index: int, at: str, document: Document) -> SpecDocument | None:
        where = {'document': index}
        records = self._records_of(index, at, document)
        if document.template is not None:
            source = self._keep(f'inline/{index}.template.html', document.template.encode())
            self._note_problem(self._inline_template_problem(document.template), f'{at}.template', where)
            base_url = ROOT_URL
        else:
            name = self._file(document.template_file or '', f'{at}.template_file', where)
            if name is None:
                return None
            problem = self._once('template', name, lambda: self._template_file_problem(name))
            self._note_problem(problem, f'{at}.template_file', where)
            source, base_url = f'files/{name}', ROOT_URL + quote(name)
        if records is None:
            return None
        return TemplateDocument(source=source, base_url=base_url, records=records[0], record_count=records[1])

    def _inline_template_problem(self, source: str) -> Problem | None:
        """A problem that names no file: there is none, and the field says which template it is."""
        problem = self._template_problem(source, INLINE)
        if problem is None:
            return None
        extra = {name: value for name, value in problem.extra.items() if name != 'file'}
        return replace(problem, detail=problem.detail.removeprefix(INLINE).lstrip(',: '), extra=extra)

    def _template_file_problem(self, name: str) -> Problem | None:
        try:
            return self._template_problem(decode(self._files.read(name), name), name)
        except Refusal as refusal:
            return refusal.problem

    def _template_problem(self, source: str, name: str) -> Problem | None:
        if not source.strip():
            return Problem(name='not-html', detail=f'{name}: is empty')
        self._checkable -= len(source)
        return check_template(source, name) if self._checkable >= 0 else None

    def _records_of(self, index: int, at: str, document: Document) -> tuple[str, int] | None:
        """Where the records are, and how many."""
        where = {'document': index}
        if document.records is not None:
            field, count = f'{at}.records', len(document.records)
            self._count(count, field, where)
            return self._keep(f'inline/{index}.records.ndjson', self._ndjson(document.records, field, where)), count
        field = f'{at}.records_file'
        name = self._file(document.records_file or '', field, where)
        if name is None:
            return None
        counted: int | Problem = self._once('records', name, lambda: self._count_file(name, field))
        if isinstance(counted, Problem):
            self._note_problem(counted, field, where)
            return None
        self._count(counted, field, where)
        return f'files/{name}', counted

    def _count_file(self, name: str, field: str) -> int | Problem:
        try:
            records = Records.read(self._files.read(name), name)
            if len(records) > self._settings.max_records:
                raise _over('too-many-records', field, self._settings.max_records, 'FANFOLD_MAX_RECORDS')
            records.check()
        except Refusal as refusal:
            return refusal.problem
        return len(records)

    def _count(self, count: int, field: str, where: Mapping[str, Any]) -> None:
        if not count:
            self._note('nothing-to-print', field, 'has no records: a template needs at least one', where)
        self._records += count
        if self._records > self._settings.max_records:
            raise _over('too-many-records', field, self._settings.max_records, 'FANFOLD_MAX_RECORDS')

    def _ndjson(self, records: list[dict[str, Any]], field: str, where: Mapping[str, Any]) -> bytes:
        lines = []
        for number, record in enumerate(records):
            try:
                lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(',', ':')))
            except (ValueError, RecursionError) as error:
                nested = isinstance(error, RecursionError)
                detail = 'is nested too deeply' if nested else 'has a number that is too large'
                self._note('records-invalid', f'{field}.{number}', detail, {**where, 'record': number})
        return '\n'.join(lines).encode()

    def _file(self, name: str, field: str, where: Mapping[str, Any]) -> str | None:
        """The name of a file of the job as it is stored; None, noted, if there is none."""
        if (fault := fault_of(name)) is not None:
            self._note('file-name-invalid', field, f'{name!r} {fault}', where)
            return None
        name = normal(name)
        if name in self._files:
            return name
        valid = self._files.names[:NAMES_SHOWN]
        self._note('file-missing', field, f'{name!r} is not among the files of the job', {**where, 'valid': valid})
        return None

    def _keep(self, member: str, data: bytes) -> str:
        self._inline[member] = data
        return member

    def _note_problem(self, problem: Problem | None, field: str, where: Mapping[str, Any]) -> None:
        if problem is not None:
            self._note(problem.name, field, problem.detail, {**where, **problem.extra})

    def _once(self, kind: str, name: str, check: Any) -> Any:
        """What a check of a file finds; a file that many documents name is checked once."""
        key = kind, name
        if key not in self._checked:
            self._checked[key] = check()
        return self._checked[key]


def _over(name: str, field: str, limit: int, setting: str) -> ApiProblem:
    noun = name.removeprefix('too-many-')
    return ApiProblem(
        name,
        f'{field}: the job has more than {limit} {noun} ({setting})',
        limit=limit,
        setting=setting,
        errors=[{'field': field, 'detail': f'more than {limit} {noun}'}],
    )
