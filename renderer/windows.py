"""The steps of a long document as parts of a job: plan it, lay out a window, paint a window.

Each takes a held part to its completion, or raises what became of it: Refusal, Interrupted, and what storage and
database raise. The document is prepared once in this worker (renderer.pressroom); a window that was laid out here is
painted from where it is parked, and laid out again from its entry state where it is not.
"""

from __future__ import annotations

import tempfile
import threading
import time
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

import schema
from renderer.painted import store_part
from renderer.press import Answer, Press, PressedWindow, WindowDied, WindowFailed
from renderer.pressroom import JobPress, OpenPress, PressRoom
from renderer.runs import input_hash
from renderer.seams import LEAST_WEIGHT, ONE_WINDOW_ASKED, TOO_SHORT, Seam, cut
from renderer.state import EntryState
from runtime.errors import Problem, Refusal
from worker.outcomes import Died, ZygoteUnavailable
from worker.requests import Limits
from worker.verdicts import Interrupted, Verdict, verdict_of_death

if TYPE_CHECKING:
    from renderer.press import Prepared
    from runtime.settings import Settings
    from runtime.storage import Storage
    from worker.holding import Held, Holder
    from worker.inputs import Inputs

OPENER: Final = 'renderer.opening:open_job'
WHOLE: Final = {'first_item': 0, 'item_count': 1}
NOT_PREPARED: Final = 'it could not be prepared for several processes: {}'
#: plans of jobs that are kept, so that not each part has to ask for its job's
PLANS_KEPT: Final = 8
#: a window's part depends on all of its spec but this
NOT_HASHED: Final = 'host'


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a part must know of its job's plan."""

    seams: tuple[Seam, ...]
    fingerprint: str
    warnings: tuple[str, ...]


def splittable(spec: Mapping[str, Any]) -> bool:
    """Whether a job is one HTML document, which may be long."""
    documents = spec['documents']
    return len(documents) == 1 and documents[0]['kind'] == 'html'


