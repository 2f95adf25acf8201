"""Request bodies: received into a spool with a limit that holds while they stream in.

The limit holds for bodies with a Content-Length and for chunked ones. A client that has begun to send
a body that is too large gets to finish it (it is thrown away, up to a bound), because a connection
closed in its face would hide the answer from it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import anyio.to_thread

from api.problems import ApiProblem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

MIB: Final = 1024 * 1024
SPOOL_MEMORY_BYTES: Final = MIB  # larger bodies go to disk
WRITE_BYTES: Final = MIB
DRAIN_BYTES: Final = 512 * MIB
DRAIN_SECONDS: Final = 30.0


def too_large(limit: int) -> ApiProblem:
    return ApiProblem(
        'body-too-large',
        f'the body is larger than {limit} bytes (FANFOLD_MAX_BODY_BYTES)',
        limit=limit,
        setting='FANFOLD_MAX_BODY_BYTES',
    )


def refuse_encoded(encoding: str) -> None:
    """Bodies are taken as they are: what a compressed one unpacks to is nothing that a limit on its size holds for."""
    if encoding.strip().lower() not in {'', 'identity'}:
        raise ApiProblem(
            'unsupported-media-type',
            f'the body is encoded ({encoding[:50]!r}); send it as it is, without Content-Encoding',
            headers={'Accept-Encoding': 'identity'},  # RFC 9110, 12.5.3: what would have been taken
            header='Content-Encoding',
            valid=['identity'],
        )


async def receive_body(request: Request, *, limit: int, folder: Path | None = None) -> IO[bytes]:
    """The body, at its beginning. Raises ApiProblem when it is larger than `limit` bytes."""
    stream = request.stream()
    length = request.headers.get('content-length', '')
    if length.isdigit() and int(length) > limit:
        if request.headers.get('expect', '').lower() != '100-continue':
            await _drain(stream)
        raise too_large(limit)
    spool: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 (the caller closes)
        SPOOL_MEMORY_BYTES, dir=None if folder is None else str(folder)
    )
    try:
        if not await _copy(stream, spool, limit):
            await _drain(stream)
            raise too_large(limit)
        await anyio.to_thread.run_sync(spool.seek, 0)
    except BaseException:
        spool.close()
        raise
    return spool


async def _copy(stream: AsyncIterator[bytes], spool: IO[bytes], limit: int) -> bool:
    """Whether the stream ended within the limit."""
    pending = bytearray()
    received = 0
    async for chunk in stream:
        received += len(chunk)
        if received > limit:
            return False
        pending += chunk
        if len(pending) >= WRITE_BYTES:
            await anyio.to_thread.run_sync(spool.write, bytes(pending))
            pending.clear()
    spool.write(pending)
    return True


async def _drain(stream: AsyncIterator[bytes]) -> None:
    dropped = 0
    with anyio.move_on_after(DRAIN_SECONDS):
        async for chunk in stream:
            dropped += len(chunk)
            if dropped > DRAIN_BYTES:
                return
