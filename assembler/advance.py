"""What follows a completed batch: the one place that knows the order of batches. Pure: values in, a step out.

    plan → (layout …) → paint → assemble → the job is completed
             ↺ rounds     ↑          ↓
                          └─ repair ─┘   painted parts that turned out missing or damaged, at most REPAIR_ROUNDS times

A long document is laid out in windows before it is painted, in as many rounds as it takes (assembler.rounds).

Under the policy `partial` a batch may complete with failed parts. A plan or an assembly that failed, a window that
failed, or a job of which nothing at all was painted, fails; whatever else is missing becomes placeholders in the
result. Under the policy `fail` such a job has ended already and nothing asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from assembler.rounds import Following, LaidOut, after_layout, after_planning
from runtime.errors import Problem

REPAIR_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPart:
    """A part that is completed (it has a result) or failed (it has a failure)."""

    index: int
    result: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaintedPart:
    """What painting one index came to: so many items, so many of them placeholders; or a failure."""

    index: int
    generation: int
    spec: dict[str, Any]
    items: int = 0
    missing: int = 0
    first_missing: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None

    @property
    def has_content(self) -> bool:
        """Whether it is painted, and at least one item is more than a placeholder."""
        return self.failure is None and self.missing < max(self.items, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The batch that completed, and what layout and painting came to over all batches of the job.

    `ended` has the parts of a plan or an assembly, and the failed ones of a layout; `painting` and `laid_out` have each
    index once, whatever batch is meant. `plan` is what clients see of the windows so far. `assemblies` counts the
    completed assemble batches, this one included. `retried`: the job had failed at this very point and a client asked
    for another try.
    """

    kind: Literal['plan', 'layout', 'paint', 'assemble']
    ended: Sequence[EndedPart] = ()
    painting: Sequence[PaintedPart] = ()
    laid_out: Sequence[LaidOut] = ()
    plan: dict[str, Any] | None = None
    assemblies: int = 0
    retried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPart:
    index: int
    spec: dict[str, Any] = field(default_factory=dict)
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """Create a batch of these parts and move the job to `job_status`; `plan` is what clients see of the windows now."""

    kind: Literal['layout', 'paint', 'assemble']
    job_status: Literal['rendering', 'assembling']
    parts: Sequence[PlannedPart]
    plan: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The job has its result."""

    pages: int
    key: str
    sha256: str
    size: int
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The job fails; the failure is a problem as JSON."""

    failure: dict[str, Any]


Step: TypeAlias = NextBatch | Complete | Fail


def next_step(progress: Progress) -> Step:
    """Raises ValueError for a batch that cannot have completed like this."""
    match progress.kind:
        case 'plan':
            return _after_plan(progress)
        case 'layout':
            return _after_layout(progress)
        case 'paint':
            return _after_paint(progress)
        case 'assemble':
            return _after_assemble(progress)


def _after_plan(progress: Progress) -> Step:
    [plan] = progress.ended
    if plan.result is None:
        return _failed_with(plan)
    if 'whole_because' in plan.result:
        return _rendering(after_planning(plan.result))
    specs = plan.result['parts']
    if not specs:
        return _fail('nothing-to-print', 'planning found nothing to print')
    parts = [PlannedPart(index=index, spec=spec) for index, spec in enumerate(specs)]
    return NextBatch(kind='paint', job_status='rendering', parts=parts)


def _after_layout(progress: Progress) -> Step:
    for part in progress.ended:
        return _failed_with(part)
    if progress.plan is None:
        raise ValueError('windows were laid out without a plan')
    return _rendering(after_layout(progress.plan, progress.laid_out))


def _rendering(following: Following) -> NextBatch:
    parts = [PlannedPart(index=index, spec=spec) for index, spec in following.specs.items()]
    return NextBatch(kind=following.kind, job_status='rendering', parts=parts, plan=following.plan)


def _after_paint(progress: Progress) -> Step:
    painting = sorted(progress.painting, key=lambda part: part.index)
    indexes = [part.index for part in painting]
    if indexes != list(range(len(indexes))) or not indexes:
        raise ValueError(f'painting left the parts {indexes}')
    for part in painting:
        if part.failure is not None and 'window' in part.spec:  # how many pages a placeholder stands for is not known
            return Fail(failure=part.failure)
    if any(part.has_content for part in painting):
        return NextBatch(kind='assemble', job_status='assembling', parts=[PlannedPart(index=0)])
    for part in painting:
        if part.failure is not None:
            return Fail(failure=part.failure)
    return Fail(failure=_problem_of(painting[0]).to_json())


def _problem_of(part: PaintedPart) -> Problem:
    """Why the first of a part's items is missing; an entry without a type is one of an earlier version."""
    first = {'type': 'render-error', 'detail': 'nothing could be rendered', **(part.first_missing or {})}
    told = {key: value for key, value in first.items() if value is not None}
    return Problem.from_json({'part': part.index, **told})


def _after_assemble(progress: Progress) -> Step:
    [assembly] = progress.ended
    result = assembly.result
    if result is None:
        return _failed_with(assembly)
    if 'repair' in result:
        return _repair(progress, result['repair'])
    return Complete(
        pages=result['pages'], key=result['key'], sha256=result['sha256'], size=result['bytes'], result=result
    )


def _repair(progress: Progress, damaged: Sequence[int]) -> Step:
    if progress.assemblies > REPAIR_ROUNDS and not progress.retried:
        named = ', '.join(map(str, damaged))
        detail = f'painted parts were missing or damaged, again after {REPAIR_ROUNDS} repairs: {named}'
        return _fail('part-object-damaged', detail, parts=list(damaged))
    painted = {part.index: part for part in progress.painting if part.failure is None}
    parts = [
        PlannedPart(index=index, spec=painted[index].spec, generation=painted[index].generation + 1)
        for index in damaged
    ]
    return NextBatch(kind='paint', job_status='rendering', parts=parts)


def _failed_with(part: EndedPart) -> Fail:
    if part.failure is None:
        raise ValueError(f'part {part.index} has neither a result nor a failure')
    return Fail(failure=part.failure)


def _fail(name: str, detail: str, **extra: Any) -> Fail:
    return Fail(failure=Problem(name=name, detail=detail, extra=extra).to_json())
