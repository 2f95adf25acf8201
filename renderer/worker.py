"""The renderer's worker: Dramatiq actors that turn hints into completed parts. Wiring only.

One process with a thread per core. It forks nothing itself; its zygote does, and each part is
painted in a child with a memory limit, a CPU limit and a wall deadline.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from runtime.broker import RENDER_QUEUE, make_broker, start_worker, stop_listening  # first: it sets what dramatiq reads

# isort: split
import dramatiq

import schema
from renderer.painted import store_part
from renderer.runs import input_hash, plan_runs
from runtime.errors import ConfigurationError
from runtime.lifecycle import StopSignal, announce_ready
from runtime.logs import get_logger
from runtime.nudge import Nudger
from runtime.scratch import ScratchFolder
from runtime.storage import Storage
from worker.fitness import Fitness
from worker.holding import Held, Holder, process_name
from worker.inputs import Inputs
from worker.outcomes import Died
from worker.requests import RenderRequest, seconds_for
from worker.verdicts import LOSSES, result_of
from worker.workbench import Workbench, run_child
from worker.zygote import Zygote, ZygoteUnavailable

if TYPE_CHECKING:
    from runtime.settings import Settings

PRELOAD: Final = 'renderer.paint:preload'
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
        self.fitness = Fitness()
        self.zygote = Zygote(scratch=self.scratch / 'zygote', preload=PRELOAD, on_broken=self.fitness.give_up)
        self.holder = Holder(self.pool, settings, owner=self.owner)
        self.bench = Workbench(self.holder, self.nudger, self.fitness)

    def close(self) -> None:
        self.holder.close()
        self.zygote.close()
        self.pool.close()
        self._folder.remove()

    def work(self, key: schema.PartKey) -> None:
        """Claim a part and bring it to an end; whatever happens is recorded, nothing is raised."""
        self.bench.work(key, lambda held: self._plan(held) if held.claimed.kind == 'plan' else self._paint(held))

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
        hashed = input_hash(claimed.job_spec, claimed.part_spec, self.zygote.warmed['fingerprint'])
        source = claimed.job_spec['input']
        with (
            self.inputs.archive(source['key'], source['sha256']) as archive,
            tempfile.TemporaryDirectory(dir=self.scratch, prefix='part-') as folder,
        ):
            output = Path(folder) / 'part.bundle'
            result = self._render(held, archive, output)
            stored = store_part(
                self.storage,
                job_id=claimed.key.job_id,
                part_index=claimed.key.part_index,
                generation=claimed.generation,
                input_hash=hashed,
                painted=output,
                result=result,
            )
        return self.holder.complete(
            held, input_hash=hashed, result=stored.result, result_ref=stored.key, result_sha256=stored.sha256
        )

    def _render(self, held: Held, archive: Path, output: Path) -> dict[str, Any]:
        """Paint the part in a child. Raises Refusal, Interrupted.

        On the last attempt of a part under the policy `partial`, a record that kills the child is left out. The run
        then begins again at its first item: a PDF that was not finished has nothing to go on from.
        """
        claimed = held.claimed
        partial = claimed.failure_policy == 'partial'
        may_leave_out = partial and claimed.attempts + 1 >= self.settings.part_attempts
        skip: frozenset[int] = frozenset()
        while True:
            started = time.time()
            outcome = run_child(
                held, self.zygote, self._request(held, archive, output, skip=skip, placeholders=partial)
            )
            if may_leave_out and isinstance(outcome, Died) and outcome.reason not in LOSSES:
                item = item_at(claimed.job_spec, outcome.position)
                if item is not None and may_skip(claimed.part_spec, skip, item):
                    log.warning('record left out', item=item, reason=outcome.reason)
                    skip |= {item}
                    continue
            result = result_of(outcome)
            timing = {'started_at': started, 'finished_at': time.time(), **result.get('timing', {})}
            return {**result, 'timing': {**timing, 'owner': self.owner}}

    def _request(
        self, held: Held, archive: Path, output: Path, *, skip: frozenset[int], placeholders: bool
    ) -> RenderRequest:
        claimed = held.claimed
        return RenderRequest(
            archive=archive,
            spec=claimed.job_spec,
            part=claimed.part_spec,
            output=output,
            placeholders=placeholders,
            skip=skip,
            memory_bytes=self.settings.child_memory_bytes,
            cpu_seconds=self.settings.child_cpu_seconds,
            wall_seconds=self.settings.child_wall_seconds,
            total_seconds=seconds_for(claimed.time_left),
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


def run_worker(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT, then drain: unfinished parts go back at once, no attempt charged.

    A worker that turns out unfit drains too, and exits with status 1, for its supervisor to start another.
    """
    stop = StopSignal()
    state = Worker(settings)
    state.fitness.watch(lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        state.zygote.warmed  # noqa: B018 wait for the zygote, and learn at once if it cannot start
    except ZygoteUnavailable as error:
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
    if state.fitness.unfit_because is not None:
        raise SystemExit(1)
