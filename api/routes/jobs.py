"""`/v1/jobs`: submit, list, look at, cancel, retry, delete."""

from __future__ import annotations

import re
import tempfile
from contextlib import closing, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode
from uuid import UUID

import anyio
from fastapi import APIRouter, Depends, Header, Query, Request, Response

import schema
from api.bodies import receive_body, refuse_encoded
from api.cursors import job_cursor, part_cursor, read_job_cursor, read_part_cursor
from api.intake import JSON_TYPE, MULTIPART_TYPE, prepare
from api.models import ListQuery, PartsQuery
from api.problems import ApiProblem, documented
from api.services import TENANT, Services, Using
from api.submission import Submitted, checked_key, submit
from api.views import MOST_WARNINGS, JobList, JobView, PartList, job_path, standing, summarize_job, view_job, view_part

if TYPE_CHECKING:
    from psycopg import Connection

    from runtime.settings import Settings

SMALL_BYTES: Final = 256 * 1024
_UUID: Final = re.compile(r'[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}')
CONTENT_PROBLEMS: Final = (
    'invalid-request', 'unknown-field', 'invalid-json', 'invalid-encoding', 'file-name-invalid', 'file-missing',
    'not-html', 'pdf-invalid', 'template-syntax', 'records-invalid', 'nothing-to-print', 'too-many-files',
    'too-many-documents', 'too-many-records', 'idempotency-key-reused',
)  # fmt: skip

router = APIRouter(prefix='/v1/jobs', tags=['jobs'])


def no_such_job(job_id: object) -> ApiProblem:
    return ApiProblem('not-found', f'there is no job {job_id}')


def _job_id(job_id: str) -> UUID:
    """A malformed id is an id that does not exist."""
    if not _UUID.fullmatch(job_id):
        raise no_such_job(job_id[:100])
    return UUID(job_id)


JobId = Annotated[UUID, Depends(_job_id)]

_BODY: Final[dict[str, Any]] = {
    'required': True,
    'content': {
        JSON_TYPE: {'schema': {'$ref': '#/components/schemas/JobRequest'}},
        MULTIPART_TYPE: {
            'schema': {
                'type': 'object',
                'additionalProperties': False,
                'properties': {
                    'job': {
                        'allOf': [{'$ref': '#/components/schemas/JobRequest'}],
                        'description': 'left out: the file `index.html` is the document',
                    },
                    'files': {
                        'type': 'array',
                        'items': {'type': 'string', 'format': 'binary'},
                        'description': 'HTML, CSS, images, fonts, records; their relative names are kept',
                    },
                },
            },
            'encoding': {'job': {'contentType': JSON_TYPE}},
        },
    },
}


@router.post(
    '',
    status_code=202,
    response_model=JobView,
    summary='Submit a job',
    openapi_extra={'requestBody': _BODY},
    responses={
        202: {
            'description': 'Accepted; `Location` says where to follow it',
            'headers': {
                'Location': {'schema': {'type': 'string'}},
                'Idempotency-Replayed': {
                    'schema': {'type': 'string', 'const': 'true'},
                    'description': 'the key had this job already',
                },
            },
        },
        **documented(*CONTENT_PROBLEMS, 'body-too-large', 'unsupported-media-type', 'queue-full'),
    },
)
async def submit_job(
    request: Request,
    services: Using,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias='Idempotency-Key',
            description='requests with the same key and payload make one job, however often sent',
        ),
    ] = None,
) -> Response:
    """Take in a job: JSON, or multipart with the parts `job` (that JSON) and `files`."""
    key = checked_key(idempotency_key)
    settings = services.settings
    with closing(await receive_body(request, limit=settings.max_body_bytes, folder=settings.scratch_dir)) as body:
        refuse_encoded(request.headers.get('content-encoding', ''))
        submitted = await _take_in(services, body, request.headers.get('content-type', ''), key)
    headers = {'Location': job_path(submitted.snapshot.job.id)}
    if submitted.replayed:
        headers['Idempotency-Replayed'] = 'true'
    return _json(view_job(submitted.snapshot), 202, headers)


async def _take_in(services: Services, body: IO[bytes], content_type: str, key: str | None) -> Submitted:
    settings = services.settings
    folder = await services.run(tempfile.TemporaryDirectory, prefix='fanfold-intake-', dir=settings.scratch_dir)
    try:
        size = _size(body)
        # A small body, of which there are no more than threads, waits for no large one.
        async with services.intake.taking(size) if size > SMALL_BYTES else nullcontext():
            prepared = await services.run(prepare, body, content_type, settings, Path(folder.name))
        return await services.run(submit, services, prepared, key)
    finally:
        with anyio.CancelScope(shield=True):
            await services.run(folder.cleanup)


def _size(body: IO[bytes]) -> int:
    size = body.seek(0, 2)
    body.seek(0)
    return size


