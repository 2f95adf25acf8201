"""Around every request: its id, its line in the log, its place in the metrics, and the last resort.

The id is the client's `X-Request-ID` where that is a sane one, else a new one; it is in every log line
of the request, in the response and in every problem. What no handler expected is logged here, once,
with its trace; the client gets `internal-error` and the id.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from uuid6 import uuid7

from api.problems import problem_response
from runtime.errors import Problem
from runtime.logs import bind, get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from api.metrics import Metrics

_SANE_ID: Final = re.compile(r'[A-Za-z0-9._:/+=-]{1,128}')
#: asked for every few seconds by machines
QUIET: Final = frozenset({'/healthz', '/readyz', '/metrics'})
CLIENT_GONE: Final = 499  # nginx's number for it; it is never sent

log = get_logger(__name__)


class BrokenOff(Exception):
    """A response that has begun and cannot be finished: the connection is closed, so that the client notices."""


class AccessLog:
    """ASGI middleware; the outermost of ours."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope['type'] != 'http':
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get('x-request-id', '')
        request_id = given if _SANE_ID.fullmatch(given) else str(uuid7())
        scope['fanfold.request_id'] = request_id
        with bind(request_id=request_id):
            await self._observe(scope, receive, send, request_id)

    async def _observe(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started = time.perf_counter()
        status, sent = 0, 0

        async def watched(message: Message) -> None:
            nonlocal status, sent
            if message['type'] == 'http.response.start':
                status = message['status']
                MutableHeaders(scope=message)['X-Request-ID'] = request_id
            elif message['type'] == 'http.response.body':
                sent += len(message.get('body', b''))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            status = CLIENT_GONE
        except BrokenOff as error:
            log.warning('response broken off', path=scope['path'], reason=str(error))
        except Exception:
            log.exception('unexpected error', method=scope['method'], path=scope['path'])
            if not status:
                await problem_response(
                    Problem(name='internal-error', detail=f'an error on our side; it is logged as {request_id}'),
                    path=scope['path'],
                    request_id=request_id,
                )(scope, receive, watched)
        finally:
            self._finish(scope, status, sent, time.perf_counter() - started)

    def _finish(self, scope: Scope, status: int, sent: int, seconds: float) -> None:
        route = getattr(scope.get('route'), 'path', 'other')
        self._metrics.observe_request(method=scope['method'], route=route, status=status, seconds=seconds)
        write = log.debug if scope['path'] in QUIET else log.info
        client = scope.get('client')
        write(
            'request',
            method=scope['method'],
            path=scope['path'],
            status=status,
            ms=round(seconds * 1000, 1),
            bytes=sent,
            client=client[0] if client else None,
        )
