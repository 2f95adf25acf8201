"""A result, streamed to where it belongs: resumed where a connection breaks, whole or not at all.

A broken stream is continued with `Range` and `If-Range` (RFC 9110, sections 13.1.5 and 14.2); a
result that changed meanwhile is started again. The number of bytes is held against what the service
promised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import IO

import httpx

from fanfold.client.errors import DownloadBroken, Unreachable
from fanfold.client.http import Http


def download(
    http: Http, path: str, sink: IO[bytes], *, progress: Callable[[int, int | None], None] | None = None
) -> int:
    """Write the resource at `path` to `sink` and return its length in bytes.

    `progress(received, total)` is called as bytes arrive. A sink that cannot seek cannot start again:
    a result that changes under it raises DownloadBroken.
    """
    transfer = _Transfer(sink)
    patience = http.patience()
    while True:
        answer = http.send(
            lambda client: client.build_request('GET', path, headers=transfer.headers()), patience=patience
        )
        try:
            with http.reading(answer):
                transfer.begin(answer)
                for chunk in answer.iter_raw():
                    transfer.write(chunk)
                    if progress:
                        progress(transfer.received, transfer.total)
                    patience.renew()
        except Unreachable as error:
            patience.pause(error)
            continue
        if transfer.total is None or transfer.received == transfer.total:
            return transfer.received
        patience.pause(DownloadBroken(f'received {transfer.received:,} of {transfer.total:,} bytes'))


class _Transfer:
    """How much of which version of the result has arrived."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._etag = ''
        self.received = 0
        self.total: int | None = None

    def headers(self) -> dict[str, str]:
        plain = {'Accept': 'application/pdf', 'Accept-Encoding': 'identity'}
        if self.received and self._etag:
            return {**plain, 'Range': f'bytes={self.received}-', 'If-Range': self._etag}
        return plain

    def begin(self, answer: httpx.Response) -> None:
        """Take up an answer: the rest of what is here (206), or all of it from the start (200)."""
        if answer.status_code == 206:
            start, total = _content_range(answer.headers.get('content-range', ''))
            if start != self.received or total != self.total:
                raise DownloadBroken(
                    f'asked for bytes from {self.received}, got {answer.headers.get("content-range")!r}'
                )
            return
        if answer.status_code != 200:
            raise DownloadBroken(f'the service answered {answer.status_code} to the rest of a result')
        if self.received:
            self._start_again()
        etag = answer.headers.get('etag', '')
        self._etag = '' if etag.startswith('W/') else etag
        length = answer.headers.get('content-length')
        self.total = int(length) if length else None

    def write(self, chunk: bytes) -> None:
        self._sink.write(chunk)
        self.received += len(chunk)

    def _start_again(self) -> None:
        if not self._sink.seekable():
            raise DownloadBroken('the connection broke, and what was received cannot be taken back')
        self._sink.seek(0)
        self._sink.truncate()
        self.received = 0


def _content_range(value: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r'bytes (\d+)-\d+/(\d+)', value.strip())
    return (int(match[1]), int(match[2])) if match else (None, None)
