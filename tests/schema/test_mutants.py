"""Every guard of every writing statement matters: without it, a test of this folder fails.

A mutant is the shipped statement less one guard, or with a guard written in a way that others got
wrong. It goes through the body of a test that the shipped statement passes, and must fail there.
A guard is a line of a WHERE clause that starts with AND; one without a mutant is named with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import Connection, IsolationLevel

import schema
from runtime.errors import FanfoldError
from schema.statements import STATEMENTS
from tests.invariants import check_invariants
from tests.schema import (
    scenes,
    test_batches,
    test_dispatch,
    test_ending,
    test_events,
    test_jobs,
    test_parts,
    test_reconcile,
)
from tests.schema.stepping import Stage
from tests.schema.test_interleavings import explore

Conn = Connection[Any]
Body = Callable[[Conn], object]
WRONG = (AssertionError, psycopg.Error, FanfoldError, RuntimeError, pytest.fail.Exception)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """`guard` in the text of `statement` becomes `instead`; `scene` or `body` finds out."""

    statement: str
    guard: str
    instead: str = ''
    scene: scenes.Scene | None = None
    body: Body | None = None

    def __str__(self) -> str:
        change = f'{self.guard} becomes {self.instead}' if self.instead else self.guard
        return f'{self.statement}: {" ".join(change.split())}'


def lost(statement: str, guard: str, found_by: Body | None = None, **how: Any) -> Mutant:
    return Mutant(statement=statement, guard=guard, body=found_by, **how)


ALIVE = "status IN ('queued', 'rendering', 'assembling')"
PENDING_NOW = """(
        SELECT count(*) FROM part
        WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no AND part.status = 'pending'
    )"""
READ_BEFORE = """(
        SELECT earlier.remaining - 1 FROM batch AS earlier
        WHERE earlier.job_id = batch.job_id AND earlier.batch_no = batch.batch_no
    )"""
taken_over = partial(test_parts.test_a_zombie_can_neither_renew_nor_fail_nor_return, claimed_again=True)
let_go = partial(test_parts.test_a_zombie_can_neither_renew_nor_fail_nor_return, claimed_again=False)
earlier_run = test_parts.test_a_zombie_of_an_earlier_run_cannot_fail_the_next_one
between_batches = partial(
    test_ending.test_a_retry_of_a_job_that_failed_between_batches_goes_on_from_there, consumed=False
)
final_zombie = scenes.zombie_that_gives_up_and_next_holder
trying_zombie = scenes.zombie_that_tries_again_and_next_holder

MUTANTS = [
    lost('claim_part', "AND part.status = 'pending'", test_parts.test_a_completed_part_is_not_given_away),
    lost('claim_part', 'AND part.lease_expires_at IS NULL', scene=scenes.claim_and_claim),
    lost(
        'claim_part',
        'AND part.next_attempt_at <= clock.now',
        test_parts.test_a_part_cannot_be_claimed_before_it_is_due,
    ),
    lost('claim_part', "AND batch.status = 'running'", test_parts.test_an_ended_batch_gives_no_parts_away),
    lost('renew_lease', 'AND part.lease_epoch = %(epoch)s', taken_over),
    lost('renew_lease', 'AND part.lease_expires_at IS NOT NULL', let_go),
    lost(
        'renew_lease',
        "AND batch.status = 'running'",
        test_parts.test_renewing_extends_the_lease_of_a_running_batch_only,
    ),
    lost('complete_part', "AND status = 'pending'", scene=scenes.two_completions_of_one_of_two_parts),
    lost('count_down', "AND status = 'running'", scene=scenes.completion_and_cancel),
    lost('count_down', 'remaining - 1', instead=READ_BEFORE, scene=scenes.two_last_completions),
    lost('count_down', 'remaining - 1', instead=PENDING_NOW, scene=scenes.two_last_completions),
    lost('retry_part', 'AND part.lease_epoch = %(epoch)s', scene=trying_zombie),
    lost('retry_part', 'AND part.lease_expires_at IS NOT NULL', let_go),
    lost('retry_part', "AND batch.status = 'running'", earlier_run),
    lost('fail_part', 'AND lease_epoch = %(epoch)s', scene=final_zombie),
    lost('fail_part', 'AND lease_expires_at IS NOT NULL', let_go),
    lost('fail_batch', "AND status = 'running'", earlier_run),
    lost('fail_batch', 'AND batch_no = %(batch_no)s', earlier_run),
    lost('return_part', 'AND lease_epoch = %(epoch)s', taken_over),
    lost('return_part', 'AND lease_expires_at IS NOT NULL', let_go),
    lost('finish_batch', "AND status = 'running'", test_batches.test_a_batch_is_finished_once),
    lost('finish_batch', 'AND remaining = 0', test_batches.test_a_batch_that_waits_for_a_part_is_not_finished),
    lost('lock_unfinished_job', f'AND {ALIVE}', scene=scenes.two_cancels),
    lost('lock_unfinished_job', 'FOR NO KEY UPDATE', scene=scenes.advance_and_cancel),
    lost('lock_job', 'FOR NO KEY UPDATE', scene=scenes.failure_and_spent_losses),
    lost('end_running_batch', "AND status = 'running'", scene=scenes.completion_and_cancel),
    lost('move_job', f'AND {ALIVE}', test_jobs.test_an_ended_job_takes_no_batch),
    lost(
        'complete_job',
        "AND status IN ('rendering', 'assembling')",
        test_ending.test_a_completed_job_cannot_be_cancelled_or_failed_or_retried,
    ),
    lost('reopen_job', "AND status = 'failed'", scene=scenes.two_retries),
    lost(
        'copy_unfinished_parts',
        "AND status <> 'completed'",
        test_ending.test_a_retry_runs_what_its_last_batch_left_unfinished,
    ),
    lost('expire_job', "AND status IN ('completed', 'failed', 'cancelled')", test_ending.test_an_expired_job_stays_so),
    lost(
        'expire_jobs',
        'AND expires_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))',
        test_ending.test_ended_jobs_expire_when_their_time_has_come,
    ),
    lost(
        'overdue_jobs',
        'AND deadline_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))',
        test_ending.test_overdue_jobs_fail,
    ),
    lost(
        'prune_jobs',
        'AND expires_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) - %(older_than)s)',
        test_ending.test_rows_of_expired_jobs_are_pruned_with_all_they_had,
    ),
    lost(
        'lock_expired_part',
        'AND lease_expires_at <= coalesce(%(now)s::timestamptz, clock_timestamp())',
        scene=scenes.renewal_and_expiring_lease,
    ),
    lost('lock_batch', 'FOR NO KEY UPDATE', scene=scenes.completion_and_repair),
    lost('lock_batch', "AND status = 'running'", found_by=test_reconcile.test_an_ended_batch_is_not_recounted),
    lost(
        'insert_processed_event',
        'WHERE NOT EXISTS (SELECT FROM batch WHERE job_id = %(job_id)s AND batch_no > %(batch_no)s)',
        between_batches,
    ),
    lost(
        'insert_processed_event',
        '%(event_key)s',
        instead="%(event_key)s || ':' || (SELECT count(*) FROM processed_event)",
        found_by=test_events.test_an_advance_begins_once,
    ),
    lost('claim_events', 'WHERE sent_at IS NULL AND', instead='WHERE', found_by=test_events.test_a_sent_event_is_over),
    lost(
        'claim_events',
        'AND parked_at IS NULL',
        test_events.test_a_parked_event_is_kept_and_counted_but_never_claimed,
    ),
    lost('claim_events', 'AND available_at <= clock.now', test_events.test_a_released_event_waits),
    lost(
        'claim_events',
        'AND (claimed_until IS NULL OR claimed_until <= clock.now)',
        test_events.test_an_event_is_claimed_by_one,
    ),
    lost('mark_sent', 'AND sent_at IS NULL', test_events.test_a_sent_event_is_over),
    lost('mark_sent', 'AND parked_at IS NULL', test_events.test_a_parked_event_stays_so),
    lost('release_event', 'AND sent_at IS NULL', test_events.test_a_sent_event_is_over),
    lost('release_event', 'AND parked_at IS NULL', test_events.test_a_parked_event_stays_so),
    lost('park_event', 'AND sent_at IS NULL', test_events.test_a_sent_event_is_over),
    lost('park_event', 'AND parked_at IS NULL', test_events.test_a_parked_event_stays_so),
    lost(
        'mark_dispatched',
        "part.status = 'pending' AND",
        test_dispatch.test_what_was_claimed_meanwhile_is_not_marked,
    ),
    lost(
        'mark_dispatched',
        'AND part.lease_expires_at IS NULL',
        test_dispatch.test_what_was_claimed_meanwhile_is_not_marked,
    ),
    lost(
        'prune_events',
        'WHERE sent_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) - %(older_than)s)',
        test_events.test_sent_events_are_pruned_in_bounded_rounds,
    ),
    lost(
        'expired_leases',
        'AND part.lease_expires_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))',
        test_reconcile.test_live_leases_do_not_take_the_places_of_expired_ones,
    ),
]

#: guards without a mutant
SECOND_LINES = {
    ('end_job', f'AND {ALIVE}'): 'its callers have locked the job and seen that it has not ended',
}


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    stage = Stage(database_url, IsolationLevel.READ_COMMITTED)
    yield stage
    stage.close()


@pytest.fixture
def conn(database_url: str) -> Iterator[Conn]:
    with schema.open_pool(database_url, name='mutant') as pool, pool.connection() as conn:
        yield conn


def mutate(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    shipped = STATEMENTS[mutant.statement].decode()
    assert shipped.count(mutant.guard) == 1, f'{mutant} is not in the shipped statement once'
    monkeypatch.setitem(STATEMENTS, mutant.statement, shipped.replace(mutant.guard, mutant.instead).encode())


@pytest.mark.parametrize('mutant', MUTANTS, ids=str)
def test_a_statement_without_its_guard_is_found_out(
    mutant: Mutant, stage: Stage, conn: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch, mutant)

    with pytest.raises(WRONG):  # noqa: PT012 - either may find it out
        if mutant.scene is not None:
            met, allowed = explore(stage, conn, mutant.scene)
            assert met == allowed
        else:
            assert mutant.body is not None
            mutant.body(conn)
        check_invariants(conn)


def test_every_guard_has_a_mutant() -> None:
    mutated = {(mutant.statement, mutant.guard) for mutant in MUTANTS}
    unproven = [
        f'{name}: {guard}'
        for name, text in STATEMENTS.items()
        if re.match(r'UPDATE|DELETE|INSERT', text.decode())
        for guard in re.findall(r'^    (AND .*?)[;)]?$', text.decode(), re.MULTILINE)
        if not guard.startswith(('AND batch.job_id = part.job_id', 'AND job.id = part.job_id'))
        if (name, guard) not in SECOND_LINES
        if not any(name == statement and guard in (mutant, mutant.rstrip(')')) for statement, mutant in mutated)
    ]

    assert unproven == []
    assert all(guard in STATEMENTS[name].decode() for name, guard in SECOND_LINES)
