"""Holding parts: from the claim to the moment the part is let go, in every process that works parts.

A Holder claims parts for one process and renews all their leases on one thread. A lease that cannot
be renewed because the row says no (cancelled, past its deadline, taken over) is *lost*: the holder
calls the part's `on_lost`, which kills the child, and nothing more is written for it. While the
database is merely away the work goes on; the statement that completes it decides.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import schema
from runtime.errors import Problem
from runtime.logs import bind, get_logger

if TYPE_CHECKING:
    from runtime.settings import Settings
    from schema import ClaimedPart, Completion, Failed, PartKey, Pool

RENEWALS_PER_LEASE: Final = 5
#: pause before a part is tried again: doubles with each try, capped, jittered
RETRY_BASE_SECONDS: Final = {'attempt': 0.5, 'loss': 1.0}
RETRY_CAP_SECONDS: Final = 30.0
#: how long a finished part waits for a database that is away before it is left to its lease
COMPLETE_PATIENCE_SECONDS: Final = 180.0

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """One claimed part. `on_lost` is called once, from the renewing thread, when the lease is lost."""

    claimed: ClaimedPart
    on_lost: Callable[[Literal['lease-lost', 'draining']], None] | None = None
    lost: threading.Event = field(default_factory=threading.Event)
    draining: threading.Event = field(default_factory=threading.Event)

    @property
    def key(self) -> PartKey:
        return self.claimed.key

    @property
    def gone(self) -> bool:
        """Whether the part is no longer ours to work on."""
        return self.lost.is_set() or self.draining.is_set()


def process_name() -> str:
    """How this process signs its leases: host, process id and start time, unique over restarts."""
    return f'{socket.gethostname()}:{os.getpid()}:{time.time_ns() // 1_000_000 % 100_000_000}'


class Holder:
    """Claims, renews and lets go of the parts of one process. Thread-safe."""

    def __init__(self, pool: Pool, settings: Settings, *, owner: str) -> None:
        self.owner = owner
        self._pool = pool
        self._settings = settings
        self._held: set[Held] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._draining = False
        self._thread = threading.Thread(target=self._renew_all, name='leases', daemon=True)
        self._thread.start()

    @contextmanager
    def hold(self, key: PartKey) -> Iterator[Held | None]:
        """Claim a part for the length of the block; None if it is not to be had (somebody has it, or it is done)."""
        with self._changed:
            refuse = self._draining
        claimed = None if refuse else self._claim(key)
        if claimed is None:
            yield None
            return
        held = Held(claimed=claimed)
        with self._changed:
            self._held.add(held)
            if self._draining:
                held.draining.set()
        try:
            with bind(job_id=key.job_id, batch_no=key.batch_no, part_index=key.part_index):
                yield held
        finally:
            with self._changed:
                self._held.discard(held)
                self._changed.notify_all()

    def _claim(self, key: PartKey) -> ClaimedPart | None:
        try:
            return schema.transact(self._pool, schema.claim_part, key, owner=self.owner, lease=self._settings.lease)
        except schema.Unavailable as error:
            log.warning('claim failed: database away', error=str(error).strip())
            return None

    def complete(
        self, held: Held, *, input_hash: str, result: dict[str, Any], result_ref: str | None, result_sha256: str | None
    ) -> Completion | None:
        """Record the part's result, waiting for a database that is away. None: given up, or no longer ours."""
        give_up = time.monotonic() + COMPLETE_PATIENCE_SECONDS
        pause = 0.1
        while True:
            try:
                return schema.transact(
                    self._pool,
                    schema.complete_part,
                    held.key,
                    input_hash=input_hash,
                    result=result,
                    result_ref=result_ref,
                    result_sha256=result_sha256,
                )
            except schema.Unavailable as error:
                if time.monotonic() > give_up or held.draining.is_set():
                    log.warning('result not recorded: database away; the lease will expire', error=str(error).strip())
                    return None
                held.draining.wait(pause)
                pause = min(pause * 2, 2.0)

    def fail(
        self,
        held: Held,
        problem: Problem,
        *,
        charge: Literal['attempt', 'loss'],
        permanent: bool = False,
        pause: timedelta = timedelta(),
    ) -> Failed | None:
        """Record a failure; the next try waits for `pause` at least.

        None when the database is away: the lease then expires and counts as a loss.
        """
        claimed = held.claimed
        tries = claimed.attempts if charge == 'attempt' else claimed.losses
        extra = {'part': held.key.part_index, **problem.extra}
        if charge == 'attempt':
            extra['attempts'] = claimed.attempts + 1
        failure = Problem(name=problem.name, detail=problem.detail, extra=extra).to_json()
        try:
            outcome = schema.transact(
                self._pool,
                schema.fail_part,
                held.key,
                epoch=claimed.lease_epoch,
                failure=failure,
                charge=charge,
                permanent=permanent,
                attempts_allowed=self._settings.part_attempts,
                losses_allowed=self._settings.part_losses,
                retry_after=max(pause, backoff(charge, tries)),
            )
        except schema.Unavailable as error:
            log.warning('failure not recorded: database away', error=str(error).strip())
            return None
        log.warning('part failed', problem=problem.name, detail=problem.detail, charge=charge, outcome=outcome.name)
        return outcome

    def give_back(self, held: Held) -> None:
        """Return a part unfinished and uncharged, due at once."""
        try:
            returned = schema.transact(self._pool, schema.return_part, held.key, epoch=held.claimed.lease_epoch)
        except schema.Unavailable as error:
            log.warning('part not returned: database away', error=str(error).strip())
            return
        log.info('part returned' if returned else 'part was no longer ours to return')

    def drain(self, grace_seconds: float) -> None:
        """Claim nothing more; wait for what is held, then take back what does not finish in the grace."""
        deadline = time.monotonic() + grace_seconds
        with self._changed:
            self._draining = True
            while self._held and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            unfinished = list(self._held)
        for held in unfinished:
            held.draining.set()
            if held.on_lost:
                held.on_lost('draining')
        with self._changed:
            while self._held and time.monotonic() < deadline + 5:
                self._changed.wait(0.5)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=5)

    def _renew_all(self) -> None:
        pause = self._settings.lease_seconds / RENEWALS_PER_LEASE
        while not self._stopping.wait(pause):
            with self._changed:
                holding = [held for held in self._held if not held.gone]
            for held in holding:
                try:
                    self._renew(held)
                except Exception:  # the thread that keeps all leases must outlive any surprise
                    log.exception('lease not renewed')

    def _renew(self, held: Held) -> None:
        try:
            ours = schema.transact(
                self._pool,
                schema.renew_lease,
                held.key,
                epoch=held.claimed.lease_epoch,
                lease=self._settings.lease,
            )
        except schema.Unavailable as error:
            log.warning('lease not renewed: database away', error=str(error).strip())
            return
        with self._changed:
            still_held = held in self._held
        if not ours and still_held:
            log.info('lease lost', part_index=held.key.part_index, job_id=str(held.key.job_id))
            held.lost.set()
            if held.on_lost:
                held.on_lost('lease-lost')


def backoff(charge: Literal['attempt', 'loss'], tries: int) -> timedelta:
    """Pause before the next try: exponential, capped, with ±50 % of jitter."""
    seconds = min(RETRY_BASE_SECONDS[charge] * 2**tries, RETRY_CAP_SECONDS)
    return timedelta(seconds=seconds * random.uniform(0.5, 1.5))
