"""Jobs brought into every state without workers: by the statements that workers use."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

import schema
from assembler.rounds import after_planning
from runtime.errors import Problem
from runtime.storage import Storage
from schema import NewPart, PartKey
from tests.assembler.windows import planned

LEASE = timedelta(seconds=60)
FAILURE = Problem(
    name='record-field-missing', detail="record 17 has no field 'total'", extra={'document': 0, 'record': 17}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    api: httpx.Client
    pool: schema.Pool
    storage: Storage
    folder: Path

    def submit(self, *, headers: dict[str, str] | None = None, **job: Any) -> UUID:
        body = {'documents': [{'html': '<p>One.'}], **job}
        answer = self.api.post('/v1/jobs', json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        return UUID(answer.json()['id'])

    def view(self, job_id: UUID) -> dict[str, Any]:
        answer = self.api.get(f'/v1/jobs/{job_id}')
        assert answer.status_code == 200, answer.text
        view: dict[str, Any] = answer.json()
        return view

    def claim(self, job_id: UUID, batch_no: int, part_index: int = 0) -> PartKey:
        key = PartKey(job_id=job_id, batch_no=batch_no, part_index=part_index)
        assert schema.transact(self.pool, schema.claim_part, key, owner='host:1:2', lease=LEASE) is not None
        return key

    def complete(self, key: PartKey, **result: Any) -> None:
        schema.transact(
            self.pool,
            schema.complete_part,
            key,
            input_hash='h',
            result={'timing': TIMING, **result},
            result_ref=None,
            result_sha256=None,
        )

    def plan(self, job_id: UUID, *, parts: int = 2) -> None:
        """Queued → rendering, with a paint batch of so many parts."""
        self.complete(self.claim(job_id, 0))
        specs = [NewPart(part_index=index, spec={'first_item': index, 'item_count': 1}) for index in range(parts)]
        schema.transact(self.pool, schema.create_batch, job_id, 'paint', specs, 'rendering')

    def lay_out(self, job_id: UUID, *, pages: Sequence[int]) -> None:
        """Plan a long document, and lay out its first windows, each with so many pages; one is left."""
        following = after_planning(planned(len(pages) + 1))
        self.complete(self.claim(job_id, 0), items=1)
        parts = [NewPart(part_index=index, spec=spec) for index, spec in following.specs.items()]
        with self.pool.connection() as conn:
            schema.create_batch(conn, job_id, 'layout', parts, 'rendering', plan=following.plan)
        for window, count in enumerate(pages):
            self.complete(self.claim(job_id, 1, window), pages=count)

    def paint(self, job_id: UUID, index: int, *, pages: int = 3, **result: Any) -> None:
        self.complete(self.claim(job_id, 1, index), pages=pages, items=[[0, None, pages]], **result)

    def assemble(self, job_id: UUID, pdf: bytes, *, pages: int = 6, **result: Any) -> None:
        """Rendering → completed, with this result."""
        schema.transact(self.pool, schema.create_batch, job_id, 'assemble', [NewPart(part_index=0)], 'assembling')
        self.complete(self.claim(job_id, 2))
        key = f'jobs/{job_id}/result/2-1.pdf'
        path = self.folder / f'{job_id}.pdf'
        path.write_bytes(pdf)
        digest = hashlib.sha256(pdf).hexdigest()
        self.storage.put_new(key, path, sha256=digest, content_type='application/pdf')
        completed = schema.transact(
            self.pool,
            schema.complete_job,
            job_id,
            page_count=pages,
            result_key=key,
            result_sha256=digest,
            result_bytes=len(pdf),
            result={'missing': [], 'warnings': [], **result},
        )
        assert completed

    def completed(self, pdf: bytes = b'%PDF-1.7 not much', **job: Any) -> UUID:
        return self.complete_submitted(self.submit(**job), pdf)

    def complete_submitted(self, job_id: UUID, pdf: bytes) -> UUID:
        self.plan(job_id)
        self.paint(job_id, 0)
        self.paint(job_id, 1)
        self.assemble(job_id, pdf)
        return job_id

    def failed(self, **job: Any) -> UUID:
        """Failed by one of its two paint parts; the other is painted."""
        job_id = self.submit(**job)
        self.plan(job_id)
        self.paint(job_id, 0)
        schema.transact(
            self.pool,
            schema.fail_part,
            self.claim(job_id, 1, 1),
            epoch=1,
            failure=FAILURE.to_json(),
            charge='attempt',
            permanent=True,
            attempts_allowed=3,
            losses_allowed=20,
            retry_after=timedelta(0),
        )
        return job_id

    def expire(self, job_id: UUID) -> None:
        with self.pool.connection() as conn:
            conn.execute("UPDATE job SET expires_at = now() - interval '1 hour' WHERE id = %s", [job_id])
            assert schema.expire_jobs(conn, 10) == [job_id]


TIMING = {
    'started_at': 1_700_000_000.25,
    'finished_at': 1_700_000_001.5,
    'cpu_seconds': 1.10000004,
    'max_rss_bytes': 90_000_000,
    'child_pid': 4711,
    'owner': 'host:1:2',
}
