"""A whole service in one process, worked by hand: each part is done when a test says so, by the worker it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from uuid6 import uuid7

import schema
from assembler.relay import Relay
from assembler.worker import Assembler
from renderer.worker import Worker
from runtime.nudge import Nudger
from runtime.settings import Settings
from runtime.storage import Storage, sha256_of
from schema import Part, PartKey
from tests.assembler.given import submitted
from tests.invariants import check_invariants
from tests.renderer.bundles import Job

MOST_STEPS = 60


@dataclass(slots=True, kw_only=True)
class ByHand:
    """Workers, a relay and an assembler over one database."""

    settings: Settings
    pool: schema.Pool
    folder: Path
    workers: list[Worker] = field(default_factory=list)

    def worker(self, **changes: Any) -> Worker:
        """Another worker, with settings of its own."""
        worker = Worker(self.settings.model_copy(update={'scratch_dir': self.folder, **changes}))
        self.workers.append(worker)
        return worker

    def leave(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.close()

    def submit(self, job: Job, **changes: Any) -> UUID:
        job_id = uuid7()
        archive = job.archive()
        key, sha256 = f'jobs/{job_id}/input.zip', sha256_of(archive)
        Storage(self.settings).put_new(key, archive, sha256=sha256, content_type='application/zip')
        spec = {**job.spec, 'input': {'key': key, 'sha256': sha256, 'bytes': archive.stat().st_size}}
        with self.pool.connection() as conn:
            submitted(conn, id=job_id, spec=spec, **changes)
        return job_id

    def due(self, job_id: UUID) -> list[Part]:
        """The pending parts of the running batch, after the relay has moved on what it can."""
        Relay(self.pool, Nudger(self.settings)).tick()
        with self.pool.connection() as conn:
            conn.execute("UPDATE part SET next_attempt_at = now() WHERE status = 'pending'")
            running = {batch.batch_no for batch in schema.list_batches(conn, job_id) if batch.status == 'running'}
            parts = schema.list_parts(conn, job_id, limit=1_000)
        return [part for part in parts if part.status == 'pending' and part.key.batch_no in running]

    def parts(self, job_id: UUID, kind: str) -> list[Part]:
        with self.pool.connection() as conn:
            return [part for part in schema.list_parts(conn, job_id, limit=1_000) if part.kind == kind]

    def work(self, job_id: UUID, by: Callable[[Part], Worker], *, until: str = 'assemble') -> list[Part]:
        """Work all parts until some of this kind are due; those."""
        for _ in range(MOST_STEPS):
            due = self.due(job_id)
            if not due or due[0].kind == until:
                return due
            for part in due:
                by(part).work(part.key)
        raise AssertionError(f'the job does not come to {until}')

    def finish(self, job_id: UUID, by: Callable[[Part], Worker]) -> bytes:
        """Work the job to its end; its PDF."""
        self.work(job_id, by)
        self.assemble(job_id)
        while self.due(job_id):
            self.work(job_id, by)
            self.assemble(job_id)
        job = self.job(job_id)
        assert job.status == 'completed', job.failure
        path = self.folder / 'result.pdf'
        Storage(self.settings).fetch(str(job.result_key), path, sha256=str(job.result_sha256))
        with self.pool.connection() as conn:
            check_invariants(conn)
        return path.read_bytes()

    def assemble(self, job_id: UUID) -> None:
        """Work the assembly that is due, if one is, and let the relay go on."""
        assembler = Assembler(self.settings, self.pool, Storage(self.settings), Nudger(self.settings))
        for part in self.due(job_id):
            if part.kind == 'assemble':
                assembler.work(part.key)
        assembler.close()
        self.due(job_id)

    def job(self, job_id: UUID) -> schema.Job:
        with self.pool.connection() as conn:
            job = schema.get_job(conn, job_id)
        assert job is not None
        return job

    def snapshot(self, job_id: UUID) -> schema.Snapshot:
        with self.pool.connection() as conn:
            snapshot = schema.get_snapshot(conn, job_id)
        assert snapshot is not None
        return snapshot

    def part(self, key: PartKey) -> Part:
        with self.pool.connection() as conn:
            [part] = schema.list_parts(conn, key.job_id, after=(key.batch_no, key.part_index - 1), limit=1)
        return part


@contextmanager
def by_hand(settings: Settings, folder: Path) -> Iterator[ByHand]:
    with schema.open_pool(settings.database_url, max_size=4, name='test') as pool:
        service = ByHand(settings=settings, pool=pool, folder=folder)
        try:
            yield service
        finally:
            for worker in list(service.workers):
                service.leave(worker)
