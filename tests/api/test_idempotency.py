"""One job for each idempotency key, however many requests race and wherever they arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import schema
from runtime.settings import Settings
from runtime.storage import Storage
from tests.api.jobs import Jobs
from tests.api.serving import client_of, process

RACERS = 50


@pytest.fixture
def two_apis(api: httpx.Client, shared_settings: Settings, tmp_path: Path) -> Iterator[list[httpx.Client]]:
    """The one in this process, and one that is a process of its own."""
    with process(shared_settings, tmp_path / 'api.log') as other, client_of(other.url) as client:
        yield [api, client]


def keys_of(storage: Storage, prefix: str) -> set[str]:
    return {found.key for found in storage.keys(prefix)}


def test_fifty_racing_requests_through_two_processes_make_one_job(
    two_apis: list[httpx.Client], shared_pool: schema.Pool, storage: Storage
) -> None:
    before = keys_of(storage, 'jobs/')
    start = threading.Barrier(RACERS)

    def submit(number: int) -> httpx.Response:
        start.wait()
        files = [('files', ('index.html', b'<p>Same')), ('files', ('a.css', b'p{}'))]
        return two_apis[number % 2].post('/v1/jobs', files=files, headers={'Idempotency-Key': 'race'})

    with ThreadPoolExecutor(RACERS) as racers:
        answers = list(racers.map(submit, range(RACERS)))

    assert {answer.status_code for answer in answers} == {202}
    [location] = {answer.headers['location'] for answer in answers}
    replayed = [answer for answer in answers if answer.headers.get('idempotency-replayed') == 'true']
    assert len(replayed) == RACERS - 1
    with shared_pool.connection() as conn:
        assert conn.execute('SELECT count(*) FROM job').fetchone() == (1,)
        assert conn.execute('SELECT count(*) FROM part').fetchone() == (1,)
    assert keys_of(storage, 'jobs/') - before == {f'{location.removeprefix("/v1/")}/input.zip'}, 'losers clean up'


def test_same_key_and_payload_give_the_same_job_in_every_state(api: httpx.Client, jobs: Jobs) -> None:
    headers = {'Idempotency-Key': 'k 1'}
    job_id = jobs.submit(headers=headers)
    jobs.plan(job_id)
    again = api.post('/v1/jobs', json={'documents': [{'html': '<p>One.'}]}, headers=headers)
    assert again.status_code == 202
    assert again.json()['id'] == str(job_id)
    assert again.json()['status'] == 'rendering'
    assert again.headers['idempotency-replayed'] == 'true'
    assert again.headers['location'] == f'/v1/jobs/{job_id}'
    api.delete(f'/v1/jobs/{job_id}')
    assert jobs.submit(headers=headers) == job_id


def test_same_key_with_another_payload_is_refused(api: httpx.Client, jobs: Jobs) -> None:
    headers = {'Idempotency-Key': 'k'}
    jobs.submit(headers=headers)
    answer = api.post('/v1/jobs', json={'documents': [{'html': '<p>Two.'}]}, headers=headers)
    assert answer.status_code == 422
    assert answer.json()['type'] == 'urn:fanfold:idempotency-key-reused'
    assert len(api.get('/v1/jobs').json()['jobs']) == 1


def test_without_a_key_every_request_is_a_job(jobs: Jobs) -> None:
    assert jobs.submit() != jobs.submit()


@pytest.mark.parametrize('key', ['', 'x' * 256, 'ä', 'a\tb'])
def test_key_that_is_none_is_refused(api: httpx.Client, key: str) -> None:
    headers = [(b'Idempotency-Key', key.encode())]
    answer = api.post('/v1/jobs', json={'documents': [{'html': '<p>'}]}, headers=headers)
    assert answer.status_code == 422
    assert answer.json()['errors'][0]['field'] == 'Idempotency-Key'
