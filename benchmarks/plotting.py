"""A plot of a few curves over the number of workers, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 640, 400, 56
COLOURS = ('#1f5fa8', '#b5541c', '#3a7d44')


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    #: (workers, speed-up)
    points: Sequence[tuple[int, float]]


def write_plot(path: Path, *, title: str, curves: Sequence[Curve]) -> None:
    """Both axes are logarithmic."""
    most_workers = max(workers for curve in curves for workers, _ in curve.points)
    most_gain = max(gain for curve in curves for _, gain in curve.points)

    def x(workers: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * math.log(workers) / math.log(most_workers)

    def y(gain: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * math.log(max(gain, 1)) / math.log(most_gain)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" font-size="14">{escape(title)}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">workers</text>',
    ]
    for power in range(int(math.log2(most_workers)) + 1):
        at = 2**power
        parts.append(f'<path d="M{x(at):.1f} {MARGIN}V{HEIGHT - MARGIN}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{at}</text>')
        if at <= most_gain:
            parts.append(f'<path d="M{MARGIN} {y(at):.1f}H{WIDTH - MARGIN}" stroke="#ddd"/>')
            parts.append(f'<text x="{MARGIN - 8}" y="{y(at) + 4:.1f}" text-anchor="end">{at} ×</text>')
    for place, (curve, colour) in enumerate(zip(curves, COLOURS, strict=False)):
        line = ' '.join(f'{x(workers):.1f},{y(gain):.1f}' for workers, gain in curve.points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(at):.1f}" cy="{y(gain):.1f}" r="3" fill="{colour}"/>' for at, gain in curve.points]
        parts.append(
            f'<text x="{MARGIN + 16}" y="{MARGIN + 20 + 18 * place}" fill="{colour}">{escape(curve.name)}</text>'
        )
    path.write_text('\n'.join([*parts, '</svg>']) + '\n')
