"""A real HTTP server that answers as the test scripts it, and remembers what it was asked."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

Answer = Response | Callable[[Request], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Service:
    """Answers by method and path, in the order given; the last one stays. What has no answer is a 404 problem."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    _answers: dict[tuple[str, str], list[Answer]] = field(default_factory=lambda: defaultdict(list))

    def answers(self, method: str, path: str, *answers: Answer | dict[str, Any]) -> None:
        self._answers[method, path] += [
            JSONResponse(answer) if isinstance(answer, dict) else answer for answer in answers
        ]

    def paths(self) -> list[str]:
        return [f'{request.method} {request.path}' for request in self.asked]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.asked.append(
            Asked(
                method=request.method,
                path=scope['path'],
                query=request.url.query,
                headers=dict(request.headers),
                body=await request.body(),
            )
        )
        queue = self._answers[request.method, request.url.path]
        answer = (queue.pop(0) if len(queue) > 1 else queue[0]) if queue else problem(404, 'not-found')
        response = answer if isinstance(answer, Response) else answer(request)
        await response(scope, receive, send)


class Breaking(Response):
    """A body of which only the beginning arrives: then the connection breaks."""

    def __init__(self, content: bytes, *, after: int, status_code: int = 200, headers: dict[str, str] | None = None):
        super().__init__(content, status_code=status_code, headers=headers)
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({'type': 'http.response.start', 'status': self.status_code, 'headers': self.raw_headers})
        await send({'type': 'http.response.body', 'body': bytes(self.body)[: self._after], 'more_body': True})
        # Ending a response before its announced length makes the server drop the connection.


def problem(status: int, name: str, headers: dict[str, str] | None = None, **members: Any) -> JSONResponse:
    body = {'type': f'urn:fanfold:{name}', 'title': name.replace('-', ' '), 'status': status, **members}
    return JSONResponse(body, status, headers, media_type='application/problem+json')


def job_json(status: str = 'queued', **members: Any) -> dict[str, Any]:
    return {'id': 'a-job', 'status': status, 'parts': {'done': 0, 'total': 0}, **members}


def events(*snapshots: dict[str, Any], on_open: Callable[[], Awaitable[None]] | None = None) -> Answer:
    """An event stream that ends after these snapshots, or waits in `on_open` before it begins."""
    import json

    async def frames():
        yield ': still here\r\n\r\n'
        if on_open:
            await on_open()
        for number, snapshot in enumerate(snapshots):
            yield f'id: {number}\r\nevent: job\r\ndata: {json.dumps(snapshot, ensure_ascii=False)}\r\n\r\n'

    return lambda request: StreamingResponse(frames(), media_type='text/event-stream')


@contextmanager
def serving(app: Any, *, port: int = 0) -> Iterator[int]:
    """Serve an ASGI app in a thread; the port it listens on. Requests wait in the socket until it is up."""
    listener = socket.create_server(('127.0.0.1', port))
    config = uvicorn.Config(
        app, http='h11', ws='none', lifespan='off', log_config=None, timeout_graceful_shutdown=1, timeout_keep_alive=60
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={'sockets': [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
