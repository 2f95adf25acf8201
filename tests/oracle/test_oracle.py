"""Rendered in windows, a document is what its oracle says, whatever the number of windows."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fanfold.local import WantedWindows
from tests.oracle.catalogue import BORROWED, CORPUS, OWN, Entry, source
from tests.oracle.oracles import oracle_of
from tests.oracle.rendering import Ours, ours
from tests.oracle.same import assert_same

COUNTS = (2, 3, 5, 8)


def cases(entries: dict[str, Entry]) -> list[tuple[str, WantedWindows]]:
    """Each document with a window at every seam, and with fewer."""
    fewer: list[tuple[str, WantedWindows]] = [
        (name, count) for name, entry in entries.items() for count in COUNTS if count < max(entry.windows, entry.begun)
    ]
    return sorted([*fewer, *((name, 'all') for name in entries)], key=lambda case: case[0])


@pytest.mark.parametrize(('name', 'windows'), cases(OWN))
def test_a_document_in_windows_is_what_its_oracle_says(name, windows):
    hold(name, windows, OWN[name])


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason='there is no corpus beside the checkout')
@pytest.mark.parametrize(('name', 'windows'), cases(BORROWED))
def test_a_document_of_the_corpus_in_windows_is_what_its_oracle_says(name, windows):
    hold(name, windows, BORROWED[name])


def hold(name: str, windows: WantedWindows, entry: Entry) -> None:
    oracle = oracle_of(name)
    result = ours(source(name), windows)
    assert_same(oracle.rendered.pdf, result.rendered.pdf, but=entry.but)
    assert result.rendered.warnings == oracle.rendered.warnings
    tells_what_it_did(result, entry, windows)


def tells_what_it_did(result: Ours, entry: Entry, windows: WantedWindows) -> None:
    report = result.report
    if windows == 'all' or not entry.begun:
        assert report.windows == (entry.windows if windows == 'all' else windows)
    assert (report.whole_because is None) == (report.windows > 1)
    assert sum(part.pages for part in report.parts) == report.pages
    assert all(one.first_page + one.pages == two.first_page for one, two in pairwise(report.parts))
