"""The relay: takes events from the outbox and moves their jobs on, straight against Postgres.

For a batch-completed event it reads the completed, hence immutable, batch, computes the next step outside
any transaction, and applies it in one: lock the job, note the event as processed, write the next batch or
the final state with its event, mark the event sent. A duplicate, or an event of a job that has ended,
finds nothing to do. An event that fails ADVANCE_TRIES times fails its job and is parked; so is one that was
claimed so often without an outcome, because it takes the process with it. Events are claimed one by one, so that
no other is charged for that.

Events that tell of a job's end (job-completed, job-failed, job-cancelled) have no consumer yet; they are
marked sent and kept until they are pruned.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import schema
from assembler.advance import Complete, EndedPart, Fail, NextBatch, PaintedPart, Progress, Step, next_step
from assembler.rounds import LaidOut
from runtime.errors import Problem
from runtime.logs import bind, get_logger

if TYPE_CHECKING:
    from psycopg import Connection

    from runtime.nudge import Nudger

ADVANCE_TRIES: Final = 5
EVENTS_AT_ONCE: Final = 20
#: a relay that dies in the middle of an advance is made up for after this
CLAIM_LEASE: Final = timedelta(seconds=5)
RETRY_BASE: Final = timedelta(seconds=0.2)

log = get_logger(__name__)


class Relay:
    def __init__(self, pool: schema.Pool, nudger: Nudger) -> None:
        self._pool = pool
        self._nudger = nudger
        #: jobs whose end was handled here, by outcome
        self.ended: Counter[str] = Counter()

    def tick(self) -> bool:
        """Handle the events that wait; whether there may be more. Raises schema.Unavailable."""
        for handled in range(EVENTS_AT_ONCE):
            events = schema.transact(self._pool, schema.claim_events, limit=1, lease=CLAIM_LEASE)
            if not events:
                if handled > 1:
                    self._nudger.nudge('parts', 'jobs')
                return False
            [event] = events
            with bind(job_id=event.job_id, event=event.event_key):
                self._handle(event)
            if handled == 0:  # a job that is alone does not wait for a look at what else there is
                self._nudger.nudge('parts', 'jobs')
        self._nudger.nudge('parts', 'jobs')
        return True

    def _handle(self, event: schema.Event) -> None:
        if event.type != 'batch-completed':
            schema.transact(self._pool, schema.mark_sent, event.id)
            self.ended[event.type.removeprefix('job-')] += 1
            log.info(event.type)
            return
        if event.attempts > ADVANCE_TRIES:
            self._give_up(event, f'was begun {ADVANCE_TRIES} times and never came to an end')
            return
        try:
            step = next_step(schema.transact(self._pool, read_progress, event))
            moved = schema.transact(self._pool, apply_step, event, step)
        except schema.Unavailable:
            raise
        except Exception as error:  # whatever it is, it must not stop the other jobs
            self._give_up_or_release(event, error)
            return
        log.info('job moved on' if moved else 'nothing to move', step=type(step).__name__)

    def _give_up_or_release(self, event: schema.Event, error: Exception) -> None:
        if event.attempts < ADVANCE_TRIES:
            log.warning('advance failed, will be tried again', attempt=event.attempts, exc_info=error)
            pause = RETRY_BASE * 2**event.attempts
            schema.transact(self._pool, schema.release_event, event.id, available_in=pause)
            return
        self._give_up(event, f'{type(error).__name__}: {error}', error)

    def _give_up(self, event: schema.Event, why: str, error: Exception | None = None) -> None:
        log.error('advance failed for good; the event is parked', attempt=event.attempts, why=why, exc_info=error)
        detail = f'after {min(event.attempts, ADVANCE_TRIES)} tries: {why}'
        failure = Problem(name='advance-failed', detail=detail, extra={'batch': event.batch_no}).to_json()
        schema.transact(self._pool, fail_and_park, event, failure)


def read_progress(conn: Connection[Any], event: schema.Event) -> Progress:
    """What the event's batch and the batches before it came to."""
    job_id, batch_no = event.job_id, event.batch_no
    batches = [batch for batch in schema.list_batches(conn, job_id) if batch.batch_no <= batch_no]
    kind = batches[-1].kind
    ended: list[schema.Part] = []
    if kind != 'paint':  # of painting there may be thousands of results, each of many records: counts will do
        ended += schema.failed_parts_of_batch(conn, job_id, batch_no)
    if kind in {'plan', 'assemble'}:
        ended += schema.completed_parts(conn, job_id, batch_no)
    outcomes = schema.painting_outcomes(conn, job_id) if kind in {'paint', 'assemble'} else []
    laid_out = schema.laid_out_parts(conn, job_id) if kind == 'layout' else []
    planned = schema.planned(conn, job_id) if kind == 'layout' else None
    return Progress(
        kind=kind,
        ended=[EndedPart(index=part.key.part_index, result=part.result, failure=part.failure) for part in ended],
        painting=[painted_part(found) for found in outcomes],
        laid_out=[LaidOut(window=found.part_index, spec=found.spec, result=found.result) for found in laid_out],
        plan=None if planned is None else planned[1],
        assemblies=sum(batch.kind == 'assemble' and batch.status == 'completed' for batch in batches),
        retried=event.event_key != f'batch-completed:{job_id}:{batch_no}',
    )


def painted_part(found: schema.PaintedOutcome) -> PaintedPart:
    failure = found.failure
    if failure is None and not found.completed:
        raise ValueError(f'part {found.part_index} has neither a result nor a failure')
    return PaintedPart(
        index=found.part_index,
        generation=found.generation,
        spec=found.spec,
        items=found.items,
        missing=found.missing,
        first_missing=found.first_missing,
        failure=failure,
    )


def apply_step(conn: Connection[Any], event: schema.Event, step: Step) -> bool:
    """One transaction of the relay. False: the job has ended or is past this batch, only the event is ended."""
    job = schema.begin_advance(conn, event)
    if job is not None:
        _apply(conn, job, step)
    schema.mark_sent(conn, event.id)
    return job is not None


def _apply(conn: Connection[Any], job: schema.Job, step: Step) -> None:
    match step:
        case NextBatch(kind=kind, job_status=status, parts=parts, plan=plan):
            new = [schema.NewPart(part_index=part.index, spec=part.spec, generation=part.generation) for part in parts]
            schema.create_batch(conn, job.id, kind, new, status, plan=plan)
        case Complete(pages=pages, key=key, sha256=sha256, size=size, result=result):
            schema.complete_job(
                conn,
                job.id,
                page_count=pages,
                result_key=key,
                result_sha256=sha256,
                result_bytes=size,
                result=result,
            )
        case Fail(failure=failure):
            schema.fail_job(conn, job.id, failure)


def fail_and_park(conn: Connection[Any], event: schema.Event, failure: dict[str, Any]) -> None:
    schema.fail_job(conn, event.job_id, failure)
    schema.park_event(conn, event.id)
