"""Downloading: whole, in ranges, by redirect, and when there is nothing to download."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import schema
from runtime.storage import Storage
from tests.api.jobs import FAILURE, Jobs

PDF = b'%PDF-1.7\n' + random.Random(1).randbytes(1_000_000)


@pytest.fixture
def path(jobs: Jobs) -> str:
    return f'/v1/jobs/{jobs.completed(PDF)}/result'


def test_result_is_downloaded_whole(api: httpx.Client, path: str) -> None:
    answer = api.get(path)
    assert answer.status_code == 200
    assert answer.content == PDF
    assert answer.headers['content-type'] == 'application/pdf'
    assert answer.headers['content-length'] == str(len(PDF))
    assert answer.headers['accept-ranges'] == 'bytes'
    assert answer.headers['etag'].startswith('"')


def test_head_tells_all_but_the_bytes(api: httpx.Client, path: str) -> None:
    head, get = api.head(path), api.get(path)
    assert head.status_code == 200
    assert head.content == b''
    for name in ('content-length', 'content-type', 'etag', 'accept-ranges', 'content-disposition'):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize(
    ('header', 'start', 'end'),
    [('bytes=0-99', 0, 99), ('bytes=1000-', 1000, len(PDF) - 1), ('bytes=-5', len(PDF) - 5, len(PDF) - 1)],
)
def test_range_gives_that_part(api: httpx.Client, path: str, header: str, start: int, end: int) -> None:
    answer = api.get(path, headers={'Range': header})
    assert answer.status_code == 206
    assert answer.content == PDF[start : end + 1]
    assert answer.headers['content-range'] == f'bytes {start}-{end}/{len(PDF)}'
    assert answer.headers['content-length'] == str(end + 1 - start)


def test_broken_download_is_resumed_while_the_result_is_the_same(api: httpx.Client, path: str) -> None:
    with api.stream('GET', path) as answer:
        etag = answer.headers['etag']
        begun = next(answer.iter_raw(1000))
    rest = api.get(path, headers={'Range': f'bytes={len(begun)}-', 'If-Range': etag})
    assert rest.status_code == 206
    assert begun + rest.content == PDF
    other = api.get(path, headers={'Range': f'bytes={len(begun)}-', 'If-Range': '"other"'})
    assert (other.status_code, other.content) == (200, PDF)


def test_range_behind_the_end_is_416(api: httpx.Client, path: str) -> None:
    answer = api.get(path, headers={'Range': f'bytes={len(PDF)}-'})
    assert answer.status_code == 416
    assert answer.headers['content-range'] == f'bytes */{len(PDF)}'
    assert answer.json()['type'] == 'urn:fanfold:range-not-satisfiable'


def test_several_ranges_are_answered_with_the_whole(api: httpx.Client, path: str) -> None:
    assert api.get(path, headers={'Range': 'bytes=0-1,5-6'}).status_code == 200


def test_client_that_has_the_result_gets_304(api: httpx.Client, path: str) -> None:
    etag = api.head(path).headers['etag']
    answer = api.get(path, headers={'If-None-Match': f'"x", {etag}'})
    assert (answer.status_code, answer.content, answer.headers['etag']) == (304, b'', etag)


@pytest.mark.parametrize(
    ('job', 'disposition'),
    [
        ({'options': {'metadata': {'title': 'Report 2025'}}}, 'attachment; filename="Report 2025.pdf"'),
        (
            {'options': {'metadata': {'title': 'Überblick "1/2"'}}},
            'attachment; filename="_berblick -1-2.pdf"; filename*=UTF-8\'\'%C3%9Cberblick%20-1-2.pdf',
        ),
        ({'options': {'metadata': {'title': '../..'}}}, 'attachment; filename="{id}.pdf"'),
        ({}, 'attachment; filename="{id}.pdf"'),
    ],
)
def test_result_has_a_file_name(api: httpx.Client, jobs: Jobs, job: dict[str, object], disposition: str) -> None:
    job_id = jobs.completed(PDF, **job)
    answer = api.head(f'/v1/jobs/{job_id}/result')
    assert answer.headers['content-disposition'] == disposition.format(id=job_id)


def test_redirect_leads_to_the_storage_and_ends_before_the_job_does(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.completed(PDF, expires_in=60)
    answer = api.get(f'/v1/jobs/{job_id}/result?redirect=1')
    assert answer.status_code == 307
    url = answer.headers['location']
    assert 1 <= int(parse_qs(urlsplit(url).query)['X-Amz-Expires'][0]) <= 60
    stored = httpx.get(url)
    assert (stored.status_code, stored.content) == (200, PDF)
    assert f'{job_id}.pdf' in stored.headers['content-disposition']
    assert httpx.get(url.replace('result', 'other')).status_code == 403, 'the URL is good for nothing else'


def test_head_is_redirected_too_and_may_follow(api: httpx.Client, path: str) -> None:
    answer = api.head(f'{path}?redirect=1')
    assert (answer.status_code, answer.content) == (307, b'')
    assert answer.headers['cache-control'] == 'no-store'
    stored = httpx.head(answer.headers['location'])
    assert stored.status_code == 200
    assert stored.headers['content-length'] == str(len(PDF))
    assert stored.headers['content-type'] == 'application/pdf'


def test_redirect_never_outlives_an_hour(api: httpx.Client, path: str) -> None:
    url = api.get(f'{path}?redirect=1').headers['location']
    assert parse_qs(urlsplit(url).query)['X-Amz-Expires'] == ['3600']


def test_unfinished_job_is_not_ready(api: httpx.Client, jobs: Jobs) -> None:
    answer = api.get(f'/v1/jobs/{jobs.submit()}/result')
    assert answer.status_code == 409
    assert int(answer.headers['retry-after']) >= 1
    problem = answer.json()
    assert (problem['type'], problem['job_status']) == ('urn:fanfold:not-ready', 'queued')


def test_failed_job_tells_its_failure_instead(api: httpx.Client, jobs: Jobs) -> None:
    answer = api.get(f'/v1/jobs/{jobs.failed()}/result')
    assert answer.status_code == 409
    assert 'retry-after' not in answer.headers
    problem = answer.json()
    assert problem['job_status'] == 'failed'
    assert problem['failure'].items() >= FAILURE.to_json().items()


def test_cancelled_job_has_no_result(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    api.post(f'/v1/jobs/{job_id}/cancel')
    answer = api.get(f'/v1/jobs/{job_id}/result')
    assert (answer.status_code, answer.json()['job_status']) == (409, 'cancelled')


def test_expired_result_is_gone(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.completed(PDF)
    jobs.expire(job_id)
    for query in ('', '?redirect=1'):
        answer = api.get(f'/v1/jobs/{job_id}/result{query}')
        assert answer.status_code == 410
        assert answer.json()['expired_at'].endswith('Z')
        assert datetime.fromisoformat(answer.json()['expired_at']) <= datetime.now(UTC) + timedelta(minutes=1)


def test_result_lost_in_storage_is_our_error(
    api: httpx.Client, path: str, storage: Storage, shared_pool: schema.Pool
) -> None:
    with shared_pool.connection() as conn:
        [key] = conn.execute('SELECT result_key FROM job').fetchone() or ['']
    storage.delete([key])
    answer = api.get(path)
    assert answer.status_code == 500
    assert answer.json()['type'] == 'urn:fanfold:internal-error'
