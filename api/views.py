"""Jobs and parts as clients see them: response models, made from what the schema returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from api.models import JobStatus

if TYPE_CHECKING:
    from schema import Batch, Part, Snapshot

#: of one job
MOST_WARNINGS: Final = 100
KINDS: Final = ('plan', 'layout', 'paint', 'assemble')
BatchKind = Literal['plan', 'layout', 'paint', 'assemble']
PartState = Literal['pending', 'running', 'completed', 'failed', 'cancelled']


class Failure(BaseModel):
    """A problem as in `application/problem+json`, without a status; other members say where it was."""

    model_config = ConfigDict(extra='allow')

    type: str
    title: str
    detail: str


class BatchView(BaseModel):
    """The step that a job is at."""

    no: int
    kind: BatchKind
    done: int
    total: int


class PartsView(BaseModel):
    """How many parts of the document are painted; `total` is null until the job is planned."""

    done: int
    total: int | None


class SeamView(BaseModel):
    """A page break at which a window begins."""

    model_config = ConfigDict(serialize_by_alias=True)

    label: str = Field(description='`#id` of what begins there, or the beginning of its text')
    page_break: str = Field(alias='break')
    page: str | None = Field(description='name of the page that follows')


class RoundView(BaseModel):
    """A round of layout: how many windows were laid out, and why."""

    round: int
    windows: int
    why: str


class PlanView(BaseModel):
    """How a single document is rendered: in windows that are laid out at the same time, or whole."""

    windows: int
    seams: list[SeamView]
    rounds: list[RoundView]
    whole_because: str | None = Field(description='why it is rendered in one window')


class LinksView(BaseModel):
    self: str
    events: str
    parts: str
    result: str
    cancel: str


class JobSummary(BaseModel):
    """A job as a list has it."""

    id: UUID
    status: JobStatus
    created_at: datetime
    finished_at: datetime | None
    deadline_at: datetime
    expires_at: datetime | None
    batch: BatchView
    parts: PartsView
    pages: int = Field(description='pages known so far: painted, or of a long document laid out; in the end of the PDF')
    bytes: int | None = Field(description='size of the PDF')
    documents: int
    timings: dict[str, float | None] = Field(description='seconds each step took, and `total`; null until its end')
    failure: Failure | None
    links: LinksView


class JobView(JobSummary):
    """A job at one moment."""

    plan: PlanView | None = Field(description='of a job of a single document, once it is planned')
    missing: list[dict[str, Any]] = Field(
        description='what placeholders stand for, with `on_part_failure: partial`; the first hundred'
    )
    missing_count: int = Field(description='how many there are')
    warnings: list[str] = Field(description='at most a hundred, each once')


class JobList(BaseModel):
    """A page of jobs, newest first."""

    jobs: list[JobSummary]
    next: str | None = Field(description='where the next page is')


class PartView(BaseModel):
    """A part: a unit of work of one batch."""

    index: int
    kind: BatchKind
    batch: int
    status: PartState
    attempts: int = Field(description='tries that failed by the fault of the part')
    losses: int = Field(description='tries that were lost to what happened around it')
    generation: int
    window: int | None = Field(description='of a long document: which window, from 0')
    label: str | None = Field(description='where that begins: `#id` or text')
    round: int | None = Field(description='of a layout: which round, from 1')
    owner: str | None = Field(description='the process that works on it, or that completed or failed it')
    pages: int | None
    items: int | None = Field(description='documents that it renders')
    started_at: datetime | None
    finished_at: datetime | None
    cpu_seconds: float | None
    max_rss_bytes: int | None
    child_pid: int | None
    failure: Failure | None


class PartList(BaseModel):
    """A page of parts, in order of batch and index."""

    parts: list[PartView]
    next: str | None = Field(description='where the next page is')


def standing(status: str) -> str:
    """A job's status as a sentence begins with it."""
    return f'the job {"has" if status in {"failed", "expired"} else "is"} {status}'


