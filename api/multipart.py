"""`multipart/form-data` → the job's JSON and its files.

python-multipart finds the parts; the names are read here, because its own reading drops the folders
of Windows paths, which must be refused and not silently taken for something else. Names are UTF-8;
`filename*` (RFC 5987), which RFC 7578 forbids but some clients send, is understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from api.names import fault_of, normal
from api.problems import MOST_ERRORS, ApiProblem, FieldError, field_problem, refused

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

    from api.files import Files

READ_BYTES: Final = 256 * 1024
PARTS: Final = ('job', 'files')
#: name = "quoted, with \" and \\" or a token
_PARAMETER: Final = re.compile(rb';\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))')
#: what browsers and httpx escape inside quotes, and nothing else (WHATWG HTML, multipart/form-data encoding)
_ESCAPED: Final = {b'%22': b'"', b'%0D': b'\r', b'%0A': b'\n', b'%0d': b'\r', b'%0a': b'\n'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition:
    """What a part's Content-Disposition says; `filename` None where it has none."""

    name: str
    filename: str | None


def parse_disposition(value: bytes) -> Disposition:
    """Raises UnicodeDecodeError when a name is not UTF-8."""
    parameters: dict[bytes, bytes] = {}
    for match in _PARAMETER.finditer(value):
        quoted, token = match[2], match[3]
        text = token.strip() if quoted is None else re.sub(rb'\\(["\\])', rb'\1', quoted)
        parameters.setdefault(match[1].lower(), text)
    filename = parameters.get(b'filename')
    if (extended := parameters.get(b'filename*')) is not None and extended.lower().startswith(b"utf-8'"):
        filename = unquote_to_bytes(extended.split(b"'", 2)[-1])
    elif filename is not None:
        filename = re.sub(rb'%22|%0[DdAa]', lambda match: _ESCAPED[match[0]], filename)
    return Disposition(
        name=parameters.get(b'name', b'').decode(), filename=None if filename is None else filename.decode()
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Callbacks of python-multipart. They keep no part in memory except `job`."""

    files: Files
    max_files: int
    job: bytearray | None = None
    ended: bool = False
    faults: list[tuple[str, FieldError]] = field(default_factory=list)
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _disposition: bytes = b''
    _into: str | None = None

    def callbacks(self) -> MultipartCallbacks:
        return {
            'on_part_begin': self.on_part_begin,
            'on_header_field': self.on_header_field,
            'on_header_value': self.on_header_value,
            'on_header_end': self.on_header_end,
            'on_headers_finished': self.on_headers_finished,
            'on_part_data': self.on_part_data,
            'on_end': self.on_end,
        }

    def on_part_begin(self) -> None:
        self._disposition, self._into = b'', None

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        if self._header.lower() == b'content-disposition':
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def on_headers_finished(self) -> None:
        try:
            part = parse_disposition(self._disposition)
        except UnicodeDecodeError:
            self._fault('file-name-invalid', 'files', 'a file name is not valid UTF-8')
            return
        if part.name == 'job':
            self._begin_job()
        elif part.name == 'files':
            self._begin_file(part.filename)
        else:
            self._fault('unknown-field', part.name or '(unnamed)', 'there is no such part', PARTS)

    def _begin_job(self) -> None:
        if self.job is not None:
            self._fault('invalid-request', 'job', 'is given twice')
            return
        self.job, self._into = bytearray(), 'job'

    def _begin_file(self, filename: str | None) -> None:
        if len(self.files) >= self.max_files:
            raise ApiProblem(
                'too-many-files',
                f'the job has more than {self.max_files} files (FANFOLD_MAX_FILES)',
                limit=self.max_files,
                setting='FANFOLD_MAX_FILES',
            )
        if filename is None:
            self._fault('invalid-request', 'files', 'a part `files` needs a filename')
        elif (fault := fault_of(filename)) is not None:
            self._fault('file-name-invalid', 'files', f'{filename!r} {fault}')
        elif normal(filename) in self.files:
            self._fault('invalid-request', 'files', f'{filename!r} is given twice')
        else:
            self._into = 'files'
            self.files.begin(normal(filename))

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._into == 'files':
            self.files.write(data[start:end])
        elif self.job is not None and self._into == 'job':
            self.job += data[start:end]

    def on_end(self) -> None:
        self.ended = True

    def _fault(self, name: str, where: str, detail: str, valid: tuple[str, ...] | None = None) -> None:
        self.faults.append((name, FieldError(field=where, detail=detail, valid=valid)))
        if len(self.faults) >= MOST_ERRORS:
            self.raise_faults()

    def raise_faults(self) -> None:
        """Raises ApiProblem for the faults that are like the first, if there is one."""
        if self.faults:
            name = self.faults[0][0]
            raise field_problem(name, [fault for kind, fault in self.faults if kind == name])


def read_multipart(body: IO[bytes], content_type: str, files: Files, *, max_files: int) -> bytes | None:
    """Put the body's files into `files`; the part `job`, None where there is none. Raises ApiProblem."""
    boundary = parse_options_header(content_type)[1].get(b'boundary', b'')
    if not boundary:
        raise refused('invalid-request', 'Content-Type', 'multipart/form-data needs a boundary')
    reader = _Reader(files=files, max_files=max_files)
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        while chunk := body.read(READ_BYTES):
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise refused('invalid-request', 'body', 'is not well-formed multipart/form-data') from error
    if not reader.ended:
        raise refused('invalid-request', 'body', 'ends before its last boundary')
    reader.raise_faults()
    return None if reader.job is None else bytes(reader.job)
