"""`/v1/jobs/{id}/result`: the PDF, streamed from storage or by a redirect to it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import RedirectResponse, StreamingResponse

import schema
from api.access import BrokenOff
from api.problems import ApiProblem, documented
from api.ranges import Span, Unsatisfiable, not_modified, requested_span
from api.routes.jobs import JobId, no_such_job
from api.services import TENANT, Services, Using
from api.views import standing
from runtime.errors import ObjectMissing, StorageUnavailable
from runtime.logs import get_logger

PDF: Final = 'application/pdf'
RETRY_SECONDS: Final = 1
PRESIGNED_SECONDS: Final = 3_600
MOST_NAME_CHARACTERS: Final = 100
_UNFIT: Final = re.compile(r'[\x00-\x1f\x7f"*/:<>?\\|]+')

router = APIRouter(prefix='/v1/jobs', tags=['jobs'])
log = get_logger(__name__)

_HEADERS: Final[dict[str, Any]] = {
    name: {'schema': {'type': 'string'}} for name in ('ETag', 'Accept-Ranges', 'Content-Disposition', 'Content-Length')
}


@router.get(
    '/{job_id}/result',
    summary='Download the PDF',
    response_class=Response,
    responses={
        200: {
            'description': 'The PDF',
            'headers': _HEADERS,
            'content': {PDF: {'schema': {'type': 'string', 'format': 'binary'}}},
        },
        206: {
            'description': 'The part that `Range` asks for',
            'headers': {**_HEADERS, 'Content-Range': {'schema': {'type': 'string'}}},
            'content': {PDF: {'schema': {'type': 'string', 'format': 'binary'}}},
        },
        304: {'description': 'The client has it: `If-None-Match`'},
        307: {'description': 'To a presigned URL, with `redirect=1`'},
        **documented('not-found', 'not-ready', 'conflict', 'expired', 'range-not-satisfiable', 'invalid-request'),
    },
)
async def get_result(
    request: Request,
    services: Using,
    job_id: JobId,
    redirect: Annotated[bool, Query(description='answer with a presigned URL instead of the bytes')] = False,
    range_: Annotated[str | None, Header(alias='Range')] = None,
    if_range: Annotated[str | None, Header(alias='If-Range')] = None,
    if_none_match: Annotated[str | None, Header(alias='If-None-Match')] = None,
) -> Response:
    job = await services.transact(schema.get_job, job_id, TENANT)
    if job is None:
        raise no_such_job(job_id)
    key, size = _recorded(job)
    head = request.method == 'HEAD'
    if redirect:
        return await _redirect(services, job, key, head=head)
    etag = f'"{job.result_sha256}"'
    headers = {
        'ETag': etag,
        'Accept-Ranges': 'bytes',
        'Cache-Control': 'private, no-cache',
        'Content-Disposition': content_disposition(file_name(job)),
    }
    if not_modified(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    if head:
        return Response(status_code=200, headers={**headers, 'Content-Length': str(size)}, media_type=PDF)
    try:
        span = requested_span(range_, if_range, etag=etag, size=size)
    except Unsatisfiable as error:
        raise ApiProblem(
            'range-not-satisfiable', f'the result has {size} bytes', headers={'Content-Range': f'bytes */{size}'}
        ) from error
    return await _stream(services, job, key, span or Span(start=0, end=size - 1), headers, partial=span is not None)


def _recorded(job: schema.Job) -> tuple[str, int]:
    """The result's key and size. Raises ApiProblem when there is none, or none yet."""
    if job.status == 'expired':
        raise ApiProblem('expired', 'the job has expired, and its result with it', expired_at=_iso(job.expires_at))
    if job.status in {'failed', 'cancelled'}:
        detail = f'{standing(job.status)}, so it has no result'
        failure = {} if job.failure is None else {'failure': job.failure}
        if job.failure is not None:
            detail += f': {job.failure["detail"]}'
        raise ApiProblem('conflict', detail, job_status=job.status, **failure)
    if job.result_key is None or job.result_bytes is None:
        headers = {'Retry-After': str(RETRY_SECONDS)}
        raise ApiProblem('not-ready', f'the job is {job.status}', headers=headers, job_status=job.status)
    return job.result_key, job.result_bytes


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace('+00:00', 'Z')


async def _redirect(services: Services, job: schema.Job, key: str, *, head: bool) -> Response:
    """To a URL signed for the method of the request: that is what a client follows it with."""
    assert job.expires_at is not None, 'an ended job has one'
    left = int((job.expires_at - datetime.now(UTC)).total_seconds())
    if left < 1:
        raise ApiProblem('expired', 'the job has expired, and its result with it')
    name = file_name(job).encode('ascii', 'replace').decode().replace('?', '_')
    seconds = min(left, PRESIGNED_SECONDS)
    url = await services.run(services.storage.presigned_url, key, seconds=seconds, filename=name, head=head)
    return RedirectResponse(url, status_code=307, headers={'Cache-Control': 'no-store'})


async def _stream(
    services: Services, job: schema.Job, key: str, span: Span, headers: dict[str, str], *, partial: bool
) -> Response:
    bounds = {'start': span.start, 'end': span.end} if partial else {}
    try:
        chunks = await services.run(services.storage.open, key, **bounds)
    except ObjectMissing as error:
        latest = await services.transact(schema.get_job, job.id, TENANT)
        if latest is None or latest.status == 'expired':
            raise ApiProblem('expired', 'the job has expired, and its result with it') from error
        log.error('result missing in storage', job_id=str(job.id), key=key)
        raise ApiProblem('internal-error', 'the result is recorded, but the storage does not have it') from error
    headers = {**headers, 'Content-Length': str(span.length)}
    if partial:
        headers['Content-Range'] = f'bytes {span.start}-{span.end}/{job.result_bytes}'
    return StreamingResponse(_body(chunks), status_code=206 if partial else 200, headers=headers, media_type=PDF)


async def _body(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for chunk in iterate_in_threadpool(chunks):
            yield chunk
    except StorageUnavailable as error:
        raise BrokenOff(str(error)) from error


def file_name(job: schema.Job) -> str:
    """A name for the PDF: its title's, its only document's, or the job's id."""
    spec = job.spec
    title = (spec.get('metadata') or {}).get('title') or ''
    documents = spec['documents']
    if not title and len(documents) == 1:
        title = PurePosixPath(documents[0].get('title_name') or '').stem
    fit = _UNFIT.sub('-', title).strip(' .-')[:MOST_NAME_CHARACTERS].strip(' .-')
    return f'{fit or job.id}.pdf'


def content_disposition(name: str) -> str:
    """RFC 6266: a plain name for all, and the exact one where they differ."""
    plain = name.encode('ascii', 'replace').decode().replace('?', '_')
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"
