"""Servers that are away: a problem to try again, or a later completion; never a lost job, never a trace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import httpx
import pytest
import structlog.testing

import schema
from runtime.settings import Settings
from tests.api.jobs import Jobs
from tests.api.proxy import Proxy
from tests.api.serving import client_of, serving

JOB = {'documents': [{'html': '<p>Hello'}]}


def proxy_of(url: str) -> Proxy:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Proxy(parts.hostname, parts.port)


def through(url: str, proxy: Proxy) -> str:
    parts = urlsplit(url)
    user = parts.netloc.rpartition('@')[0]
    return urlunsplit(parts._replace(netloc=f'{user}{"@" if user else ""}127.0.0.1:{proxy.port}'))


class Surroundings:
    """An API whose servers can go away. They are all away when it starts."""

    def __init__(self, settings: Settings) -> None:
        endpoint = settings.s3_endpoint_url or ''
        self.postgres, self.redis, self.s3 = map(proxy_of, (settings.database_url, settings.redis_url, endpoint))
        self.settings = settings.model_copy(
            update={
                'database_url': through(settings.database_url, self.postgres),
                'redis_url': through(settings.redis_url, self.redis),
                's3_endpoint_url': through(endpoint, self.s3),
            }
        )


@pytest.fixture
def around(jobs: Jobs, shared_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    monkeypatch.setattr('api.services.DATABASE_SECONDS', 0.5)
    around = Surroundings(shared_settings)
    with around.postgres, around.redis, around.s3:
        yield around


@pytest.fixture
def api_of_them(around: Surroundings) -> Iterator[httpx.Client]:
    with serving(around.settings) as url, client_of(url) as client:
        yield client


def assert_unavailable(answer: httpx.Response, service: str) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers['retry-after']) >= 1
    problem = answer.json()
    assert problem['type'] == 'urn:fanfold:unavailable'
    assert problem['service'] == service
    assert 'Traceback' not in answer.text


def until_available(client: httpx.Client, method: str, path: str, **how: object) -> httpx.Response:
    """The first answer that is not 503: a pool takes a moment to notice that its server is back."""
    for _ in range(60):
        answer = client.request(method, path, **how)  # type: ignore[arg-type]
        if answer.status_code != 503:
            return answer
    raise AssertionError('still unavailable')


def test_api_starts_with_everything_away_and_serves_when_it_is_back(
    around: Surroundings, api_of_them: httpx.Client
) -> None:
    client = api_of_them
    assert client.get('/healthz').json() == {'status': 'ok'}
    assert_unavailable(client.post('/v1/jobs', json=JOB), 'database')
    assert_unavailable(client.get('/v1/jobs'), 'database')
    ready = client.get('/readyz')
    assert ready.status_code == 503
    assert {name: check['ok'] for name, check in ready.json()['checks'].items()} == {
        'database': False, 'broker': False, 'storage': False,
    }  # fmt: skip
    assert 'fanfold_database_up 0.0' in client.get('/metrics').text
    around.postgres.up()
    assert until_available(client, 'GET', '/v1/jobs').json() == {'jobs': [], 'next': None}
    assert_unavailable(client.post('/v1/jobs', json=JOB), 'storage')
    around.s3.up()
    around.redis.up()
    assert client.post('/v1/jobs', json=JOB).status_code == 202
    assert client.get('/readyz').status_code == 200


def test_job_is_taken_in_while_redis_is_away(around: Surroundings, api_of_them: httpx.Client, jobs: Jobs) -> None:
    around.postgres.up()
    around.s3.up()
    answer = until_available(api_of_them, 'POST', '/v1/jobs', json=JOB)
    assert answer.status_code == 202
    with jobs.pool.connection() as conn:
        [due] = schema.due_parts(conn, window=16, limit=10, resend_after=timedelta(hours=1))
    assert due.key.job_id == UUID(answer.json()['id']), 'the dispatcher finds it without a nudge'
    checks = api_of_them.get('/readyz').json()['checks']
    assert checks['broker']['ok'] is False
    assert 'redis' in checks['broker']['why']
    assert checks['database'] == checks['storage'] == {'ok': True}


def test_refused_upload_leaves_no_job(around: Surroundings, api_of_them: httpx.Client, jobs: Jobs) -> None:
    around.postgres.up()
    assert_unavailable(until_storage(api_of_them), 'storage')
    assert api_of_them.get('/v1/jobs').json()['jobs'] == []
    with jobs.pool.connection() as conn:
        assert conn.execute('SELECT count(*) FROM job').fetchone() == (0,)


def until_storage(client: httpx.Client) -> httpx.Response:
    until_available(client, 'GET', '/v1/jobs')
    return client.post('/v1/jobs', json=JOB)


def test_request_sent_again_after_an_outage_makes_one_job(
    around: Surroundings, api_of_them: httpx.Client, jobs: Jobs
) -> None:
    headers = {'Idempotency-Key': 'again'}
    around.postgres.up()
    around.s3.up()
    first = until_available(api_of_them, 'POST', '/v1/jobs', json=JOB, headers=headers)
    around.postgres.down()
    assert_unavailable(api_of_them.post('/v1/jobs', json=JOB, headers=headers), 'database')
    around.postgres.up()
    again = until_available(api_of_them, 'POST', '/v1/jobs', json=JOB, headers=headers)
    assert again.headers['location'] == first.headers['location']


def test_stream_outlives_an_outage_of_the_database(around: Surroundings, api_of_them: httpx.Client, jobs: Jobs) -> None:
    around.postgres.up()
    job_id = jobs.submit()
    until_available(api_of_them, 'GET', '/v1/jobs')
    with api_of_them.stream('GET', f'/v1/jobs/{job_id}/events') as answer:
        statuses = (json.loads(line[6:])['status'] for line in answer.iter_lines() if line.startswith('data: '))
        assert next(statuses) == 'queued'
        around.postgres.down()
        jobs.api.post(f'/v1/jobs/{job_id}/cancel')
        around.postgres.up()
        assert next(statuses) == 'cancelled'


def test_download_breaks_off_with_the_storage_and_can_be_resumed(
    around: Surroundings, api_of_them: httpx.Client, jobs: Jobs
) -> None:
    around.postgres.up()
    around.s3.up()
    pdf = bytes(range(256)) * 80_000
    path = f'/v1/jobs/{jobs.completed(pdf)}/result'
    until_available(api_of_them, 'GET', '/v1/jobs')
    received = b''
    with structlog.testing.capture_logs() as logs, api_of_them.stream('GET', path) as answer:
        with contextlib.suppress(httpx.RemoteProtocolError):
            for chunk in answer.iter_raw():
                received += chunk
                around.s3.down()
        etag = answer.headers['etag']
    assert 0 < len(received) < len(pdf)
    assert_unavailable(api_of_them.get(path), 'storage')
    around.s3.up()
    rest = api_of_them.get(path, headers={'Range': f'bytes={len(received)}-', 'If-Range': etag})
    assert rest.status_code == 206
    assert received + rest.content == pdf
    assert 'response broken off' in [line['event'] for line in logs]


def test_what_nobody_expected_is_logged_once_with_the_request_id(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise ZeroDivisionError('secret detail')

    monkeypatch.setattr('schema.get_snapshot', fail)
    with structlog.testing.capture_logs() as logs:
        answer = api.get(f'/v1/jobs/{UUID(int=1)}', headers={'X-Request-ID': 'request-1'})
    assert answer.status_code == 500
    problem = answer.json()
    assert problem['type'] == 'urn:fanfold:internal-error'
    assert problem['request_id'] == answer.headers['x-request-id'] == 'request-1'
    assert 'secret' not in answer.text
    assert [line['event'] for line in logs if line['log_level'] == 'error'] == ['unexpected error']
