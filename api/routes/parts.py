"""`/v1/jobs/{id}/parts/{index}/result`: one painted part as a PDF of its own, while the job still has it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import StreamingResponse

import schema
from api.problems import ApiProblem, documented
from api.routes.jobs import JobId, no_such_job
from api.services import TENANT, Services, Using
from api.views import standing
from assembler.assemble import assemble
from assembler.sequence import split
from runtime.errors import ObjectCorrupt, ObjectMissing

PDF: Final = 'application/pdf'
RETRY_SECONDS: Final = 1
CHUNK_BYTES: Final = 256 * 1024

router = APIRouter(prefix='/v1/jobs', tags=['jobs'])


@router.get(
    '/{job_id}/parts/{index}/result',
    summary='Download one painted part as a PDF',
    response_class=Response,
    responses={
        200: {
            'description': 'The pages of the part. What leads to other parts leads nowhere',
            'content': {PDF: {'schema': {'type': 'string', 'format': 'binary'}}},
        },
        **documented('not-found', 'not-ready', 'conflict', 'expired'),
    },
)
async def get_part_result(request: Request, services: Using, job_id: JobId, index: str) -> Response:
    snapshot = await services.transact(_look_up, job_id, index)
    if snapshot is None:
        raise no_such_job(job_id)
    job, part = snapshot
    if part is None or part.result_ref is None:
        raise _why_not(job, index)
    pdf = await services.run(_assembled, services, part)
    headers = {
        'ETag': f'"{part.result_sha256}"',
        'Content-Disposition': f'attachment; filename="{job_id}-part-{part.key.part_index}.pdf"',
        'Content-Length': str(pdf.size),
    }
    if request.method == 'HEAD':
        pdf.folder.cleanup()
        return Response(headers=headers, media_type=PDF)
    return StreamingResponse(_body(pdf), headers=headers, media_type=PDF)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pdf:
    """A file in a folder of its own, which goes once the file has been sent."""

    folder: tempfile.TemporaryDirectory[str]
    path: Path
    size: int


def _look_up(conn: Any, job_id: UUID, index: str) -> tuple[schema.Job, schema.Part | None] | None:
    job = schema.get_job(conn, job_id, TENANT)
    if job is None:
        return None
    wanted = int(index) if index.isdecimal() and len(index) < 10 else -1
    parts = schema.painted_parts(conn, job_id) if wanted >= 0 else []
    return job, next((part for part in parts if part.key.part_index == wanted), None)


def _why_not(job: schema.Job, index: str) -> ApiProblem:
    """A part that is not painted is not ready while it may be, and not there once it cannot be any more."""
    if job.status == 'expired':
        return ApiProblem('expired', 'the job has expired, and its parts with it')
    if job.finished_at is None:
        headers = {'Retry-After': str(RETRY_SECONDS)}
        return ApiProblem('not-ready', f'part {index[:100]} is not painted', headers=headers, job_status=job.status)
    detail = f'{standing(job.status)}, and part {index[:100]} was not painted'
    return ApiProblem('not-found', detail, job_status=job.status)


def _assembled(services: Services, part: schema.Part) -> _Pdf:
    """Fetch a part and put it together. Raises ApiProblem where it is gone, StorageUnavailable."""
    folder = tempfile.TemporaryDirectory(prefix='fanfold-part-')
    try:
        bundle, out = Path(folder.name, 'part'), Path(folder.name, 'part.pdf')
        services.storage.fetch(str(part.result_ref), bundle, sha256=str(part.result_sha256))
        with out.open('wb') as file:
            for piece in assemble(split(bundle), partial=True):
                file.write(piece)
        return _Pdf(folder=folder, path=out, size=out.stat().st_size)
    except (ObjectMissing, ObjectCorrupt) as error:
        folder.cleanup()
        raise ApiProblem('expired', 'the part is gone: a job that ended keeps its result only') from error
    except BaseException:
        folder.cleanup()
        raise


async def _body(pdf: _Pdf) -> AsyncIterator[bytes]:
    with pdf.folder:
        async for chunk in iterate_in_threadpool(_chunks(pdf.path)):
            yield chunk


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open('rb') as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
