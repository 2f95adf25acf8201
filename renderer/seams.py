"""Where a long document may be cut into windows, and where it is cut.

A seam is a forced page break between two block boxes: hardly anything of the layout crosses it. Seams come from
the prepared document (renderer.weasy) in document order; the planner takes as many of them as it needs to get
windows of about the same weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, Self

from renderer.state import Path

#: weight (about characters of text) that is worth a window of its own: roughly a second of layout
LEAST_WEIGHT: Final = 40_000
#: windows for each worker: more of them balance better and cost more
WINDOWS_PER_WORKER: Final = 3

NO_FORCED_BREAK: Final = (
    'no forced page break found where the document can be split; '
    '`break-before: page` on its chapters would let it split'
)
TOO_SHORT: Final = 'the document is too short to gain from being split'
ONE_WINDOW_ASKED: Final = 'one window was asked for'


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """A forced page break where a window may begin."""

    #: the box that begins the next page
    path: Path
    #: the break's value: page, left, right, recto or verso; auto where only the page's name changes
    page_break: str
    #: the name of the page that follows, None where it has none
    page_name: str | None
    #: what stands before it in the document, in about characters of text
    weight_before: int
    #: how a person would call the place: `#id`, or the heading's text
    label: str = ''

    def to_json(self) -> dict[str, Any]:
        return {
            'path': list(self.path),
            'break': self.page_break,
            'page': self.page_name,
            'weight_before': self.weight_before,
            'label': self.label,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            path=tuple(value['path']),
            page_break=value['break'],
            page_name=value['page'],
            weight_before=value['weight_before'],
            label=value['label'],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """A document cut into windows: window 0 begins where the document begins, window k at `seams[k - 1]`."""

    seams: tuple[Seam, ...]
    #: weight of each window
    weights: tuple[int, ...]
    #: why there is only one, if there is
    whole_because: str | None = None

    @property
    def count(self) -> int:
        return len(self.weights)


def cut(seams: Sequence[Seam], weight: int, *, windows: int | Literal['auto', 'all'], workers: int) -> Windows:
    """Cut a document of so much weight.

    `windows` is how many are wanted: a number, `all` for one at every seam, or `auto`: enough of them to keep
    the workers busy, none too light to be worth it.
    """
    if windows == 'all':
        chosen = list(seams)
    else:
        wanted = _worth(weight, workers) if windows == 'auto' else windows
        chosen = _even(seams, weight, wanted)
    edges = [0, *(seam.weight_before for seam in chosen), weight]
    weights = tuple(after - before for before, after in pairwise(edges))
    return Windows(seams=tuple(chosen), weights=weights, whole_because=None if chosen else _why(seams, windows))


def _worth(weight: int, workers: int) -> int:
    return max(1, min(workers * WINDOWS_PER_WORKER, weight // LEAST_WEIGHT)) if workers > 1 else 1


def _why(seams: Sequence[Seam], windows: int | str) -> str:
    if not seams:
        return NO_FORCED_BREAK
    return ONE_WINDOW_ASKED if windows == 1 else TOO_SHORT


def _even(seams: Sequence[Seam], weight: int, wanted: int) -> list[Seam]:
    """The seams nearest to where even windows would end, each at most once."""
    chosen: list[Seam] = []
    rest = list(seams)
    for number in range(1, wanted):
        if not rest:
            break
        ideal = weight * number / wanted
        best = min(range(len(rest)), key=lambda index: abs(rest[index].weight_before - ideal))
        if len(rest) - best - 1 < wanted - number - 1:  # leave enough seams for the windows that follow
            best = max(0, len(rest) - (wanted - number))
        chosen.append(rest[best])
        del rest[: best + 1]
    return chosen