def job_path(job_id: UUID) -> str:
    return f'/v1/jobs/{job_id}'


def summarize_job(snapshot: Snapshot) -> JobSummary:
    """The job JSON of a list."""
    return JobSummary(**_members(snapshot))


def view_job(snapshot: Snapshot, warnings: Sequence[str] | None = None) -> JobView:
    """The job JSON of a snapshot; `warnings` where they are known of a job that has no result."""
    return JobView(
        **_members(snapshot),
        plan=None if snapshot.plan is None else PlanView.model_validate(snapshot.plan),
        missing=list(snapshot.missing),
        missing_count=snapshot.missing_count,
        warnings=list((warnings or snapshot.warnings)[:MOST_WARNINGS]),
    )


def _members(snapshot: Snapshot) -> dict[str, Any]:
    job, batch = snapshot.job, snapshot.current
    path = job_path(job.id)
    planned = snapshot.parts_total or job.status == 'completed'
    return {
        'id': job.id,
        'status': job.status,
        'created_at': job.created_at,
        'finished_at': job.finished_at,
        'deadline_at': job.deadline_at,
        'expires_at': job.expires_at,
        'batch': BatchView(no=batch.batch_no, kind=batch.kind, done=batch.done, total=batch.total),
        'parts': PartsView(done=snapshot.parts_done, total=snapshot.parts_total if planned else None),
        'pages': snapshot.pages_known if job.page_count is None else job.page_count,
        'bytes': job.result_bytes,
        'documents': snapshot.documents,
        'timings': timings(snapshot),
        'failure': _failure(job.failure),
        'links': LinksView(
            self=path,
            events=f'{path}/events',
            parts=f'{path}/parts',
            result=f'{path}/result',
            cancel=f'{path}/cancel',
        ),
    }


def timings(snapshot: Snapshot) -> dict[str, float | None]:
    """Seconds for each kind of batch that has begun, over all its rounds, and in total."""
    spent: dict[str, float | None] = {}
    for kind in KINDS:
        batches = [batch for batch in snapshot.batches if batch.kind == kind]
        if batches:
            spent[kind] = _sum(batches)
    job = snapshot.job
    spent['total'] = _seconds(job.created_at, job.finished_at)
    return spent


def _sum(batches: list[Batch]) -> float | None:
    times = [_seconds(batch.created_at, batch.completed_at) for batch in batches]
    known = [seconds for seconds in times if seconds is not None]
    return round(sum(known), 3) if len(known) == len(times) else None


def _seconds(start: datetime, end: datetime | None) -> float | None:
    return None if end is None else round((end - start).total_seconds(), 3)


def view_part(part: Part, *, batch_ended: bool) -> PartView:
    """The part JSON. A pending part is running while it is leased, and cancelled once its batch has ended."""
    result = part.result or {}
    timing = result.get('timing') or {}
    status: PartState = part.status
    if status == 'pending':
        status = 'cancelled' if batch_ended else 'running' if part.lease_expires_at else 'pending'
    return PartView(
        index=part.key.part_index,
        kind=part.kind,
        batch=part.key.batch_no,
        status=status,
        attempts=part.attempts,
        losses=part.losses,
        generation=part.generation,
        window=part.spec.get('window'),
        label=part.spec.get('label'),
        round=part.spec.get('round'),
        owner=part.lease_owner if status in {'running', 'completed', 'failed'} else None,
        pages=part.pages,
        items=part.spec.get('item_count'),
        started_at=_moment(timing.get('started_at')),
        finished_at=_moment(timing.get('finished_at')) or part.completed_at,
        cpu_seconds=_rounded(timing.get('cpu_seconds')),
        max_rss_bytes=timing.get('max_rss_bytes'),
        child_pid=timing.get('child_pid'),
        failure=_failure(part.failure),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _moment(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC)


def _failure(value: Mapping[str, Any] | None) -> Failure | None:
    return None if value is None else Failure.model_validate(value)
