"""The renderer's worker: Dramatiq actors that turn hints into completed parts. Wiring only.

One process with a thread per core. It forks nothing itself; the press's zygote does, and each part is
painted in a child with a memory limit, a CPU limit and a wall deadline.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from runtime.broker import RENDER_QUEUE, make_broker, start_worker, stop_listening  # first: it sets what dramatiq reads

# isort: split
import dramatiq

import schema
from renderer.holding import Held, Holder, process_name
from renderer.inputs import Inputs
from renderer.painted import store_part
from renderer.press import Died, Painted, Press, PressUnavailable, Refused, RenderRequest
from renderer.runs import input_hash, plan_runs
from runtime.errors import ConfigurationError, ObjectCorrupt, ObjectMissing, Problem, Refusal, Retryable
from runtime.lifecycle import StopSignal, announce_ready
from runtime.logs import get_logger
from runtime.nudge import Nudger
from runtime.scratch import ScratchFolder
from runtime.storage import Storage

if TYPE_CHECKING:
    from runtime.settings import Settings

#: in a run of records, how many may kill their child before the whole part is given up (policy partial)
SKIPS_ALLOWED: Final = 10

log = get_logger(__name__)


class Worker:
    """Everything one worker process owns, and the work on one part."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.owner = process_name()
        self._folder = ScratchFolder(settings.scratch_dir, prefix='fanfold-worker-')
        self.scratch = self._folder.path
        self.pool = schema.open_pool(settings.database_url, max_size=settings.worker_threads + 2, name='worker')
        self.storage = Storage(settings)
        self.inputs = Inputs(self.storage, self.scratch / 'inputs')
        self.nudger = Nudger(settings)
        self.press = Press(scratch=self.scratch / 'press')
        self.holder = Holder(self.pool, settings, owner=self.owner)

    def close(self) -> None:
        self.holder.close()
        self.press.close()
        self.pool.close()
        self._folder.remove()

    def work(self, key: schema.PartKey) -> None:
        """Claim a part and bring it to an end; whatever happens is recorded, nothing is raised."""
        with self.holder.hold(key) as held:
            if held is None:
                return
            try:
                completion = self._plan(held) if held.claimed.kind == 'plan' else self._paint(held)
                if completion is schema.Completion.LAST:
                    self.nudger.nudge('events')
                self.nudger.nudge('jobs')
            except Refusal as refusal:
                self._fail(held, refusal.problem, charge='attempt', permanent=True)
            except ObjectMissing as error:
                problem = Problem(name='input-missing', detail=f'there is no object {error}')
                self._fail(held, problem, charge='attempt', permanent=True)
            except (Retryable, ObjectCorrupt) as error:
                self._fail(held, Problem(name='storage-unavailable', detail=str(error)), charge='loss')
            except Exception as error:
                log.exception('part failed unexpectedly')
                detail = f'{type(error).__name__}: {error}'
                self._fail(held, Problem(name='internal-error', detail=detail), charge='attempt')

    def _fail(self, held: Held, problem: Problem, **how: Any) -> None:
        if held.draining.is_set():
            self.holder.give_back(held)
            self.nudger.nudge('parts')
        elif not held.lost.is_set():
            self.holder.fail(held, problem, **how)
            self.nudger.nudge('events', 'jobs')

    def _plan(self, held: Held) -> schema.Completion | None:
        spec = held.claimed.job_spec
        started = time.time()
        parts = plan_runs(spec)
        result = {
            'parts': parts,
            'items': sum(part['item_count'] for part in parts),
            'timing': {'started_at': started, 'finished_at': time.time(), 'owner': self.owner},
        }
        return self.holder.complete(
            held, input_hash=spec['input']['sha256'], result=result, result_ref=None, result_sha256=None
        )

    def _paint(self, held: Held) -> schema.Completion | None:
        claimed = held.claimed
        hashed = input_hash(claimed.job_spec, claimed.part_spec, self.press.fingerprint)
        source = claimed.job_spec['input']
        with (
            self.inputs.archive(source['key'], source['sha256']) as archive,
            tempfile.TemporaryDirectory(dir=self.scratch, prefix='part-') as folder,
        ):
            output = Path(folder) / 'part.pdf'
            result = self._render(held, archive, output)
            if result is None:
                return None
            stored = store_part(
                self.storage,
                job_id=claimed.key.job_id,
                part_index=claimed.key.part_index,
                generation=claimed.generation,
                input_hash=hashed,
                pdf=output,
                result=result,
            )
        return self.holder.complete(
            held, input_hash=hashed, result=stored.result, result_ref=stored.key, result_sha256=stored.sha256
        )

    def _render(self, held: Held, archive: Path, output: Path) -> dict[str, Any] | None:
        """Paint the part in a child; None if the part failed or is no longer ours, which is then recorded."""
        claimed = held.claimed
        partial = claimed.failure_policy == 'partial'
        last_attempt = claimed.attempts + 1 >= self.settings.part_attempts
        skip: frozenset[int] = frozenset()
        while True:
            request = self._request(held, archive, output, skip=skip, placeholders=partial)
            started = time.time()
            child = self.press.start(request)
            held.on_lost = child.kill
            if held.gone:
                child.kill('draining' if held.draining.is_set() else 'lease-lost')
            outcome = child.wait()
            match outcome:
                case Painted(result=result):
                    timing = {**result.get('timing', {}), 'owner': self.owner, 'child_pid': child.pid}
                    return {**result, 'timing': {'started_at': started, 'finished_at': time.time(), **timing}}
                case Refused(problem=problem):
                    raise Refusal(Problem.from_json(problem))
                case Died(reason='press-died' | 'lease-lost' | 'draining', detail=detail):
                    self._fail(held, Problem(name='child-died', detail=detail), charge='loss')
                    return None
                case Died(position=position, reason=reason, detail=detail):
                    item = item_at(claimed.job_spec, position)
                    if partial and last_attempt and item is not None and may_skip(claimed.part_spec, skip, item):
                        log.warning('record left out', item=item, reason=reason)
                        skip |= {item}
                        continue
                    self._fail(held, died_problem(reason, detail, position), charge='attempt')
                    return None
                case _:
                    raise AssertionError(outcome)

    def _request(
        self, held: Held, archive: Path, output: Path, *, skip: frozenset[int], placeholders: bool
    ) -> RenderRequest:
        claimed = held.claimed
        wall = max(0.1, min(self.settings.child_wall_seconds, claimed.time_left.total_seconds()))
        return RenderRequest(
            archive=archive,
            spec=claimed.job_spec,
            part=claimed.part_spec,
            output=output,
            placeholders=placeholders,
            skip=skip,
            memory_bytes=self.settings.child_memory_bytes,
            cpu_seconds=self.settings.child_cpu_seconds,
            wall_seconds=wall,
        )


