"""A part painted in pieces: in one, unless an item kills its child.

An item that an earlier try of the part died of is painted first and alone, so that nothing is painted in vain should
it kill its child again. An item that may be left out becomes a placeholder, and painting goes on behind it: what was
before it in its piece is painted once more, everything else once. Pure: how a piece is painted is for the caller to
say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from renderer.notices import MOST_WARNINGS
from worker.outcomes import ChildOutcome, Died, Position
from worker.verdicts import LOSSES, result_of

#: so many items of a part may kill their child; if more do, there is something wrong with all of them
MOST_LEFT_OUT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Items `first` to `end` (job-wide numbers, `end` not included); those left out become placeholders."""

    first: int
    end: int
    left_out: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaintedPiece:
    piece: Piece
    result: dict[str, Any]


def paint_pieces(
    whole: Piece,
    paint: Callable[[Piece], ChildOutcome],
    item_at: Callable[[Position], int | None],
    *,
    suspect: int | None,
    may_leave_out: bool,
) -> list[PaintedPiece]:
    """Paint all items; the pieces in their order. Raises Refusal, Interrupted, and what `paint` does."""
    spare = min(MOST_LEFT_OUT, whole.end - whole.first - 1) if may_leave_out else 0
    waiting = deque([whole] if suspect is None else _around(whole, suspect))
    painted = []
    while waiting:
        piece = waiting.popleft()
        outcome = paint(piece)
        killer = item_at(outcome.position) if isinstance(outcome, Died) and outcome.reason not in LOSSES else None
        if spare and killer is not None and _may_kill(piece, killer):
            spare -= 1
            waiting.extendleft(reversed(_without(piece, killer)))
        else:
            painted.append(PaintedPiece(piece=piece, result=result_of(outcome)))
    return sorted(painted, key=lambda found: found.piece.first)


def _may_kill(piece: Piece, item: int) -> bool:
    return piece.first <= item < piece.end and item not in piece.left_out


def _around(whole: Piece, suspect: int) -> list[Piece]:
    """The suspect first, then what is before and behind it."""
    if not _may_kill(whole, suspect):
        return [whole]
    alone = Piece(first=suspect, end=suspect + 1)
    others = [Piece(first=whole.first, end=suspect), Piece(first=suspect + 1, end=whole.end)]
    return [alone, *(piece for piece in others if piece.first < piece.end)]


def _without(piece: Piece, killer: int) -> list[Piece]:
    """What is before the killer, of which some may have been left out already, and then all from it on."""
    before = Piece(first=piece.first, end=killer, left_out=frozenset(item for item in piece.left_out if item < killer))
    behind = Piece(first=killer, end=piece.end, left_out=piece.left_out - before.left_out | {killer})
    return [behind] if before.first == before.end else [before, behind]


def joined_result(painted: Sequence[PaintedPiece]) -> dict[str, Any]:
    """The result of the part, of those of its pieces."""
    results = [found.result for found in painted]
    return {
        **results[-1],
        'pages': sum(result['pages'] for result in results),
        'items': [item for result in results for item in result['items']],
        'missing': [entry for result in results for entry in result['missing']],
        'warnings': list(dict.fromkeys(text for result in results for text in result['warnings']))[:MOST_WARNINGS],
        'timing': _joined_timing([result['timing'] for result in results]),
    }


def _joined_timing(timings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    last = max(timings, key=lambda timing: float(timing['finished_at']))
    return {
        **last,
        'started_at': min(timing['started_at'] for timing in timings),
        'cpu_seconds': sum(timing['cpu_seconds'] for timing in timings),
        'max_rss_bytes': max(timing['max_rss_bytes'] for timing in timings),
    }
