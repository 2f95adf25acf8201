"""Submitting over HTTP: what is stored, what is answered, what is refused and how."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from uuid import UUID

import httpx
import pytest

import schema
from runtime.settings import Settings
from runtime.storage import Storage
from tests.api.jobs import Jobs
from tests.api.serving import client_of, serving

PROBLEM = 'application/problem+json'


@pytest.fixture(scope='module')
def narrow(shared_settings: Settings) -> Iterator[httpx.Client]:
    """An API that takes bodies of 2 MiB at most, and one unfinished job."""
    settings = shared_settings.model_copy(update={'max_body_bytes': 2_097_152, 'max_unfinished_jobs': 1})
    with serving(settings) as url, client_of(url) as client:
        yield client


def test_job_is_accepted_before_any_worker_is_there(
    api: httpx.Client, shared_pool: schema.Pool, storage: Storage
) -> None:
    answer = api.post('/v1/jobs', json={'documents': [{'html': '<p>Hello'}], 'on_part_failure': 'partial'})
    assert answer.status_code == 202
    view = answer.json()
    path = f'/v1/jobs/{view["id"]}'
    assert answer.headers['location'] == path
    assert 'idempotency-replayed' not in answer.headers
    assert view['status'] == 'queued'
    assert view['batch'] == {'no': 0, 'kind': 'plan', 'done': 0, 'total': 1}
    assert view['parts'] == {'done': 0, 'total': None}
    assert view['documents'] == 1
    assert view['links']['result'] == f'{path}/result'
    assert api.get(path).json() == view
    with shared_pool.connection() as conn:
        job = schema.get_job(conn, UUID(view['id']))
    assert job is not None
    assert job.failure_policy == 'partial'
    assert job.spec['input']['key'] == f'jobs/{view["id"]}/input.zip'
    stored = b''.join(storage.open(job.spec['input']['key']))
    assert len(stored) == job.spec['input']['bytes']
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        assert archive.read('inline/0.html') == b'<p>Hello'


def test_multipart_keeps_relative_names(api: httpx.Client, jobs: Jobs, storage: Storage) -> None:
    files = [
        ('files', ('index.html', b'<p>Hello')),
        ('files', ('css/ä b.css', b'p { color: teal }')),
        ('files', ('img/"x".png', bytes(range(256)) * 9_000)),
    ]
    answer = api.post('/v1/jobs', files=files)
    assert answer.status_code == 202, answer.text
    stored = b''.join(storage.open(f'jobs/{answer.json()["id"]}/input.zip'))
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        assert archive.namelist() == ['files/css/ä b.css', 'files/img/"x".png', 'files/index.html']
        assert archive.read('files/img/"x".png') == bytes(range(256)) * 9_000


def test_ten_thousand_records_are_taken(api: httpx.Client) -> None:
    records = [{'number': number, 'name': 'ä' * 20} for number in range(10_000)]
    answer = api.post('/v1/jobs', json={'documents': [{'template': '{{ number }}', 'records': records}]})
    assert answer.status_code == 202, answer.text


def test_refusal_is_a_problem_with_the_field_and_its_valid_values(api: httpx.Client) -> None:
    answer = api.post('/v1/jobs', json={'documents': [{'html': '<p>'}], 'options': {'pdf_variant': 'pdf/z'}})
    assert answer.status_code == 422
    assert answer.headers['content-type'] == PROBLEM
    problem = answer.json()
    assert problem['type'] == 'urn:fanfold:invalid-request'
    assert problem['status'] == 422
    assert problem['instance'] == '/v1/jobs'
    assert problem['request_id'] == answer.headers['x-request-id']
    [error] = problem['errors']
    assert error['field'] == 'options.pdf_variant'
    assert 'pdf/a-3b' in error['valid']


def test_refused_job_leaves_nothing_behind(api: httpx.Client, shared_pool: schema.Pool) -> None:
    assert api.post('/v1/jobs', json={'documents': []}).status_code == 422
    assert api.get('/v1/jobs').json() == {'jobs': [], 'next': None}


@pytest.mark.parametrize('content_type', [None, 'text/html', 'text/plain; charset=utf-8'])
def test_other_media_type_is_415(api: httpx.Client, content_type: str | None) -> None:
    headers = {'Content-Type': content_type} if content_type else {}
    answer = api.post('/v1/jobs', content=b'<p>', headers=headers)
    assert answer.status_code == 415
    assert answer.json()['valid'] == ['application/json', 'multipart/form-data']


@pytest.mark.parametrize('encoding', ['gzip', 'GZIP', 'br, gzip'])
def test_compressed_body_is_415_and_told_what_to_send(api: httpx.Client, encoding: str) -> None:
    body = gzip.compress(json.dumps({'documents': [{'html': 'x'}]}).encode())
    headers = {'Content-Type': 'application/json', 'Content-Encoding': encoding}
    answer = api.post('/v1/jobs', content=body, headers=headers)
    assert answer.status_code == 415
    assert answer.headers['accept-encoding'] == 'identity'
    problem = answer.json()
    assert problem['type'] == 'urn:fanfold:unsupported-media-type'
    assert (problem['header'], problem['valid']) == ('Content-Encoding', ['identity'])
    assert 'without Content-Encoding' in problem['detail']


def test_identity_is_no_encoding(api: httpx.Client) -> None:
    answer = api.post('/v1/jobs', json={'documents': [{'html': 'x'}]}, headers={'Content-Encoding': 'identity'})
    assert answer.status_code == 202


def body_over(limit: int) -> bytes:
    return json.dumps({'documents': [{'html': 'x' * limit}]}).encode()


def test_body_over_the_limit_is_refused_naming_the_setting(narrow: httpx.Client) -> None:
    answer = narrow.post('/v1/jobs', content=body_over(2_097_152), headers={'Content-Type': 'application/json'})
    assert answer.status_code == 413
    problem = answer.json()
    assert problem['type'] == 'urn:fanfold:body-too-large'
    assert problem['setting'] == 'FANFOLD_MAX_BODY_BYTES'
    assert problem['limit'] == 2_097_152


def test_chunked_body_over_the_limit_is_refused_too(narrow: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        body = body_over(2_097_152)
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    answer = narrow.post('/v1/jobs', content=chunks(), headers={'Content-Type': 'application/json'})
    assert answer.request.headers['transfer-encoding'] == 'chunked'
    assert answer.status_code == 413


def test_multipart_over_the_limit_is_refused_too(narrow: httpx.Client) -> None:
    assert narrow.post('/v1/jobs', files=[('files', ('index.html', b'x' * 2_097_152))]).status_code == 413


def test_chunked_body_within_the_limit_is_taken(api: httpx.Client) -> None:
    body = json.dumps({'documents': [{'html': '<p>' + 'x' * 200_000}]}).encode()
    pieces = iter([body[:1], body[1:100_000], body[100_000:]])
    answer = api.post('/v1/jobs', content=pieces, headers={'Content-Type': 'application/json'})
    assert answer.status_code == 202


def test_full_queue_is_429_until_a_job_ends(api: httpx.Client, narrow: httpx.Client) -> None:
    job = {'documents': [{'html': '<p>'}]}
    first = narrow.post('/v1/jobs', json=job, headers={'Idempotency-Key': 'first'})
    assert first.status_code == 202
    full = narrow.post('/v1/jobs', json=job)
    assert full.status_code == 429
    assert int(full.headers['retry-after']) > 0
    assert full.json()['setting'] == 'FANFOLD_MAX_UNFINISHED_JOBS'
    replayed = narrow.post('/v1/jobs', json=job, headers={'Idempotency-Key': 'first'})
    assert replayed.status_code == 202, 'a job that is in the queue already does not lengthen it'
    narrow.post(first.headers['location'] + '/cancel')
    assert narrow.post('/v1/jobs', json=job).status_code == 202


def test_client_that_hangs_up_in_the_middle_does_no_harm(api: httpx.Client) -> None:
    import socket

    with socket.create_connection((api.base_url.host, api.base_url.port or 0)) as connection:
        connection.sendall(
            b'POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"docu'
        )
    assert api.get('/v1/jobs').json()['jobs'] == []
