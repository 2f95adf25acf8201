"""`/v1/jobs/{id}/events`: a job's snapshots as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Header, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

import schema
from api.problems import documented
from api.routes.jobs import JobId, no_such_job
from api.services import TENANT, Services, Using

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

HEARTBEAT_SECONDS: Final = 10
SEND_SECONDS: Final = 60
RECONNECT_MS: Final = 1_000

router = APIRouter(prefix='/v1/jobs', tags=['jobs'])


class _Stream(EventSourceResponse):
    """An event stream that is a whole response even when the process stops before the job does."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        open_ended = False

        async def watched(message: Message) -> None:
            nonlocal open_ended
            open_ended = message['type'] == 'http.response.start' or message.get('more_body', False)
            await send(message)

        await super().__call__(scope, receive, watched)
        if open_ended:
            await send({'type': 'http.response.body', 'body': b'', 'more_body': False})


@router.get(
    '/{job_id}/events',
    summary='Follow a job',
    response_class=Response,
    responses={
        200: {
            'description': 'The job, as `GET /v1/jobs/{id}` has it, now and after each change; ends with the job',
            'content': {'text/event-stream': {'schema': {'type': 'string'}}},
        },
        204: {'description': 'The job has ended, and `Last-Event-ID` says that the client knows'},
        **documented('not-found'),
    },
)
async def follow_job(
    services: Using, job_id: JobId, last_event_id: Annotated[str | None, Header(alias='Last-Event-ID')] = None
) -> Response:
    """Whole snapshots, each with its version as the event's id: a client that reconnects has missed nothing."""
    snapshot = await services.transact(schema.get_snapshot, job_id, TENANT)
    if snapshot is None:
        raise no_such_job(job_id)
    if snapshot.job.ended and snapshot.version == last_event_id:
        return Response(status_code=204)
    return _Stream(
        _events(services, snapshot, last_event_id),
        ping=HEARTBEAT_SECONDS,
        send_timeout=SEND_SECONDS,
        sep='\n',
    )


async def _events(services: Services, snapshot: schema.Snapshot, known: str | None) -> AsyncIterator[ServerSentEvent]:
    async for moment in services.feed.moments(snapshot.job.id):
        if moment.version != known:
            yield ServerSentEvent(data=moment.json, id=moment.version, retry=RECONNECT_MS)
        known = None
