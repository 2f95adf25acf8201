from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assembler.advance import Complete, EndedPart, Fail, NextBatch, PaintedPart, Progress, next_step

WHY = {'type': 'urn:fanfold:memory-limit', 'title': 'no', 'detail': 'because'}
FIRST = {'document': 0, 'record': None, 'type': 'urn:fanfold:render-error', 'detail': 'bad'}
RESULT = {'key': 'k', 'sha256': 's', 'bytes': 9, 'pages': 3, 'missing': []}


def part(**result: Any) -> EndedPart:
    return EndedPart(index=0, result=result)


def painted(*missing_items: int) -> list[PaintedPart]:
    """One part of two items for each argument, so many of which are placeholders."""
    return [
        PaintedPart(
            index=index,
            generation=0,
            spec={'first_item': index},
            items=2,
            missing=missing,
            first_missing=FIRST if missing else None,
        )
        for index, missing in enumerate(missing_items)
    ]


def lost(index: int) -> PaintedPart:
    return PaintedPart(index=index, generation=0, spec={'first_item': index}, failure=WHY)


def test_a_plan_is_followed_by_painting_its_parts() -> None:
    step = next_step(Progress(kind='plan', ended=[part(parts=[{'first_item': 0}, {'first_item': 5}], items=9)]))

    assert isinstance(step, NextBatch)
    assert (step.kind, step.job_status) == ('paint', 'rendering')
    assert [(new.index, new.spec, new.generation) for new in step.parts] == [
        (0, {'first_item': 0}, 0),
        (1, {'first_item': 5}, 0),
    ]


def test_an_empty_plan_is_nothing_to_print() -> None:
    step = next_step(Progress(kind='plan', ended=[part(parts=[], items=0)]))

    assert isinstance(step, Fail)
    assert step.failure['type'] == 'urn:fanfold:nothing-to-print'


@pytest.mark.parametrize('kind', ['plan', 'assemble'])
def test_a_failed_plan_or_assembly_fails_the_job_with_its_reason(kind: Any) -> None:
    assert next_step(Progress(kind=kind, ended=[EndedPart(index=0, failure=WHY)])) == Fail(failure=WHY)


def test_painting_is_followed_by_assembly() -> None:
    step = next_step(Progress(kind='paint', painting=painted(0, 0)))

    assert isinstance(step, NextBatch)
    assert (step.kind, step.job_status, len(step.parts)) == ('assemble', 'assembling', 1)


def test_what_is_missing_does_not_stop_the_rest() -> None:
    step = next_step(Progress(kind='paint', painting=[*painted(2, 1), lost(2)]))

    assert isinstance(step, NextBatch)


def test_a_job_of_which_nothing_was_painted_fails() -> None:
    assert next_step(Progress(kind='paint', painting=[lost(0), lost(1)])) == Fail(failure=WHY)


def test_a_job_of_nothing_but_placeholders_fails() -> None:
    step = next_step(Progress(kind='paint', painting=painted(2, 2)))

    assert isinstance(step, Fail)
    assert step.failure.pop('title')
    assert step.failure == {'type': 'urn:fanfold:render-error', 'detail': 'bad', 'document': 0, 'part': 0}


def test_a_job_of_nothing_but_placeholders_fails_with_its_first_problem() -> None:
    where = {'document': 0, 'record': 7, 'field': 'a', 'line': 3}
    first = {**where, 'type': 'urn:fanfold:record-field-missing', 'detail': "record 7 has no field 'a'"}
    painting = [replace(part, first_missing=first) for part in painted(2, 2)]

    step = next_step(Progress(kind='paint', painting=painting))

    assert isinstance(step, Fail)
    assert step.failure.pop('title')
    assert step.failure == {**first, 'part': 0}


def test_what_is_missing_since_an_earlier_version_has_no_type() -> None:
    painting = [replace(part, first_missing={'record': 0, 'detail': 'bad'}) for part in painted(2)]

    step = next_step(Progress(kind='paint', painting=painting))

    assert isinstance(step, Fail)
    assert (step.failure['type'], step.failure['detail']) == ('urn:fanfold:render-error', 'bad')


def test_a_part_that_nobody_accounts_for_is_an_error() -> None:
    with pytest.raises(ValueError, match=r'left the parts \[1\]'):
        next_step(Progress(kind='paint', painting=painted(0, 0)[1:]))


def test_assembly_completes_the_job() -> None:
    step = next_step(Progress(kind='assemble', ended=[part(**RESULT)], assemblies=1))

    assert step == Complete(pages=3, key='k', sha256='s', size=9, result=RESULT)


def test_damaged_parts_are_painted_again_under_their_index_and_a_new_generation() -> None:
    before = painted(0, 0, 0)
    before[1] = replace(before[1], generation=1)
    step = next_step(Progress(kind='assemble', ended=[part(repair=[1])], painting=before, assemblies=1))

    assert isinstance(step, NextBatch)
    assert (step.kind, step.job_status) == ('paint', 'rendering')
    assert [(new.index, new.spec, new.generation) for new in step.parts] == [(1, {'first_item': 1}, 2)]


def test_after_three_repairs_the_job_fails_and_names_the_parts() -> None:
    ended, before = [part(repair=[0, 2])], painted(0, 0, 0)

    steps = [
        next_step(Progress(kind='assemble', ended=ended, painting=before, assemblies=round)) for round in (1, 2, 3, 4)
    ]

    assert [type(step) for step in steps] == [NextBatch, NextBatch, NextBatch, Fail]
    assert isinstance(steps[-1], Fail)
    assert steps[-1].failure['type'] == 'urn:fanfold:part-object-damaged'
    assert steps[-1].failure['parts'] == [0, 2]


def test_a_retry_of_a_job_that_failed_damaged_repairs_once_more() -> None:
    step = next_step(
        Progress(kind='assemble', ended=[part(repair=[0])], painting=painted(0), assemblies=4, retried=True)
    )

    assert isinstance(step, NextBatch)
