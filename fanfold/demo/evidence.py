"""What the demo shows of a finished job: that the PDF is whole and in order, and that its parts came in parallel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fanfold.client import Part

FOOTER: Final = re.compile(r'Delivery note (\d+) · page (\d+) of (\d+)')
CHART: Final = 40  # characters
WORTH_SHARING: Final = 1.0  # seconds of painting


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When a part was painted, in seconds since the first part began, and by which process; `cpu` seconds of work."""

    index: int
    pid: int | None
    pages: int
    cpu: float
    start: float
    end: float


def spans_of(parts: Iterable[Part]) -> list[Span]:
    """The spans of the painted parts, by index. Parts that took part in a retry count once, with their last span."""
    painted = {
        part.index: part for part in parts if part.kind == 'paint' and part.started_at is not None and part.finished_at
    }
    zero = min((part.started_at.timestamp() for part in painted.values() if part.started_at), default=0.0)
    return [
        Span(
            index=part.index,
            pid=part.child_pid,
            pages=part.pages or 0,
            cpu=part.cpu_seconds or 0.0,
            start=part.started_at.timestamp() - zero,
            end=part.finished_at.timestamp() - zero,
        )
        for _, part in sorted(painted.items())
        if part.started_at and part.finished_at
    ]


def overlapping(spans: Sequence[Span]) -> int:
    """The most parts that were being painted at the same moment."""
    edges = sorted([(span.start, 1) for span in spans] + [(span.end, -1) for span in spans])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def chart(spans: Sequence[Span]) -> Iterator[str]:
    """A line for each part: its index, process, pages, times, and the span as a bar."""
    last = max((span.end for span in spans), default=0.0) or 1.0
    yield f'  part  process  pages   CPU s   start     end  0 s{f"{last:.1f} s":>{CHART - 3}}'
    for span in spans:
        before = round(span.start / last * CHART)
        bar = '█' * max(1, round(span.end / last * CHART) - before)
        times = ''.join(f'{seconds:>8.2f}' for seconds in (span.cpu, span.start, span.end))
        yield f'{span.index:>6}  {span.pid or "?":>7}  {span.pages:>5}{times}  {" " * before}{bar}'


def faults_of_pdf(path: Path, *, documents: int, pages: int | None) -> list[str]:
    """What is wrong with the PDF: nothing, if it has every page of every note, in order."""
    import pypdf

    reader = pypdf.PdfReader(path)
    faults = [] if pages == len(reader.pages) else [f'the job says {pages} pages, the PDF has {len(reader.pages)}']
    expected = (1, 1)
    for number, page in enumerate(reader.pages, 1):
        match = FOOTER.search(page.extract_text())
        if not match:
            return [*faults, f'page {number} does not say which note it belongs to']
        note, at, of = map(int, match.groups())
        if (note, at) != expected:
            should = f'page {expected[1]} of note {expected[0]}'
            return [*faults, f'page {number} is page {at} of note {note}, not {should}']
        expected = (note, at + 1) if at < of else (note + 1, 1)
    if expected != (documents + 1, 1):
        faults.append(f'the PDF ends before page {expected[1]} of note {expected[0]}, of {documents} notes')
    return faults


def faults_of_spans(spans: Sequence[Span], *, parts: int, cores: int) -> list[str]:
    """What speaks against the parts having been painted in parallel.

    Nothing does on one core, or where there is too little work for two parts to meet.
    """
    faults = [] if len(spans) == parts else [f'{len(spans)} painted parts are known, not {parts}']
    if parts > 1 and cores > 1 and sum(span.end - span.start for span in spans) > WORTH_SHARING:
        if len({span.pid for span in spans}) < 2:
            faults.append('all parts came from one process')
        if overlapping(spans) < 2:
            faults.append('no two parts were painted at the same time')
    return faults
