"""The oracle: the class of each document, and what replay mends."""

from __future__ import annotations

import re

import pytest

from tests.oracle.catalogue import BORROWED, CORPUS, DOCUMENTS, OWN, source
from tests.oracle.oracles import oracle_of
from tests.oracle.reading import read
from tests.oracle.serial import serial


def test_every_document_is_in_the_catalogue():
    assert sorted(path.stem for path in DOCUMENTS.glob('*.html')) == sorted(OWN)


@pytest.mark.parametrize('name', OWN)
def test_a_document_is_in_its_class(name):
    oracle = oracle_of(name)
    assert oracle.kind == OWN[name].kind, oracle.difference


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason='there is no corpus beside the checkout')
@pytest.mark.parametrize('name', BORROWED)
def test_a_document_of_the_corpus_is_in_its_class(name):
    oracle = oracle_of(name)
    assert oracle.kind == BORROWED[name].kind, oracle.difference


def listed_and_true(pdf: bytes) -> tuple[list[int], list[int]]:
    """Pages of chapters as the table of contents has them, and as they are."""
    read_pdf = read(pdf)
    listed = [int(page) for page in re.findall(r'Chapter \d\.+ (\d+)', read_pdf['pages'][0]['text'])]
    return listed, [place[0] + 1 for place in read_pdf['destinations'].values()]


def test_page_numbers_of_a_table_of_contents_are_right_after_replay():
    listed, true = listed_and_true(oracle_of('stale').rendered.pdf)
    assert listed == true
    listed, true = listed_and_true(serial(source('stale')).pdf)
    assert listed == [page - 1 for page in true]  # WeasyPrint's fault; once it is mended, replay can go


def test_every_footnote_comes_once_after_replay():
    calls = [f'\n{number}. ' for number in range(1, 9)]
    replayed = ''.join(page['text'] for page in read(oracle_of('reported').rendered.pdf)['pages'])
    assert [replayed.count(call) for call in calls] == [1] * 8
