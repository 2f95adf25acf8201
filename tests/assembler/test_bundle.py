"""A bundle that is not whole, or not one, is refused by its name."""

from __future__ import annotations

import hashlib
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from assembler.assemble import assemble
from assembler.bundle import HEADER, TRAILER, Bundle, BundleWriter, seal
from assembler.tables import Tables, Template, object_slot
from runtime.errors import ObjectCorrupt
from tests.assembler.documents import attachment, bundle, document


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return bundle(tmp_path / 'part.bundle', document(0))


def test_a_bundle_says_what_it_holds(path: Path) -> None:
    with Bundle.open(path) as found:
        assert (found.pages, found.tables.version, found.result) == (3, '1.7', None)
        assert [len(item.bookmarks) for item in found.tables.documents] == [9]
        assert [name for name, _ in found.tables.destinations] == [b'd0/s0', b'd0/s1', b'd0/s2']


def test_a_sealed_bundle_says_what_painting_said_of_it(path: Path) -> None:
    before = b''.join(assemble([path]))
    seal(path, {'pages': 3, 'warnings': ['é']})
    with Bundle.open(path) as found:
        assert found.result == {'pages': 3, 'warnings': ['é']}
    seal(path, {'pages': 3})
    with Bundle.open(path) as found:
        assert found.result == {'pages': 3}
    assert b''.join(assemble([path])) == before


def cut(data: bytes) -> bytes:
    return data[:-1]


def cut_in_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def with_another_byte(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


def of_another_version(data: bytes) -> bytes:
    return data.replace(HEADER, b'fanfold-bundle 9\n', 1)


def a_pdf(_: bytes) -> bytes:
    return b'%PDF-1.7\n' + bytes(200)


@pytest.mark.parametrize(
    ('damage', 'said'),
    [
        (cut, 'cut short'),
        (cut_in_half, 'cut short'),
        (with_another_byte, 'its checksum is not the one in its trailer'),
        (of_another_version, 'a bundle of version 9, not 2'),
        (a_pdf, 'not a bundle'),
        (lambda _: b'', 'not a bundle'),
        (lambda _: HEADER, 'cut short'),
    ],
)
def test_what_is_no_whole_bundle_is_refused_by_name(path: Path, damage: Callable[[bytes], bytes], said: str) -> None:
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(ObjectCorrupt, match=rf'^part\.bundle: {said}'):
        Bundle.open(path)


@pytest.mark.parametrize('slot', [object_slot(99), 2 * 99 + 1, object_slot(2) + 1])
def test_a_slot_out_of_range_is_refused_by_name(tmp_path: Path, slot: int) -> None:
    path = tmp_path / 'odd.bundle'
    with path.open('wb') as file:
        writer = BundleWriter(file)
        writer.put(2, Template(text=b'<</Type/Pages/Parent %d 0 R/Kids [%d 0 R]/Count 1>>', slots=[2, slot]))
        writer.close(Tables(version='1.7', compress=True, objects=2, pages=1, pages_node=4, pages_root=2))

    with pytest.raises(ObjectCorrupt, match=r'^odd\.bundle: a number is out of range'):
        list(assemble([path]))


def test_a_block_that_claims_more_than_there_is_is_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into('<Q', data, len(HEADER) + 6, 2**40)
    path.write_bytes(bytes(data))
    resigned(path)

    with pytest.raises(ObjectCorrupt, match=r'^part\.bundle: a block'):
        list(assemble([path]))


def resigned(path: Path) -> None:
    """Give a changed bundle the checksum it needs."""
    data = path.read_bytes()
    body, trailer = data[: -TRAILER.size], TRAILER.unpack(data[-TRAILER.size :])
    path.write_bytes(body + TRAILER.pack(*trailer[:4], hashlib.sha256(body).digest(), trailer[5]))


def test_memory_is_that_of_one_part(tmp_path: Path) -> None:
    """Attached files of 40 MB in all, in parts of 4 MB."""
    paths = [
        bundle(
            tmp_path / f'{number}.bundle', '<p>x', item=0, attachments=[attachment(f'{number}', os.urandom(4 << 20))]
        )
        for number in range(10)
    ]
    tracemalloc.start()
    size = sum(len(piece) for piece in assemble(paths))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size > 40 << 20
    assert peak < 16 << 20