def item_at(spec: dict[str, Any], position: tuple[int, int | None] | None) -> int | None:
    """The job-wide number of the item at (document, record)."""
    if position is None:
        return None
    document, record = position
    before: int = sum(entry.get('record_count', 1) for entry in spec['documents'][:document])
    return before + (record or 0)


def may_skip(part_spec: dict[str, Any], skip: frozenset[int], item: int) -> bool:
    """Whether leaving this item out too still leaves something to paint, within bounds."""
    return item not in skip and len(skip) < min(SKIPS_ALLOWED, part_spec['item_count'] - 1)


def died_problem(reason: str, detail: str, position: tuple[int, int | None] | None) -> Problem:
    name = reason if reason in {'memory-limit', 'cpu-limit', 'wall-limit'} else 'child-died'
    extra: dict[str, Any] = {}
    if position is not None:
        extra['document'] = position[0]
        if position[1] is not None:
            extra['record'] = position[1]
    return Problem(name=name, detail=detail, extra=extra)


def run_worker(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT, then drain: unfinished parts go back at once, no attempt charged."""
    stop = StopSignal()
    state = Worker(settings)
    try:
        state.press.fingerprint  # noqa: B018 wait for the zygote, and learn at once if it cannot start
    except PressUnavailable as error:
        state.close()
        raise ConfigurationError(f'this host cannot render: {error}') from error
    broker = make_broker(settings)

    @dramatiq.actor(broker=broker, queue_name=RENDER_QUEUE, actor_name='work_part')
    def work_part(job_id: str, batch_no: int, part_index: int) -> None:
        state.work(schema.PartKey(job_id=UUID(job_id), batch_no=batch_no, part_index=part_index))

    worker = start_worker(broker, queue=RENDER_QUEUE, threads=settings.worker_threads)
    announce_ready()
    log.info('worker ready', owner=state.owner, threads=settings.worker_threads)
    stop.wait()
    log.info('worker stopping', grace_seconds=settings.grace_seconds)
    stop_listening(worker)
    state.holder.drain(settings.grace_seconds)
    worker.stop(timeout=5_000)
    broker.close()
    state.close()
    log.info('worker stopped')
