"""What handlers need of the process they run in: settings, database, storage, nudges, the snapshot feed.

Opening them needs none of the servers: the API starts while Postgres, Redis or S3 are away and answers
with problems until they are back. Whatever blocks runs in threads, a bounded number of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, Request

import schema
from api.budget import ByteBudget
from api.stream import SnapshotFeed
from runtime.nudge import Nudger
from runtime.storage import Storage

if TYPE_CHECKING:
    from psycopg import Connection

    from runtime.nudge import Topic
    from runtime.settings import Settings

P = ParamSpec('P')
T = TypeVar('T')

TENANT: Final = 'default'
POOL_SIZE: Final = 8
#: a request waits so long for a database that is away
DATABASE_SECONDS = 3.0
THREADS: Final = 24
#: of request bodies that are checked and packed at the same time
BYTES_AT_ONCE: Final = 64 * 1024 * 1024


class NudgeSender:
    """Sends nudges from one thread of its own, so that no request waits for a Redis that is away."""

    def __init__(self, settings: Settings) -> None:
        self._nudger = Nudger(settings)
        self._pending: set[Topic] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._send, name='nudge-sender', daemon=True)
        self._thread.start()

    def nudge(self, *topics: Topic) -> None:
        with self._changed:
            self._pending.update(topics)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(timeout=3)

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                topics, self._pending = self._pending, set()
                if not topics:
                    return
            self._nudger.nudge(*topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    settings: Settings
    pool: schema.Pool
    storage: Storage
    nudges: NudgeSender
    feed: SnapshotFeed
    threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(THREADS))
    intake: ByteBudget = field(default_factory=lambda: ByteBudget(BYTES_AT_ONCE))

    @classmethod
    def open(cls, settings: Settings) -> Services:
        pool = schema.open_pool(settings.database_url, max_size=POOL_SIZE, name='fanfold-api', timeout=DATABASE_SECONDS)
        return cls(
            settings=settings,
            pool=pool,
            storage=Storage(settings),
            nudges=NudgeSender(settings),
            feed=SnapshotFeed(pool, settings),
        )

    def close(self) -> None:
        self.feed.close()
        self.nudges.close()
        self.pool.close()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what blocks in a thread."""
        return await anyio.to_thread.run_sync(partial(function, *args, **kwargs), limiter=self.threads)

    async def transact(
        self, function: Callable[Concatenate[Connection[Any], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `function(conn, …)` in a transaction, in a thread. Raises schema.Unavailable."""
        return await self.run(lambda: schema.transact(self.pool, function, *args, **kwargs))


def _services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Using = Annotated[Services, Depends(_services_of)]
