"""Connections that do not wait for ever, and a pool that says why it has none.

A server that is gone without a word (its host lost power, a cable was pulled) is noticed by the kernel,
through keepalives and the limit on unacknowledged data; one that still acknowledges but never answers,
by a limit on each wait for an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import unquote

from psycopg import Connection, OperationalError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

if TYPE_CHECKING:
    from psycopg.abc import PQGen

V = TypeVar('V')

#: libpq's parameters by which the kernel gives up on a silent host, after some ten seconds
KEEPALIVE: Final = {
    'keepalives': 1,
    'keepalives_idle': 5,
    'keepalives_interval': 2,
    'keepalives_count': 3,
    'tcp_user_timeout': 10_000,
}
#: how long a statement may go unanswered; the server cancels it before
ANSWER_SECONDS: Final = 65.0
#: the same for the check of a connection that is taken from the pool
CHECK_SECONDS: Final = 3.0


class Unanswered(OperationalError):
    """The server did not answer in time; the connection is closed, what it was doing is unknown."""


class Trouble:
    """Why the last attempt to reach the database failed; None when it succeeded."""

    def __init__(self) -> None:
        self.last: Exception | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.last = error
            raise
        self.last = None


class PatientConnection(Connection[TupleRow]):
    """A connection on which no wait for an answer is longer than `patience` seconds."""

    patience: float = ANSWER_SECONDS

    @classmethod
    def connect(  # type: ignore[override]  # psycopg's options pass through unnamed
        cls, conninfo: str = '', *, trouble: Trouble | None = None, **options: Any
    ) -> Self:
        """As psycopg's; how it went is noted in `trouble`."""
        with (trouble or Trouble()).noted():
            return super().connect(conninfo, **options)

    def wait(self, gen: PQGen[V], interval: float = 0.1, timeout: float | None = None) -> V:
        """What psycopg waits with. Raises Unanswered."""
        try:
            return super().wait(bounded(gen, self.patience), interval, *(() if timeout is None else (timeout,)))
        except Unanswered:
            self.pgconn.finish()
            raise

    def check(self, patience: float) -> None:
        """One round trip, for which it waits so many seconds. Raises OperationalError."""
        self.patience = patience
        try:
            self.execute('')
        finally:
            self.patience = ANSWER_SECONDS


def bounded(gen: PQGen[V], seconds: float) -> PQGen[V]:
    """The same generator, ended with Unanswered when `seconds` are over. psycopg wakes it at each interval."""
    deadline = monotonic() + seconds
    try:
        wait = next(gen)
        while True:
            ready = yield wait
            if not ready and monotonic() > deadline:
                raise Unanswered(f'the server has not answered for {seconds:g} seconds')
            wait = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class FrankPool(ConnectionPool[PatientConnection]):
    """A pool whose PoolTimeout says why there is no connection, as far as that is known."""

    def __init__(self, url: str, *, kwargs: dict[str, Any], **options: Any) -> None:
        self.url = url
        self.trouble = Trouble()
        super().__init__(
            url,
            connection_class=PatientConnection,
            kwargs={**KEEPALIVE, **kwargs, 'trouble': self.trouble},
            check=self._check,
            **options,
        )

    def getconn(self, timeout: float | None = None) -> PatientConnection:
        """As the base class's. Raises PoolTimeout, which is an OperationalError."""
        try:
            return super().getconn(timeout)
        except PoolTimeout as error:
            if (reason := self.trouble.last) is None:
                raise
            raise PoolTimeout(f'{error}: {without_password(reason, self.url)}') from None

    def _check(self, conn: PatientConnection) -> None:
        with self.trouble.noted():
            conn.check(min(CHECK_SECONDS, self.timeout))


def without_password(reason: Exception, url: str) -> str:
    """What an attempt to connect failed of, in one line that does not hold the URL's password.

    libpq quotes what it cannot read, and takes parts of a password for a host or a port where a special character in
    it was not percent-encoded: such messages are withheld.
    """
    try:
        password = conninfo_to_dict(url).get('password')
    except ProgrammingError:
        return 'the URL of the database cannot be read'
    _, colon, written = url.partition('://')[2].rpartition('@')[0].partition(':')
    if colon and unquote(written) != password:
        return "the server cannot be reached; are the special characters of the URL's password percent-encoded?"
    message = ' '.join(str(reason).split())
    return message.replace(str(password), '***') if password else message
