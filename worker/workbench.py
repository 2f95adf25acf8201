"""Working a part from the hint to the record of how it ended, the same in every process that works parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import schema
from runtime.errors import Problem
from runtime.logs import get_logger
from worker.verdicts import Verdict, verdict_of

if TYPE_CHECKING:
    from runtime.nudge import Nudger
    from worker.fitness import Fitness
    from worker.holding import Held, Holder
    from worker.outcomes import ChildOutcome
    from worker.requests import ChildRequest, Request
    from worker.zygote import Zygote

log = get_logger(__name__)


class Workbench:
    """Claims parts, has them worked, records what came of it."""

    def __init__(self, holder: Holder, nudger: Nudger, fitness: Fitness) -> None:
        self._holder = holder
        self._nudger = nudger
        self._fitness = fitness

    def work(self, key: schema.PartKey, do: Callable[[Held], schema.Completion | None]) -> None:
        """Claim a part and bring it to an end; whatever happens is recorded, nothing is raised."""
        if self._fitness.unfit_because is not None:
            return
        with self._holder.hold(key) as held:
            if held is None:
                return
            try:
                completion = do(held)
            except schema.Unavailable as error:
                log.warning('work interrupted: database away; the lease will expire', error=str(error).strip())
            except Exception as error:
                self._fail(held, error)
            else:
                if held.claimed.kind != 'plan':  # which takes nothing of the host
                    self._fitness.worked()
                if completion is schema.Completion.LAST:
                    self._nudger.nudge('events')
                self._nudger.nudge('parts', 'jobs')

    def _fail(self, held: Held, error: Exception) -> None:
        verdict = verdict_of(error)
        if verdict.surprise:
            log.error('part failed unexpectedly', exc_info=error)
        if verdict.of_host:
            self._fitness.host_failed(verdict.problem.detail)
        if held.draining.is_set():
            self._holder.give_back(held)
            self._nudger.nudge('parts')
        elif not held.lost.is_set():
            self._record(held, verdict)
            self._nudger.nudge('events', 'jobs')

    def _record(self, held: Held, verdict: Verdict) -> None:
        """Whatever a problem says that the database does not take, the part must not be left to its lease."""
        fail = partial(self._holder.fail, held, charge=verdict.charge, permanent=verdict.permanent, pause=verdict.pause)
        try:
            fail(verdict.problem)
        except Exception:
            log.exception('failure could not be recorded as it is')
            plain = Problem(name=verdict.problem.name, detail=plain_text(verdict.problem.detail))
            try:
                fail(plain)
            except Exception:
                log.exception('failure not recorded; the lease will expire')


def run_child(held: Held, zygote: Zygote, request: ChildRequest | Request) -> ChildOutcome:
    """Have a child serve the request, and killed once the part is no longer ours. Raises ZygoteUnavailable, OSError."""
    child = zygote.start(request)
    held.on_lost = child.kill
    if held.gone:
        child.kill('draining' if held.draining.is_set() else 'lease-lost')
    outcome = child.wait()
    assert outcome is not None
    return outcome


def plain_text(text: str) -> str:
    """Printable ASCII, with a question mark for everything else."""
    return ''.join(letter if ' ' <= letter <= '~' else '?' for letter in text)
