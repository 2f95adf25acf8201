"""Kill what Fanfold stands on, in the middle of a job of 200 documents; it completes afterwards, once, in order.

One stack of `fanfold up` serves all tests here; its supervisor starts again what they kill.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import redis

import schema
from tests.crash.deployment import QUICK, ROOT, Deployment, until
from tests.crash.looking import assert_completed_once, submit

pytestmark = pytest.mark.crash

DOCUMENTS = 200


class Stack(Deployment):
    """A deployment whose processes belong to `fanfold up`."""

    ready_file: Path

    def pids(self):
        return json.loads(self.ready_file.read_text())['pids']

    def kill(self, name):
        """SIGKILL a process of the stack and wait until another has taken its place."""
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.pids().get(name, pid) != pid, f'{name} to be started again')


@pytest.fixture(scope='module')
def stack():
    folder = Path(tempfile.mkdtemp(prefix='fanfold-outages-'))
    folder.chmod(0o755)  # the account that the servers run as has to pass; pytest's own folders it may not
    ready_file = folder / 'ready.json'
    command = [sys.executable, '-m', 'fanfold', 'up', '--port', '0', '--data', str(folder), '--stop-with-parent']
    command += ['--ready-file', str(ready_file)]
    with (folder / 'log').open('wb') as log:
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **QUICK}, stdout=log, stderr=log)
    until(lambda: ready_file.exists() or process.poll() is not None, 'the stack')
    assert process.poll() is None, (folder / 'log').read_text()
    ready = json.loads(ready_file.read_text())
    stack = Stack(env=ready['environment'], folder=folder, url=ready['api_url'])
    stack.ready_file = ready_file
    yield stack
    process.terminate()
    assert process.wait(timeout=60) == 0
    shutil.rmtree(folder)


@pytest.fixture
def pool(stack):
    with schema.open_pool(stack.env['FANFOLD_DATABASE_URL'], max_size=2, name='test') as pool:
        yield pool


def in_the_middle(pool, job_id):
    """Wait until some parts are painted and others are not."""

    def under_way():
        with pool.connection() as conn:
            snapshot = schema.get_snapshot(conn, job_id)
        return snapshot is not None and 0 < snapshot.parts_done < snapshot.parts_total

    until(under_way, 'the job to be in its middle')


def lose_everything(stack):
    with redis.Redis.from_url(stack.env['FANFOLD_REDIS_URL']) as client:
        client.flushall()


@pytest.mark.parametrize('victim', ['worker', 'assembler', 'valkey', 'postgres', 'objects', 'api'])
def test_a_job_survives_the_death_of(victim, stack, pool):
    job_id = submit(stack, documents=DOCUMENTS, parts=16)
    in_the_middle(pool, job_id)
    stack.kill(victim)
    assert_completed_once(stack, pool, job_id, documents=DOCUMENTS)


def test_a_job_survives_a_redis_that_forgets_everything(stack, pool):
    job_id = submit(stack, documents=DOCUMENTS, parts=16)
    in_the_middle(pool, job_id)
    lose_everything(stack)
    stack.kill('valkey')
    assert_completed_once(stack, pool, job_id, documents=DOCUMENTS)


def test_an_outage_charges_losses_not_attempts(stack, pool):
    """With every part in flight the object store stands still for longer than a lease."""
    job_id = submit(stack, documents=DOCUMENTS, parts=16)
    in_the_middle(pool, job_id)
    frozen = stack.pids()['objects']
    os.kill(frozen, signal.SIGSTOP)
    try:
        until(lambda: losses(pool, job_id), 'a loss to be charged', patience=90)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert_completed_once(stack, pool, job_id, documents=DOCUMENTS)
    with pool.connection() as conn:
        assert conn.execute('SELECT sum(attempts) FROM part WHERE job_id = %s', [job_id]).fetchone() == (0,)


def losses(pool, job_id):
    with pool.connection() as conn:
        return conn.execute('SELECT sum(losses) FROM part WHERE job_id = %s', [job_id]).fetchone()[0]


def test_a_job_submitted_while_redis_is_away_completes_when_it_is_back(stack, pool):
    frozen = stack.pids()['valkey']
    os.kill(frozen, signal.SIGSTOP)
    try:
        job_id = submit(stack, documents=8, parts=2)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert_completed_once(stack, pool, job_id, documents=8)
