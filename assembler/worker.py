"""The assembler's worker: a Dramatiq actor that turns the painted parts of a job into its result. Wiring only.

The parts are merged in a child with a memory limit, a CPU limit and a wall deadline. A part that turns out
missing or damaged is not merged around: the assembly completes saying which, and the relay has them painted
again. The result's key names this very attempt, so two assemblers never write the same object; the one that
is recorded wins, the other is swept.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from runtime.broker import ASSEMBLE_QUEUE, start_worker  # first: it sets what dramatiq reads

# isort: split
import dramatiq

import schema
from assembler.gathering import Gathered, GatheredPart, gather, input_hash, missing_of, warnings_of
from renderer.holding import Held, Holder, process_name
from renderer.inputs import Inputs
from renderer.press import ChildRequest, Died, Limits, Painted, Press, Refused, RenderRequest
from runtime.errors import ObjectExists, ObjectMissing, Problem, Refusal, Retryable, StorageUnavailable
from runtime.logs import get_logger
from runtime.scratch import ScratchFolder

if TYPE_CHECKING:
    from dramatiq.brokers.redis import RedisBroker

    from renderer.requests import Request
    from runtime.nudge import Nudger
    from runtime.settings import Settings
    from runtime.storage import Storage

MERGED_AT_ONCE: Final = 2
PRELOAD: Final = 'assembler.merge:preload'

log = get_logger(__name__)


class _Interrupted(Exception):
    """The child ended without a result, or the assembly was taken away before there was one."""

    def __init__(self, problem: Problem, charge: schema.Charge) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.charge = charge


class Assembler:
    """Everything the assembling role owns, and the work on one assembly."""

    def __init__(self, settings: Settings, pool: schema.Pool, storage: Storage, nudger: Nudger) -> None:
        self.settings = settings
        self.owner = process_name()
        self._pool = pool
        self._storage = storage
        self._nudger = nudger
        self._folder = ScratchFolder(settings.scratch_dir, prefix='fanfold-assembler-')
        self._scratch = self._folder.path
        self._inputs = Inputs(storage, self._scratch / 'inputs')
        self._press = Press(scratch=self._scratch / 'press', preload=PRELOAD)
        self.holder = Holder(pool, settings, owner=self.owner)

    def close(self) -> None:
        self.holder.close()
        self._press.close()
        self._folder.remove()

    def work(self, key: schema.PartKey) -> None:
        """Claim an assembly and bring it to an end; whatever happens is recorded, nothing is raised."""
        with self.holder.hold(key) as held:
            if held is None:
                return
            try:
                completion = self._assemble(held)
                if completion is schema.Completion.LAST:
                    self._nudger.nudge('events')
                self._nudger.nudge('jobs')
            except _Interrupted as interrupted:
                self._fail(held, interrupted.problem, charge=interrupted.charge)
            except Refusal as refusal:
                self._fail(held, refusal.problem, charge='attempt', permanent=True)
            except ObjectMissing as error:  # the input, needed for placeholders
                problem = Problem(name='input-missing', detail=f'there is no object {error}')
                self._fail(held, problem, charge='attempt', permanent=True)
            except Retryable as error:
                name = 'storage-unavailable' if isinstance(error, StorageUnavailable) else 'child-died'
                self._fail(held, Problem(name=name, detail=str(error)), charge='loss')
            except schema.Unavailable as error:
                log.warning('assembly interrupted: database away; the lease will expire', error=str(error).strip())
            except Exception as error:
                log.exception('assembly failed unexpectedly')
                detail = f'{type(error).__name__}: {error}'
                self._fail(held, Problem(name='internal-error', detail=detail), charge='attempt')

    def _fail(self, held: Held, problem: Problem, **how: Any) -> None:
        if held.draining.is_set():
            self.holder.give_back(held)
            self._nudger.nudge('parts')
        elif not held.lost.is_set():
            self.holder.fail(held, problem, **how)
            self._nudger.nudge('events', 'jobs')

    def _assemble(self, held: Held) -> schema.Completion | None:
        job_id, spec = held.key.job_id, held.claimed.job_spec
        painted = schema.transact(self._pool, schema.painted_parts, job_id)
        failed = schema.transact(self._pool, schema.failed_parts, job_id)
        hashed = input_hash(painted, failed, spec)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix='job-') as name:
            folder = Path(name)
            gathered = gather(self._storage, painted, folder, wanted=lambda: not held.gone)
            if held.gone:
                raise _Interrupted(Problem(name='child-died', detail='taken away while fetching'), 'loss')
            if gathered.damaged:
                repair = {'repair': list(gathered.damaged)}
                return self.holder.complete(held, input_hash=hashed, result=repair, result_ref=None, result_sha256=None)
            result = self._merge(held, self._with_placeholders(held, gathered, failed, folder), folder / 'result.pdf')
        return self.holder.complete(
            held, input_hash=hashed, result=result, result_ref=result['key'], result_sha256=result['sha256']
        )

    def _with_placeholders(
        self, held: Held, gathered: Gathered, failed: list[schema.Part], folder: Path
    ) -> list[GatheredPart]:
        """All parts in order; one that failed (policy partial) as one page for each of its items."""
        source = held.claimed.job_spec['input']
        parts = list(gathered.parts)
        for part in failed:
            with self._inputs.archive(source['key'], source['sha256']) as archive:
                parts.append(self._placeholders(held, part, archive, folder))
        return sorted(parts, key=lambda part: part.index)

    def _placeholders(self, held: Held, part: schema.Part, archive: Path, folder: Path) -> GatheredPart:
        index = part.key.part_index
        first, count = part.spec['first_item'], part.spec['item_count']
        limits = self._limits(held)
        output = folder / f'{index}.pdf'
        request = RenderRequest(
            archive=archive,
            spec=held.claimed.job_spec,
            part=part.spec,
            output=output,
            placeholders=True,
            skip=frozenset(range(first, first + count)),
            memory_bytes=limits.memory_bytes,
            cpu_seconds=limits.cpu_seconds,
            wall_seconds=limits.wall_seconds,
        )
        result = self._run(held, request)
        reason = (part.failure or {}).get('detail', 'it could not be rendered')
        result['missing'] = [{**entry, 'detail': reason} for entry in result['missing']]
        return GatheredPart(index=index, path=output, result=result)

    def _merge(self, held: Held, parts: list[GatheredPart], out: Path) -> dict[str, Any]:
        """Merge, upload, and return the result of the assembly."""
        spec = held.claimed.job_spec
        payload = {
            'parts': [{'path': str(part.path), 'pages': part.result['pages']} for part in parts],
            'out': str(out),
            'metadata': spec.get('metadata') or {},
            'compress': not (spec.get('options') or {}).get('uncompressed_pdf'),
        }
        merged = self._run(
            held, ChildRequest(entry='assembler.merge:merge_child', payload=payload, limits=self._limits(held))
        )
        key = f'jobs/{held.key.job_id}/result/{held.key.batch_no}-{held.claimed.lease_epoch}.pdf'
        try:
            self._storage.put_new(key, out, sha256=merged['sha256'], content_type='application/pdf')
        except ObjectExists:
            # Nobody else writes under this lease: an earlier try of this very upload went through unheard.
            if self._storage.head(key).metadata.get('sha256') != merged['sha256']:
                raise
        timing = {**merged['timing'], 'owner': self.owner}
        return {**merged, 'timing': timing, 'key': key, 'missing': missing_of(parts), 'warnings': warnings_of(parts)}

    def _limits(self, held: Held) -> Limits:
        left = held.claimed.time_left.total_seconds()
        return Limits(
            memory_bytes=self.settings.child_memory_bytes,
            cpu_seconds=self.settings.child_cpu_seconds,
            wall_seconds=max(0.1, min(self.settings.child_wall_seconds, left)),
        )

    def _run(self, held: Held, request: ChildRequest | Request) -> dict[str, Any]:
        """What a child made of the request. Raises Refusal, Retryable, _Interrupted."""
        child = self._press.start(request)
        held.on_lost = child.kill
        if held.gone:
            child.kill('draining' if held.draining.is_set() else 'lease-lost')
        match child.wait():
            case Painted(result=result):
                return result
            case Refused(problem=problem):
                raise Refusal(Problem.from_json(problem))
            case Died(reason='press-died' | 'lease-lost' | 'draining' as reason, detail=detail):
                raise _Interrupted(Problem(name='child-died', detail=f'{reason}: {detail}'), 'loss')
            case Died(reason=reason, detail=detail):
                name = reason if reason in {'memory-limit', 'cpu-limit', 'wall-limit'} else 'child-died'
                raise _Interrupted(Problem(name=name, detail=f'assembly: {detail}'), 'attempt')
            case outcome:
                raise AssertionError(outcome)


def start_assembling(assembler: Assembler, broker: RedisBroker) -> dramatiq.Worker:
    """Begin to take assemblies off the queue."""

    @dramatiq.actor(broker=broker, queue_name=ASSEMBLE_QUEUE, actor_name='assemble_part')
    def assemble_part(job_id: str, batch_no: int, part_index: int) -> None:
        assembler.work(schema.PartKey(job_id=UUID(job_id), batch_no=batch_no, part_index=part_index))

    return start_worker(broker, queue=ASSEMBLE_QUEUE, threads=MERGED_AT_ONCE)
