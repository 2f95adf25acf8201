"""A document that would eat all memory, or never end, costs its own part; siblings and the worker live on."""

import io

import pytest

from tests.crash.deployment import Deployment
from tests.crash.looking import document_numbers, rows, status, wait_until_ended

pytestmark = pytest.mark.crash

MANY = '{% for i in range(90000) %}{% for j in range(90000) %}'
DONE = '{% endfor %}{% endfor %}'
PAGE = '<h1>Document {{ number }}.</h1>'
POISONS = {
    'memory-limit': PAGE + '{% if number == 5 %}' + MANY + '<p>x</p>' + DONE + '{% endif %}',
    'cpu-limit': PAGE + '{% if number == 5 %}' + MANY + DONE + '{% endif %}',
}
LIMITS = {'FANFOLD_CHILD_MEMORY_BYTES': str(300 * 2**20), 'FANFOLD_CHILD_CPU_SECONDS': '4'}


def submit_poison(deployment: Deployment, reason: str, policy: str):
    with deployment.client() as client:
        records = [{'number': number} for number in range(12)]
        return client.submit(
            [{'template': POISONS[reason], 'records': records}], options={'parts': 4}, on_part_failure=policy
        )


@pytest.mark.parametrize('reason', POISONS)
def test_a_poison_document_fails_the_job_with_its_reason_and_place(reason, deployment, pool):
    deployment.start('api')
    deployment.start('assembler')
    worker = deployment.start('worker', **LIMITS)
    job = submit_poison(deployment, reason, 'fail')
    assert wait_until_ended(pool, job.id) == 'failed'
    with deployment.client() as client:
        failure = client.get(job).failure
    assert failure.type == f'urn:fanfold:{reason}'
    assert failure.extra['part'] == 1
    assert failure.extra['record'] == 5
    assert failure.extra['attempts'] == 3
    assert worker.popen.poll() is None, 'the worker lives'


@pytest.mark.parametrize('reason', POISONS)
def test_under_the_policy_partial_only_the_poison_document_is_missing(reason, deployment, pool):
    deployment.start('api')
    deployment.start('assembler')
    deployment.start('worker', **LIMITS)
    job = submit_poison(deployment, reason, 'partial')
    assert wait_until_ended(pool, job.id) == 'completed', rows(pool, job.id)[0]
    target = io.BytesIO()
    with deployment.client() as client:
        client.download(job, target)
        missing = client.get(job).missing
    assert document_numbers(target.getvalue()) == [*range(5), None, *range(6, 12)]
    assert [entry['record'] for entry in missing] == [5]
    assert status(pool, job.id) == 'completed'