class WindowWork:
    """Works on the parts of long documents, for one worker process, whose key is `host`.

    `fingerprint` is that of what renders here.
    """

    def __init__(
        self, settings: Settings, *, pool: schema.Pool, storage: Storage, inputs: Inputs, holder: Holder, scratch: Path,
        host: str,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._pool = pool
        self._storage = storage
        self._inputs = inputs
        self._holder = holder
        self._scratch = scratch
        self._host = host
        self._plans: OrderedDict[UUID, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self.room = PressRoom(
            most=settings.presses,
            idle_seconds=settings.press_idle_seconds,
            memory_bytes=settings.parked_memory_bytes,
        )

    def close(self) -> None:
        self.room.close()

    def plan(self, held: Held) -> schema.Completion | None:
        """Cut the document into windows, or find why it is rendered whole."""
        spec = held.claimed.job_spec
        started = time.time()
        result = _whole(ONE_WINDOW_ASKED) if parts_of(spec) == 1 else self._cut(held)
        timing = {'started_at': started, **result.get('timing', {}), 'finished_at': time.time()}
        result = {'items': 1, 'host': self._host, **result, 'timing': {**timing, 'owner': self._holder.owner}}
        return self._holder.complete(
            held, input_hash=spec['input']['sha256'], result=result, result_ref=None, result_sha256=None
        )

    def lay_out(self, held: Held, *, fingerprint: str) -> schema.Completion | None:
        """Lay a window out from its entry state. What a guessed state makes it raise is a result too."""
        spec, plan = held.claimed.part_spec, self._plan_of(held, fingerprint)
        result = {'window': spec['window'], 'host': self._host}
        with self._window(held, plan) as window:
            try:
                answer = window.lay_out(EntryState.from_json(spec['entry']), furnish=spec['furnish'])
            except WindowFailed as failure:
                result['failed'] = failure.problem.to_json()
            else:
                assert answer.report is not None
                result |= {'report': answer.report.to_json(), 'pages': answer.report.pages, **self._told(answer)}
        completion = self._holder.complete(
            held, input_hash=_hash(held, plan), result=result, result_ref=None, result_sha256=None
        )
        if completion is schema.Completion.DISCARDED:  # the job has ended
            self.room.dismiss_job(held.key.job_id)
        return completion

    def paint(self, held: Held, *, fingerprint: str) -> schema.Completion | None:
        """Paint a window, and let its child go."""
        claimed, plan = held.claimed, self._plan_of(held, fingerprint)
        hashed = _hash(held, plan)
        with (
            tempfile.TemporaryDirectory(dir=self._scratch, prefix='part-') as folder,
            self._window(held, plan) as window,
        ):
            output = Path(folder) / 'window.bundle'
            stored = store_part(
                self._storage,
                job_id=claimed.key.job_id,
                part_index=claimed.key.part_index,
                generation=claimed.generation,
                input_hash=hashed,
                result=self._paint(held, plan, window, output),
                painted=[output],
            )
            completion = self._holder.complete(
                held, input_hash=hashed, result=stored.result, result_ref=stored.key, result_sha256=stored.sha256
            )
            window.end()
        return completion

    def _paint(self, held: Held, plan: Plan, window: PressedWindow, output: Path) -> dict[str, Any]:
        spec = held.claimed.part_spec
        entry, anchors = EntryState.from_json(spec['entry']), frozenset(spec['anchors'])
        try:
            answer = window.paint(entry, output, place=spec['place'], places=spec['places'], anchors=anchors)
        except WindowFailed as failure:
            problem = failure.problem
            detail = f'{_name(spec)}: {problem.detail}'
            raise Refusal(Problem(name=problem.name, detail=detail, extra={'document': 0})) from failure
        told = self._told(answer)
        if spec['place'] == 0:
            told['warnings'] = list(dict.fromkeys([*plan.warnings, *told['warnings']]))
        items = [[0, None, answer.pages]]
        return {'window': spec['window'], 'pages': answer.pages, 'items': items, 'missing': [], **told}

    def _told(self, answer: Answer) -> dict[str, Any]:
        return {'warnings': list(answer.warnings), 'timing': {**answer.timing, 'owner': self._holder.owner}}

    def _cut(self, held: Held) -> dict[str, Any]:
        """The document's windows, its press left open for them; or why there is only one."""
        spec = held.claimed.job_spec
        if parts_of(spec) == 'auto':
            with self._archive(held) as archive:
                if source_bytes(archive, spec['documents'][0]['source']) < 2 * LEAST_WEIGHT:
                    return _whole(TOO_SHORT)
        with self.room.press(held.key.job_id, self._opener(held)) as press:
            try:
                prepared = self._prepared(held, press)
            except ZygoteUnavailable as error:
                if held.gone or not held.claimed.losses:  # it may have been killed, so it gets a second chance
                    raise
                return _whole(NOT_PREPARED.format(error))
            except Refusal as refusal:  # rendering it whole will say what is wrong with it
                return _whole(refusal.problem.detail)
            workers = self._settings.window_workers
            windows = cut(prepared.seams, prepared.weight, windows=parts_of(spec), workers=workers)
            timing = dict(prepared.timing)
            if windows.whole_because is not None:
                self.room.dismiss(press)
                return {**_whole(windows.whole_because), 'timing': timing}
        return {
            'parts': [],
            'windows': windows.count,
            'seams': [seam.to_json() for seam in windows.seams],
            'weights': list(windows.weights),
            'first': prepared.first.to_json(),
            'whole_because': None,
            'warnings': list(prepared.warnings),
            'fingerprint': prepared.fingerprint,
            'timing': timing,
        }

    def _prepared(self, held: Held, press: JobPress) -> Prepared:
        """Wait for the document, as long as the part is ours. Raises Refusal, ZygoteUnavailable."""
        held.on_lost = lambda _: self.room.dismiss(press)
        if held.gone:
            self.room.dismiss(press)
        try:
            return press.prepared()
        except Refusal:
            self.room.dismiss(press)
            raise
        finally:
            held.on_lost = None

    @contextmanager
    def _archive(self, held: Held) -> Iterator[Path]:
        source = held.claimed.job_spec['input']
        with self._inputs.archive(source['key'], source['sha256']) as archive:
            yield archive

    def _opener(self, held: Held) -> OpenPress:
        settings = self._settings

        def open_press(stack: ExitStack) -> Press:
            archive = stack.enter_context(self._archive(held))
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=self._scratch, prefix='press-'))
            return Press(
                scratch=Path(folder),
                opener=OPENER,
                given={'archive': str(archive.absolute()), 'spec': held.claimed.job_spec},
                limits=Limits(
                    memory_bytes=settings.window_memory_bytes,
                    cpu_seconds=settings.window_cpu_seconds,
                    wall_seconds=settings.window_wall_seconds,
                ),
                preparation=Limits(
                    memory_bytes=settings.press_memory_bytes,
                    cpu_seconds=settings.press_seconds,
                    wall_seconds=settings.press_seconds,
                ),
            )

        return open_press

    @contextmanager
    def _window(self, held: Held, plan: Plan) -> Iterator[PressedWindow]:
        """The window of a part. A child that dies in it is an Interrupted part."""
        spec = held.claimed.part_spec
        with (
            self.room.press(held.key.job_id, self._opener(held)) as press,
            press.window(spec['window'], plan.seams, held) as window,
        ):
            if held.gone:
                raise _lost('the part is no longer ours')
            try:
                yield window
            except WindowDied as death:
                raise Interrupted(_verdict(death.died, _name(spec))) from death

    def _plan_of(self, held: Held, fingerprint: str) -> Plan:
        """The plan of the part's job. Raises Interrupted on a host that would render other pages."""
        job_id = held.key.job_id
        with self._lock:
            plan = self._plans.get(job_id)
        if plan is None:
            found = schema.transact(self._pool, schema.planned, job_id)
            assert found is not None, 'a part of a window has a plan'
            plan = Plan(
                seams=tuple(Seam.from_json(seam) for seam in found[0]['seams']),
                fingerprint=found[0]['fingerprint'],
                warnings=tuple(found[0]['warnings']),
            )
        with self._lock:
            self._plans[job_id] = plan
            self._plans.move_to_end(job_id)
            while len(self._plans) > PLANS_KEPT:
                self._plans.popitem(last=False)
        if plan.fingerprint != fingerprint:
            raise _lost('this host has other versions or fonts than the one that planned the document')
        return plan


