"""Existing PDFs in a request: taken as they are, or refused with the field and the name of the file."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pikepdf
import pytest

from tests.assembler.documents import document, rendered

COVER = rendered(document(0))


def encrypted() -> bytes:
    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(COVER)) as pdf:
        pdf.save(out, encryption=pikepdf.Encryption(owner='o', user='u'))
    return out.getvalue()


def send(api: httpx.Client, content: bytes, **job: Any) -> httpx.Response:
    said = {'documents': [{'html': '<p>x'}, {'pdf_file': 'in/cover.pdf'}], **job}
    files = [('job', (None, json.dumps(said))), ('files', ('in/cover.pdf', content))]
    return api.post('/v1/jobs', files=files)


def test_a_pdf_is_taken(api: httpx.Client) -> None:
    assert send(api, COVER).status_code == 202


@pytest.mark.parametrize(
    ('content', 'why'),
    [(encrypted(), 'it is encrypted'), (b'%PDF-1.4', 'it cannot be read'), (b'', 'it cannot be read')],
)
def test_a_pdf_that_cannot_be_used_is_refused_by_name(api: httpx.Client, content: bytes, why: str) -> None:
    answer = send(api, content)

    problem = answer.json()
    assert (answer.status_code, problem['type']) == (422, 'urn:fanfold:pdf-invalid')
    assert f'in/cover.pdf: {why}' in problem['detail']
    assert problem['errors'][0]['field'] == 'documents.1.pdf_file'
    assert problem['file'] == 'in/cover.pdf'


def test_a_pdf_that_is_not_sent_is_missing(api: httpx.Client) -> None:
    answer = send(api, COVER, documents=[{'pdf_file': 'other.pdf'}])

    assert (answer.status_code, answer.json()['type']) == (422, 'urn:fanfold:file-missing')


def test_a_pdf_cannot_be_made_to_conform(api: httpx.Client) -> None:
    answer = send(api, COVER, options={'pdf_variant': 'pdf/a-3b'})

    assert (answer.status_code, answer.json()['type']) == (422, 'urn:fanfold:pdf-invalid')
    assert 'pdf/a-3b' in answer.json()['detail']
