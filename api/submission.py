"""Creating a job from what was prepared: once for each idempotency key, however many requests race.

The input archive is uploaded before the row that names it exists, so no worker ever misses it; an
upload whose row never comes is an orphan, which the sweeper removes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from uuid6 import uuid7

import schema
from api.intake import Prepared, with_key
from api.problems import ApiProblem, refused
from api.services import TENANT, Services
from runtime.errors import ObjectExists, ObjectMissing, StorageUnavailable
from runtime.logs import get_logger

if TYPE_CHECKING:
    from psycopg import Connection

MOST_KEY_CHARACTERS: Final = 255
RETRY_QUEUE_SECONDS: Final = 5
_KEY: Final = re.compile(r'[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?')

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The job that a request has, and whether an earlier request made it."""

    snapshot: schema.Snapshot
    replayed: bool


def checked_key(key: str | None) -> str | None:
    """The value of an Idempotency-Key header. Raises ApiProblem."""
    if key is not None and (len(key) > MOST_KEY_CHARACTERS or not _KEY.fullmatch(key)):
        detail = f'must be 1 to {MOST_KEY_CHARACTERS} printable ASCII characters'
        raise refused('invalid-request', 'Idempotency-Key', detail)
    return key


def submit(services: Services, prepared: Prepared, key: str | None) -> Submitted:
    """Make the job, or find the one that the key has. Raises ApiProblem, StorageUnavailable, schema.Unavailable."""
    found, unfinished = schema.transact(services.pool, _look_up, key)
    if found is not None:
        return _replay(found, prepared)
    _check_queue(unfinished, services.settings.max_unfinished_jobs)
    job_id = UUID(str(uuid7()))
    input_key = f'jobs/{job_id}/input.zip'
    _upload(services, input_key, prepared)
    new = schema.NewJob(
        id=job_id,
        tenant_id=TENANT,
        spec=with_key(prepared.spec, input_key),
        time_limit=prepared.time_limit,
        keep_for=prepared.keep_for,
        idempotency_key=key,
        fingerprint=prepared.fingerprint,
        failure_policy=prepared.failure_policy,
    )
    created, snapshot = schema.transact(services.pool, _create, new)
    if not created:
        _forget(services, input_key)
        return _replay(snapshot, prepared)
    services.nudges.nudge('parts')
    log.info('job created', job_id=str(job_id), documents=len(prepared.spec.documents), bytes=prepared.archive.size)
    return Submitted(snapshot=snapshot, replayed=False)


def _look_up(conn: Connection[Any], key: str | None) -> tuple[schema.Snapshot | None, int]:
    """The job that the key has, and how many jobs are unfinished."""
    if key is not None and (job := schema.find_by_idempotency_key(conn, TENANT, key)) is not None:
        return schema.get_snapshot(conn, job.id, TENANT), 0
    return None, schema.count_unfinished(conn, TENANT)


def _create(conn: Connection[Any], new: schema.NewJob) -> tuple[bool, schema.Snapshot]:
    made = schema.create_job(conn, new, schema.NewPart(part_index=0))
    snapshot = schema.get_snapshot(conn, made.job.id, TENANT)
    assert snapshot is not None, 'it was read in the same transaction'
    return made.created, snapshot


def _replay(snapshot: schema.Snapshot, prepared: Prepared) -> Submitted:
    if snapshot.job.fingerprint != prepared.fingerprint:
        raise ApiProblem(
            'idempotency-key-reused',
            'another request, with another payload, was sent with this Idempotency-Key',
            errors=[{'field': 'Idempotency-Key', 'detail': 'belongs to another payload'}],
        )
    return Submitted(snapshot=snapshot, replayed=True)


def _check_queue(unfinished: int, limit: int) -> None:
    if unfinished >= limit:
        raise ApiProblem(
            'queue-full',
            f'{unfinished} jobs are not finished yet, and the limit is {limit} (FANFOLD_MAX_UNFINISHED_JOBS)',
            headers={'Retry-After': str(RETRY_QUEUE_SECONDS)},
            limit=limit,
            setting='FANFOLD_MAX_UNFINISHED_JOBS',
        )


def _upload(services: Services, input_key: str, prepared: Prepared) -> None:
    archive = prepared.archive
    try:
        services.storage.put_new(input_key, archive.path, sha256=archive.sha256, content_type='application/zip')
    except ObjectExists as error:
        # The key is ours alone: an earlier try of the same request whose answer was lost.
        try:
            stored = services.storage.head(input_key)
        except ObjectMissing:
            raise StorageUnavailable(f'{input_key}: neither there nor free') from error
        if stored.metadata.get('sha256') != archive.sha256:
            raise StorageUnavailable(f'{input_key}: holds something else') from error


def _forget(services: Services, input_key: str) -> None:
    try:
        services.storage.delete([input_key])
    except StorageUnavailable as error:
        log.warning('input not removed; the sweeper will', key=input_key, error=str(error))
