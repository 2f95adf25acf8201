"""What the client does with a service that is busy, away, restarting, or says no."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from starlette.responses import PlainTextResponse

from fanfold.client import Client, Job, NotAnAddress, Refused, Unavailable, Unreachable
from tests.client.service import Service, job_json, problem, serving


def test_a_busy_service_is_asked_again_after_the_time_it_names(service, client, pauses):
    service.answers('GET', '/v1/jobs/a-job', problem(503, 'unavailable', {'Retry-After': '3'}), job_json())
    assert client.get('a-job').status == 'queued'
    assert pauses == [3.0]


def test_the_time_to_wait_may_be_a_date(service, client, pauses):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=4), usegmt=True)
    service.answers('GET', '/v1/jobs/a-job', problem(429, 'queue-full', {'Retry-After': later}), job_json())
    client.get('a-job')
    assert 2 < pauses[0] <= 4


def test_a_time_to_wait_beyond_the_patience_is_an_error_at_once(service, client, pauses):
    service.answers('GET', '/v1/jobs/a-job', problem(503, 'unavailable', {'Retry-After': '60'}, detail='no database'))
    with pytest.raises(Unavailable, match='no database'):
        client.get('a-job')
    assert pauses == []


def test_pauses_grow_while_the_service_names_none(service, client, pauses):
    service.answers('GET', '/v1/jobs/a-job', *[problem(503, 'unavailable')] * 4, job_json())
    client.get('a-job')
    assert pauses == sorted(pauses)
    assert len(pauses) == 4
    assert pauses[-1] < 1.1


def test_a_submission_that_is_repeated_keeps_its_idempotency_key(service, client):
    service.answers('POST', '/v1/jobs', problem(503, 'unavailable', {'Retry-After': '0'}), job_json())
    client.submit([{'html': '<p>x'}])
    keys = [request.headers['idempotency-key'] for request in service.asked]
    assert len(keys) == 2
    assert keys[0] == keys[1] != ''


def test_files_are_sent_again_in_full(service, client, tmp_path):
    page = tmp_path / 'page.html'
    page.write_text('<p>the page')
    service.answers('POST', '/v1/jobs', problem(503, 'unavailable'), job_json())
    client.submit([{'file': 'page.html'}], files={'page.html': page})
    assert [request.body.count(b'<p>the page') for request in service.asked] == [1, 1]


def test_names_of_files_keep_their_folders_and_letters(service, client):
    service.answers('POST', '/v1/jobs', job_json())
    client.submit(files={'index.html': b'<p>x', 'bücher/a b.css': b'p {}'})
    body = service.asked[0].body.decode()
    assert 'filename="bücher/a b.css"' in body
    assert body.index('name="job"') < body.index('name="files"')


def test_a_refusal_carries_the_problem(service, client):
    service.answers(
        'POST',
        '/v1/jobs',
        problem(
            422,
            'unknown-field',
            detail='documents.0.htm: there is no such field',
            errors=[{'field': 'documents.0.htm', 'detail': 'there is no such field', 'valid': ['html', 'file']}],
        ),
    )
    with pytest.raises(Refused) as refusal:
        client.submit([{'htm': ''}])
    (fault,) = refusal.value.problem.errors
    assert refusal.value.problem.status == 422
    assert (fault.field, fault.valid) == ('documents.0.htm', ('html', 'file'))
    assert 'valid: html, file' in str(refusal.value)


def test_an_error_of_the_service_is_not_repeated(service, client, pauses):
    service.answers('GET', '/v1/jobs/a-job', problem(500, 'internal-error'))
    with pytest.raises(Unavailable):
        client.get('a-job')
    assert pauses == []


def test_an_error_that_is_no_problem_json_is_told_by_its_status(service, client):
    service.answers('GET', '/v1/jobs/a-job', PlainTextResponse('<h1>Forbidden', 403))
    with pytest.raises(Refused, match='403 Forbidden'):
        client.get('a-job')


def test_an_answer_that_is_not_json_is_not_fanfold(service, client):
    service.answers('GET', '/v1/jobs/a-job', PlainTextResponse('<h1>It works!'))
    with pytest.raises(Unreachable, match='no Fanfold service'):
        client.get('a-job')


@pytest.mark.parametrize('status', ['queued', 'rendering', 'assembling'])
def test_a_retry_whose_answer_was_lost_is_believed_from_the_job(service, client, status):
    service.answers('POST', '/v1/jobs/a-job/retry', PlainTextResponse('Bad Gateway', 502), problem(409, 'conflict'))
    service.answers('GET', '/v1/jobs/a-job', job_json(status))
    assert client.retry('a-job').status == status


def test_a_retry_that_was_repeated_and_still_does_not_fit_is_refused(service, client):
    service.answers('POST', '/v1/jobs/a-job/retry', PlainTextResponse('Bad Gateway', 502), problem(409, 'conflict'))
    service.answers('GET', '/v1/jobs/a-job', job_json('completed'))
    with pytest.raises(Refused):
        client.retry('a-job')


def test_a_retry_that_is_refused_at_once_is_refused(service, client):
    service.answers('POST', '/v1/jobs/a-job/retry', problem(409, 'conflict'))
    with pytest.raises(Refused):
        client.retry('a-job')
    assert service.paths() == ['POST /v1/jobs/a-job/retry']


def test_a_service_that_never_answered_is_reported_at_once(pauses):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f'http://127.0.0.1:{port}', sleep=pauses.append) as client, pytest.raises(Unreachable):
        client.get('a-job')
    assert pauses == []


def test_a_service_that_restarts_is_waited_for():
    service = Service('')
    service.answers('GET', '/v1/jobs/a-job', job_json())
    with ExitStack() as stack:

        def restart(seconds: float) -> None:
            stack.enter_context(serving(service, port=port))

        with serving(service) as port:
            client = stack.enter_context(Client(f'http://127.0.0.1:{port}', sleep=restart))
            client.get('a-job')
        assert client.get('a-job').id == 'a-job'


def test_lists_are_read_page_by_page(service, client):
    def page(*ids: str, **link: str) -> dict:
        return {'jobs': [{'id': name, 'status': 'queued'} for name in ids], **link}

    service.answers('GET', '/v1/jobs', page('a', 'b', next='/v1/jobs?cursor=x&limit=2'), page('c', 'd'))
    assert [job.id for job in client.list(status='queued', limit=3)] == ['a', 'b', 'c']
    assert [request.query for request in service.asked] == ['status=queued&limit=3', 'cursor=x&limit=2']


def test_a_job_is_known_by_its_id_whatever_it_holds(service, client):
    service.answers('GET', '/v1/jobs/a/../b', job_json())
    with pytest.raises(Refused):
        client.get('a/../b?c')
    assert service.asked[0].path == '/v1/jobs/a/../b?c'


def test_members_of_a_newer_service_are_kept_and_missing_ones_are_none():
    job = Job.from_json({'id': 'x', 'status': 'rendering', 'novelty': 1})
    assert job.raw['novelty'] == 1
    assert job.pages is None
    assert not job.is_finished


@pytest.mark.parametrize('url', ['127.0.0.1:8000', 'ftp://host', 'http://', 'http://[::1', ''])
def test_what_is_no_url_of_a_service_is_said(url, monkeypatch):
    monkeypatch.setenv('FANFOLD_URL', url)
    if url:
        with pytest.raises(NotAnAddress, match='URL'):
            Client()
    else:
        Client().close()
