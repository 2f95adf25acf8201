"""`fanfold up` with all its processes: a job goes through, what is killed comes back, in the end nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pikepdf
import pytest

from tests.servers import ROOT, wait_until
from tests.stack.conftest import RunningStack, open_folder, stack_starter

PROCESSES = {'api', 'worker-1', 'worker-2', 'assembler'}
SERVERS = {'postgres', 'valkey', 'objects'}


@pytest.fixture(scope='module')
def whole_stack() -> Iterator[RunningStack]:
    """Two workers, in a working directory whose folders have the names of our packages."""
    with open_folder() as folder, stack_starter(folder) as start:
        for name in ('runtime', 'schema', 'renderer', 'worker'):
            (folder / name).mkdir()
            (folder / name / '__init__.py').write_text('raise SystemExit("the wrong package")')
        stack = start('--port', '0', '--workers', '2', '--threads', '1', cwd=folder)
        stack.wait_until_ready()
        yield stack


def submit(stack: RunningStack, folder: Path) -> int:
    """Render one page through the command line; the number of pages that came back."""
    source, result = folder / 'index.html', folder / 'result.pdf'
    source.write_text('<h1>Through the whole stack</h1>')
    command = [sys.executable, '-m', 'fanfold', 'submit', str(source), '-o', str(result)]
    subprocess.run([*command, '--url', stack.ready['api_url']], cwd=ROOT, check=True, timeout=60)
    with pikepdf.open(result) as pdf:
        return len(pdf.pages)


def is_ready(stack: RunningStack) -> bool:
    try:
        with urllib.request.urlopen(f'{stack.ready["api_url"]}/readyz', timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_job_goes_through_and_the_report_names_every_process(whole_stack: RunningStack, tmp_path: Path) -> None:
    assert submit(whole_stack, tmp_path) == 1
    assert set(whole_stack.ready['pids']) == PROCESSES | SERVERS
    log = whole_stack.log.read_text()
    assert f'ready: {whole_stack.ready["api_url"]}' in log
    assert 'curl -F files=@index.html' in log
    assert 'worker-2  | ' in log


def test_further_process_joins_with_the_reported_environment(whole_stack: RunningStack) -> None:
    environment = {**os.environ, **whole_stack.ready['environment']}
    command = [sys.executable, '-m', 'fanfold', 'migrate']
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert 'are ready' in done.stdout


def test_killed_processes_come_back_within_seconds_and_work(whole_stack: RunningStack, tmp_path: Path) -> None:
    for name in sorted(PROCESSES | SERVERS):
        began = time.monotonic()
        whole_stack.kill(name)
        assert time.monotonic() - began < 5, name
    wait_until(lambda: is_ready(whole_stack), 'the API', seconds=60)
    assert submit(whole_stack, tmp_path) == 1


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_stack(
    start_stack: Callable[..., RunningStack], tmp_path: Path, number: signal.Signals
) -> None:
    stack = start_stack('--port', '0')
    stack.wait_until_ready()
    assert submit(stack, tmp_path) == 1  # so that a press has been at work
    code = stack.stop(number)
    assert stack.wait_for_end() == []
    if number is signal.SIGKILL:
        assert code == -signal.SIGKILL
        return
    assert code == 0
    log = stack.log.read_text()
    last_of_ours = max(log.rindex(f'\n{name:<9} |') for name in ('api', 'worker', 'assembler'))
    assert last_of_ours < log.index('Valkey is now ready to exit') < log.index('received fast shutdown request')
