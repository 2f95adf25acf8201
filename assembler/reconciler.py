"""The reconciler: sets right what a crash left behind. It runs beside the brokers, never through them.

Expired leases are charged as a loss and the part becomes due again; a count that drifted is counted anew;
jobs past their deadline fail; jobs whose retention is over expire. An unfinished job that nothing moves is
a bug, and reported as one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

import schema
from runtime.logs import get_logger
from worker.holding import backoff

if TYPE_CHECKING:
    from uuid import UUID

    from psycopg import Connection
    from psycopg.rows import TupleRow

    from runtime.nudge import Nudger
    from runtime.settings import Settings

AT_ONCE: Final = 100
#: an unfinished job without a running batch or a waiting event for this long is stuck
STUCK_AFTER: Final = timedelta(seconds=60)

T = TypeVar('T')

log = get_logger(__name__)


class Reconciler:
    def __init__(self, pool: schema.Pool, nudger: Nudger, settings: Settings) -> None:
        self._pool = pool
        self._nudger = nudger
        self._settings = settings
        #: when a round last came to its end, in seconds since the epoch; 0 before the first
        self.last_run = 0.0
        self.stuck: frozenset[UUID] = frozenset()

    def tick(self) -> bool:
        """One bounded round; whether there may be more. Raises schema.Unavailable."""
        leases = self._expire_leases()
        repaired = self._one_by_one(schema.repair_remaining)
        overdue = self._one_by_one(schema.fail_overdue_jobs)
        expired = schema.transact(self._pool, schema.expire_jobs, AT_ONCE)
        lost = leases.total()
        if lost:
            retried = leases[schema.Failed.RETRY]
            log.warning('leases expired', retried=retried, failed=lost - retried)
        for batch in repaired:
            log.error('count of a batch had drifted', job_id=str(batch.job_id), was=batch.was, now=batch.now)
        for job_id in overdue:
            log.warning('job is past its deadline', job_id=str(job_id))
        if lost or repaired or overdue or expired:
            self._nudger.nudge('parts', 'events', 'jobs')
        self._look_for_stuck_jobs()
        self.last_run = time.time()
        return AT_ONCE in {lost, len(repaired), len(overdue), len(expired)}

    def _expire_leases(self) -> Counter[schema.Failed]:
        """End each expired lease in a transaction of its own, as the order of locks wants it; count what came of it."""
        outcomes = Counter(
            schema.transact(
                self._pool,
                schema.expire_lease,
                lease,
                losses_allowed=self._settings.part_losses,
                retry_after=lambda losses: backoff('loss', losses),
            )
            for lease in schema.transact(self._pool, schema.expired_leases, AT_ONCE)
        )
        del outcomes[schema.Failed.STALE]
        return outcomes

    def _one_by_one(self, set_right: Callable[[Connection[TupleRow], int], list[T]]) -> list[T]:
        """Each in a transaction of its own: what one waits for keeps no other waiting."""
        done: list[T] = []
        while len(done) < AT_ONCE and (found := schema.transact(self._pool, set_right, 1)):
            done += found
        return done

    def _look_for_stuck_jobs(self) -> None:
        stuck = frozenset(schema.transact(self._pool, schema.stuck_jobs, STUCK_AFTER))
        for job_id in stuck - self.stuck:
            log.error('job is stuck: no running batch and no waiting event', job_id=str(job_id))
        self.stuck = stuck
