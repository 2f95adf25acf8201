"""Documents → runs: which items each part renders, and what a part's painted result depends on.

Planning is pure and takes no time: it counts items, it does not open them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from renderer.sources import JobSpec

#: a run long enough to share fonts and styles over, short enough to be one of many
ITEMS_PER_RUN: Final = 25
#: a small job is still spread over this many parts, so that several cores have a share in it
LEAST_PARTS: Final = 8


def plan_runs(spec: Mapping[str, Any]) -> list[dict[str, int]]:
    """Part specs for all items of `job.spec`: contiguous runs whose lengths differ by one at most."""
    job = JobSpec.from_json(spec)
    items = job.item_count
    most = job.parts if job.parts != 'auto' else max(-(-items // ITEMS_PER_RUN), LEAST_PARTS)
    parts = min(items, most)
    return [
        {'first_item': items * part // parts, 'item_count': items * (part + 1) // parts - items * part // parts}
        for part in range(parts)
    ]


def input_hash(spec: Mapping[str, Any], part_spec: Mapping[str, Any], fingerprint: str) -> str:
    """What a painted part was made from: two workers with the same hash paint the same pages."""
    made_from = {
        'part': part_spec,
        'documents': spec['documents'],
        'options': spec.get('options') or {},
        'metadata': spec.get('metadata') or {},
        'input': spec['input']['sha256'],
        'fingerprint': fingerprint,
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True, separators=(',', ':')).encode()).hexdigest()


@cache
def fingerprint() -> str:
    """Versions of all that lays out and paints, and the fonts of this host, as one SHA-256.

    Loads WeasyPrint; a worker has it from its zygote (`renderer.paint.preload`).
    """
    from renderer import weasy

    found = {'versions': weasy.versions(), 'fonts': weasy.font_digests()}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
