"""Waiting for a job: by its event stream, across breaks, and by polling where no stream comes through."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.responses import JSONResponse, PlainTextResponse

from fanfold.client import JobNotCompleted, Refused, WaitedTooLong
from tests.client.service import events, job_json, problem

JOB = '/v1/jobs/a-job'
EVENTS = f'{JOB}/events'


def painting(done: int) -> dict:
    return job_json(
        'rendering', batch={'no': 1, 'kind': 'paint', 'done': done, 'total': 2}, parts={'done': done, 'total': 2}
    )


def test_every_change_of_the_stream_is_seen_once(service, client):
    service.answers('GET', JOB, job_json())
    service.answers('GET', EVENTS, events(job_json(), painting(0), painting(1), painting(1), job_json('completed')))
    seen = []
    job = client.wait('a-job', progress=lambda job: seen.append((job.status, job.parts.done)))
    assert job.is_completed
    assert seen == [('queued', 0), ('rendering', 0), ('rendering', 1), ('completed', 0)]
    assert service.paths() == [f'GET {JOB}', f'GET {EVENTS}']


def test_a_stream_that_breaks_is_taken_up_again(service, client):
    service.answers('GET', JOB, job_json(), painting(1))
    service.answers('GET', EVENTS, events(painting(0)), events(painting(1)), events(job_json('completed')))
    assert client.wait('a-job').is_completed
    assert service.paths().count(f'GET {EVENTS}') == 3


def test_the_end_is_believed_from_a_plain_answer_too(service, client):
    service.answers('GET', JOB, job_json(), job_json('completed'))
    service.answers('GET', EVENTS, events())
    assert client.wait('a-job').is_completed


@pytest.mark.parametrize(
    'no_stream', [problem(404, 'not-found'), problem(503, 'unavailable'), JSONResponse({}), PlainTextResponse('?')]
)
def test_without_a_stream_the_job_is_polled(service, client, no_stream, pauses):
    service.answers('GET', JOB, *[job_json()] * 4, *[painting(1)] * 4, job_json('completed'))
    service.answers('GET', EVENTS, no_stream)
    seen = []
    client.wait('a-job', progress=lambda job: seen.append(job.status))
    assert seen == ['queued', 'rendering', 'completed']
    assert service.paths().count(f'GET {EVENTS}') == 2
    assert pauses == sorted(pauses)


def test_a_stream_of_nonsense_is_left_alone(service, client):
    service.answers('GET', JOB, job_json(), job_json(), job_json('completed'))
    service.answers('GET', EVENTS, PlainTextResponse('data: {"nothing": 1}\n\n', media_type='text/event-stream'))
    assert client.wait('a-job').is_completed


def test_a_failed_job_is_an_error_with_the_reason(service, client):
    failure = {'type': 'urn:fanfold:record-field-missing', 'title': 'A record lacks a field', 'record': 17}
    service.answers('GET', JOB, job_json('failed', failure=failure))
    with pytest.raises(JobNotCompleted, match='record: 17') as failed:
        client.wait('a-job')
    assert failed.value.job.failure.extra == {'record': 17}


def test_a_job_that_failed_on_the_stream_brings_the_warnings_that_only_a_plain_answer_has(service, client):
    service.answers('GET', JOB, painting(0) | {'warnings': ['odd']}, job_json('failed', warnings=['odd', 'broken']))
    service.answers('GET', EVENTS, events(painting(0), job_json('failed')))
    seen = []
    with pytest.raises(JobNotCompleted) as failed:
        client.wait('a-job', progress=lambda job: seen.append(job.status))
    assert failed.value.job.warnings == ('odd', 'broken')
    assert seen == ['rendering', 'failed']


@pytest.mark.parametrize('status', ['cancelled', 'expired'])
def test_a_job_that_ended_otherwise_is_an_error(service, client, status):
    service.answers('GET', JOB, job_json(status))
    with pytest.raises(JobNotCompleted, match=status):
        client.wait('a-job')


def test_a_job_that_does_not_exist_is_refused(service, client):
    with pytest.raises(Refused):
        client.wait('a-job')
    assert service.paths() == [f'GET {JOB}']


def test_a_wait_ends_in_time_though_the_stream_is_silent(service, client):
    async def for_ever() -> None:
        await asyncio.Event().wait()

    service.answers('GET', JOB, painting(0))
    service.answers('GET', EVENTS, events(on_open=for_ever))
    began = time.monotonic()
    with pytest.raises(WaitedTooLong, match=r'still rendering after 0\.2 s'):
        client.wait('a-job', timeout=0.2)
    assert time.monotonic() - began < 2
