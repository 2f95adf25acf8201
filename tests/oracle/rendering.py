"""Our own rendering of a document, in a fresh process, with all that it says."""

from __future__ import annotations

import io
from dataclasses import dataclass

from fanfold.local import LocalJob, Report, WantedWindows, render
from runtime.errors import Problem, Refusal
from tests.oracle.fresh import in_fresh_process
from tests.oracle.serial import Rendered, Source, warnings_caught

WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    rendered: Rendered
    report: Report


def ours(source: Source, windows: WantedWindows) -> Ours:
    """Raises Refusal."""
    outcome = in_fresh_process(_ours, source, windows)
    if isinstance(outcome, Problem):
        raise Refusal(outcome)
    return outcome


def _ours(source: Source, windows: WantedWindows) -> Ours | Problem:
    job = LocalJob(
        source=source.html, base_url=source.base_url, options=source.options, workers=WORKERS, windows=windows
    )
    output = io.BytesIO()
    with warnings_caught() as warnings:
        try:
            report = render(job, output)
        except Refusal as refusal:
            return refusal.problem
    return Ours(rendered=Rendered(pdf=output.getvalue(), warnings=tuple(warnings)), report=report)
