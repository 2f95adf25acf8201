"""Adding up what windows report: the state each should have started from."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weasyprint.formatting_structure.build import update_counters

from renderer.numbering import first_entries, number
from renderer.seams import Seam
from renderer.state import Anchored, EntryState, FixedBox, PageStart, WindowReport

FIRST = PageStart(
    resume_at=None, page_break='any', page_name=None, right_page=True, quote_depth=0,
    counters={'pages': (0,)}, scopes=(('pages',),), groups=(),
)  # fmt: skip
COUNT_PAGE = ((), (), (('page', 1),))


def seams(*breaks: str) -> list[Seam]:
    return [
        Seam(path=(0, place), page_break=page_break, page_name=None, weight_before=place)
        for place, page_break in enumerate(breaks, start=1)
    ]


def report(entry: EntryState, pages: int, next_window: int | None, **more: object) -> WindowReport:
    """What a window of so many pages reports, each counting 1."""
    counters = {**entry.start.counters, 'page': (entry.start.counters.get('page', (0,))[0] + pages,)}
    end = replace(
        entry.start,
        resume_at=None if next_window is None else (0, next_window),
        page_break='page',
        right_page=entry.start.right_page ^ bool(pages % 2),
        counters=counters,
        scopes=(('page', 'pages'),),
    )
    given: dict[str, object] = {
        'pages': pages, 'next_window': next_window, 'end': end, 'strings': {}, 'running': {}, 'registered': 0,
        'anchors': {}, 'fixed': (), 'changes': ((COUNT_PAGE, pages),), 'blank_first': False, 'page_anchors': (), **more,
    }  # fmt: skip
    return WindowReport(**given)  # type: ignore[arg-type]


def three_windows():
    entries = first_entries(FIRST, seams('page', 'page'))
    reports = {0: report(entries[0], 3, 1), 1: report(entries[1], 2, 2), 2: report(entries[2], 4, None)}
    return entries, reports


def test_pages_before_are_counted():
    numbering = number(*three_windows())
    assert [entry.page_index for entry in numbering.entries.values()] == [0, 3, 5]
    assert [entry.start.counters for entry in numbering.entries.values()] == [
        {'pages': (9,)}, {'pages': (9,), 'page': (3,)}, {'pages': (9,), 'page': (5,)},
    ]  # fmt: skip
    assert [entry.start.right_page for entry in numbering.entries.values()] == [True, False, False]
    assert numbering.pages == 9


def test_all_is_to_do_that_was_laid_out_from_something_else():
    assert number(*three_windows()).to_do == (0, 1, 2)


def test_what_reports_agree_on_is_settled():
    entries, _ = three_windows()
    found = number(*three_windows()).entries
    reports = {0: report(found[0], 3, 1), 1: report(found[1], 2, 2), 2: report(found[2], 4, None)}
    settled = number({**entries, **found}, reports)
    assert settled.settled
    assert settled.entries == found


def test_a_window_whose_margins_are_not_laid_out_is_to_do():
    found = number(*three_windows()).entries
    reports = {0: report(found[0], 3, 1), 1: report(found[1], 2, 2, page_anchors=None), 2: report(found[2], 4, None)}
    assert number(found, reports).to_do == (1,)


def test_a_window_that_turns_out_longer_moves_those_behind_it():
    found = number(*three_windows()).entries
    reports = {0: report(found[0], 4, 1), 1: report(found[1], 2, 2), 2: report(found[2], 4, None)}
    moved = number(found, reports)
    assert [entry.page_index for entry in moved.entries.values()] == [0, 4, 6]
    assert not moved.settled


def test_windows_whose_pages_another_took_are_left_out():
    entries, reports = three_windows()
    reports[0] = report(entries[0], 5, 2)
    assert list(number(entries, reports).entries) == [0, 2]


def test_what_follows_a_window_that_could_not_be_laid_out_has_to_wait():
    entries, reports = three_windows()
    del reports[1]
    numbering = number(entries, reports)
    assert list(numbering.entries) == [0, 1]
    assert 1 in numbering.to_do


@pytest.mark.parametrize(('pages_before', 'blank'), [(3, False), (4, True)])
def test_a_blank_page_comes_and_goes_with_the_side(pages_before, blank):
    entries = first_entries(FIRST, seams('right'))
    reports = {0: report(entries[0], pages_before, 1), 1: report(entries[1], 2, None)}
    numbering = number(entries, reports)
    needed = pages_before % 2 == 1
    assert numbering.pages == pages_before + 2 + needed
    found = numbering.entries
    again = {0: report(found[0], pages_before, 1), 1: report(found[1], 2 + needed, None, blank_first=needed)}
    assert number(found, again).settled


def test_strings_running_elements_and_notes_go_on_from_window_to_window():
    entries, reports = three_windows()
    reports[0] = report(entries[0], 3, 1, strings={'title': 'One', 'part': 'A'}, running={'head': 4}, registered=2)
    reports[1] = report(entries[1], 2, 2, strings={'title': 'Two'}, registered=1)
    last = number(entries, reports).entries[2]
    assert last.strings == {'title': 'Two', 'part': 'A'}
    assert last.running == {'head': 4}
    assert last.registered == 3


def test_an_anchor_has_the_counters_of_the_first_page_that_shows_it():
    entries, reports = three_windows()
    used = {name: Anchored(page=1, counters={'pages': (0,), 'page': (2,)}) for name in ('a', 'b')}
    reports[1] = report(entries[1], 2, 2, anchors={'a': used['a']})
    reports[2] = report(entries[2], 4, None, anchors=used)
    for entry in number(entries, reports).entries.values():
        assert entry.targets == {'a': {'pages': (9,), 'page': (5,)}, 'b': {'pages': (9,), 'page': (7,)}}


def test_fixed_boxes_are_those_of_all_windows_on_the_documents_pages():
    entries, reports = three_windows()
    reports[1] = report(entries[1], 2, 2, fixed=(FixedBox(page=1, box=0, x=1.5, y=2.0),))
    for entry in number(entries, reports).entries.values():
        assert entry.fixed == (FixedBox(page=4, box=0, x=1.5, y=2.0),)


def test_a_group_of_pages_that_goes_on_has_had_the_pages_before_too():
    entries = first_entries(FIRST, seams('page', 'page'))
    reports = {0: report(entries[0], 3, 1), 1: report(entries[1], 2, 2), 2: report(entries[2], 4, None)}
    here = (0, 1)
    entries[1] = replace(entries[1], start=replace(entries[1].start, groups=(('chapter', 0, here),)))
    reports[0] = replace(reports[0], end=replace(reports[0].end, groups=(('chapter', 3, here),)))
    reports[1] = replace(reports[1], end=replace(reports[1].end, groups=(('chapter', 2, here),)))
    assert number(entries, reports).entries[2].start.groups == (('chapter', 5, here),)


names = st.sampled_from(['page', 'chapter', 'note'])
pairs = st.lists(st.tuples(names, st.integers(-3, 9)), max_size=3).map(tuple)


@given(st.lists(st.tuples(pairs, pairs, pairs), min_size=1, max_size=6))
def test_counters_count_as_weasyprint_counts_them(changes):
    state = ([0], {'pages': [0]}, [{'pages'}], [])
    for resets, sets, increments in changes:
        style = SimpleNamespace(values={'counter_reset': resets, 'counter_set': sets, 'counter_increment': increments})
        update_counters(state, style.values)
    entries = first_entries(FIRST, seams('page'))
    used = replace(entries[0], start=replace(entries[0].start, counters={'pages': (99,)}))
    reports = {
        0: replace(report(used, len(changes), 1), changes=tuple((change, 1) for change in changes)),
        1: report(entries[1], 1, None),
    }
    start = number({0: used, 1: entries[1]}, reports).entries[1].start
    expected = copy.deepcopy(state[1]) | {'pages': [len(changes) + 1]}
    assert {name: list(stack) for name, stack in start.counters.items()} == expected
    assert set(start.scopes[-1]) == state[2][-1]


def test_states_and_reports_go_through_json():
    entries, reports = three_windows()
    entry = replace(
        number(entries, reports).entries[2],
        strings={'title': 'é'}, running={'head': 3}, targets={'a': {'page': (1, 2)}},
        fixed=(FixedBox(page=0, box=1, x=0.1, y=0.2, counters={'page': (3,)}),),
    )  # fmt: skip
    found = replace(reports[1], anchors={'a': Anchored(page=1, counters={'page': (2,)})}, fixed=entry.fixed)
    assert EntryState.from_json(json.loads(json.dumps(entry.to_json()))) == entry
    assert WindowReport.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_state_of_another_version_is_refused():
    entries, _ = three_windows()
    with pytest.raises(ValueError, match='version 0'):
        EntryState.from_json({**entries[0].to_json(), 'version': 0})
