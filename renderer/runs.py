"""Documents → runs: which items each part renders, and what a part's painted result depends on.

Planning is pure and takes no time: it counts items, it does not open them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final

from renderer.sources import JobSpec, PdfDocument

#: a run long enough to share fonts and styles over, short enough to be one of many
ITEMS_PER_RUN: Final = 25
#: a small job is still spread over this many parts, so that several cores have a share in it
LEAST_PARTS: Final = 8


def plan_runs(spec: Mapping[str, Any]) -> list[dict[str, int]]:
    """Part specs for all items of `job.spec`: contiguous runs. An existing PDF is a run of its own.

    Between those the runs of a stretch differ in length by one at most.
    """
    job = JobSpec.from_json(spec)
    items = job.item_count
    most = job.parts if job.parts != 'auto' else max(-(-items // ITEMS_PER_RUN), LEAST_PARTS)
    runs = []
    for first, count, is_pdf in _stretches(job):
        parts = 1 if is_pdf else min(count, max(1, most * count // items))
        bounds = [first + count * part // parts for part in range(parts + 1)]
        runs += [{'first_item': begin, 'item_count': end - begin} for begin, end in pairwise(bounds)]
    return runs


def _stretches(job: JobSpec) -> Iterator[tuple[int, int, bool]]:
    """First item and count of each stretch of documents without an existing PDF among them, and of each such PDF."""
    first = count = 0
    for document in job.documents:
        if isinstance(document, PdfDocument):
            if count:
                yield first, count, False
            yield first + count, 1, True
            first, count = first + count + 1, 0
        else:
            count += document.item_count
    if count:
        yield first, count, False


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
