from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

import fanfold.commands.assembler
import schema
from assembler.relay import Relay
from assembler.service import ROLES, Loop, Service, run_loop
from runtime.errors import BrokerUnavailable, ConfigurationError
from runtime.nudge import NudgeListener, Nudger
from runtime.settings import Settings
from runtime.storage import Storage
from schema import PartKey
from tests.assembler.given import event_keys, submitted
from tests.assembler.painted import Press

Conn = Connection[TupleRow]
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


@pytest.fixture
def press(conn: Conn, storage: Storage, pool: schema.Pool, nudger: Nudger, tmp_path: Path) -> Press:
    return Press(conn, storage, Relay(pool, nudger), tmp_path)


@pytest.fixture
def looking(settings: Settings) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Waits until something is true, looking whenever a nudge says that a job has changed."""
    listener = NudgeListener(settings, 'jobs')

    def look_until(condition: Callable[[], Any]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < give_up
            listener.wait('jobs', 0.1)

    yield look_until
    listener.close()


@pytest.fixture
def environment(settings: Settings, tmp_path: Path) -> dict[str, str]:
    secret = settings.s3_secret_access_key
    return {
        **os.environ,
        'FANFOLD_DATABASE_URL': settings.database_url,
        'FANFOLD_REDIS_URL': settings.redis_url,
        'FANFOLD_S3_ENDPOINT_URL': settings.s3_endpoint_url or '',
        'FANFOLD_S3_BUCKET': settings.s3_bucket,
        'FANFOLD_S3_ACCESS_KEY_ID': settings.s3_access_key_id or '',
        'FANFOLD_S3_SECRET_ACCESS_KEY': secret.get_secret_value() if secret else '',
        'FANFOLD_SCRATCH_DIR': str(tmp_path),
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts `fanfold assembler` and waits until it says that it is ready."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, ready: bool = True, stderr: int | None = None) -> subprocess.Popen[bytes]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.bind('')  # a free abstract name
            notices.settimeout(PATIENCE)
            name = notices.getsockname().decode().replace('\0', '@', 1)
            command = [sys.executable, '-m', 'fanfold', 'assembler', *arguments]
            process = subprocess.Popen(command, cwd=ROOT, env={**environment, 'NOTIFY_SOCKET': name}, stderr=stderr)
            started.append(process)
            if ready:
                assert notices.recv(100) == b'READY=1'
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_one_process_takes_a_job_from_plan_to_result(
    conn: Conn, press: Press, run: Callable[..., Any], looking: Callable[..., None]
) -> None:
    process = run()
    job_id = press.planned(2)
    looking(lambda: schema.list_batches(conn, job_id)[-1].kind == 'paint')
    for index in range(2):
        press.paint(PartKey(job_id=job_id, batch_no=1, part_index=index))
    press.relay._nudger.nudge('events')

    looking(lambda: 'job-completed' in ''.join(event_keys(conn, PartKey(job_id=job_id, batch_no=0, part_index=0))))

    job = schema.get_job(conn, job_id)
    assert job is not None
    assert (job.status, job.page_count) == ('completed', 6)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_it_stops_within_seconds_and_leaves_nothing_behind(run: Callable[..., Any], tmp_path: Path) -> None:
    process = run()
    assert list(tmp_path.glob('fanfold-assembler-*'))

    process.send_signal(signal.SIGINT)
    started = time.monotonic()

    assert process.wait(20) == 0
    assert time.monotonic() - started < 8
    assert not list(tmp_path.glob('fanfold-assembler-*'))


def test_roles_can_be_run_apart(
    conn: Conn, press: Press, run: Callable[..., Any], looking: Callable[..., None]
) -> None:
    for role in ROLES:
        run('--roles', role, ready=False)
    job_id = press.planned(2)
    looking(lambda: schema.list_batches(conn, job_id)[-1].kind == 'paint')
    for index in range(2):
        press.paint(PartKey(job_id=job_id, batch_no=1, part_index=index))

    def completed() -> bool:
        job = schema.get_job(conn, job_id)
        return job is not None and job.status == 'completed'

    looking(completed)
    assert [batch.kind for batch in schema.list_batches(conn, job_id)] == ['plan', 'paint', 'assemble']


def test_it_waits_for_a_database_that_is_not_there_yet(environment: dict[str, str], run: Callable[..., Any]) -> None:
    environment['FANFOLD_DATABASE_URL'] = 'postgresql://nobody@127.0.0.1:1/nothing'

    process = run(ready=False, stderr=subprocess.PIPE)

    for line in process.stderr:
        if b'waiting for the database' in line:
            break
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)


def test_metrics_say_how_it_does(conn: Conn, pool: schema.Pool, settings: Settings) -> None:
    service = Service(settings, ('relay', 'dispatcher', 'reconciler', 'sweeper'))
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    service.serve_metrics(port, host='127.0.0.2')
    try:
        assert service._reconciler is not None
        service._reconciler.tick()
        schema.cancel_job(conn, submitted(conn).id)
        conn.commit()
        assert service._relay is not None
        service._relay.tick()
        with urlopen(f'http://127.0.0.2:{port}/metrics') as answer:
            text = answer.read().decode()
    finally:
        service.stop()

    assert 'fanfold_events_parked 0.0' in text
    assert 'fanfold_stuck_jobs 0.0' in text
    assert 'fanfold_jobs_ended_total{outcome="completed"} 0.0' in text
    assert 'fanfold_jobs_ended_total{outcome="cancelled"} 1.0' in text
    assert 'fanfold_objects_swept_total 0.0' in text
    assert 'fanfold_reconciler_last_run_seconds 1' in text


def test_metrics_say_where_they_cannot_be_served(pool: schema.Pool, settings: Settings) -> None:
    service = Service(settings, ())
    with socket.create_server(('127.0.0.1', 0)) as taken:
        try:
            with pytest.raises(ConfigurationError, match='cannot serve metrics on'):
                service.serve_metrics(taken.getsockname()[1])
        finally:
            service.stop()


def test_the_command_knows_the_roles_of_the_service() -> None:
    assert fanfold.commands.assembler.ROLES == ROLES


@pytest.mark.parametrize('error', [BrokerUnavailable('gone'), RuntimeError('a bug')])
def test_a_role_that_fails_goes_on(error: Exception) -> None:
    stopping = threading.Event()
    ticks = []

    def tick() -> bool:
        ticks.append(None)
        if len(ticks) < 3:
            raise error
        return False

    run_loop(Loop(name='test', tick=tick, rest=stopping.set), stopping)

    assert len(ticks) == 3


def test_a_role_with_more_to_do_does_not_rest() -> None:
    stopping = threading.Event()
    answers = iter([True, True, False])
    rests = []

    def rest() -> None:
        rests.append(None)
        stopping.set()

    run_loop(Loop(name='test', tick=lambda: next(answers), rest=rest), stopping)

    assert len(rests) == 1
