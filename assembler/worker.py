"""The assembler's worker: a Dramatiq actor that turns the painted parts of a job into its result. Wiring only.

The parts are merged in a child with a memory limit, a CPU limit and a wall deadline. A part that turns out
missing or damaged is not merged around: the assembly completes saying which, and the relay has them painted
again. The result's key names this very attempt, so two assemblers never write the same object; the one that
is recorded wins, the other is swept.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from runtime.broker import ASSEMBLE_QUEUE, start_worker  # first: it sets what dramatiq reads

# isort: split
import dramatiq

import schema
from assembler.gathering import Gathered, GatheredPart, gather, input_hash, missing_of, warnings_of
from runtime.errors import ObjectExists, ObjectMissing, Problem, StorageUnavailable
from runtime.scratch import ScratchFolder
from worker.fitness import Fitness
from worker.holding import Held, Holder, process_name
from worker.inputs import Inputs
from worker.outcomes import ChildOutcome, Died
from worker.requests import ChildRequest, Limits, RenderRequest, seconds_for
from worker.verdicts import Interrupted, Verdict, result_of
from worker.workbench import Workbench, run_child
from worker.zygote import Zygote

if TYPE_CHECKING:
    from dramatiq.brokers.redis import RedisBroker

    from runtime.nudge import Nudger
    from runtime.settings import Settings
    from runtime.storage import Storage

MERGED_AT_ONCE: Final = 2
UPLOADS_TRIED: Final = 5
PRELOAD: Final = 'assembler.merge:preload'


class Assembler:
    """Everything the assembling role owns, and the work on one assembly."""

    def __init__(self, settings: Settings, pool: schema.Pool, storage: Storage, nudger: Nudger) -> None:
        self.settings = settings
        self.owner = process_name()
        self._pool = pool
        self._storage = storage
        self._folder = ScratchFolder(settings.scratch_dir, prefix='fanfold-assembler-')
        self._scratch = self._folder.path
        self._inputs = Inputs(storage, self._scratch / 'inputs')
        self.fitness = Fitness()
        self._zygote = Zygote(scratch=self._scratch / 'zygote', preload=PRELOAD, on_broken=self.fitness.give_up)
        self.holder = Holder(pool, settings, owner=self.owner)
        self._bench = Workbench(self.holder, nudger, self.fitness)

    def close(self) -> None:
        self.holder.close()
        self._zygote.close()
        self._folder.remove()

    def work(self, key: schema.PartKey) -> None:
        """Claim an assembly and bring it to an end; whatever happens is recorded, nothing is raised."""
        self._bench.work(key, self._assemble)

    def _assemble(self, held: Held) -> schema.Completion | None:
        job_id, spec = held.key.job_id, held.claimed.job_spec
        painted = schema.transact(self._pool, schema.painted_parts, job_id)
        failed = schema.transact(self._pool, schema.failed_parts, job_id)
        hashed = input_hash(painted, failed, spec)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix='job-') as name:
            folder = Path(name)
            gathered = gather(self._storage, painted, folder, wanted=lambda: not held.gone)
            if held.gone:
                problem = Problem(name='child-died', detail='taken away while fetching')
                raise Interrupted(Verdict(problem=problem, charge='loss'))
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
        output = folder / f'{index}.bundle'
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
            total_seconds=limits.total_seconds,
        )
        result = result_of(run_child(held, self._zygote, request))
        reason = {key: text for key, text in (part.failure or {}).items() if key in {'type', 'detail'}}
        result['missing'] = [{**entry, **reason} for entry in result['missing']]
        return GatheredPart(index=index, paths=[output], result=result)

    def _merge(self, held: Held, parts: list[GatheredPart], out: Path) -> dict[str, Any]:
        """Merge, upload, and return the result of the assembly."""
        spec = held.claimed.job_spec
        payload = {
            'parts': [{'paths': list(map(str, part.paths)), 'pages': part.result['pages']} for part in parts],
            'out': str(out),
            'metadata': spec.get('metadata') or {},
            'document_bookmarks': spec.get('document_bookmarks', False),
            'finishing': spec.get('finishing'),
        }
        request = ChildRequest(entry='assembler.merge:merge_child', payload=payload, limits=self._limits(held))
        merged = result_of(_without_position(run_child(held, self._zygote, request)))
        key = f'jobs/{held.key.job_id}/result/{held.key.batch_no}-{held.claimed.lease_epoch}.pdf'
        self._upload(key, out, merged['sha256'])
        timing = {**merged['timing'], 'owner': self.owner}
        return {**merged, 'timing': timing, 'key': key, 'missing': missing_of(parts), 'warnings': warnings_of(parts)}

    def _upload(self, key: str, path: Path, sha256: str) -> None:
        """Put the result; nobody else writes under this lease, so what is there is of an earlier, unheard try."""
        for _ in range(UPLOADS_TRIED):
            try:
                return self._storage.put_new(key, path, sha256=sha256, content_type='application/pdf')
            except ObjectExists:
                try:
                    found = self._storage.head(key).metadata.get('sha256')
                except ObjectMissing:
                    continue  # 404 after a 412: put again
                if found == sha256:
                    return None
                raise
        raise StorageUnavailable(f'{key}: it is there for a put, and missing for a head')

    def _limits(self, held: Held) -> Limits:
        return Limits(
            memory_bytes=self.settings.child_memory_bytes,
            cpu_seconds=self.settings.child_cpu_seconds,
            wall_seconds=self.settings.child_wall_seconds,
            total_seconds=seconds_for(held.claimed.time_left),
        )


def _without_position(outcome: ChildOutcome) -> ChildOutcome:
    """A position in a merge is that of a part, which is nobody's document."""
    if isinstance(outcome, Died):
        return replace(outcome, position=None, detail=f'assembly: {outcome.detail}')
    return outcome


def start_assembling(assembler: Assembler, broker: RedisBroker) -> dramatiq.Worker:
    """Begin to take assemblies off the queue."""

    @dramatiq.actor(broker=broker, queue_name=ASSEMBLE_QUEUE, actor_name='assemble_part')
    def assemble_part(job_id: str, batch_no: int, part_index: int) -> None:
        assembler.work(schema.PartKey(job_id=UUID(job_id), batch_no=batch_no, part_index=part_index))

    return start_worker(broker, queues=[ASSEMBLE_QUEUE], threads=MERGED_AT_ONCE)
