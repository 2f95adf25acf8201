from __future__ import annotations

import re
from pathlib import Path

import pikepdf
import pytest

from assembler.audit import Contents, audit
from runtime.errors import Refusal
from tests.assembler.documents import attachment, document, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PDF of three pages with outline, destinations and an attachment."""
    return write(tmp_path / 'good.pdf', document(0), attachments=[attachment('a.txt', b'a')])


def test_the_witness_counts_what_a_file_holds(path: Path) -> None:
    assert audit(path, pages=3) == Contents(pages=3, destinations=3, outline_entries=3, attachments=1, fields=0)


def test_the_witness_sees_a_destination_that_leads_nowhere(path: Path, tmp_path: Path) -> None:
    with pikepdf.open(path) as pdf:
        del pdf.pages[1]
        pdf.save(tmp_path / 'short.pdf')

    with pytest.raises(Refusal, match="destination b's1'"):
        audit(tmp_path / 'short.pdf', pages=2)


def test_the_witness_counts_pages_instead_of_believing(path: Path) -> None:
    write(path, document(0), uncompressed_pdf=True)
    without_last = re.sub(
        rb'(/Kids \[\d+ 0 R \d+ 0 R )(\d+ 0 R)', lambda kids: kids[1] + b' ' * len(kids[2]), path.read_bytes()
    )
    path.write_bytes(without_last)

    with pytest.raises(Refusal, match='declares 3 pages and has 2'):
        audit(path, pages=3)


def test_the_witness_sees_an_outline_that_breaks_off(path: Path, tmp_path: Path) -> None:
    with pikepdf.open(path) as pdf:
        del pdf.Root.Outlines.First.Next
        pdf.save(tmp_path / 'broken.pdf')

    with pytest.raises(Refusal, match='outline ends before its last entry'):
        audit(tmp_path / 'broken.pdf', pages=3)


def test_the_witness_sees_an_outline_that_leads_back_to_itself(path: Path, tmp_path: Path) -> None:
    with pikepdf.open(path) as pdf:
        pdf.Root.Outlines.First.Next = pdf.Root.Outlines.First
        pdf.save(tmp_path / 'loop.pdf')

    with pytest.raises(Refusal, match='leads back to itself'):
        audit(tmp_path / 'loop.pdf', pages=3)


def test_the_witness_names_a_file_that_is_none(path: Path) -> None:
    path.write_bytes(b'%PDF-1.7 and no more')

    with pytest.raises(Refusal, match='the result cannot be read') as refused:
        audit(path, pages=3)

    assert refused.value.problem.name == 'merge-error'
