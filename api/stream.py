"""Job snapshots as they change, for all event streams of this process from one poller.

The poller looks at all watched jobs in one query, when somebody nudges and at least every half
second; it rests while nobody watches. Streams get whole snapshots, so one that is slow, or comes
back, misses nothing that still matters.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

import schema
from api.views import view_job
from runtime.logs import get_logger
from runtime.nudge import NudgeListener

if TYPE_CHECKING:
    from runtime.settings import Settings

POLL_SECONDS: Final = 0.5
#: least time between two looks, however many nudges come
PAUSE_SECONDS: Final = 0.005

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One state of a job: its version, its JSON, and whether it is the last."""

    version: str
    json: str
    final: bool


def moment_of(snapshot: schema.Snapshot) -> Moment:
    return Moment(version=snapshot.version, json=view_job(snapshot).model_dump_json(), final=snapshot.job.ended)


@dataclass(slots=True, kw_only=True, eq=False)
class _Watch:
    """One stream's view of a job. `latest` is None before the first look, and when there is no such job."""

    loop: asyncio.AbstractEventLoop
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    latest: Moment | None = None
    looked: bool = False

    def show(self, moment: Moment | None) -> None:
        """Called by the poller's thread."""
        self.latest, self.looked = moment, True
        try:
            self.loop.call_soon_threadsafe(self.changed.set)
        except RuntimeError:
            return  # the loop is closed: nobody is waiting any more


class SnapshotFeed:
    """The poller and who watches what. Its thread lives as long as the process serves."""

    def __init__(self, pool: schema.Pool, settings: Settings) -> None:
        self._pool = pool
        self._listener = NudgeListener(settings, 'jobs')
        self._watches: dict[UUID, set[_Watch]] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name='snapshots', daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._wanted.set()
        self._listener.close()
        self._thread.join(timeout=5)

    @property
    def watching(self) -> int:
        """How many streams are open."""
        with self._lock:
            return sum(map(len, self._watches.values()))

    async def moments(self, job_id: UUID) -> AsyncIterator[Moment]:
        """The job's state now, then each newer one, until the final one or until the job is gone."""
        watch = _Watch(loop=asyncio.get_running_loop())
        self._add(job_id, watch)
        try:
            shown = None
            while True:
                await watch.changed.wait()
                watch.changed.clear()
                moment = watch.latest
                if moment is None:
                    return
                if moment.version != shown:
                    shown = moment.version
                    yield moment
                if moment.final:
                    return
        finally:
            self._remove(job_id, watch)

    def _add(self, job_id: UUID, watch: _Watch) -> None:
        with self._lock:
            self._watches.setdefault(job_id, set()).add(watch)
        self._wanted.set()
        self._listener.wake()

    def _remove(self, job_id: UUID, watch: _Watch) -> None:
        with self._lock:
            watches = self._watches[job_id]
            watches.discard(watch)
            if not watches:
                del self._watches[job_id]
            if not self._watches:
                self._wanted.clear()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait()
            self._listener.wait('jobs', POLL_SECONDS)
            try:
                self._look()
            except schema.Unavailable as error:
                log.debug('snapshots not read: database away', error=str(error).strip())
            except Exception:  # the thread that feeds all streams must outlive any surprise
                log.exception('snapshots not read')
            self._stopping.wait(PAUSE_SECONDS)

    def _look(self) -> None:
        with self._lock:
            watched = {job_id: set(watches) for job_id, watches in self._watches.items()}
        if not watched or self._stopping.is_set():
            return
        snapshots = schema.transact(self._pool, schema.get_snapshots, list(watched))
        for job_id, watches in watched.items():
            snapshot = snapshots.get(job_id)
            moment = None if snapshot is None else moment_of(snapshot)
            for watch in watches:
                if not watch.looked or moment is None or watch.latest is None or watch.latest.version != moment.version:
                    watch.show(moment)
