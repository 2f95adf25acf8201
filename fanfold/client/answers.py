"""What the service answers, as values: jobs, parts and problems (RFC 9457).

Reading is lenient: members that a newer service adds are kept in `raw`, members that it leaves out
become None or empty. Durations are seconds, times are aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

FINAL_STATES: Final = frozenset({'completed', 'failed', 'cancelled', 'expired'})
_STANDARD: Final = frozenset({'type', 'title', 'detail', 'status', 'instance', 'errors'})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFault:
    """What is wrong with one field of a request; `valid` lists what it may be where that is a finite set."""

    field: str
    detail: str
    valid: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FieldFault:
        return cls(
            field=str(value.get('field', '')),
            detail=str(value.get('detail', '')),
            valid=tuple(map(str, value.get('valid') or ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request was refused, or why a job or a part failed. `extra` has `document`, `record`, `line`, …"""

    type: str
    title: str
    detail: str = ''
    status: int | None = None
    errors: tuple[FieldFault, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Problem:
        status = value.get('status')
        faults = value.get('errors')
        return cls(
            type=str(value.get('type', 'about:blank')),
            title=str(value.get('title', '')),
            detail=str(value.get('detail', '')),
            status=status if isinstance(status, int) else None,
            errors=tuple(FieldFault.from_json(fault) for fault in faults if isinstance(fault, Mapping))
            if isinstance(faults, list)
            else (),
            extra={name: item for name, item in value.items() if name not in _STANDARD},
        )

    def lines(self) -> list[str]:
        """The problem for a person: what, why, then one line for each fault and each further member."""
        # The detail of a problem with faults repeats them.
        lines = [': '.join(filter(None, (self.title, '' if self.errors else self.detail))) or self.type]
        for fault in self.errors:
            lines.append(f'  {fault.field}: {fault.detail}' if fault.field else f'  {fault.detail}')
            if fault.valid:
                lines.append(f'    valid: {", ".join(fault.valid)}')
        for name, item in self.extra.items():
            if isinstance(item, list):
                lines.append(f'  {name}: {", ".join(map(str, item))}')
            elif not isinstance(item, Mapping) and (name != 'request_id' or (self.status or 0) >= 500):
                lines.append(f'  {name}: {item}')
        return [*lines, f'  ({self.type})']


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    done: int = 0
    total: int = 0

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Count:
        value = value or {}
        return cls(done=int(value.get('done') or 0), total=int(value.get('total') or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a single document is rendered: in windows that begin at `seams` (`#id`, or text), or whole, and why so.

    `rounds` has the reason for each round of layout.
    """

    windows: int
    seams: tuple[str, ...] = ()
    rounds: tuple[str, ...] = ()
    whole_because: str | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        return cls(
            windows=int(value.get('windows') or 1),
            seams=tuple(str(seam.get('label', '')) for seam in value.get('seams') or ()),
            rounds=tuple(str(entry.get('why', '')) for entry in value.get('rounds') or ()),
            whole_because=value.get('whole_because'),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The step a job is at: `kind` is plan, layout, paint or assemble."""

    no: int
    kind: str
    parts: Count

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Batch:
        return cls(no=int(value['no']), kind=str(value['kind']), parts=Count.from_json(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it was when the service answered. `timings` gives seconds for each step and `total`.

    `missing` has the first of `missing_count` entries. Jobs of a list have neither, and no `warnings`.
    """

    id: str
    status: str
    created_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    expires_at: datetime | None = None
    batch: Batch | None = None
    parts: Count = Count()
    pages: int | None = None
    documents: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    failure: Problem | None = None
    missing: tuple[Mapping[str, Any], ...] = ()
    missing_count: int = 0
    warnings: tuple[str, ...] = field(default=(), compare=False)  # not every answer has them
    plan: Plan | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_finished(self) -> bool:
        return self.status in FINAL_STATES

    @property
    def is_completed(self) -> bool:
        return self.status == 'completed'

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Job:
        """Raises KeyError unless the value has an `id` and a `status`."""
        batch, failure = value.get('batch'), value.get('failure')
        missing = tuple(value.get('missing') or ())
        return cls(
            id=str(value['id']),
            status=str(value['status']),
            created_at=_time(value.get('created_at')),
            finished_at=_time(value.get('finished_at')),
            deadline_at=_time(value.get('deadline_at')),
            expires_at=_time(value.get('expires_at')),
            batch=Batch.from_json(batch) if batch else None,
            parts=Count.from_json(value.get('parts')),
            pages=value.get('pages'),
            documents=value.get('documents'),
            timings={name: seconds for name, seconds in (value.get('timings') or {}).items() if seconds is not None},
            failure=Problem.from_json(failure) if failure else None,
            missing=missing,
            missing_count=int(value.get('missing_count') or len(missing)),
            warnings=tuple(value.get('warnings') or ()),
            plan=Plan.from_json(value['plan']) if value.get('plan') else None,
            raw=value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a job's batch: pending, running, completed, failed or cancelled.

    `owner` is the worker that works on it, or that completed or failed it; `child_pid` the process that painted it.
    """

    index: int
    kind: str
    batch: int
    status: str
    attempts: int = 0
    losses: int = 0
    owner: str | None = None
    pages: int | None = None
    items: int | None = None
    window: int | None = None
    label: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cpu_seconds: float | None = None
    max_rss_bytes: int | None = None
    child_pid: int | None = None
    failure: Problem | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        failure = value.get('failure')
        return cls(
            index=int(value['index']),
            kind=str(value['kind']),
            batch=int(value['batch']),
            status=str(value['status']),
            attempts=int(value.get('attempts') or 0),
            losses=int(value.get('losses') or 0),
            owner=value.get('owner'),
            pages=value.get('pages'),
            items=value.get('items'),
            window=value.get('window'),
            label=value.get('label'),
            started_at=_time(value.get('started_at')),
            finished_at=_time(value.get('finished_at')),
            cpu_seconds=value.get('cpu_seconds'),
            max_rss_bytes=value.get('max_rss_bytes'),
            child_pid=value.get('child_pid'),
            failure=Problem.from_json(failure) if failure else None,
            raw=value,
        )


def _time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None
