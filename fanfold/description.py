"""A job in words, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from fanfold.progress import counted_pages, progress_of, step_of

if TYPE_CHECKING:
    from fanfold.client import Job

#: of the places where a document is split, how many are named
SEAMS_SHOWN: Final = 5


def describe(job: Job) -> Iterator[str]:
    """What there is to say about a job, a line for each fact."""
    yield f'job        {job.id}'
    yield f'status     {job.status}' + (f', {step_of(job)}' if job.batch and not job.is_finished else '')
    if job.parts.total:
        yield f'parts      {job.parts.done} of {job.parts.total}'
    if job.documents is not None:
        yield f'documents  {job.documents:,}'
    if job.pages is not None:
        yield f'pages      {job.pages:,}'
    yield from _plan(job)
    if job.timings:
        yield 'seconds    ' + ', '.join(f'{name} {seconds:.2f}' for name, seconds in job.timings.items())
    for name, time in (
        ('created', job.created_at),
        ('finished', job.finished_at),
        ('deadline', None if job.is_finished else job.deadline_at),
        ('expires', job.expires_at),
    ):
        if time:
            yield f'{name:<9}  {local_time(time)}'
    if job.failure:
        for label, line in zip(('failure', *[''] * 99), job.failure.lines(), strict=False):
            yield f'{label:<9}  {line}'
    yield from remarks(job)


def _plan(job: Job) -> Iterator[str]:
    """How a long document is split, and why it took its rounds of layout."""
    plan = job.plan
    if plan is None:
        return
    if plan.whole_because:
        yield f'windows    1: {plan.whole_because}'
        return
    shown = ', '.join(plan.seams[:SEAMS_SHOWN]) + (', …' if len(plan.seams) > SEAMS_SHOWN else '')
    yield f'windows    {plan.windows}, split at {shown}'
    for number, why in enumerate(plan.rounds, start=1):
        yield f'round {number:<5}{why}'


def remarks(job: Job) -> Iterator[str]:
    """What a job lacks, and what it warns of."""
    for item in job.missing:
        place = ' '.join(f'{name} {item[name]}' for name in ('document', 'record') if item.get(name) is not None)
        yield f'missing    {place}: {item.get("detail", "")}'
    if (more := job.missing_count - len(job.missing)) > 0:
        yield f'missing    and {more:,} more'
    for warning in job.warnings:
        yield f'warning    {warning}'


def summarize(job: Job) -> str:
    """A job in one line, without its id."""
    count = progress_of(job)
    parts = f'{count.done}/{count.total}' if count.total else ''
    pages = counted_pages(job.pages) if job.pages else ''
    return '  '.join(text for text in (f'{step_of(job):<11}', f'{parts:>9}', pages) if text).rstrip()


def local_time(time: datetime) -> str:
    return time.astimezone().strftime('%Y-%m-%d %H:%M:%S')
