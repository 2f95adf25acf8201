"""The press as its owner sees it: one document, prepared once on this host, and a child for each of its windows.

A window's child stays parked with its laid-out pages. Should it be gone when it is needed (killed, or ended to make
room), another one lays the window out again from its entry state: that costs time, never a page.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from renderer.seams import Seam
from renderer.state import EntryState, PageStart, WindowReport
from runtime.errors import Problem, Refusal
from worker.children import Child
from worker.outcomes import Died, ZygoteUnavailable
from worker.requests import ChildRequest, Limits
from worker.zygote import Zygote

PLAN_FILE: Final = 'plan.json'


class WindowDied(Exception):
    """The child of a window ended without an answer; `died` says how."""

    def __init__(self, died: Died) -> None:
        super().__init__(died.detail)
        self.died = died


class WindowFailed(Exception):
    """Layout or painting raised; `problem` says what. From a guessed entry state that says nothing of the document."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is in a prepared document. `weight` is in about characters of text."""

    first: PageStart
    seams: tuple[Seam, ...]
    weight: int
    warnings: tuple[str, ...]
    fingerprint: str
    timing: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Answer:
    """What a window's child answered."""

    report: WindowReport | None = None
    pages: int | None = None
    warnings: tuple[str, ...] = ()
    timing: Mapping[str, Any] = field(default_factory=dict)


class Press:
    """`opener` (module:function) opens what `given` names in the press: see renderer.prepare.Opened.

    The limits hold for each window's layout and painting, and for the preparation if it has none of its own.
    Warnings come as those of a job, or with `plain_warnings` as WeasyPrint gives them, each as `LEVEL message`.
    Thread-safe, as long as each window is used by one thread at a time.
    """

    def __init__(
        self,
        *,
        scratch: Path,
        opener: str,
        given: dict[str, Any],
        limits: Limits,
        preparation: Limits | None = None,
        network: bool = False,
        plain_warnings: bool = False,
    ) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._plan = scratch / PLAN_FILE
        self._limits = limits
        self._preparation = preparation = preparation or limits
        payload = {
            'opener': opener,
            'given': given,
            'plan': str(self._plan),
            'memory_bytes': preparation.memory_bytes,
            'cpu_seconds': preparation.cpu_seconds,
            'plain_warnings': plain_warnings,
        }
        self._zygote = Zygote(
            scratch=scratch / 'zygote',
            preload='renderer.prepare:prepare',
            payload=payload,
            patience=preparation.wall_seconds,
            network=network,
        )
        self._lock = threading.Lock()
        self._prepared: Prepared | None = None

    def prepared(self) -> Prepared:
        """Wait for the document. Raises Refusal if it cannot be rendered, worker.zygote.ZygoteUnavailable."""
        with self._lock:
            if self._prepared is None:
                self._wait()
                plan = json.loads(self._plan.read_bytes())
                if 'refused' in plan:
                    raise Refusal(Problem.from_json(plan['refused']))
                self._prepared = Prepared(
                    first=PageStart.from_json(plan['first']),
                    seams=tuple(Seam.from_json(seam) for seam in plan['seams']),
                    weight=plan['weight'],
                    warnings=tuple(plan['warnings']),
                    fingerprint=plan['fingerprint'],
                    timing=plan['timing'],
                )
            return self._prepared

    def _wait(self) -> None:
        started = time.monotonic()
        try:
            self._zygote.warmed  # noqa: B018 wait for it
        except ZygoteUnavailable as error:
            limit = self._preparation.wall_seconds
            if time.monotonic() - started < limit:
                raise
            raise Refusal(Problem(name='render-error', detail=f'it took longer than {limit:g} s to prepare')) from error

    def window(self, number: int, seams: Sequence[Seam]) -> PressedWindow:
        """Window `number` of the document cut at these seams. Its child is forked when it is first needed."""
        request = ChildRequest(
            entry='renderer.prepare:serve_window',
            payload={'number': number, 'seams': [seam.to_json() for seam in seams]},
            limits=self._limits,
        )
        return PressedWindow(self._zygote, request)

    def close(self) -> None:
        """End the press and all windows, and remove what they left."""
        self._zygote.close()
        self._plan.unlink(missing_ok=True)


class PressedWindow:
    """A window, in its child while that lives."""

    def __init__(self, zygote: Zygote, request: ChildRequest) -> None:
        self._zygote = zygote
        self._request = request
        self._child: Child | None = None
        #: what its pages are laid out from, and whether their margins are
        self._parked: tuple[EntryState, bool] | None = None

    @property
    def pid(self) -> int | None:
        """The process it is parked in."""
        return None if self._child is None else self._child.pid

    def lay_out(self, entry: EntryState, *, furnish: bool) -> Answer:
        """Lay the window out from this entry state. Raises WindowFailed, WindowDied, ZygoteUnavailable."""
        answer = self._ask({'do': 'lay out', 'entry': entry.to_json(), 'furnish': furnish})
        self._parked = entry, furnish
        assert answer.report is not None
        return answer

    def paint(self, entry: EntryState, output: Path, *, place: int, places: int, anchors: frozenset[str]) -> Answer:
        """Paint the window, laid out from this entry state, to a bundle. `anchors` are those of all windows.

        Raises WindowFailed, WindowDied, ZygoteUnavailable.
        """
        order = {'do': 'paint', 'output': str(output), 'place': place, 'places': places, 'anchors': sorted(anchors)}
        if self._parked != (entry, True) or self._child is None or self._child.wait(0) is not None:
            self.lay_out(entry, furnish=True)
        return self._ask(order)

    def end(self) -> None:
        """Let the child go; the window is laid out again if it is needed."""
        if self._child is not None:
            self._child.kill('draining')
            self._child = self._parked = None

    def _ask(self, order: dict[str, Any]) -> Answer:
        if self._child is None or self._child.wait(0) is not None:
            self._parked = None
            self._child = self._zygote.start(self._request)
        child = self._child
        child.ask(order)
        told = child.answer()
        if told is None:
            self._child = self._parked = None
            outcome = child.wait()
            assert isinstance(outcome, Died), outcome
            raise WindowDied(outcome)
        if 'refused' in told:
            self._child = self._parked = None
            raise WindowFailed(Problem.from_json(told['refused']))
        report = told.get('report')
        return Answer(
            report=None if report is None else WindowReport.from_json(report),
            pages=told.get('pages'),
            warnings=tuple(told['warnings']),
            timing=told['timing'],
        )
