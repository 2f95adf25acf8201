"""Looking at jobs and parts, and ending, retrying and deleting them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

import schema
from tests.api.jobs import FAILURE, Jobs


def test_job_shows_how_far_it_is(jobs: Jobs) -> None:
    job_id = jobs.submit(documents=[{'html': '<p>'}, {'html': '<p>'}])
    jobs.plan(job_id)
    jobs.paint(job_id, 1, pages=4)
    view = jobs.view(job_id)
    assert view['status'] == 'rendering'
    assert view['batch'] == {'no': 1, 'kind': 'paint', 'done': 1, 'total': 2}
    assert view['parts'] == {'done': 1, 'total': 2}
    assert view['pages'] == 4
    assert view['documents'] == 2
    assert view['timings']['plan'] >= 0
    assert view['timings']['paint'] is None
    assert view['finished_at'] is None
    assert view['failure'] is None


def test_a_long_document_shows_its_windows_and_pages_as_they_are_laid_out(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    jobs.lay_out(job_id, pages=[4, 3])
    view = jobs.view(job_id)
    assert view['batch'] == {'no': 1, 'kind': 'layout', 'done': 2, 'total': 3}
    assert (view['pages'], view['parts']) == (7, {'done': 0, 'total': None})
    assert view['plan']['windows'] == 3
    assert view['plan']['seams'][0] == {'label': '#c1', 'break': 'page', 'page': None}
    assert view['plan']['rounds'] == [{'round': 1, 'windows': 3, 'why': 'laid out from what each seam lets expect'}]
    parts = api.get(f'/v1/jobs/{job_id}/parts').json()['parts'][1:]
    assert [(part['window'], part['label'], part['round'], part['pages']) for part in parts] == [
        (0, 'the beginning', 1, 4), (1, '#c1', 1, 3), (2, '#c2', 1, None),
    ]  # fmt: skip


def test_completed_job_shows_all_of_it(jobs: Jobs) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id)
    jobs.paint(job_id, 0)
    jobs.paint(job_id, 1)
    jobs.assemble(job_id, b'%PDF-1.7', missing=[{'document': 0, 'detail': 'gone'}], warnings=['no such image'])
    view = jobs.view(job_id)
    assert view['status'] == 'completed'
    assert (view['pages'], view['bytes']) == (6, 8)
    assert view['missing'] == [{'document': 0, 'detail': 'gone'}]
    assert view['warnings'] == ['no such image']
    assert {'plan', 'paint', 'assemble', 'total'} == set(view['timings'])
    assert all(seconds >= 0 for seconds in view['timings'].values())
    assert view['expires_at'] > view['finished_at'] > view['created_at']


def test_failed_job_tells_part_record_and_reason(jobs: Jobs) -> None:
    view = jobs.view(jobs.failed())
    assert view['status'] == 'failed'
    assert view['failure'].items() >= FAILURE.to_json().items()


def test_parts_tell_what_each_took(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.failed()
    answer = api.get(f'/v1/jobs/{job_id}/parts')
    assert answer.status_code == 200
    plan, painted, failed = answer.json()['parts']
    assert (plan['kind'], plan['batch'], plan['index'], plan['status']) == ('plan', 0, 0, 'completed')
    assert painted['pages'] == 3
    assert painted['items'] == 1
    assert painted['started_at'] == '2023-11-14T22:13:20.250000Z'
    assert painted['finished_at'] == '2023-11-14T22:13:21.500000Z'
    assert painted['child_pid'] == 4711
    assert painted['cpu_seconds'] == 1.1
    assert painted['owner'] == 'host:1:2'
    assert failed['status'] == 'failed'
    assert failed['failure']['record'] == 17
    assert failed['attempts'] == 1


def test_held_part_is_running_and_shows_who_works_on_it(
    api: httpx.Client, jobs: Jobs, shared_pool: schema.Pool
) -> None:
    job_id = jobs.submit()

    def shown() -> tuple[str, str | None]:
        [part] = api.get(f'/v1/jobs/{job_id}/parts').json()['parts']
        return part['status'], part['owner']

    assert shown() == ('pending', None)
    key = jobs.claim(job_id, 0)
    assert shown() == ('running', 'host:1:2')
    assert schema.transact(shared_pool, schema.return_part, key, epoch=1)
    assert shown() == ('pending', None)
    jobs.claim(job_id, 0)
    api.post(f'/v1/jobs/{job_id}/cancel')
    assert shown() == ('cancelled', None)


def test_warnings_of_a_job_without_a_result_are_those_of_its_painted_parts(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id)
    assert jobs.view(job_id)['warnings'] == []
    jobs.paint(job_id, 1, warnings=['no such font', 'no such image'])
    assert jobs.view(job_id)['warnings'] == ['no such font', 'no such image']
    api.post(f'/v1/jobs/{job_id}/cancel')
    view = jobs.view(job_id)
    assert (view['status'], view['warnings']) == ('cancelled', ['no such font', 'no such image'])


def test_a_view_has_the_first_hundred_of_what_is_missing_and_a_list_none(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id)
    for index in range(2):
        jobs.paint(job_id, index)
    missing = [{'document': 0, 'record': number} for number in range(1_000)]
    jobs.assemble(job_id, b'%PDF-1.7', missing=missing, warnings=['odd'])
    view = jobs.view(job_id)
    assert (view['missing'], view['missing_count'], view['warnings']) == (missing[:100], 1_000, ['odd'])
    [listed] = api.get('/v1/jobs').json()['jobs']
    assert listed == {name: value for name, value in view.items() if name not in LONG}


LONG = {'plan', 'missing', 'missing_count', 'warnings'}


def walk(api: httpx.Client, path: str, member: str) -> tuple[list[Any], int]:
    """Everything in a list, and in how many pages."""
    found, pages = [], 0
    link: str | None = path
    while link:
        answer = api.get(link)
        assert answer.status_code == 200, answer.text
        link = answer.json()['next']
        assert (answer.links.get('next', {}).get('url')) == link
        found += answer.json()[member]
        pages += 1
    return found, pages


def test_jobs_are_listed_newest_first_page_by_page(api: httpx.Client, jobs: Jobs) -> None:
    submitted = [str(jobs.submit()) for _ in range(5)]
    found, pages = walk(api, '/v1/jobs?limit=2', 'jobs')
    assert [job['id'] for job in found] == submitted[::-1]
    assert pages == 3
    assert [job['id'] for job in api.get('/v1/jobs').json()['jobs']] == submitted[::-1]


def test_jobs_are_filtered_by_status(api: httpx.Client, jobs: Jobs) -> None:
    first, second, third = (str(jobs.submit()) for _ in range(3))
    for job_id in (first, third):
        api.post(f'/v1/jobs/{job_id}/cancel')
    found, pages = walk(api, '/v1/jobs?status=cancelled&limit=1', 'jobs')
    assert ([job['id'] for job in found], pages) == ([third, first], 2)
    assert [job['id'] for job in api.get('/v1/jobs?status=queued').json()['jobs']] == [second]


def test_parts_are_listed_page_by_page(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id, parts=5)
    found, pages = walk(api, f'/v1/jobs/{job_id}/parts?limit=4', 'parts')
    assert [(part['batch'], part['index']) for part in found] == [(0, 0), *((1, index) for index in range(5))]
    assert pages == 2


@pytest.mark.parametrize(
    ('query', 'field'),
    [
        ('cursor=nonsense', 'cursor'),
        ('cursor=WzEsMl0', 'cursor'),
        ('cursor=' + 'x' * 501, 'cursor'),
        ('limit=0', 'limit'),
        ('limit=many', 'limit'),
        ('limit=1000', 'limit'),
        ('status=done', 'status'),
        ('page=2', 'page'),
    ],
)
def test_malformed_query_is_refused_by_field(api: httpx.Client, query: str, field: str) -> None:
    answer = api.get(f'/v1/jobs?{query}')
    assert answer.status_code == 422
    [error] = answer.json()['errors']
    assert error['field'] == field


def test_unknown_status_is_refused_with_the_known_ones(api: httpx.Client) -> None:
    [error] = api.get('/v1/jobs?status=done').json()['errors']
    assert error['valid'] == ['queued', 'rendering', 'assembling', 'completed', 'failed', 'cancelled', 'expired']


def test_malformed_part_cursor_is_refused(api: httpx.Client, jobs: Jobs) -> None:
    assert api.get(f'/v1/jobs/{jobs.submit()}/parts?cursor=x').status_code == 422


@pytest.mark.parametrize('job_id', [str(uuid4()), 'nope', '1', '{01890000-0000-7000-8000-000000000001}', '%00', 'ä'])
@pytest.mark.parametrize(
    ('method', 'path'),
    [
        ('GET', ''), ('GET', '/parts'), ('GET', '/events'), ('GET', '/result'), ('POST', '/cancel'),
        ('POST', '/retry'), ('DELETE', ''),
    ],
)  # fmt: skip
def test_id_that_does_not_exist_is_404(api: httpx.Client, method: str, path: str, job_id: str) -> None:
    answer = api.request(method, f'/v1/jobs/{job_id}{path}')
    assert answer.status_code == 404
    assert answer.headers['content-type'] == 'application/problem+json'
    assert answer.json()['type'] == 'urn:fanfold:not-found'


def test_cancel_ends_a_job_and_can_be_repeated(api: httpx.Client, jobs: Jobs, shared_pool: schema.Pool) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id)
    for _ in range(2):
        answer = api.post(f'/v1/jobs/{job_id}/cancel')
        assert (answer.status_code, answer.json()['status']) == (200, 'cancelled')
    with shared_pool.connection() as conn:
        events = conn.execute("SELECT count(*) FROM outbox WHERE type = 'job-cancelled'").fetchone()
    assert events == (1,)


def test_job_that_has_ended_cannot_be_cancelled(api: httpx.Client, jobs: Jobs) -> None:
    answer = api.post(f'/v1/jobs/{jobs.completed()}/cancel')
    assert answer.status_code == 409
    assert answer.json()['job_status'] == 'completed'


def test_retry_runs_again_only_what_failed(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.failed()
    answer = api.post(f'/v1/jobs/{job_id}/retry')
    assert answer.status_code == 202
    view = answer.json()
    assert (view['status'], view['failure']) == ('rendering', None)
    assert view['batch'] == {'no': 2, 'kind': 'paint', 'done': 0, 'total': 1}
    assert view['parts'] == {'done': 1, 'total': 2}


def test_job_that_has_not_failed_cannot_be_retried(api: httpx.Client, jobs: Jobs) -> None:
    for job_id in (jobs.submit(), jobs.completed()):
        assert api.post(f'/v1/jobs/{job_id}/retry').status_code == 409


def test_deleted_job_is_expired_at_once(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.completed()
    for _ in range(2):
        answer = api.delete(f'/v1/jobs/{job_id}')
        assert (answer.status_code, answer.content) == (204, b'')
    assert jobs.view(job_id)['status'] == 'expired'
    assert api.get(f'/v1/jobs/{job_id}/result').status_code == 410
    assert api.post(f'/v1/jobs/{job_id}/retry').status_code == 410
    assert api.post(f'/v1/jobs/{job_id}/cancel').status_code == 410


def test_delete_cancels_a_running_job(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    jobs.plan(job_id)
    api.delete(f'/v1/jobs/{job_id}')
    assert jobs.view(job_id)['status'] == 'expired'


def test_what_others_cannot_do_names_what_one_can(api: httpx.Client) -> None:
    answer = api.put('/v1/jobs')
    assert answer.status_code == 405
    assert answer.headers['allow'] == 'GET, HEAD, POST'
    assert answer.json()['valid'] == ['GET', 'HEAD', 'POST']
    answer = api.patch(f'/v1/jobs/{UUID(int=1)}')
    assert (answer.status_code, answer.headers['allow']) == (405, 'DELETE, GET, HEAD')


@pytest.mark.parametrize('path', ['/', '/v1', '/v1/jobs/', '/v2/jobs', '/v1/jobs/a/b/c'])
def test_nothing_there_is_a_problem_too(api: httpx.Client, path: str) -> None:
    answer = api.get(path)
    assert answer.status_code == 404
    assert answer.headers['content-type'] == 'application/problem+json'


@pytest.mark.parametrize(
    'path', ['/v1/jobs', '/healthz', '/readyz', '/metrics', '/v1/jobs/{id}', '/v1/jobs/{id}/parts']
)
def test_head_answers_like_get_without_the_body(api: httpx.Client, jobs: Jobs, path: str) -> None:
    path = path.format(id=jobs.submit())
    head, get = api.head(path), api.get(path)
    assert head.status_code == get.status_code == 200
    assert head.content == b''
    assert head.headers['content-type'] == get.headers['content-type']
