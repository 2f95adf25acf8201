"""The client: a job's life over HTTP, as methods."""

from __future__ import annotations

import json
import mimetypes
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, Self
from urllib.parse import quote

import httpx

from fanfold.appearing import appearing_whole
from fanfold.client.answers import Job, Part
from fanfold.client.download import download
from fanfold.client.errors import JobNotCompleted, NotSendable, Refused, Unreachable
from fanfold.client.following import Following
from fanfold.client.http import Http

DEFAULT_URL: Final = 'http://127.0.0.1:8000'
PAGE: Final = 100  # jobs asked for at once


class Client:
    """A Fanfold service at `url`.

    `patience` is how many seconds a request goes on while the service is busy or has gone away;
    `timeout` how long one try may wait for an answer. Use it as a context manager, or close it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        patience: float = 30.0,
        timeout: float = 30.0,
        headers: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """The address is `url`, else FANFOLD_URL, else DEFAULT_URL. Raises NotAnAddress if it is not an HTTP URL."""
        address = url or os.environ.get('FANFOLD_URL') or DEFAULT_URL
        self._sleep = sleep
        self._http = Http(address, patience=patience, timeout=timeout, headers=headers or {}, sleep=sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(
        self,
        documents: Sequence[Mapping[str, Any]] | None = None,
        *,
        files: Mapping[str, Path | bytes] | None = None,
        options: Mapping[str, Any] | None = None,
        on_part_failure: str | None = None,
        deadline: float | None = None,
        expires_in: float | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Submit a job and return it as it was accepted.

        `documents` are as the API takes them: `{"html": …}`, `{"file": …}`, `{"template": …,
        "records": […]}`, …; without them `index.html` among the files is the document. `files` maps
        relative names to contents or paths. Without an `idempotency_key` one is made, so that a
        repeated request cannot make a second job.
        """
        if documents is None:
            documents = [{'file': 'index.html'}]
        job = {
            'documents': list(documents),
            'options': dict(options) if options else None,
            'on_part_failure': on_part_failure,
            'deadline': deadline,
            'expires_in': expires_in,
        }
        body = {name: value for name, value in job.items() if value is not None}
        headers = {'Idempotency-Key': idempotency_key or str(uuid.uuid4())}
        with ExitStack() as stack:
            if files:
                form = {'job': json.dumps(body)}
                # A sequence, as `files` repeats; httpx rewinds what it sends again.
                parts = [('files', _form_file(stack, name, content)) for name, content in files.items()]
                answer = self._http.json('POST', '/v1/jobs', data=form, files=parts, headers=headers)
            else:
                answer = self._http.json('POST', '/v1/jobs', json=body, headers=headers)
        return self._job(answer)

    def get(self, job: Job | str) -> Job:
        return self._job(self._http.json('GET', _path(job)))

    def list(self, *, status: str | None = None, limit: int | None = None) -> Iterator[Job]:
        """Jobs, newest first, read page by page as they are asked for."""
        wanted = {'status': status, 'limit': limit and min(limit, PAGE)}
        query = {name: value for name, value in wanted.items() if value is not None}
        yielded = 0
        for page in self._pages('/v1/jobs', query):
            for value in page.get('jobs', ()):
                if limit is not None and yielded == limit:
                    return
                yielded += 1
                yield self._job(value)

    def parts(self, job: Job | str) -> Iterator[Part]:
        """The parts of all batches of a job, by batch and index."""
        for page in self._pages(f'{_path(job)}/parts', {}):
            yield from map(Part.from_json, page.get('parts', ()))

    def cancel(self, job: Job | str) -> Job:
        return self._job(self._http.json('POST', f'{_path(job)}/cancel'))

    def retry(self, job: Job | str) -> Job:
        """Render again what failed in a failed job; other states are Refused."""
        tries = 0

        def request(http: httpx.Client) -> httpx.Request:
            nonlocal tries
            tries += 1
            return http.build_request('POST', f'{_path(job)}/retry')

        try:
            return self._job(self._http.read_json(self._http.send(request)))
        except Refused as error:
            if tries == 1 or error.problem.status != 409:
                raise
            # The answer of an earlier try was lost, and that one may have done it.
            current = self.get(job)
            if current.is_finished:
                raise
            return current

    def delete(self, job: Job | str) -> None:
        """Cancel the job if it is not finished, and remove all it holds."""
        self._http.json('DELETE', _path(job))

    def follow(self, job: Job | str, *, timeout: float | None = None) -> Iterator[Job]:
        """The job now and after each change, until it is finished. Raises WaitedTooLong after `timeout` seconds."""
        following = Following(self._http, self.get, timeout=timeout, sleep=self._sleep)
        return following.snapshots(_id(job))

    def wait(
        self, job: Job | str, *, progress: Callable[[Job], None] | None = None, timeout: float | None = None
    ) -> Job:
        """Wait until the job is completed and return it; `progress` gets every change.

        Raises JobNotCompleted if it failed, was cancelled or expired, WaitedTooLong after `timeout` seconds.
        """
        for snapshot in self.follow(job, timeout=timeout):
            if progress:
                progress(snapshot)
        if not snapshot.is_completed:
            raise JobNotCompleted(snapshot)
        return snapshot

    def download(
        self,
        job: Job | str,
        to: Path | str | IO[bytes],
        *,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> int:
        """Write the job's PDF to a file or a binary stream and return its length in bytes.

        A file appears whole or not at all, and replaces one that is there. Raises JobNotCompleted if
        the job ended without a result, Refused if it has none yet.
        """
        path = f'{_path(job)}/result'
        try:
            if not isinstance(to, Path | str):
                return download(self._http, path, to, progress=progress)
            with appearing_whole(Path(to)) as file:
                return download(self._http, path, file, progress=progress)
        except Refused as error:
            if error.problem.status not in {409, 410}:
                raise
            ended = self.get(job)
            if ended.is_finished and not ended.is_completed:
                raise JobNotCompleted(ended) from error
            raise

    def health(self, *, ready: bool = False) -> Mapping[str, Any]:
        """What `/healthz` answers, or `/readyz`, which asks the database, broker and storage too.

        Raises Unreachable or Unavailable if the service is not well.
        """
        answer = self._http.json('GET', '/readyz' if ready else '/healthz')
        return answer if isinstance(answer, Mapping) else {}

    def _job(self, value: Any) -> Job:
        try:
            return Job.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unreachable(f'no Fanfold service answers at {self._http.url}: {error!r}') from error

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        page = self._http.json('GET', path, params=query)
        yield page
        while link := page.get('next'):
            page = self._http.json('GET', link)
            yield page


def _id(job: Job | str) -> str:
    return job.id if isinstance(job, Job) else job


def _path(job: Job | str) -> str:
    return f'/v1/jobs/{quote(_id(job), safe="")}'


def _form_file(stack: ExitStack, name: str, content: Path | bytes) -> tuple[str, IO[bytes] | bytes, str]:
    kind = mimetypes.guess_type(name)[0] or 'application/octet-stream'
    if isinstance(content, bytes):
        return name, content, kind
    try:
        return name, stack.enter_context(content.open('rb')), kind
    except OSError as error:
        raise NotSendable(f'cannot read {content}: {error.strerror}') from error
