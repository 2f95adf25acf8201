from __future__ import annotations

from uuid import uuid4

import httpx
import psycopg
import pytest

from runtime.settings import Settings
from tests.api.jobs import Jobs
from tests.api.serving import client_of, serving


def test_ready_service_names_what_it_asked(api: httpx.Client) -> None:
    answer = api.get('/readyz')
    assert answer.status_code == 200
    assert answer.json() == {
        'status': 'ok',
        'checks': {'database': {'ok': True}, 'broker': {'ok': True}, 'storage': {'ok': True}},
    }


def test_database_without_the_present_schema_is_not_ready(shared_settings: Settings, empty_database_url: str) -> None:
    settings = shared_settings.model_copy(update={'database_url': empty_database_url})
    with serving(settings) as url, client_of(url) as client:
        answer = client.get('/readyz')
        refused = [
            client.post('/v1/jobs', json={'documents': [{'html': '<p>'}]}),
            client.get('/v1/jobs'),
            client.get(f'/v1/jobs/{uuid4()}/result'),
            client.delete(f'/v1/jobs/{uuid4()}'),
        ]
        metrics = client.get('/metrics')
    assert answer.status_code == 503
    for problem in refused:
        assert (problem.status_code, problem.json()['type']) == (503, 'urn:fanfold:unavailable')
        assert 'run fanfold migrate' in problem.json()['detail']
        assert problem.headers['retry-after']
    assert 'fanfold_database_up 0.0' in metrics.text
    checks = answer.json()['checks']
    assert 'fanfold migrate' in checks['database']['why']
    assert checks['broker'] == checks['storage'] == {'ok': True}


def test_missing_bucket_is_not_ready(shared_settings: Settings) -> None:
    settings = shared_settings.model_copy(update={'s3_bucket': 'there-is-no-such-bucket'})
    with serving(settings) as url, client_of(url) as client:
        answer = client.get('/readyz')
        refused = client.post('/v1/jobs', json={'documents': [{'html': '<p>'}]})
    assert answer.status_code == 503
    assert 'FANFOLD_S3_BUCKET' in answer.json()['checks']['storage']['why']
    assert refused.status_code == 503


def test_metrics_count_requests_and_the_queue(api: httpx.Client, jobs: Jobs) -> None:
    jobs.claim(jobs.submit(), 0)
    jobs.plan(jobs.submit(), parts=3)
    answer = api.get('/metrics')
    assert answer.headers['content-type'].startswith('text/plain; version=0.0.4')
    lines = answer.text.splitlines()
    for expected in (
        'fanfold_jobs{status="queued"} 1.0',
        'fanfold_jobs{status="rendering"} 1.0',
        'fanfold_parts_pending 4.0',
        'fanfold_parts_leased 1.0',
        'fanfold_events_unsent 1.0',
        'fanfold_database_up 1.0',
    ):
        assert expected in lines
    assert any(
        line.startswith('fanfold_http_requests_total{method="POST",route="/v1/jobs",status="202"}') for line in lines
    )


def test_paths_nobody_routes_share_one_series(api: httpx.Client) -> None:
    api.get('/somewhere')
    api.get('/elsewhere')
    text = api.get('/metrics').text
    assert 'route="other",status="404"' in text
    assert 'somewhere' not in text


def test_methods_nobody_knows_share_one_series(api: httpx.Client) -> None:
    for method in ('BREW', 'WHEN'):
        assert api.request(method, '/v1/jobs').status_code == 405
    text = api.get('/metrics').text
    assert 'method="OTHER",route="/v1/jobs",status="405"' in text or 'method="OTHER",route="other",status="405"' in text
    assert 'BREW' not in text


@pytest.mark.parametrize('given', ['abc-123', 'a' * 128])
def test_request_id_of_the_client_is_kept(api: httpx.Client, given: str) -> None:
    assert api.get('/healthz', headers={'X-Request-ID': given}).headers['x-request-id'] == given


@pytest.mark.parametrize('given', ['a b', 'a' * 129, '"', ''])
def test_request_id_that_could_spoil_the_log_is_replaced(api: httpx.Client, given: str) -> None:
    found = api.get('/healthz', headers={'X-Request-ID': given}).headers['x-request-id']
    assert found
    assert found != given


def test_broker_that_evicts_is_not_ready(
    api: httpx.Client, shared_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('redis.Redis.info', lambda *args: {'maxmemory_policy': 'allkeys-lru'})
    checks = api.get('/readyz').json()['checks']
    assert checks['broker']['ok'] is False
    assert 'noeviction' in checks['broker']['why']


def test_password_of_the_database_is_never_shown(shared_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('api.services.DATABASE_SECONDS', 0.5)
    url = psycopg.conninfo.make_conninfo(shared_settings.database_url, password='hunter2', dbname='nowhere')
    settings = shared_settings.model_copy(update={'database_url': url})
    with serving(settings) as address, client_of(address) as client:
        answer = client.get('/readyz')
    assert answer.status_code == 503
    assert 'hunter2' not in answer.text