def parts_of(spec: Mapping[str, Any]) -> int | Literal['auto']:
    """How many windows a job asks for."""
    parts: int | Literal['auto'] = spec.get('parts', 'auto')
    return parts


def source_bytes(archive: Path, member: str) -> int:
    """The size of a member of an archive; 0 if it is not there by that very name."""
    with zipfile.ZipFile(archive) as opened:
        found = opened.NameToInfo.get(member)
    return 0 if found is None else found.file_size


def _whole(because: str) -> dict[str, Any]:
    return {'parts': [WHOLE], 'windows': 1, 'whole_because': because}


def _hash(held: Held, plan: Plan) -> str:
    spec = {name: value for name, value in held.claimed.part_spec.items() if name != NOT_HASHED}
    seams = [seam.to_json() for seam in plan.seams]
    return input_hash(held.claimed.job_spec, {**spec, 'seams': seams}, plan.fingerprint)


def _lost(why: str) -> Interrupted:
    return Interrupted(Verdict(problem=Problem(name='host-failed', detail=why), charge='loss'))


def _verdict(died: Died, name: str) -> Verdict:
    """A limit, or a crash, is the window's own; whatever killed it from outside is not."""
    verdict = verdict_of_death(replace(died, detail=f'{name}: {died.detail}'))
    return replace(verdict, charge='loss') if died.reason == 'killed' else verdict


def _name(spec: Mapping[str, Any]) -> str:
    """A window as a person finds it: by its pages, as far as they are known, and by how it begins."""
    if 'pages' not in spec:
        return f'the part that begins at {spec["label"]!r}'
    first = spec['entry']['page_index'] + 1
    return f'pages {first} to {first + spec["pages"] - 1}, from {spec["label"]!r}'
