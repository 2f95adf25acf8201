"""How a job's progress is shown: bars on a terminal, nothing in a pipe. All of it on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress

    from fanfold.client import Job
    from fanfold.client.answers import Count

DOING: Final = {'plan': 'planning', 'layout': 'laying out', 'paint': 'painting', 'assemble': 'assembling'}


class Display(Protocol):
    def job(self, job: Job) -> None:
        """Show where a job is."""

    def received(self, received: int, total: int | None) -> None:
        """Show how far a download is."""


class Quiet:
    def job(self, job: Job) -> None: ...

    def received(self, received: int, total: int | None) -> None: ...


class Bars:
    """One bar for the parts of a job, and one for its download."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._parts = progress.add_task('submitting', total=None, note='')
        self._bytes = progress.add_task('downloading', total=None, note='', visible=False)

    def job(self, job: Job) -> None:
        pages = counted_pages(job.pages) if job.pages else ''
        count = progress_of(job)
        self._progress.update(
            self._parts, description=step_of(job), completed=count.done, total=count.total or None, note=pages
        )

    def received(self, received: int, total: int | None) -> None:
        note = f'{received / 1e6:.1f} MB'
        self._progress.update(self._bytes, completed=received, total=total, note=note, visible=True)


def counted_pages(pages: int) -> str:
    return f'{pages:,} page' if pages == 1 else f'{pages:,} pages'


def progress_of(job: Job) -> Count:
    """What is done of the step that can be counted: windows laid out, or parts painted."""
    return job.batch.parts if job.batch and job.batch.kind == 'layout' and not job.is_finished else job.parts


def step_of(job: Job) -> str:
    """A word for what a job is doing, or how it ended."""
    if job.batch and not job.is_finished:
        return DOING.get(job.batch.kind, job.batch.kind)
    return job.status


@contextmanager
def showing_progress(*, wanted: bool = True) -> Iterator[Display]:
    """Bars that vanish at the end of the block if standard error is a terminal, else nothing. Print after it."""
    if not wanted or not sys.stderr.isatty():
        yield Quiet()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn('{task.description:<12}'),
        BarColumn(),
        TextColumn('{task.percentage:>3.0f}%'),
        TextColumn('{task.fields[note]}'),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # what we print there is for the next program in the pipe
        redirect_stderr=False,
    ) as progress:
        yield Bars(progress)
