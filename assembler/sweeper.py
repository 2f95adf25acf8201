"""The sweeper: removes objects that nothing can need any more, and rows whose time is over.

It lists the bucket itself, again and again, since a zombie may upload long after its job ended. Only
objects of jobs that cannot run again go: of a completed job all but the result, of a cancelled or expired
one everything, each a while after the end; failed jobs keep theirs until they expire. An object whose job
has no row goes when it is older than any upload or lease could be. What does not look like ours stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

import schema
from runtime.logs import get_logger
from schema import Disposition, Fate

if TYPE_CHECKING:
    from runtime.settings import Settings
    from runtime.storage import Storage, StoredObject

PREFIX: Final = 'jobs/'
PAGE: Final = 1_000
ROWS_AT_ONCE: Final = 500
#: objects stay for this long after their job has ended: downloads under way come to their end
GRACE_AFTER_END: Final = timedelta(hours=1)

log = get_logger(__name__)


class Sweeper:
    def __init__(
        self, pool: schema.Pool, storage: Storage, settings: Settings, *, grace: timedelta = GRACE_AFTER_END
    ) -> None:
        self._pool = pool
        self._storage = storage
        self._settings = settings
        self._grace = grace
        self._after = ''
        self.swept = 0

    def tick(self) -> bool:
        """Sweep one page of the bucket; whether there is more in this round.

        Raises StorageUnavailable, schema.Unavailable.
        """
        page = self._storage.keys(PREFIX, after=self._after, limit=PAGE)
        if doomed := self._doomed(page):
            self._storage.delete(doomed)
            self.swept += len(doomed)
            log.info('objects swept', objects=len(doomed))
        if len(page) == PAGE:
            self._after = page[-1].key
            return True
        self._after = ''
        self._finish_round()
        return False

    def _doomed(self, page: list[StoredObject]) -> list[str]:
        owners = {item.key: job_of(item.key) for item in page}
        jobs = {job_id for job_id in owners.values() if job_id is not None}
        found = schema.transact(self._pool, schema.disposition, jobs, grace=self._grace) if jobs else {}
        orphaned_before = datetime.now(UTC) - timedelta(seconds=self._settings.orphan_grace_seconds)
        return [
            item.key
            for item in page
            if (job_id := owners[item.key]) is not None and may_go(item, found[job_id], orphaned_before)
        ]

    def _finish_round(self) -> None:
        stale = datetime.now(UTC) - timedelta(seconds=self._settings.orphan_grace_seconds)
        aborted = self._storage.abort_stale_uploads(before=stale)
        events, jobs = sum(self._prune_events()), sum(self._prune_jobs())
        if aborted or events or jobs:
            log.info('round of sweeping done', uploads_aborted=aborted, events_pruned=events, jobs_pruned=jobs)

    def _prune_events(self) -> Iterator[int]:
        retention = timedelta(seconds=self._settings.event_retention_seconds)
        pruned = ROWS_AT_ONCE
        while pruned == ROWS_AT_ONCE:
            pruned = schema.transact(self._pool, schema.prune_events, retention, ROWS_AT_ONCE)
            yield pruned

    def _prune_jobs(self) -> Iterator[int]:
        retention = timedelta(seconds=self._settings.expired_retention_seconds)
        pruned = ROWS_AT_ONCE
        while pruned == ROWS_AT_ONCE:
            pruned = schema.transact(self._pool, schema.prune_jobs, retention, ROWS_AT_ONCE)
            yield pruned


def job_of(key: str) -> UUID | None:
    """The job of `jobs/<job id>/…`; None for a key that is not one of ours."""
    try:
        return UUID(key.removeprefix(PREFIX).partition('/')[0])
    except ValueError:
        return None


def may_go(item: StoredObject, disposition: Disposition, orphaned_before: datetime) -> bool:
    match disposition.fate:
        case Fate.KEEP:
            return False
        case Fate.ONLY_RESULT:
            return item.key != disposition.result_key
        case Fate.DELETE:
            return True
        case Fate.UNKNOWN:
            return item.modified is not None and item.modified < orphaned_before
