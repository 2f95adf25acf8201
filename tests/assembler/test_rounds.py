"""From a plan over rounds of layout to painting, without anything that runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assembler.advance import EndedPart, Fail, NextBatch, PaintedPart, Progress, next_step
from assembler.rounds import Following, LaidOut, after_layout, after_planning
from renderer.numbering import MOST_ROUNDS
from renderer.state import EntryState
from tests.assembler.windows import laid_out, planned

PAGES = {0: 3, 1: 2, 2: 4}
FAILED = {'failed': {'type': 'urn:fanfold:render-error', 'title': 'no', 'detail': 'IndexError: 7'}, 'host': 'h'}
WHY = {'type': 'urn:fanfold:memory-limit', 'title': 'no', 'detail': 'because'}


def settled() -> tuple[Following, dict[int, LaidOut], Following]:
    """The second round of three windows, its layouts, and what follows."""
    first = after_planning(planned(3))
    second = after_layout(first.plan, [*laid_out(first, PAGES).values()])
    layouts = laid_out(second, PAGES)
    return second, layouts, after_layout(second.plan, [*layouts.values()])


def test_a_plan_of_windows_is_followed_by_layout_of_each_without_margins():
    following = after_planning(planned(3))
    assert following.kind == 'layout'
    assert list(following.specs) == [0, 1, 2]
    assert [(spec['round'], spec['furnish'], spec['label']) for spec in following.specs.values()] == [
        (1, False, 'the beginning'), (1, False, '#c1'), (1, False, '#c2'),
    ]  # fmt: skip
    assert [seam['label'] for seam in following.plan['seams']] == ['#c1', '#c2']
    assert following.plan['windows'] == 3
    assert following.plan['whole_because'] is None


def test_a_plan_of_one_window_is_painted_as_any_other_document_and_says_why():
    following = after_planning(planned(1))
    assert (following.kind, following.specs) == ('paint', {0: {'first_item': 0, 'item_count': 1}})
    assert following.plan == {'windows': 1, 'seams': [], 'rounds': [], 'whole_because': 'because'}


def test_windows_that_began_on_other_pages_are_laid_out_again_where_they_are_parked():
    second, _, _ = settled()
    assert second.kind == 'layout'
    assert [EntryState.from_json(spec['entry']).page_index for spec in second.specs.values()] == [0, 3, 5]
    assert [spec['host'] for spec in second.specs.values()] == ['h0', 'h1', 'h0']
    assert all(spec['furnish'] for spec in second.specs.values())
    assert second.plan['pages'] == 9
    assert [entry['why'] for entry in second.plan['rounds']] == [
        'laid out from what each seam lets expect',
        'margins are laid out now that all pages are known; other than expected: page numbers, left and right pages, '
        'page numbers that the text names',
    ]


def test_windows_that_agree_are_painted_with_all_that_they_must_know():
    _, _, following = settled()
    assert following.kind == 'paint'
    assert list(following.specs) == [0, 1, 2]
    assert [spec['place'] for spec in following.specs.values()] == [0, 1, 2]
    assert {spec['places'] for spec in following.specs.values()} == {3}
    assert [spec['pages'] for spec in following.specs.values()] == [3, 2, 4]
    assert following.specs[2]['anchors'] == ['c0', 'c1', 'c2']
    assert following.plan['pages'] == 9


def test_only_what_changed_is_laid_out_once_more():
    second, layouts, _ = settled()
    layouts[1] = laid_out(second, PAGES, strings={'title': 'new'})[1]
    third = after_layout(second.plan, [*layouts.values()])
    assert third.kind == 'layout'
    assert list(third.specs) == [2]
    assert third.specs[2]['round'] == 3
    assert third.plan['rounds'][-1] == {'round': 3, 'windows': 1, 'why': 'other than expected: named strings'}


def test_windows_that_another_ran_on_over_are_not_painted():
    second, layouts, _ = settled()
    layouts[0] = laid_out(second, PAGES, next_window=2)[0]
    third = after_layout(second.plan, [*layouts.values()])
    layouts |= {**laid_out(third, PAGES), 0: laid_out(third, PAGES, next_window=2)[0]}
    following = after_layout(third.plan, [*layouts.values()])
    assert following.kind == 'paint'
    assert [spec['window'] for spec in following.specs.values()] == [0, 2]
    assert list(following.specs) == [0, 1]
    assert following.plan['windows'] == 2
    assert [seam['label'] for seam in following.plan['seams']] == ['#c2']


def test_a_window_that_cannot_be_laid_out_from_a_guess_is_tried_again_from_what_is_known():
    first = after_planning(planned(3))
    layouts = laid_out(first, PAGES)
    layouts[1] = replace(layouts[1], result=FAILED)
    second = after_layout(first.plan, [*layouts.values()])
    assert second.kind == 'layout'
    assert second.specs[1]['failed_before']
    assert EntryState.from_json(second.specs[1]['entry']).page_index == 3
    assert '1 window could not be laid out from what was expected' in second.plan['rounds'][1]['why']


@pytest.mark.parametrize(('window', 'before'), [(0, {}), (1, {'failed_before': True})])
def test_a_window_that_fails_for_certain_has_the_document_rendered_whole(window: int, before: dict[str, Any]):
    first = after_planning(planned(3))
    layouts = laid_out(first, PAGES)
    layouts[window] = replace(layouts[window], spec={**layouts[window].spec, **before}, result=FAILED)
    following = after_layout(first.plan, [*layouts.values()])
    assert (following.kind, following.specs) == ('paint', {0: {'first_item': 0, 'item_count': 1}})
    label = ['the beginning', '#c1'][window]
    assert following.plan['whole_because'] == f"the part that begins at '{label}': IndexError: 7"
    assert following.plan['windows'] == 1


def test_pages_that_do_not_come_to_rest_have_the_document_rendered_whole():
    following = after_planning(planned(3))
    layouts: dict[int, LaidOut] = {}
    rounds = 0
    while following.kind == 'layout':
        rounds += 1
        layouts |= laid_out(following, {**PAGES, 2: 4 + rounds})
        following = after_layout(following.plan, [*layouts.values()])
    assert rounds == MOST_ROUNDS + 1
    assert following.specs == {0: {'first_item': 0, 'item_count': 1}}
    assert 'did not come to rest' in following.plan['whole_because']
    assert len(following.plan['rounds']) == rounds


def test_the_steps_of_a_job_are_those_of_its_windows():
    step = next_step(Progress(kind='plan', ended=[EndedPart(index=0, result=planned(3))]))
    assert isinstance(step, NextBatch)
    assert (step.kind, step.job_status, len(step.parts)) == ('layout', 'rendering', 3)
    second, layouts, _ = settled()
    step = next_step(Progress(kind='layout', plan=second.plan, laid_out=[*layouts.values()]))
    assert isinstance(step, NextBatch)
    assert (step.kind, [part.index for part in step.parts]) == ('paint', [0, 1, 2])


def test_a_window_that_failed_fails_the_job_with_its_reason():
    second, layouts, following = settled()
    ended = [EndedPart(index=1, failure=WHY)]
    assert next_step(Progress(kind='layout', plan=second.plan, ended=ended, laid_out=[])) == Fail(failure=WHY)
    painting = [
        PaintedPart(index=0, generation=0, spec=following.specs[0], items=1),
        PaintedPart(index=1, generation=0, spec=following.specs[1], failure=WHY),
    ]
    assert next_step(Progress(kind='paint', painting=painting)) == Fail(failure=WHY)
    assert layouts
