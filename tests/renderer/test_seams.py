"""Cutting a document into windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from renderer.seams import LEAST_WEIGHT, NO_FORCED_BREAK, ONE_WINDOW_ASKED, TOO_SHORT, Seam, cut


def seam(weight_before: int) -> Seam:
    return Seam(path=(0, weight_before), page_break='page', page_name=None, weight_before=weight_before)


def test_windows_are_of_about_the_same_weight():
    seams = [seam(weight) for weight in range(10, 1000, 10)]
    assert cut(seams, 1000, windows=4, workers=2).weights == (250, 250, 250, 250)


def test_all_puts_a_window_at_every_seam():
    windows = cut([seam(1), seam(2), seam(900)], 1000, windows='all', workers=2)
    assert windows.weights == (1, 1, 898, 100)
    assert windows.whole_because is None


def test_there_are_no_more_windows_than_seams_allow():
    assert cut([seam(500)], 1000, windows=8, workers=2).count == 2


@given(
    st.lists(st.integers(1, 9_999), unique=True, max_size=40).map(sorted),
    st.integers(1, 12),
)
def test_as_many_windows_as_asked_for_where_there_are_seams(weights, wanted):
    windows = cut([seam(weight) for weight in weights], 10_000, windows=wanted, workers=2)
    assert windows.count == min(wanted, len(weights) + 1)
    assert sum(windows.weights) == 10_000
    assert list(windows.seams) == sorted(windows.seams, key=lambda found: found.weight_before)


@pytest.mark.parametrize(
    ('seams', 'windows', 'why'),
    [
        ([], 'all', NO_FORCED_BREAK),
        ([], 3, NO_FORCED_BREAK),
        ([seam(5)], 1, ONE_WINDOW_ASKED),
        ([seam(5)], 'auto', TOO_SHORT),
    ],
)
def test_a_document_that_stays_whole_says_why(seams, windows, why):
    assert cut(seams, 10, windows=windows, workers=2).whole_because == why


def test_auto_makes_no_window_that_is_not_worth_it():
    seams = [seam(weight) for weight in range(0, 10 * LEAST_WEIGHT, 1000)]
    assert cut(seams, 10 * LEAST_WEIGHT, windows='auto', workers=8).count == 10
    assert cut(seams, 10 * LEAST_WEIGHT, windows='auto', workers=2).count == 6


def test_seams_go_through_json():
    found = Seam(path=(0, 2, 1), page_break='right', page_name='chapter', weight_before=7, label='#a')
    assert Seam.from_json(found.to_json()) == found
