"""Requests that are repeated while the service is busy or away, for a bounded time.

429 and 502–504 are repeated after `Retry-After` or a growing pause, if that still fits into the
client's patience. A connection that fails is repeated only once the service has answered before:
a wrong address is reported at once, a service that restarts is waited for.
"""

from __future__ import annotations

import email.utils
import ipaddress
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import httpx

import fanfold
from fanfold.client.answers import Problem
from fanfold.client.errors import NotAnAddress, Refused, Unavailable, Unreachable

BUSY: Final = frozenset({429, 502, 503, 504})
LONGEST_PAUSE: Final = 5.0
PROBLEM_BYTES: Final = 1_000_000


class Patience:
    """How long to go on trying; `pause` raises the error it is given when the time left is too short."""

    def __init__(self, seconds: float, *, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Start again, after progress was made."""
        self._until = time.monotonic() + self._seconds
        self._pause = 0.1

    def pause(self, error: Exception, *, at_least: float = 0) -> None:
        seconds = max(self._pause * random.uniform(0.75, 1.25), at_least)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if time.monotonic() + seconds > self._until:
            raise error
        self._sleep(seconds)


class Http:
    """One service: its address, its connections, and the patience to have with it."""

    def __init__(
        self,
        url: str,
        *,
        patience: float,
        timeout: float,
        headers: Mapping[str, str],
        sleep: Callable[[float], None],
    ) -> None:
        self.url = _checked(url)
        self._patience = patience
        self._sleep = sleep
        self._has_answered = False
        self._http = httpx.Client(
            base_url=self.url,
            timeout=timeout,
            headers={'User-Agent': f'fanfold/{fanfold.__version__}', **headers},
            # A proxy for the world outside cannot reach this machine's own addresses.
            trust_env=not _is_loopback(self.url.host),
        )

    def close(self) -> None:
        self._http.close()

    def patience(self) -> Patience:
        return Patience(self._patience, sleep=self._sleep)

    def send(
        self, make: Callable[[httpx.Client], httpx.Request], *, patience: Patience | None = None
    ) -> httpx.Response:
        """The streaming answer to the request that `make` builds anew for each try; the caller closes it.

        Answers below 400 and 416 come back, others raise Refused or Unavailable. Only requests that
        may be repeated belong here.
        """
        patience = patience or self.patience()
        while True:
            try:
                answer = self._http.send(make(self._http), stream=True)
            except httpx.TransportError as error:
                away = self.unreachable(error)
                if not self._has_answered:
                    raise away from error
                patience.pause(away)
                continue
            self._has_answered = True
            if answer.status_code < 400 or answer.status_code == 416:
                return answer
            problem = _problem(answer)
            if answer.status_code in BUSY:
                patience.pause(Unavailable(problem), at_least=_retry_after(answer))
            else:
                raise Unavailable(problem) if answer.status_code >= 500 else Refused(problem)

    def json(self, method: str, path: str, **arguments: Any) -> Any:
        """The JSON of an answer. Raises Unreachable if it is none: then this is not the API."""
        answer = self.send(lambda http: http.build_request(method, path, **arguments))
        return self.read_json(answer)

    def read_json(self, answer: httpx.Response) -> Any:
        with self.reading(answer):
            answer.read()
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError as error:
            raise Unreachable(f'no Fanfold service answers at {self.url}: its answer is not JSON') from error

    @contextmanager
    def reading(self, answer: httpx.Response) -> Iterator[None]:
        """Close the answer in the end; a connection that breaks meanwhile raises Unreachable."""
        try:
            yield
        except httpx.TransportError as error:
            raise self.unreachable(error) from error
        finally:
            answer.close()

    def unreachable(self, error: httpx.TransportError) -> Unreachable:
        return Unreachable(f'cannot reach {self.url}: {error or type(error).__name__}')


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url.rstrip('/'))
    except httpx.InvalidURL as error:
        raise NotAnAddress(f'{url!r} is not a URL: {error}') from error
    if parsed.scheme not in {'http', 'https'} or not parsed.host:
        raise NotAnAddress(f'{url!r} is not the URL of a service; it looks like http://127.0.0.1:8000')
    return parsed


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == 'localhost'


def _problem(answer: httpx.Response) -> Problem:
    """The problem an answer carries, or one made of its status if it carries none, as a proxy's does not."""
    status = answer.status_code
    try:
        if int(answer.headers.get('content-length', 0)) <= PROBLEM_BYTES:
            answer.read()
        value = answer.json()
    except (httpx.HTTPError, httpx.StreamError, ValueError):
        value = None
    finally:
        answer.close()
    if not isinstance(value, dict) or 'title' not in value:
        return Problem(type='about:blank', title=f'{status} {answer.reason_phrase}'.strip(), status=status)
    return Problem.from_json({'status': status, **value})


def _retry_after(answer: httpx.Response) -> float:
    """Seconds to wait, from a number or an HTTP date (RFC 9110, section 10.2.3)."""
    value = answer.headers.get('retry-after', '')
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
