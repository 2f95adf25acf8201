"""Inside the press: preparing a document once, and serving its windows in forks of this process.

The press is a zygote (worker.zygote) that prepares one document before it forks. Each child lays out one window,
reports, and stays parked with its pages until it is told to paint them or is ended. What all of them need is
loaded before the fork and shared.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weasyprint.urls import FatalURLFetchingError

from renderer import weasy
from renderer.notices import Heard, Notices
from renderer.runs import fingerprint
from renderer.seams import Seam
from renderer.state import EntryState
from renderer.weasy.painting import PlaceInDocument, paint_window
from renderer.weasy.slots import start_of_entry
from runtime.errors import Problem, Refusal
from worker.child import limit, load
from worker.faults import is_of_host

if TYPE_CHECKING:
    from worker.child import Report


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A document ready to be prepared: WeasyPrint's HTML object, and its options, all that differ from the defaults."""

    html: Any
    options: Mapping[str, Any]
    zoom: float = 1
    #: gives the document's metadata what the job sets
    dress: Callable[[Any], None] = _nothing
    #: to be called after a fork
    reopen: Callable[[], None] = _nothing
    #: what was not loaded, as warnings
    refusals: Mapping[str, None] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Press:
    opened: Opened
    prepared: weasy.PreparedDocument
    #: of the refusals, how many came while the document was prepared
    refused: int
    plain_warnings: bool


_pressed: list[_Press] = []


def prepare(payload: dict[str, Any]) -> dict[str, Any]:
    """Prepare the document that `opener` opens (module:function), and write to the file `plan` what is in it.

    In place of a plan there may be `{"refused": problem}`.
    """
    weasy.tune()
    limit(payload['memory_bytes'], payload['cpu_seconds'])
    started = time.time()
    notices = _listener(payload['plain_warnings'])
    plan: dict[str, Any] = {}
    with notices.listening(), _bounded(plan, payload['memory_bytes']), _told(plan):
        opened: Opened = load(payload['opener'])(payload['given'])
        prepared = weasy.PreparedDocument(opened.html, opened.options)
        opened.dress(prepared.metadata)
        plain = payload['plain_warnings']
        _pressed.append(_Press(opened=opened, prepared=prepared, refused=len(opened.refusals), plain_warnings=plain))
        plan.update(
            first=start_of_entry(prepared.first_start).to_json(),
            seams=[seam.to_json() for seam in prepared.seams],
            weight=prepared.weight,
            warnings=notices.warnings(opened.refusals),
        )
    plan.update(fingerprint=fingerprint(), timing=_timing(started))
    Path(payload['plan']).write_text(json.dumps(plan))
    gc.collect()
    return {}


def serve_window(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Lay out and paint one window as ordered. What a child of the press runs."""
    press = _pressed[0]
    press.opened.reopen()
    seams = [Seam.from_json(seam) for seam in payload['seams']]
    window = weasy.Window(press.prepared, payload['number'], seams)
    notices = _listener(press.plain_warnings)
    for order in report.orders():
        started = time.time()
        told: dict[str, Any] = {}
        with notices.listening(), _told(told):
            match order['do']:
                case 'lay out':
                    entry = EntryState.from_json(order['entry'])
                    told['report'] = window.lay_out(entry, furnish=order['furnish']).to_json()
                case 'paint':
                    told['pages'] = _paint(press, window, order)
        refused = list(press.opened.refusals)[press.refused :]
        told.update(warnings=notices.warnings(refused), timing=_timing(started))
        report.say(told)
        if 'refused' in told:
            break
    return {}


def _listener(plain: bool) -> Notices | Heard:
    return Heard() if plain else Notices(name_items=False)


def _paint(press: _Press, window: weasy.Window, order: dict[str, Any]) -> int:
    document = press.prepared.document(window.finished)
    place = PlaceInDocument(window=order['place'], windows=order['places'], anchors=frozenset(order['anchors']))
    with Path(order['output']).open('wb') as file:
        painted = paint_window(document, file, place=place, options=press.prepared.options, zoom=press.opened.zoom)
    return painted.pages


@contextmanager
def _bounded(plan: dict[str, Any], memory_bytes: int) -> Iterator[None]:
    """Lack of memory goes into the plan: there is no other child that could say it."""
    try:
        yield
    except MemoryError:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # what is kept to say so with
        _pressed.clear()
        detail = f'it needed more than {memory_bytes // 2**20} MiB of memory to be prepared'
        plan['refused'] = Problem(name='render-error', detail=detail).to_json()


@contextmanager
def _told(answer: dict[str, Any]) -> Iterator[None]:
    """Whatever a document raises goes into the answer as a problem; failures of the host come through."""
    try:
        yield
    except Refusal as refusal:
        answer['refused'] = refusal.problem.to_json()
    except MemoryError:
        raise
    except (Exception, FatalURLFetchingError) as error:
        if is_of_host(error):
            raise
        problem = Problem(name='render-error', detail=f'{type(error).__name__}: {error}')
        answer['refused'] = problem.to_json()


def _timing(started: float) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        'started_at': started,
        'finished_at': time.time(),
        'cpu_seconds': used.ru_utime + used.ru_stime,
        'max_rss_bytes': used.ru_maxrss * 1024,
        'child_pid': os.getpid(),
    }
