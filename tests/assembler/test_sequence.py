"""Bundles in one file, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from assembler.bundle import Bundle, seal
from assembler.sequence import join, split
from runtime.errors import ObjectCorrupt
from tests.assembler.documents import bundle, document, joined, texts


@pytest.fixture
def bundles(tmp_path: Path) -> list[Path]:
    return [bundle(tmp_path / f'{number}.bundle', document(number), item=number) for number in range(3)]


def test_a_file_of_one_bundle_is_that_bundle(bundles: list[Path]) -> None:
    assert split(bundles[0]) == [bundles[0]]


def test_bundles_come_out_of_a_file_as_they_went_in(bundles: list[Path], tmp_path: Path) -> None:
    seal(bundles[-1], {'pages': 9})
    join(bundles, tmp_path / 'part.bundle')

    found = split(tmp_path / 'part.bundle')

    assert [path.read_bytes() for path in found] == [path.read_bytes() for path in bundles]
    with Bundle.open(found[-1]) as last:
        assert last.result == {'pages': 9}


def test_a_file_of_bundles_is_assembled_in_its_place(bundles: list[Path], tmp_path: Path) -> None:
    first, second, third = bundles
    joined([first, second, third], tmp_path / 'one by one.pdf')
    join([first, second], tmp_path / 'part.bundle')

    joined([*split(tmp_path / 'part.bundle'), third], tmp_path / 'merged.pdf')

    assert (tmp_path / 'merged.pdf').read_bytes() == (tmp_path / 'one by one.pdf').read_bytes()
    assert len(texts(tmp_path / 'merged.pdf')) == 9


@pytest.mark.parametrize('damage', ['cut', 'longer', 'empty', 'other'])
def test_what_is_not_made_of_bundles_is_left_to_its_reader(bundles: list[Path], tmp_path: Path, damage: str) -> None:
    path = tmp_path / 'part.bundle'
    join(bundles, path)
    whole = path.read_bytes()
    path.write_bytes({'cut': whole[:-1], 'longer': b'x' + whole, 'empty': b'', 'other': b'%PDF-1.7' * 100}[damage])

    assert split(path) == [path]
    with pytest.raises(ObjectCorrupt):
        Bundle.open(path)
