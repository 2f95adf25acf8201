"""Our own rendering of a document, in a fresh process, with all that it says."""

from __future__ import annotations

import io
from dataclasses import dataclass

from fanfold.local import LocalJob, Report, WantedWindows, render
from tests.oracle.fresh import in_fresh_process
from tests.oracle.serial import Rendered, Source, warnings_caught

WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    rendered: Rendered
    report: Report


def ours(source: Source, windows: WantedWindows) -> Ours:
    return in_fresh_process(_ours, source, windows)


def _ours(source: Source, windows: WantedWindows) -> Ours:
    job = LocalJob(
        source=source.html, base_url=source.base_url, options=source.options, workers=WORKERS, windows=windows
    )
    output = io.BytesIO()
    with warnings_caught() as warnings:
        report = render(job, output)
    return Ours(rendered=Rendered(pdf=output.getvalue(), warnings=tuple(warnings)), report=report)
