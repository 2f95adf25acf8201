"""What windows report, for tests of what follows: each counts its pages, begins a page, and has one anchor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assembler.rounds import Following, LaidOut
from renderer.seams import Seam
from renderer.state import Anchored, EntryState, PageStart, WindowReport

FIRST = PageStart(
    resume_at=None, page_break='any', page_name=None, right_page=True, quote_depth=0,
    counters={'pages': (0,)}, scopes=(('pages',),), groups=(),
)  # fmt: skip
COUNT_PAGE = ((), (), (('page', 1),))


def planned(windows: int) -> dict[str, Any]:
    """The result of a plan of so many windows."""
    seams = [
        Seam(path=(0, place), page_break='page', page_name=None, weight_before=place, label=f'#c{place}')
        for place in range(1, windows)
    ]
    return stored({
        'windows': windows, 'seams': [seam.to_json() for seam in seams], 'weights': [1] * windows,
        'first': FIRST.to_json(), 'whole_because': None if seams else 'because', 'fingerprint': 'f', 'items': 1,
        'parts': [] if seams else [{'first_item': 0, 'item_count': 1}],
    })  # fmt: skip


def report(spec: Mapping[str, Any], pages: int, last: int, **more: Any) -> dict[str, Any]:
    """The result of the layout of a window of so many pages, in a document whose last window is `last`."""
    entry, window = EntryState.from_json(spec['entry']), spec['window']
    before = entry.start.counters.get('page', (0,))[0]
    ends = window == last
    end = replace(
        entry.start,
        resume_at=None if ends else (0, window + 1),
        page_break='any' if ends else 'page',
        right_page=entry.start.right_page ^ bool(pages % 2),
        counters={**entry.start.counters, 'page': (before + pages,)},
        scopes=(('page', 'pages'),),
    )
    given: dict[str, Any] = {
        'pages': pages, 'next_window': None if ends else window + 1, 'end': end, 'strings': {}, 'running': {},
        'registered': 0, 'anchors': {f'c{window}': Anchored(page=0, counters={'page': (before + 1,)})}, 'fixed': (),
        'changes': ((COUNT_PAGE, pages),), 'blank_first': False,
        'page_anchors': (f'c{window}',) if spec['furnish'] else None, **more,
    }  # fmt: skip
    return stored(
        {'window': window, 'pages': pages, 'host': f'h{window % 2}', 'report': WindowReport(**given).to_json()}
    )


def laid_out(following: Following, pages: Mapping[int, int], **more: Any) -> dict[int, LaidOut]:
    """All windows of a layout batch, each with so many pages."""
    last = max(pages)
    return {
        window: LaidOut(window=window, spec=stored(spec), result=report(spec, pages[window], last, **more))
        for window, spec in following.specs.items()
    }


def stored(value: Any) -> Any:
    """As it comes back from the database."""
    return json.loads(json.dumps(value, sort_keys=True))
