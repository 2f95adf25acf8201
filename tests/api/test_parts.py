"""One painted part as a PDF: while the job runs, after it failed, and no longer once it completed."""

from __future__ import annotations

import io
import random
from pathlib import Path
from uuid import UUID

import httpx
import pikepdf
import pytest

import schema
from assembler.sequence import join
from runtime.storage import sha256_of
from tests.api.jobs import TIMING, Jobs
from tests.assembler.documents import bundle, document

NOBODY = UUID(int=random.Random(3).getrandbits(128), version=4)


def paint(jobs: Jobs, job_id: UUID, index: int, path: Path) -> str:
    """Complete a part with what is in the file; the key of its object."""
    key = f'jobs/{job_id}/parts/{index}'
    jobs.storage.put_new(key, path, sha256=sha256_of(path), content_type='application/octet-stream')
    result = {'timing': TIMING, 'pages': 3, 'items': [[0, None, 3]]}
    schema.transact(
        jobs.pool, schema.complete_part, jobs.claim(job_id, 1, index), input_hash='h', result=result, result_ref=key,
        result_sha256=sha256_of(path),
    )  # fmt: skip
    return key


@pytest.fixture
def rendering(jobs: Jobs, tmp_path: Path) -> UUID:
    """A job of two parts, the second of which is painted."""
    job_id = jobs.submit()
    jobs.plan(job_id)
    paint(jobs, job_id, 1, bundle(tmp_path / 'second', document(1), item=1))
    return job_id


def test_a_painted_part_is_a_pdf_of_its_own(api: httpx.Client, rendering: UUID) -> None:
    answer = api.get(f'/v1/jobs/{rendering}/parts/1/result')

    assert answer.status_code == 200
    assert answer.headers['content-type'] == 'application/pdf'
    assert answer.headers['content-length'] == str(len(answer.content))
    assert answer.headers['content-disposition'] == f'attachment; filename="{rendering}-part-1.pdf"'
    with pikepdf.open(io.BytesIO(answer.content)) as pdf:
        assert len(pdf.pages) == 3
        assert pdf.check_pdf_syntax() == []


def test_head_tells_all_but_the_bytes(api: httpx.Client, rendering: UUID) -> None:
    path = f'/v1/jobs/{rendering}/parts/1/result'
    head, get = api.head(path), api.get(path)

    assert (head.status_code, head.content) == (200, b'')
    assert head.headers['content-length'] == get.headers['content-length']
    assert head.headers['etag'] == get.headers['etag']


def test_a_part_that_was_painted_in_pieces_is_one_pdf(api: httpx.Client, jobs: Jobs, tmp_path: Path) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id)
    pieces = [bundle(tmp_path / f'{number}.piece', document(number), item=number) for number in range(2)]
    join(pieces, tmp_path / 'both')
    paint(jobs, job_id, 0, tmp_path / 'both')

    with pikepdf.open(io.BytesIO(api.get(f'/v1/jobs/{job_id}/parts/0/result').content)) as pdf:
        assert len(pdf.pages) == 6


@pytest.mark.parametrize('index', ['0', '7', 'x', '-1', '9' * 50])
def test_a_part_that_is_not_painted_is_not_ready(api: httpx.Client, rendering: UUID, index: str) -> None:
    answer = api.get(f'/v1/jobs/{rendering}/parts/{index}/result')

    assert (answer.status_code, answer.json()['type']) == (409, 'urn:fanfold:not-ready')
    assert answer.headers['retry-after'] == '1'


def test_a_part_that_never_was_painted_is_not_there(api: httpx.Client, jobs: Jobs) -> None:
    answer = api.get(f'/v1/jobs/{jobs.failed()}/parts/1/result')

    assert (answer.status_code, answer.json()['job_status']) == (404, 'failed')


def test_a_part_whose_object_is_gone_is_gone(api: httpx.Client, jobs: Jobs, rendering: UUID) -> None:
    jobs.storage.delete([f'jobs/{rendering}/parts/1'])

    assert api.get(f'/v1/jobs/{rendering}/parts/1/result').status_code == 410


def test_a_job_that_nobody_knows_has_no_parts(api: httpx.Client) -> None:
    assert api.get(f'/v1/jobs/{NOBODY}/parts/0/result').status_code == 404
