"""Linearized and encrypted results: still all pages, opened by whom the job says, and checked before they count."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from assembler.finishing import finish
from assembler.merge import merge_child, sha256_of
from runtime.errors import Refusal
from tests.assembler.documents import bundle, document, rendered, texts

LOCKED = {'owner_password': 'öwner', 'user_password': 'user', 'permissions': ['print', 'fill']}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / 'result.pdf'
    path.write_bytes(rendered(document(0)))
    return path


def test_nothing_is_done_unless_it_is_asked_for(path: Path) -> None:
    before = path.read_bytes()
    finish(path, {}, pages=3)
    assert path.read_bytes() == before


def test_a_linearized_file_has_the_same_pages(path: Path) -> None:
    before = texts(path)
    finish(path, {'linearize': True}, pages=3)

    with pikepdf.open(path) as pdf:
        assert pdf.is_linearized
    assert texts(path) == before


def test_a_linearized_file_is_the_same_bytes_each_time(path: Path) -> None:
    source, found = path.read_bytes(), []
    for _ in range(2):
        path.write_bytes(source)
        finish(path, {'linearize': True}, pages=3)
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_an_encrypted_file_opens_with_its_passwords_only(path: Path) -> None:
    finish(path, {'encrypt': LOCKED, 'linearize': True}, pages=3)

    with pytest.raises(pikepdf.PasswordError):
        pikepdf.open(path)
    with pikepdf.open(path, password='user') as pdf:
        assert len(pdf.pages) == 3
        assert (pdf.is_linearized, pdf.encryption.R) == (True, 6)
        assert (pdf.allow.print_highres, pdf.allow.modify_form) == (True, True)
        assert (pdf.allow.extract, pdf.allow.modify_other) == (False, False)
        assert pdf.allow.accessibility
    with pikepdf.open(path, password='öwner') as pdf:
        assert pdf.owner_password_matched


def test_without_a_password_for_users_everybody_may_read(path: Path) -> None:
    finish(path, {'encrypt': {**LOCKED, 'user_password': ''}}, pages=3)

    with pikepdf.open(io.BytesIO(path.read_bytes())) as pdf:
        assert len(pdf.pages) == 3
        assert pdf.is_encrypted


def test_a_file_without_all_pages_is_refused_and_left_as_it_is(path: Path) -> None:
    before = path.read_bytes()

    with pytest.raises(Refusal, match='the finished file has 3 pages, not 4'):
        finish(path, {'linearize': True}, pages=4)

    assert path.read_bytes() == before


def test_the_child_says_the_checksum_of_the_finished_file(tmp_path: Path) -> None:
    part, out = bundle(tmp_path / 'part.bundle', document(0)), tmp_path / 'out.pdf'
    payload: dict[str, Any] = {
        'parts': [{'paths': [str(part)], 'pages': 3}], 'out': str(out), 'metadata': {}, 'document_bookmarks': False,
        'finishing': {'linearize': True},
    }  # fmt: skip

    result = merge_child(payload, lambda _: None)

    assert (result['sha256'], result['bytes']) == (sha256_of(out), out.stat().st_size)
    with pikepdf.open(out) as pdf:
        assert pdf.is_linearized
