"""The documents of the oracle suite: the class of each, and how many windows it has with one at every seam.

`documents/` holds ours, one hazard each; the corpus lies beside the checkout, where there is one.

| class | serial's result | oracle |
|---|---|---|
| stable | survives its own replay | serial |
| settles | does not, but replay comes to a fixpoint | the fixpoint |
| oscillates | does not, and there is no fixpoint: the document is rendered whole | serial |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tests.oracle.serial import Source

DOCUMENTS: Final = Path(__file__).with_name('documents')
CORPUS: Final = Path(__file__).parents[3] / 'shared' / 'corpus'

Kind = Literal['stable', 'settles', 'oscillates']


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    #: with a window at every seam; fewer than that are seams lost
    windows: int
    #: windows that are begun, where floats or footnotes go over seams and so join some of them
    begun: int = 0
    kind: Kind = 'stable'
    #: of write_pdf
    options: Mapping[str, Any] = field(default_factory=dict)
    #: kinds of difference that are meant, see tests.oracle.same
    but: frozenset[str] = frozenset()


FORMS: Final = {'pdf_forms': True}
TAGS: Final = {'pdf_tags': True, 'pdf_variant': 'pdf/ua-1'}
ARCHIVE: Final = {
    'pdf_variant': 'pdf/a-3a', 'custom_metadata': True, 'pdf_identifier': b'seams',
    'attachments': ['data:text/plain,given'],
}  # fmt: skip

OWN: Final[dict[str, Entry]] = {
    'absolutes': Entry(windows=5),
    'attached': Entry(windows=4, options=ARCHIVE),
    'avoid': Entry(windows=5),
    'backgrounds': Entry(windows=5),
    'bleed': Entry(windows=5),
    'bookmarks': Entry(windows=5),
    'brokenfloat': Entry(windows=4, kind='settles'),
    'columnsbox': Entry(windows=5),
    'contents': Entry(windows=5),
    'counters': Entry(windows=6),
    'deadlink': Entry(windows=5),
    'decorationbreak': Entry(windows=5),
    'dpi': Entry(windows=5, options={'dpi': 72, 'optimize_images': True, 'jpeg_quality': 60}),
    'dupid': Entry(windows=6),
    'emptychapters': Entry(windows=8),
    'firstletter': Entry(windows=5),
    'fixedboxes': Entry(windows=5),
    'flextoc': Entry(windows=5),
    'floats': Entry(windows=5),
    'flow': Entry(windows=1),
    'forms': Entry(windows=4, options=FORMS),
    'hyphens': Entry(windows=4),
    'minmaxheight': Entry(windows=5),
    'mirrored': Entry(windows=7),
    # characters without a glyph share a font's free numbers, which windows hand out for themselves
    'missingglyph': Entry(windows=5, but=frozenset({'content'})),
    'nested': Entry(windows=9),
    'notes': Entry(windows=6),
    'notesagain': Entry(windows=5),
    'oncepages': Entry(windows=5),
    'opacity': Entry(windows=5),
    'orphans': Entry(windows=6),
    'oscillating': Entry(windows=1, kind='oscillates'),
    'overflow': Entry(windows=5),
    'pagegroups': Entry(windows=7),
    'pagesize': Entry(windows=6),
    'percentheights': Entry(windows=5),
    'quotes': Entry(windows=6),
    'reported': Entry(windows=3, begun=4, kind='settles'),
    'rtl': Entry(windows=5),
    'runningimages': Entry(windows=6),
    'stale': Entry(windows=7, kind='settles'),
    'tables': Entry(windows=5),
    'tagged': Entry(windows=4, options=TAGS),
    'targets': Entry(windows=7),
    'transforms': Entry(windows=5),
    'varfont': Entry(windows=5),
    'zindex': Entry(windows=5),
}

#: by path in the corpus
BORROWED: Final[dict[str, Entry]] = {
    'seams/after.html': Entry(windows=8),
    'seams/asym.html': Entry(windows=8),
    'seams/cols.html': Entry(windows=6),
    'seams/colswrap.html': Entry(windows=1),
    'seams/fixed.html': Entry(windows=6),
    'seams/floatspill.html': Entry(windows=1, begun=6),
    'seams/fnspill.html': Entry(windows=1, begun=6),
    'seams/footnote.html': Entry(windows=8),
    'seams/groups.html': Entry(windows=6),
    'seams/inflow.html': Entry(windows=9),
    'seams/mirror.html': Entry(windows=9),
    'seams/nested.html': Entry(windows=7),
    'seams/nth.html': Entry(windows=8),
    'seams/olist.html': Entry(windows=8),
    'seams/pagereset.html': Entry(windows=6),
    'seams/quotes.html': Entry(windows=6),
    'seams/right.html': Entry(windows=9),
    'seams/rtlrecto.html': Entry(windows=6),
    'seams/running.html': Entry(windows=8),
    'seams/tbl.html': Entry(windows=7),
    'seams/vw.html': Entry(windows=6),
    'seams/wrap.html': Entry(windows=8),
    'samples/report/report.html': Entry(windows=7),
    'samples/invoice/invoice.html': Entry(windows=1),
    'samples/ticket/ticket.html': Entry(windows=1),
    'book-40.html': Entry(windows=41),
    # three glyphs that its fonts lack are numbered by window
    'book-100.html': Entry(windows=101, but=frozenset({'content'})),
}


def source(name: str) -> Source:
    """A document of ours by its name, one of the corpus by its path."""
    entry = OWN.get(name) or BORROWED[name]
    path = DOCUMENTS / f'{name}.html' if name in OWN else CORPUS / name
    return Source.of(path, **entry.options)
