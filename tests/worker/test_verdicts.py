"""Whom a failed try of a part is charged to."""

from __future__ import annotations

import errno
from datetime import timedelta
from typing import Any

import pytest

from runtime.errors import ObjectCorrupt, ObjectMissing, Problem, Refusal, StorageUnavailable
from worker.outcomes import Died, Done, Position, Refused, ZygoteUnavailable
from worker.requests import LAST_WORDS_SECONDS, seconds_for
from worker.verdicts import Interrupted, result_of, verdict_of, verdict_of_death

SYNTAX = Problem(name='template-syntax', detail='line 3')


@pytest.mark.parametrize(
    ('error', 'name', 'charge', 'permanent'),
    [
        (Refusal(SYNTAX), 'template-syntax', 'attempt', True),
        (ObjectMissing('jobs/x/input.zip'), 'input-missing', 'attempt', False),
        (ObjectCorrupt('k'), 'storage-unavailable', 'loss', False),
        (StorageUnavailable('k'), 'storage-unavailable', 'loss', False),
        (ZygoteUnavailable('no zygote'), 'zygote-unavailable', 'loss', False),
        (OSError(errno.ENOSPC, 'full'), 'host-failed', 'loss', False),
        (FileNotFoundError(errno.ENOENT, 'gone'), 'host-failed', 'loss', False),
        (ValueError('odd'), 'internal-error', 'attempt', False),
    ],
)
def test_an_error_is_charged_to_who_is_at_fault(error: Exception, name: str, charge: str, permanent: bool):
    verdict = verdict_of(error)
    assert (verdict.problem.name, verdict.charge, verdict.permanent) == (name, charge, permanent)
    assert verdict.of_host == (name == 'host-failed')
    assert verdict.surprise == (name == 'internal-error')


@pytest.mark.parametrize(
    ('reason', 'name', 'charge'),
    [
        ('memory-limit', 'memory-limit', 'attempt'),
        ('cpu-limit', 'cpu-limit', 'attempt'),
        ('wall-limit', 'wall-limit', 'attempt'),
        ('crashed', 'child-died', 'attempt'),
        ('killed', 'child-died', 'attempt'),
        ('host', 'host-failed', 'loss'),
        ('zygote-died', 'child-died', 'loss'),
        ('draining', 'child-died', 'loss'),
        ('lease-lost', 'child-died', 'loss'),
        ('deadline', 'child-died', 'loss'),
    ],
)
def test_a_death_is_charged_to_who_is_at_fault(reason: str, name: str, charge: str):
    died = Died(reason=reason, signal=None, position=(2, 7), detail='why', max_rss=0)
    with pytest.raises(Interrupted) as raised:
        result_of(died)
    verdict = verdict_of(raised.value)
    assert (verdict.problem.name, verdict.charge, verdict.permanent) == (name, charge, False)
    told = charge == 'attempt' or reason == 'deadline'
    assert verdict.problem.extra == ({'document': 2, 'record': 7} if told else {})


@pytest.mark.parametrize(
    ('position', 'detail'),
    [
        ((2, 7), 'document 2, record 7 was being rendered when time ran out: why'),
        ((2, None), 'document 2 was being rendered when time ran out: why'),
        (None, 'why'),
    ],
)
def test_who_runs_out_of_time_says_with_what_and_is_not_tried_again_at_once(position: Position, detail: str):
    verdict = verdict_of_death(Died(reason='deadline', signal=None, position=position, detail='why', max_rss=0))
    assert verdict.problem.detail == detail
    assert verdict.pause > timedelta(seconds=LAST_WORDS_SECONDS)


@pytest.mark.parametrize(('left', 'seconds'), [(10, 9), (1.05, 0.1), (0.5, 0.1), (-3, 0.1)])
def test_a_child_ends_before_the_deadline_of_its_job(left: float, seconds: float):
    assert seconds_for(timedelta(seconds=left)) == seconds


def test_a_result_is_handed_on_and_a_refusal_is_raised():
    result: dict[str, Any] = {'pages': 1}
    assert result_of(Done(result=result, output=None)) is result
    with pytest.raises(Refusal, match='line 3'):
        result_of(Refused(problem=SYNTAX.to_json(), position=None))
