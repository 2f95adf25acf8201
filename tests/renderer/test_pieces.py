"""Which items are painted, how often, and what is left out when some of them kill their child."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from renderer.pieces import MOST_LEFT_OUT, PaintedPiece, Piece, joined_result, paint_pieces
from runtime.errors import Refusal
from worker.outcomes import ChildOutcome, Died, Done, Refused
from worker.verdicts import Interrupted

FIRST, END = 10, 20


class Painter:
    """Paints items in order until one kills it."""

    def __init__(self, *killers: int, reason: str = 'memory-limit') -> None:
        self.killers = killers
        self.reason = reason
        self.painted: Counter[int] = Counter()
        self.pieces: list[tuple[int, int]] = []

    def __call__(self, piece: Piece) -> ChildOutcome:
        self.pieces.append((piece.first, piece.end))
        for item in range(piece.first, piece.end):
            if item in piece.left_out:
                continue
            if item in self.killers:
                return Died(reason=self.reason, signal=9, position=(0, item), detail='', max_rss=0)
            self.painted[item] += 1
        return Done(result={'left out': sorted(piece.left_out)}, output=None)

    def paint(self, *, suspect: int | None = None, may_leave_out: bool = True) -> list[PaintedPiece]:
        whole = Piece(first=FIRST, end=END)
        return paint_pieces(whole, self, record_of, suspect=suspect, may_leave_out=may_leave_out)


def record_of(position: tuple[int, int | None] | None) -> int | None:
    return None if position is None else position[1]


def left_out(found: list[PaintedPiece]) -> list[int]:
    """The pieces follow one another without a gap, whatever was left out."""
    assert [one.piece.end for one in found][:-1] == [one.piece.first for one in found][1:]
    assert (found[0].piece.first, found[-1].piece.end) == (FIRST, END)
    return sorted(item for one in found for item in one.result['left out'])


def test_a_run_that_kills_nobody_is_one_piece() -> None:
    painter = Painter()
    assert left_out(painter.paint()) == []
    assert painter.pieces == [(FIRST, END)]


@pytest.mark.parametrize('killers', [(10,), (15,), (19,), (10, 11), (12, 15, 18), (18, 19)])
def test_each_killer_is_left_out_and_what_is_behind_it_is_painted_once(killers: tuple[int, ...]) -> None:
    painter = Painter(*killers)
    assert left_out(painter.paint()) == list(killers)
    for item in set(range(FIRST, END)) - set(killers):
        assert painter.painted[item] == (1 if item > killers[-1] else 2)


def test_a_suspect_is_tried_alone_before_anything_is_painted_in_vain() -> None:
    painter = Painter(15)
    with pytest.raises(Interrupted) as died:
        painter.paint(suspect=15, may_leave_out=False)
    assert died.value.verdict.charge == 'attempt'
    assert not painter.painted


def test_a_suspect_that_kills_again_on_the_last_attempt_costs_nobody_a_second_painting() -> None:
    painter = Painter(15)
    assert left_out(painter.paint(suspect=15)) == [15]
    assert set(painter.painted.values()) == {1}


def test_a_suspect_that_was_innocent_is_painted_once_like_all_others() -> None:
    painter = Painter()
    assert left_out(painter.paint(suspect=19)) == []
    assert painter.painted == Counter(range(FIRST, END))


@pytest.mark.parametrize('suspect', [FIRST - 1, END])
def test_a_suspect_of_another_part_is_none_of_this(suspect: int) -> None:
    painter = Painter()
    painter.paint(suspect=suspect)
    assert painter.pieces == [(FIRST, END)]


def test_not_all_items_may_be_left_out() -> None:
    with pytest.raises(Interrupted):
        Painter(*range(FIRST, END)).paint()
    assert END - FIRST <= MOST_LEFT_OUT


@pytest.mark.parametrize('reason', ['lease-lost', 'zygote-died', 'host', 'draining', 'deadline'])
def test_a_child_that_did_not_die_of_its_item_leaves_nothing_out(reason: str) -> None:
    painter = Painter(15, reason=reason)
    with pytest.raises(Interrupted) as died:
        painter.paint()
    assert died.value.verdict.charge == 'loss'
    assert painter.pieces == [(FIRST, END)]


def test_a_refusal_comes_through() -> None:
    def refuse(_: Piece) -> ChildOutcome:
        return Refused(problem={'type': 'urn:fanfold:render-error', 'detail': 'no'}, position=(0, 12))

    with pytest.raises(Refusal):
        paint_pieces(Piece(first=FIRST, end=END), refuse, record_of, suspect=None, may_leave_out=True)


def test_results_of_pieces_make_the_result_of_the_part() -> None:
    def painted(first: int, started: float, **result: Any) -> PaintedPiece:
        timing = {'started_at': started, 'finished_at': started + 1, 'cpu_seconds': 0.5, 'max_rss_bytes': first}
        return PaintedPiece(piece=Piece(first=first, end=first + 1), result={**result, 'timing': timing})

    result = joined_result([
        painted(0, 7.0, pages=2, items=[[0, 0, 2]], missing=[], warnings=['a', 'b']),
        painted(1, 4.0, pages=1, items=[[0, 1, 1]], missing=[{'record': 1}], warnings=['b', 'c']),
    ])  # fmt: skip
    assert result['timing'] == {'started_at': 4.0, 'finished_at': 8.0, 'cpu_seconds': 1.0, 'max_rss_bytes': 1}
    assert (result['pages'], result['items']) == (3, [[0, 0, 2], [0, 1, 1]])
    assert (result['missing'], result['warnings']) == ([{'record': 1}], ['a', 'b', 'c'])
