"""The renderer's worker: Dramatiq actors that turn hints into completed parts. Wiring only.

One process with a thread per core. It forks nothing itself; its zygote does, and each part is
painted in a child with a memory limit, a CPU limit and a wall deadline. Long documents have presses of their own
(renderer.windows); what they hold here is asked for on this worker's own queue first.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from runtime.broker import (  # first: it sets what dramatiq reads
    RENDER_QUEUE,
    host_key,
    make_broker,
    own_queue,
    start_worker,
    stop_listening,
)

# isort: split
import dramatiq

import schema
from renderer.painted import store_part
from renderer.pieces import PaintedPiece, Piece, joined_result, paint_pieces
from renderer.runs import input_hash, plan_runs
from renderer.windows import WindowWork, splittable
from runtime.errors import ConfigurationError
from runtime.lifecycle import StopSignal, announce_ready
from runtime.logs import get_logger
from runtime.nudge import Nudger
from runtime.scratch import ScratchFolder
from runtime.storage import Storage
from worker.fitness import Fitness
from worker.holding import Held, Holder, process_name
from worker.inputs import Inputs
from worker.outcomes import ChildOutcome, Position
from worker.requests import RenderRequest, seconds_for
from worker.workbench import Workbench, run_child
from worker.zygote import Zygote, ZygoteUnavailable

if TYPE_CHECKING:
    from runtime.settings import Settings

PRELOAD: Final = 'renderer.paint:preload'

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
        self.host = host_key(self.owner)
        self.windows = WindowWork(
            settings,
            pool=self.pool,
            storage=self.storage,
            inputs=self.inputs,
            holder=self.holder,
            scratch=self.scratch,
            host=self.host,
        )

    def close(self) -> None:
        self.holder.close()
        self.windows.close()
        self.zygote.close()
        self.pool.close()
        self._folder.remove()

    def work(self, key: schema.PartKey) -> None:
        """Claim a part and bring it to an end; whatever happens is recorded, nothing is raised."""
        self.bench.work(key, self._work)

    def _work(self, held: Held) -> schema.Completion | None:
        match held.claimed.kind:
            case 'plan':
                return self.windows.plan(held) if splittable(held.claimed.job_spec) else self._plan(held)
            case 'layout':
                return self.windows.lay_out(held, fingerprint=self.zygote.warmed['fingerprint'])
        if 'window' in held.claimed.part_spec:
            return self.windows.paint(held, fingerprint=self.zygote.warmed['fingerprint'])
        return self._paint(held)

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
            painted = self._render(held, archive, Path(folder))
            result = joined_result(painted)
            stored = store_part(
                self.storage,
                job_id=claimed.key.job_id,
                part_index=claimed.key.part_index,
                generation=claimed.generation,
                input_hash=hashed,
                painted=[piece_path(Path(folder), found.piece) for found in painted],
                result={**result, 'timing': {**result['timing'], 'owner': self.owner}},
            )
        return self.holder.complete(
            held, input_hash=hashed, result=stored.result, result_ref=stored.key, result_sha256=stored.sha256
        )

    def _render(self, held: Held, archive: Path, folder: Path) -> list[PaintedPiece]:
        """Paint the part in children. Raises Refusal, Interrupted.

        On the last attempt of a part under the policy `partial`, an item that kills its child is left out.
        """
        claimed = held.claimed
        first, count = claimed.part_spec['first_item'], claimed.part_spec['item_count']
        partial = claimed.failure_policy == 'partial'
        until = time.monotonic() + claimed.time_left.total_seconds()

        def paint(piece: Piece) -> ChildOutcome:
            if piece.left_out:
                log.warning('left out', items=sorted(piece.left_out))
            return run_child(held, self.zygote, self._request(held, archive, piece, folder, partial, until))

        return paint_pieces(
            Piece(first=first, end=first + count),
            paint,
            lambda position: item_at(claimed.job_spec, position),
            suspect=item_at(claimed.job_spec, position_of(claimed.failure)),
            may_leave_out=partial and claimed.attempts + 1 >= self.settings.part_attempts,
        )

    def _request(
        self, held: Held, archive: Path, piece: Piece, folder: Path, placeholders: bool, until: float
    ) -> RenderRequest:
        return RenderRequest(
            archive=archive,
            spec=held.claimed.job_spec,
            part={'first_item': piece.first, 'item_count': piece.end - piece.first},
            output=piece_path(folder, piece),
            placeholders=placeholders,
            skip=piece.left_out,
            memory_bytes=self.settings.child_memory_bytes,
            cpu_seconds=self.settings.child_cpu_seconds,
            wall_seconds=self.settings.child_wall_seconds,
            total_seconds=seconds_for(timedelta(seconds=until - time.monotonic())),
        )


def piece_path(folder: Path, piece: Piece) -> Path:
    return folder / f'{piece.first}-{piece.end}.bundle'


def position_of(failure: dict[str, Any] | None) -> Position:
    """The item that an earlier try of a part died of, if that is known."""
    if failure is None or 'document' not in failure:
        return None
    return failure['document'], failure.get('record')


def item_at(spec: dict[str, Any], position: Position) -> int | None:
    """The job-wide number of the item at (document, record)."""
    if position is None:
        return None
    document, record = position
    before: int = sum(entry.get('record_count', 1) for entry in spec['documents'][:document])
    return before + (record or 0)


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

    worker = start_worker(broker, queues=[RENDER_QUEUE, own_queue(state.host)], threads=settings.worker_threads)
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
