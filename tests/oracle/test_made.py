"""Documents that nobody wrote: whatever is combined, windows give what the oracle says."""

from __future__ import annotations

import os
from contextlib import suppress

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from runtime.errors import Refusal
from tests.oracle.documents import documents
from tests.oracle.fresh import FailedThere
from tests.oracle.rendering import ours
from tests.oracle.replay import oracle
from tests.oracle.same import differences
from tests.oracle.serial import Source

#: set it higher to search; with a number the documents are other ones each time
EXAMPLES = os.environ.get('FANFOLD_MADE_DOCUMENTS')


@given(html=documents(), windows=st.sampled_from(['all', 2, 3]))
@settings(
    max_examples=int(EXAMPLES or 25),
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
def test_a_made_document_in_windows_is_what_its_oracle_says(html, windows):
    note(html)
    source = Source(html=html.encode())
    try:
        expected = oracle(source)
    except FailedThere:  # some of what WeasyPrint fails on when it makes pages again, we never make again
        with suppress(Refusal):
            ours(source, windows)
        return
    note(f'{expected.kind}: {expected.difference}')
    result = ours(source, windows)
    found = list(differences(expected.rendered.pdf, result.rendered.pdf))
    assert not found, '\n'.join(found)
    assert result.rendered.warnings == expected.rendered.warnings
