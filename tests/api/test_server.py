"""`fanfold api` as a process: its start, its log, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runtime.settings import Settings
from tests.api.jobs import Jobs
from tests.api.serving import ROOT, Process, client_of, environment, process


@pytest.fixture
def running(jobs: Jobs, shared_settings: Settings, tmp_path: Path) -> Iterator[Process]:
    with process(shared_settings, tmp_path / 'api.log') as running:
        yield running


def test_process_logs_requests_and_ends_its_streams_on_sigterm(running: Process, jobs: Jobs) -> None:
    job_id = jobs.submit()
    with client_of(running.url) as client:
        client.get(f'/v1/jobs/{job_id}', headers={'X-Request-ID': 'look'})
        with client.stream('GET', f'/v1/jobs/{job_id}/events') as answer:
            lines = answer.iter_lines()
            next(lines)
            running.popen.send_signal(signal.SIGTERM)
            assert not any(line.startswith('data:') for line in list(lines)[3:]), 'it ends, and tells nothing more'
    assert running.popen.wait(timeout=10) == 0
    logged = running.lines()
    [request] = [line for line in logged if line.get('request_id') == 'look']
    assert (request['event'], request['method'], request['status']) == ('request', 'GET', 200)
    assert request['path'] == f'/v1/jobs/{job_id}'
    assert logged[-1]['event'] == 'api stopped'
    assert [line for line in logged if line['level'] == 'error'] == []
    assert 'Traceback' not in running.log.read_text()


def test_request_under_way_is_finished_after_sigterm(running: Process, jobs: Jobs) -> None:
    address = httpx.URL(running.url)
    body = b'{"documents": [{"html": "<p>Late"}]}'
    head = f'POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n'
    with socket.create_connection((address.host, address.port or 0)) as connection:
        connection.sendall(head.encode() + body[:10])
        with client_of(running.url) as client:
            assert client.get('/healthz').status_code == 200, 'so the request before is under way'
        running.popen.send_signal(signal.SIGTERM)
        connection.sendall(body[10:])
        assert connection.recv(100).startswith(b'HTTP/1.1 202')
    running.popen.wait(timeout=10)
    assert len(jobs.api.get('/v1/jobs').json()['jobs']) == 1


def start(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, '-m', 'fanfold', 'api', *arguments],
        cwd=ROOT,
        env={**os.environ, **environment(settings)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_port_in_use_is_a_clear_error(shared_settings: Settings) -> None:
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        ended = start(shared_settings, '--port', str(port))
    assert ended.returncode == 2
    assert f'cannot listen on 127.0.0.1 port {port}' in ended.stderr
    assert 'Traceback' not in ended.stderr
