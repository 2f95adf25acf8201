"""The commands and the client against a whole stack: what goes in comes out as a PDF."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pypdfium2
import pytest

from fanfold.client import Client, JobNotCompleted
from fanfold.demo.stack import running_stack
from tests.client.conftest import ROOT, start


@pytest.fixture(scope='module')
def url() -> Iterator[str]:
    """The address of a stack of this module's own."""
    with running_stack(None) as url:
        yield url


def pages_of(pdf: bytes) -> list[str]:
    document = pypdfium2.PdfDocument(io.BytesIO(pdf))
    try:
        return [page.get_textpage().get_text_range().strip() for page in document]
    finally:
        document.close()


def run(url: str, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    process = start(*arguments, url=url)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_a_document_with_its_assets_becomes_a_pdf(url, tmp_path):
    (tmp_path / 'css').mkdir()
    (tmp_path / 'a.html').write_text('<link rel=stylesheet href="css/gr%C3%BCn.css"><p>first')
    (tmp_path / 'css/grün.css').write_text('p::after { content: " styled" } @page { size: A5 }')
    (tmp_path / 'b.html').write_text('<p>second')
    done = run(url, 'submit', tmp_path / 'a.html', tmp_path / 'b.html', '-o', tmp_path / 'out.pdf')
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f'{tmp_path / "out.pdf"}\n', b'')
    assert pages_of((tmp_path / 'out.pdf').read_bytes()) == ['first styled', 'second']


def test_records_go_in_by_one_pipe_and_the_pdf_comes_out_by_the_other(url, tmp_path):
    (tmp_path / 't.html').write_text('<p>number {{ number }}')
    process = start(
        *('submit', '--template', tmp_path / 't.html', '--records', '-', '--parts', '4', '-o', '-'),
        url=url,
        stdin=subprocess.PIPE,
    )
    records = ''.join(f'{{"number": {number}}}\n' for number in range(12))
    out, err = process.communicate(records.encode(), timeout=120)
    assert (process.returncode, err) == (0, b'')
    assert pages_of(out) == [f'number {number}' for number in range(12)]


def test_a_job_that_fails_says_which_record_and_field(url, tmp_path):
    (tmp_path / 't.html').write_text('<p>{{ total }}')
    (tmp_path / 'r.ndjson').write_text('{"total": 1}\n{"sum": 2}\n')
    done = run(url, 'submit', '--template', tmp_path / 't.html', '--records', tmp_path / 'r.ndjson')
    assert done.returncode == 1
    assert b'total' in done.stderr
    assert b'record: 1' in done.stderr
    id = done.stdout.decode().strip()
    assert run(url, 'download', id, '-o', tmp_path).returncode == 1
    partial = run(
        *(url, 'submit', '--template', tmp_path / 't.html', '--records', tmp_path / 'r.ndjson'),
        *('--on-part-failure', 'partial', '-o', tmp_path / 'partial.pdf'),
    )
    assert partial.returncode == 0
    assert partial.stderr.startswith(b'missing    document 0 record 1')
    assert len(pages_of((tmp_path / 'partial.pdf').read_bytes())) == 2


def test_the_life_of_a_job_by_its_id(url, tmp_path):
    (tmp_path / 'a.html').write_text('<p>once')
    id = run(url, 'submit', tmp_path / 'a.html', '--no-wait', '--idempotency-key', 'once').stdout.decode().strip()
    assert run(url, 'submit', tmp_path / 'a.html', '--idempotency-key', 'once').stdout.decode().strip() == id
    assert run(url, 'status', id, '--watch').stdout.decode().splitlines()[-1].startswith('completed')
    assert run(url, 'download', id, '-o', tmp_path).stdout.decode() == f'{tmp_path / id}.pdf\n'
    assert id in run(url, 'list').stdout.decode()
    assert run(url, 'cancel', id).returncode == 4
    assert run(url, 'delete', id).returncode == 0
    assert run(url, 'download', id, '-o', tmp_path / 'gone.pdf').returncode == 1
    assert not (tmp_path / 'gone.pdf').exists()


def test_a_download_is_taken_up_where_it_was_left(url, tmp_path):
    with Client(url) as client:
        job = client.wait(client.submit([{'html': f'<p>{"word " * 20_000}'}]))
        whole = io.BytesIO()
        client.download(job, whole)
        # The service's own ranges, as a client that lost its connection asks for them.
        rest = client._http.send(
            lambda http: http.build_request(
                'GET', f'/v1/jobs/{job.id}/result', headers={'Range': 'bytes=1000-', 'Accept-Encoding': 'identity'}
            )
        )
        with client._http.reading(rest):
            assert rest.status_code == 206
            assert rest.read() == whole.getvalue()[1000:]


def test_a_cancelled_job_ends_the_wait(url):
    with Client(url) as client:
        job = client.submit([{'template': '{{ n }}', 'records': [{'n': n} for n in range(2_000)]}])
        following = client.follow(job)
        next(following)
        client.cancel(job)
        *_, last = following
        assert last.status == 'cancelled'
        with pytest.raises(JobNotCompleted):
            client.wait(job)


def test_the_python_example_of_the_docs_is_true(url, tmp_path):
    text = (ROOT / 'docs/cli.md').read_text()
    (example,) = re.findall(r'```python\n(.*?)```', text, re.S)
    (tmp_path / 'invoice.html').write_text('<html lang=en><title>Invoice</title><p>Invoice {{ number }}')
    done = subprocess.run(
        [sys.executable, '-c', example.replace('http://127.0.0.1:8000', url)],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == '2 pages; missing: ()'
    assert pages_of((tmp_path / 'invoices.pdf').read_bytes()) == ['Invoice 1', 'Invoice 2']
