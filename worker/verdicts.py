"""What becomes of a part: from how its child ended, or what was raised, to the problem and whom it is charged to.

the content of the job is at fault           attempt, permanent
the input archive is not there               attempt (another try may find it)
a limit, a crash, an error of our own        attempt
a kill, the zygote, the host, the storage    loss
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from runtime.errors import ObjectCorrupt, ObjectMissing, Problem, Refusal, Retryable
from worker.outcomes import ChildOutcome, Died, Done, Position, Refused, ZygoteUnavailable
from worker.requests import LAST_WORDS_SECONDS

#: ways to die that happened to a part, not by it
LOSSES: Final = frozenset({'zygote-died', 'lease-lost', 'draining', 'deadline', 'host'})
#: the next try waits until the job has failed, which comes a moment after its last child was ended
AFTER_DEADLINE: Final = timedelta(seconds=2 * LAST_WORDS_SECONDS)
LIMITS: Final = frozenset({'memory-limit', 'cpu-limit', 'wall-limit'})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a part's try ended. `of_host`: the host is at fault; `surprise`: nobody thought of this error.

    `pause`: how long the next try has to wait at least.
    """

    problem: Problem
    charge: Literal['attempt', 'loss']
    permanent: bool = False
    of_host: bool = False
    surprise: bool = False
    pause: timedelta = timedelta()


class Interrupted(Exception):
    """A part came to no result, for the reason that the verdict gives."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.problem.detail)
        self.verdict = verdict


def result_of(outcome: ChildOutcome) -> dict[str, Any]:
    """What the child made. Raises Refusal, Interrupted."""
    match outcome:
        case Done(result=result):
            return result
        case Refused(problem=problem):
            raise Refusal(Problem.from_json(problem))
        case Died():
            raise Interrupted(verdict_of_death(outcome))


def verdict_of_death(died: Died) -> Verdict:
    if died.reason == 'host':
        return Verdict(problem=Problem(name='host-failed', detail=died.detail), charge='loss', of_host=True)
    if died.reason == 'deadline':
        detail = f'{_named(died.position)}{died.detail}'
        problem = Problem(name='child-died', detail=detail, extra=_place(died.position))
        return Verdict(problem=problem, charge='loss', pause=AFTER_DEADLINE)
    if died.reason in LOSSES:
        return Verdict(problem=Problem(name='child-died', detail=f'{died.reason}: {died.detail}'), charge='loss')
    name = died.reason if died.reason in LIMITS else 'child-died'
    return Verdict(problem=Problem(name=name, detail=died.detail, extra=_place(died.position)), charge='attempt')


def verdict_of(error: Exception) -> Verdict:
    """What an error that ended the work on a part says of it."""
    match error:
        case Interrupted(verdict=verdict):
            return verdict
        case Refusal(problem=problem):
            return Verdict(problem=problem, charge='attempt', permanent=True)
        case ObjectMissing():
            return Verdict(
                problem=Problem(name='input-missing', detail=f'there is no object {error}'), charge='attempt'
            )
        case ZygoteUnavailable():
            return Verdict(problem=Problem(name='zygote-unavailable', detail=str(error)), charge='loss')
        case Retryable() | ObjectCorrupt():
            return Verdict(problem=Problem(name='storage-unavailable', detail=str(error)), charge='loss')
        case OSError() | MemoryError():  # a part's own files are opened in children only
            detail = f'{type(error).__name__}: {error}'
            return Verdict(problem=Problem(name='host-failed', detail=detail), charge='loss', of_host=True)
        case _:
            detail = f'{type(error).__name__}: {error}'
            return Verdict(problem=Problem(name='internal-error', detail=detail), charge='attempt', surprise=True)


def _place(position: Position) -> dict[str, Any]:
    if position is None:
        return {}
    document, record = position
    return {'document': document} if record is None else {'document': document, 'record': record}


def _named(position: Position) -> str:
    """The beginning of a detail that tells what a child was at, if that is known."""
    if position is None:
        return ''
    named = ', '.join(f'{kind} {number}' for kind, number in _place(position).items())
    return f'{named} was being rendered when time ran out: '
