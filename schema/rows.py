"""What the statements return: one frozen dataclass for each kind of row, and what callers pass in.

Field names are column names. JSON columns arrive as plain dicts. Timestamps are aware and come from
the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal, TypeAlias
from uuid import UUID

Json: TypeAlias = dict[str, Any]
JobStatus = Literal['queued', 'rendering', 'assembling', 'completed', 'failed', 'cancelled', 'expired']
BatchKind = Literal['plan', 'layout', 'paint', 'assemble']
BatchStatus = Literal['running', 'completed', 'failed', 'cancelled']
PartStatus = Literal['pending', 'completed', 'failed']
FailurePolicy = Literal['fail', 'partial']
Charge = Literal['attempt', 'loss']


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartKey:
    """Which part: sortable in lock order."""

    job_id: UUID
    batch_no: int
    part_index: int

    def __str__(self) -> str:
        return f'{self.job_id}/{self.batch_no}/{self.part_index}'


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as it is submitted. Its deadline is `time_limit` after creation, or after a retry."""

    id: UUID
    spec: Json
    time_limit: timedelta
    keep_for: timedelta
    tenant_id: str = 'default'
    idempotency_key: str | None = None
    fingerprint: str | None = None
    failure_policy: FailurePolicy = 'fail'


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    """A part of a batch about to be created."""

    part_index: int
    spec: Json = field(default_factory=dict)
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job without its spec and its result, which can be large."""

    id: UUID
    tenant_id: str
    status: JobStatus
    run: int
    idempotency_key: str | None
    fingerprint: str | None
    failure_policy: FailurePolicy
    time_limit: timedelta
    keep_for: timedelta
    page_count: int | None
    result_key: str | None
    result_sha256: str | None
    result_bytes: int | None
    failure: Json | None
    created_at: datetime
    finished_at: datetime | None
    deadline_at: datetime
    expires_at: datetime | None

    @property
    def ended(self) -> bool:
        return self.finished_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobState):
    """A job with its spec and its result."""

    spec: Json
    result: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """`created` is False when the idempotency key had a job already: then `job` is that one."""

    job: Job
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job after cancel, retry or delete; `changed` is False when its state did not allow it, or had it already."""

    job: Job
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """`remaining` counts what is neither completed nor failed while the batch runs; then it stays as it was."""

    batch_no: int
    kind: BatchKind
    status: BatchStatus
    total: int
    remaining: int
    created_at: datetime
    completed_at: datetime | None

    @property
    def done(self) -> int:
        return self.total - self.remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A job as clients see it at one moment.

    `pages`, `parts_done`, `parts_failed` and `parts_total` are of painting, each part index counted once, however
    many batches it was in; `pages_laid_out` is likewise of layout. `current` has the numbers of the latest batch.
    `plan` tells of the windows of a single document. `missing` has the first hundred of `missing_count` entries of the
    result, `warnings` is that of the result; empty until the job is completed.
    """

    job: JobState
    documents: int
    batches: tuple[Batch, ...]
    pages: int
    pages_laid_out: int
    parts_done: int
    parts_total: int
    parts_failed: int
    missing: tuple[Json, ...]
    missing_count: int
    warnings: tuple[str, ...]
    plan: Json | None

    @property
    def current(self) -> Batch:
        """The latest batch."""
        return self.batches[-1]

    @property
    def pages_known(self) -> int:
        """Pages painted so far; of a long document those that its layout has found."""
        found: int = (self.plan or {}).get('pages') or self.pages_laid_out
        return max(self.pages, found)

    @property
    def version(self) -> str:
        """Changes whenever what a client sees changes."""
        batch = self.current
        numbers = (self.job.run, batch.batch_no, batch.done, self.parts_done, self.parts_failed, self.pages_known)
        return '.'.join((*map(str, numbers), self.job.status))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of any status. `lease_owner` is who holds it, or who last did; it is held while `lease_expires_at` is set.

    `completed_at` is when it was completed or failed.
    """

    key: PartKey
    kind: BatchKind
    status: PartStatus
    generation: int
    spec: Json
    input_hash: str | None
    attempts: int
    losses: int
    next_attempt_at: datetime
    lease_owner: str | None
    lease_epoch: int
    lease_expires_at: datetime | None
    dispatched_at: datetime | None
    result: Json | None
    result_ref: str | None
    result_sha256: str | None
    pages: int | None
    failure: Json | None
    completed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaintedOutcome:
    """What painting one index came to, without the result itself, of which there may be a hundred thousand.

    `items` and `missing` count what the result lists, `first_missing` is the first of the missing ones; 0, 0 and None
    for a failed part. `failure` is that of a failed part only.
    """

    part_index: int
    generation: int
    spec: Json
    completed: bool
    items: int
    missing: int
    first_missing: Json | None
    failure: Json | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPart:
    """A part that is now leased to the caller, with what it takes to work on it.

    `failure` is why its last attempt failed. `time_left` is the time to the job's deadline by the
    database's clock; negative when it has passed.
    """

    key: PartKey
    kind: BatchKind
    lease_epoch: int
    generation: int
    attempts: int
    losses: int
    part_spec: Json
    failure: Json | None
    job_spec: Json
    failure_policy: FailurePolicy
    run: int
    deadline_at: datetime
    time_left: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePart:
    """A part that workers should be told about.

    `host`: who has what it takes and should be told before all others; None once it was told, or held the part.
    """

    key: PartKey
    kind: BatchKind
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """The latest completed layout of a window: what it was laid out from, and what it reported."""

    part_index: int
    spec: Json
    result: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A claimed event of the outbox. `attempts` counts this claim."""

    id: int
    event_key: str
    type: str
    job_id: UUID
    payload: Json
    attempts: int
    created_at: datetime

    @property
    def batch_no(self) -> int:
        """The batch of a batch-completed event. Raises KeyError for others."""
        return int(self.payload['batch_no'])


class Completion(Enum):
    """What came of completing a part. All but the first two wrote nothing; every one is acknowledged."""

    COUNTED = 'counted'
    LAST = 'last'
    DUPLICATE = 'duplicate'
    DISCARDED = 'discarded'


class Failed(Enum):
    """What came of failing a part. STALE wrote nothing: the part is no longer the caller's."""

    RETRY = 'retry'
    PART_FAILED = 'part failed'
    LAST = 'last'
    JOB_FAILED = 'job failed'
    STALE = 'stale'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLease:
    """A lease that was over when it was looked at; `losses` are those before it."""

    key: PartKey
    lease_epoch: int
    lease_owner: str
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A batch whose `remaining` had drifted; `completed` when counting again found nothing left."""

    job_id: UUID
    batch_no: int
    was: int
    now: int
    completed: bool


class Fate(Enum):
    """What the sweeper may do with the objects of a job."""

    KEEP = 'keep'
    ONLY_RESULT = 'only result'
    DELETE = 'delete'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposition:
    """`result_key` is the object that stays when only the result does."""

    fate: Fate
    result_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Counts for metrics. `jobs` has an entry for each status of unfinished jobs."""

    jobs: dict[str, int]
    parts_pending: int
    parts_leased: int
    events_unsent: int
    events_parked: int
