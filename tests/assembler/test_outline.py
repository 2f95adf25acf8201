"""Levels become an outline as WeasyPrint makes one, however the bookmarks are spread over parts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weasyprint.anchors import make_page_bookmark_tree
from weasyprint.matrix import Matrix

from assembler.outline import Outline
from assembler.tables import Bookmark

Levels = Sequence[int]


def depths(levels: Levels, cuts: Sequence[int] = ()) -> list[int]:
    """How deep each entry is, taken in parts that end at the cuts."""
    outline = Outline(names_documents=False)
    outline.begin_document(None, [])
    for first, end in zip((0, *cuts), (*cuts, len(levels)), strict=True):
        marks = [
            Bookmark(level=level, label='', page=0, place='/XYZ 0 0 0', closed=False) for level in levels[first:end]
        ]
        outline.take(marks, [1])
    return [entry.depth for entry in outline._entries]


def depths_of_weasyprint(levels: Levels) -> list[int]:
    page = SimpleNamespace(bookmarks=[(level, index, (0, 0), 'open') for index, level in enumerate(levels)])
    root: list[tuple[int, object, list, str]] = []
    make_page_bookmark_tree(page, [], [root], 0, 0, Matrix())
    found: dict[int, int] = {}

    def walk(entries: list, depth: int) -> None:
        for index, _, below, _ in entries:
            found[index] = depth
            walk(below, depth + 1)

    walk(root, 1)
    return [found[index] for index in range(len(levels))]


@given(st.lists(st.integers(1, 7), max_size=25), st.integers(0, 25))
def test_levels_are_closed_up_as_weasyprint_does(levels: list[int], cut: int) -> None:
    cut = min(cut, len(levels))
    assert depths(levels, [cut]) == depths_of_weasyprint(levels)


@pytest.mark.parametrize(('levels', 'expected'), [([3, 1, 2], [1, 1, 2]), ([1, 6, 3, 2], [1, 2, 2, 2])])
def test_levels_that_are_skipped_leave_no_gap(levels: Levels, expected: list[int]) -> None:
    assert depths(levels) == expected


def test_a_document_does_not_go_on_from_the_one_before() -> None:
    outline = Outline(names_documents=False)
    for _ in range(2):
        outline.begin_document(None, [])
        outline.take([Bookmark(level=3, label='x', page=0, place='/XYZ 0 0 0', closed=False)], [1])

    assert outline.top_level == 2
