"""Rendering one HTML document in windows on this machine: a press, and as many children at work as there are workers.

What `fanfold.local` does where a document is split.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import psutil

from assembler.assemble import assemble
from renderer.parallel import RenderedWindow, Rendering, RenderWhole, Step
from renderer.press import Press
from renderer.seams import Seam, Windows, cut
from runtime.errors import Refusal
from worker.requests import Limits
from worker.zygote import ZygoteUnavailable

if TYPE_CHECKING:
    from fanfold.local import LocalJob
    from renderer.prepare import Opened

#: a person who waits can stop it; the limit is for what would go on for ever
LIMIT_SECONDS: Final = 24 * 3600.0


def open_local(given: dict[str, Any]) -> Opened:
    """Open the document of a LocalJob. Runs in the press."""
    from fanfold.local import LocalJob, open_html
    from renderer.prepare import Opened

    job = LocalJob.from_json(given)
    return Opened(html=open_html(job), options=job.options, zoom=job.zoom)


class WindowedRendering:
    """One document being rendered in windows. Close it, or use it as a context."""

    def __init__(self, job: LocalJob) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix='fanfold-render-')))
        self._job = job
        limits = Limits(
            memory_bytes=psutil.virtual_memory().total, cpu_seconds=LIMIT_SECONDS, wall_seconds=LIMIT_SECONDS
        )
        self._press = Press(
            scratch=self._folder,
            opener='fanfold.windowed:open_local',
            given=job.to_json(self._folder),
            limits=limits,
            network=True,
            plain_warnings=True,
        )
        self._stack.callback(self._press.close)
        self.rounds = 0
        #: CPU seconds of what is done once
        self.timings = {'prepare': 0.0, 'assemble': 0.0}

    def __enter__(self) -> WindowedRendering:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self) -> tuple[tuple[Seam, ...], Windows]:
        """Wait for the document and cut it. Raises RenderWhole where that cannot be done."""
        try:
            prepared = self._press.prepared()
        except ZygoteUnavailable as error:
            raise RenderWhole(f'this host cannot prepare it for several processes: {error}') from error
        except Refusal as refusal:  # rendering it whole will say what is wrong with it
            raise RenderWhole(refusal.problem.detail) from refusal
        self.timings['prepare'] = float(prepared.timing['cpu_seconds'])
        windows = cut(prepared.seams, prepared.weight, windows=self._job.windows, workers=self._job.workers)
        return prepared.seams, windows

    def render(self, windows: Windows, output: BinaryIO, progress: Callable[[Step], None]) -> list[RenderedWindow]:
        """Write the PDF. Raises RenderWhole before anything is written, and Refusal."""
        rendering = Rendering(self._press, windows, workers=self._job.workers, progress=progress)
        rendered = rendering.render(self._folder)
        self.rounds = rendering.rounds
        told = [self._press.prepared().warnings, *(window.warnings for window in rendered)]
        _tell(tuple(dict.fromkeys(warning for warnings in told for warning in warnings)))
        started = time.process_time()
        for piece in assemble([window.bundle for window in rendered]):
            output.write(piece)
        self.timings['assemble'] = time.process_time() - started
        return rendered


def _tell(warnings: tuple[str, ...]) -> None:
    logger = logging.getLogger('weasyprint')
    for warning in warnings:
        level, _, message = warning.partition(' ')
        logger.log(getattr(logging, level), '%s', message)