def _json(view: JobView, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(view.model_dump_json(), status_code=status, headers=headers, media_type=JSON_TYPE)


@router.get('', response_model=JobList, summary='List jobs, newest first', responses=documented('invalid-request'))
async def list_jobs(services: Using, query: Annotated[ListQuery, Query()], response: Response) -> JobList:
    after = None if query.cursor is None else read_job_cursor(query.cursor)

    def read(conn: Connection[Any]) -> tuple[list[schema.Snapshot], bool]:
        jobs = schema.list_jobs(conn, tenant_id=TENANT, status=query.status, after=after, limit=query.limit + 1)
        found = schema.get_snapshots(conn, [job.id for job in jobs[: query.limit]], TENANT)
        return [found[job.id] for job in jobs if job.id in found], len(jobs) > query.limit

    snapshots, more = await services.transact(read)
    following = None
    if more:
        last = snapshots[-1].job
        kept = {'limit': query.limit, 'status': query.status, 'cursor': job_cursor(last.created_at, last.id)}
        following = '/v1/jobs?' + urlencode({name: value for name, value in kept.items() if value is not None})
        response.headers['Link'] = f'<{following}>; rel="next"'
    return JobList(jobs=[summarize_job(snapshot) for snapshot in snapshots], next=following)


@router.get('/{job_id}', response_model=JobView, summary='Look at a job', responses=documented('not-found'))
async def get_job(services: Using, job_id: JobId) -> JobView:
    def read(conn: Connection[Any]) -> tuple[schema.Snapshot | None, list[str] | None]:
        snapshot = schema.get_snapshot(conn, job_id, TENANT)
        if snapshot is None or snapshot.job.page_count is not None or not snapshot.parts_done:
            return snapshot, None
        return snapshot, schema.painted_warnings(conn, job_id, limit=MOST_WARNINGS)

    snapshot, warnings = await services.transact(read)
    if snapshot is None:
        raise no_such_job(job_id)
    return view_job(snapshot, warnings)


@router.get(
    '/{job_id}/parts',
    response_model=PartList,
    summary="List a job's parts",
    responses=documented('not-found', 'invalid-request'),
)
async def list_parts(
    services: Using, job_id: JobId, query: Annotated[PartsQuery, Query()], response: Response
) -> PartList:
    after = None if query.cursor is None else read_part_cursor(query.cursor)

    def read(conn: Connection[Any]) -> tuple[schema.Snapshot | None, list[schema.Part]]:
        snapshot = schema.get_snapshot(conn, job_id, TENANT)
        parts = schema.list_parts(conn, job_id, after=after, limit=query.limit + 1) if snapshot else []
        return snapshot, parts

    snapshot, parts = await services.transact(read)
    if snapshot is None:
        raise no_such_job(job_id)
    shown = parts[: query.limit]
    following = None
    if len(parts) > query.limit:
        last = shown[-1].key
        kept = {'limit': query.limit, 'cursor': part_cursor(last.batch_no, last.part_index)}
        following = f'{job_path(job_id)}/parts?' + urlencode(kept)
        response.headers['Link'] = f'<{following}>; rel="next"'
    running = {batch.batch_no for batch in snapshot.batches if batch.status == 'running'}
    views = [view_part(part, batch_ended=part.key.batch_no not in running) for part in shown]
    return PartList(parts=views, next=following)


@router.post(
    '/{job_id}/cancel',
    response_model=JobView,
    summary='Cancel a job',
    responses=documented('not-found', 'conflict', 'expired'),
)
async def cancel_job(services: Using, job_id: JobId) -> JobView:
    """End an unfinished job; its workers stop within a lease's renewal. A cancelled job stays as it is."""
    return view_job(await _end(services, schema.cancel_job, job_id, allowed='cancelled', verb='cancelled'))


@router.post(
    '/{job_id}/retry',
    status_code=202,
    response_model=JobView,
    summary='Retry a failed job',
    responses=documented('not-found', 'conflict', 'expired'),
)
async def retry_job(services: Using, job_id: JobId) -> JobView:
    """Run again what failed and what had not run, under a fresh deadline; what is painted stays."""
    return view_job(await _end(services, schema.retry_job, job_id, allowed=None, verb='retried'))


@router.delete(
    '/{job_id}', status_code=204, response_class=Response, summary='Delete a job', responses=documented('not-found')
)
async def delete_job(services: Using, job_id: JobId) -> None:
    """Cancel the job if it has not ended, and expire it now; its objects are removed a while later."""
    await services.transact(schema.delete_job, job_id, TENANT)
    services.nudges.nudge('events', 'jobs')


async def _end(services: Services, statement: Any, job_id: UUID, *, allowed: str | None, verb: str) -> schema.Snapshot:
    def run(conn: Connection[Any]) -> tuple[schema.Ended, schema.Snapshot]:
        ended = statement(conn, job_id, TENANT)
        snapshot = schema.get_snapshot(conn, job_id, TENANT)
        assert snapshot is not None, 'it was changed in the same transaction'
        return ended, snapshot

    ended, snapshot = await services.transact(run)
    status = ended.job.status
    if not ended.changed and status != allowed:
        name = 'expired' if status == 'expired' else 'conflict'
        raise ApiProblem(name, f'{standing(status)}; it cannot be {verb}', job_status=status)
    services.nudges.nudge('parts', 'events', 'jobs')
    return snapshot


def upload_limits(settings: Settings) -> dict[str, int]:
    """The limits of a submission, for `/openapi.json`."""
    return {
        'FANFOLD_MAX_BODY_BYTES': settings.max_body_bytes,
        'FANFOLD_MAX_FILES': settings.max_files,
        'FANFOLD_MAX_DOCUMENTS': settings.max_documents,
        'FANFOLD_MAX_RECORDS': settings.max_records,
        'FANFOLD_MAX_UNFINISHED_JOBS': settings.max_unfinished_jobs,
    }
