"""A job's changes as they happen: from its event stream, taken up again when it breaks, else by polling.

The stream only tells sooner; that a job is finished is believed from whichever answer says so first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Final

import httpx

from fanfold.client.answers import Job
from fanfold.client.errors import Refused, Unavailable, Unreachable, WaitedTooLong
from fanfold.client.events import read_events, split_lines
from fanfold.client.http import Http, Patience

STREAM_TRIES: Final = 2  # event streams in a row that bring nothing, before polling begins
STREAM_SILENCE: Final = 20.0  # seconds without even a heartbeat, after which a stream is given up
POLL_PAUSES: Final = (0.2, 0.3, 0.5, 1.0, 2.0)


class Following:
    """One wait for one job. `get` fetches the job by a plain request and has patience with an absent service."""

    def __init__(
        self, http: Http, get: Callable[[str], Job], *, timeout: float | None, sleep: Callable[[float], None]
    ) -> None:
        self._http = http
        self._get = get
        self._sleep = sleep
        self._timeout = timeout
        self._until = None if timeout is None else time.monotonic() + timeout

    def snapshots(self, job_id: str) -> Iterator[Job]:
        """The job now and after each change. Raises WaitedTooLong when the time is up and it is not finished."""
        current = self._get(job_id)
        yield current
        fruitless = looks = 0
        while not current.is_finished:
            if fruitless < STREAM_TRIES:
                fruitless, looks = fruitless + 1, 0
                for snapshot in self._stream(current):
                    fruitless = 0
                    if snapshot != current:
                        current = snapshot
                        yield current
                if current.is_finished:
                    return
            self._sleep(min(POLL_PAUSES[min(looks, len(POLL_PAUSES) - 1)], self._time_left(current)))
            looks += 1
            snapshot = self._get(current.id)
            if snapshot != current:
                current = snapshot
                yield current

    def _stream(self, current: Job) -> Iterator[Job]:
        """Snapshots from one event stream, until it ends for whatever reason. Heartbeats only show that it lives."""
        silence = min(STREAM_SILENCE, self._time_left(current))
        job_id = current.id
        try:
            answer = self._http.send(
                lambda http: http.build_request(
                    'GET',
                    f'/v1/jobs/{job_id}/events',
                    headers={'Accept': 'text/event-stream', 'Cache-Control': 'no-store'},
                    timeout=httpx.Timeout(silence),
                ),
                patience=Patience(0, sleep=self._sleep),
            )
            with self._http.reading(answer):
                if not answer.headers.get('content-type', '').startswith('text/event-stream'):
                    return
                for event in read_events(split_lines(answer.iter_bytes())):
                    if event is not None:
                        current = Job.from_json(json.loads(event.data))
                        if current.is_finished and not current.is_completed:
                            current = self._get(job_id)  # has the warnings that a stream leaves out
                        yield current
                    self._time_left(current)
        except (Unreachable, Unavailable, Refused, ValueError, KeyError, TypeError):
            return  # a plain request will tell why

    def _time_left(self, current: Job) -> float:
        if self._until is None:
            return STREAM_SILENCE
        left = self._until - time.monotonic()
        if left <= 0 and not current.is_finished:
            raise WaitedTooLong(current, self._timeout or 0)
        return max(left, 0.01)
