"""Jobs whose parts are painted: real bundles in the bucket, real rows in the database."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import TupleRow
from uuid6 import uuid7

import schema
from assembler.bundle import MEDIA_TYPE, seal
from assembler.relay import Relay
from runtime.storage import Storage, sha256_of
from schema import PartKey
from tests.assembler.documents import bundle, document, write
from tests.assembler.given import claimed, submitted

Conn = Connection[TupleRow]
PAGES = 3


class Press:
    """Submits jobs of one document a part and paints them, as the API and the renderer do."""

    def __init__(self, conn: Conn, storage: Storage, relay: Relay, folder: Path) -> None:
        self.conn = conn
        self.storage = storage
        self.relay = relay
        self.folder = folder

    def planned(self, parts: int, **changes: Any) -> UUID:
        """A job whose paint batch is running."""
        job_id = uuid7()
        archive = self.folder / f'{job_id}.zip'
        archive.write_bytes(archive_of(parts))
        key, sha256 = f'jobs/{job_id}/input.zip', sha256_of(archive)
        self.storage.put_new(key, archive, sha256=sha256, content_type='application/zip')
        spec = {
            'documents': [
                {'kind': 'html', 'source': f'files/{index}.html', 'base_url': f'bundle:///{index}.html'}
                for index in range(parts)
            ],
            'options': {},
            'parts': 'auto',
            'metadata': {'title': 'The job'},
            'input': {'key': key, 'sha256': sha256, 'bytes': archive.stat().st_size},
        }
        submitted(self.conn, id=job_id, spec=spec, **changes)
        plan = {'parts': [{'first_item': index, 'item_count': 1} for index in range(parts)], 'items': parts}
        schema.complete_part(
            self.conn,
            PartKey(job_id=job_id, batch_no=0, part_index=0),
            input_hash='h',
            result=plan,
            result_ref=None,
            result_sha256=None,
        )
        self.relay.tick()
        return job_id

    def paint(self, key: PartKey, *, generation: int = 0) -> None:
        index = key.part_index
        packed = self.folder / f'{index}.bundle'
        if not packed.exists():
            self.bundle(index)
        result = {'pages': PAGES, 'items': [[index, None, PAGES]], 'missing': [], 'warnings': ['odd', f'{index}']}
        seal(packed, result)
        ref = f'jobs/{key.job_id}/parts/{index}' + (f'.{generation}' if generation else '')
        sha256 = sha256_of(packed)
        self.storage.put_new(ref, packed, sha256=sha256, content_type=MEDIA_TYPE)
        schema.complete_part(self.conn, key, input_hash='h', result=result, result_ref=ref, result_sha256=sha256)

    def painted(self, parts: int, *, failing: Sequence[int] = (), **changes: Any) -> PartKey:
        """A job about to be assembled; the key of its assembly."""
        job_id = self.planned(parts, **changes)
        for index in range(parts):
            key = PartKey(job_id=job_id, batch_no=1, part_index=index)
            if index in failing:
                self.fail(key)
            else:
                self.paint(key)
        self.relay.tick()
        return PartKey(job_id=job_id, batch_no=2, part_index=0)

    def fail(self, key: PartKey) -> None:
        epoch = claimed(self.conn, key).lease_epoch
        failure = {'type': 'urn:fanfold:memory-limit', 'title': 't', 'detail': 'it needed too much memory'}
        budget = {'attempts_allowed': 1, 'losses_allowed': 1}
        schema.fail_part(
            self.conn, key, epoch=epoch, failure=failure, charge='attempt', **budget, retry_after=timedelta()
        )

    def bundle(self, index: int, **options: Any) -> Path:
        """Paint a part, not yet sealed."""
        return bundle(self.folder / f'{index}.bundle', document(index), item=index, **options)

    def pdf(self, index: int) -> Path:
        """What WeasyPrint makes of a part."""
        return write(self.folder / f'{index}.pdf', document(index))


def archive_of(documents: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, 'w') as archive:
        for index in range(documents):
            archive.writestr(f'files/{index}.html', document(index))
    return content.getvalue()
