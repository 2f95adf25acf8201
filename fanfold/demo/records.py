"""The delivery notes of the demo: as many as asked for, the same ones each time, one to three pages each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Final

PAPERS: Final = ('ledger paper', 'tracing paper', 'continuous forms', 'card stock', 'blotting paper', 'kraft rolls')
COLOURS: Final = ('white', 'ivory', 'pale green', 'sky blue', 'grey', 'salmon')
NAMES: Final = ('Ada Verso', 'Bruno Quire', 'Clara Recto', 'Dmitri Ream', 'Elif Vellum', 'Farid Gutter', 'Greta Bleed')
STREETS: Final = ('Margin Lane', 'Widow Street', 'Orphan Square', 'Kerning Road', 'Baseline Avenue')
TOWNS: Final = ('Folio', 'Octavo', 'Little Quarto', 'Upper Duodecimo')
FIRST_DAY: Final = date(2024, 1, 2)


def records(count: int) -> Iterator[dict[str, Any]]:
    """`count` notes, numbered from 1."""
    for number in range(1, count + 1):
        yield _note(number)


def ndjson(count: int) -> bytes:
    """The notes as the service takes them: one JSON object a line."""
    return ''.join(f'{json.dumps(record)}\n' for record in records(count)).encode()


def _note(number: int) -> dict[str, Any]:
    draw = random.Random(number)
    return {
        'number': number,
        'customer': {
            'name': draw.choice(NAMES),
            'street': f'{draw.randint(1, 99)} {draw.choice(STREETS)}',
            'town': draw.choice(TOWNS),
        },
        'order': f'{draw.choice("ABCDEF")}-{draw.randint(10_000, 99_999)}',
        'shipped': (FIRST_DAY + timedelta(days=number % 250)).isoformat(),
        'parcels': draw.randint(1, 9),
        'lines': [_line(draw) for _ in range(draw.choice((4, 7, 12, 16, 22, 48)))],
    }


def _line(draw: random.Random) -> dict[str, Any]:
    return {
        'article': f'{draw.randint(100, 999)}.{draw.randint(10, 99)}',
        'description': f'{draw.choice(PAPERS)}, {draw.choice(COLOURS)}, {draw.choice((60, 80, 120, 200))} g',
        'quantity': draw.randint(1, 40),
        'weight': round(draw.uniform(0.2, 30), 2),
    }
