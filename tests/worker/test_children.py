"""Children end within their limits, and it is told how they ended."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from runtime.logs import bind
from tests.worker.asking import MIB, PRELOAD, ended, request, wait_until, wait_until_gone
from worker.outcomes import Died, Done, Refused
from worker.requests import ChildRequest, Limits
from worker.zygote import Zygote


def test_a_child_starts_with_nothing_but_its_channel(bare: Zygote, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv('FANFOLD_S3_SECRET_ACCESS_KEY', 'secret')
    monkeypatch.setenv('AWS_SECRET_ACCESS_KEY', 'secret')
    monkeypatch.setenv('LC_TIME', 'C')
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    try:
        waiting = zygote.start(request('wait_for_ever'))
        outcome = ended(zygote.start(request('look_around', value='ü')))
        assert waiting.wait(0) is None
    finally:
        zygote.close()
    seen = outcome.result
    assert seen['payload'] == {'value': 'ü'}
    assert 'secret' not in seen['environment'].values()
    assert seen['environment']['LC_TIME'] == 'C'
    assert seen['threads'] == 1
    assert seen['group'] == seen['pid']
    # input, output, errors, and the channel
    assert [name for name in seen['descriptors'] if not name.startswith('/')] == ['socket']
    assert len(seen['descriptors']) == 4


def test_a_child_has_no_network_where_the_host_allows_that(bare: Zygote):
    allowed = 'from worker.child import leave_network; raise SystemExit(not leave_network())'
    alone = subprocess.run([sys.executable, '-c', allowed], check=False).returncode == 0
    with socket.create_server(('127.0.0.1', 0)) as server:
        outcome = ended(bare.start(request('reach_out', port=server.getsockname()[1])))
    assert ('error' in outcome.result) == alone


def test_a_result_comes_with_the_output_that_was_asked_for(bare: Zygote, tmp_path: Path):
    asked = request('look_around')
    asked = ChildRequest(entry=asked.entry, payload={}, limits=asked.limits, output=tmp_path / 'out.pdf')
    assert ended(bare.start(asked)).output == tmp_path / 'out.pdf'


def test_a_refusal_carries_its_problem_and_the_position(bare: Zygote):
    outcome = ended(bare.start(request('refuse')))
    assert isinstance(outcome, Refused)
    assert (outcome.problem['type'], outcome.problem['record']) == ('urn:fanfold:template-error', 4)
    assert outcome.position == (0, 4)


@pytest.mark.parametrize('piece', [1_000, MIB, 1_000 * MIB])
def test_memory_is_limited(bare: Zygote, piece: int):
    outcome = ended(bare.start(request('fill_memory', memory_mib=64, piece=piece)))
    assert (outcome.reason, outcome.position) == ('memory-limit', (2, 5))
    assert '64 MiB' in outcome.detail
    assert outcome.max_rss < 250 * MIB


def test_memory_that_runs_out_below_python_is_known_too(bare: Zygote):
    outcome = ended(bare.start(request('fill_memory_below_python', memory_mib=64)))
    assert (outcome.reason, outcome.signal) == ('memory-limit', signal.SIGABRT)


def test_cpu_time_is_limited(bare: Zygote):
    outcome = ended(bare.start(request('spin', cpu=1)))
    assert (outcome.reason, outcome.position) == ('cpu-limit', (0, 3))


def test_wall_time_is_limited(bare: Zygote):
    started = time.monotonic()
    outcome = ended(bare.start(request('wait_for_ever', wall=0.3)))
    assert (outcome.reason, outcome.position) == ('wall-limit', (1, None))
    assert 0.3 <= time.monotonic() - started < 5


@pytest.mark.parametrize(
    ('limits', 'taken'), [({'cpu': 1, 'wall': 60}, {'cpu': 0.6, 'wall': 0}), ({'wall': 2}, {'cpu': 0, 'wall': 0.7})]
)
def test_the_limits_are_for_each_item_and_not_for_the_run(bare: Zygote, limits: Any, taken: Any):
    asked = request('work_on_items', **limits, payload=taken)
    assert isinstance(ended(bare.start(asked)), Done)


@pytest.mark.parametrize(('stay', 'reason'), [('busy', 'cpu-limit'), ('idle', 'wall-limit')])
def test_a_limit_is_met_by_the_item_that_takes_for_ever(bare: Zygote, stay: str, reason: str):
    wall = 1 if stay == 'idle' else 15
    asked = request('work_on_items', cpu=1, wall=wall, payload={'cpu': 0.1, 'wall': 0, 'stay': stay})
    outcome = ended(bare.start(asked))
    assert (outcome.reason, outcome.position) == (reason, (0, 3))


def test_all_items_together_have_the_time_that_the_job_has_left(bare: Zygote):
    asked = request('work_on_items', payload={'cpu': 0, 'wall': 0, 'stay': 'idle'})
    limits = Limits(memory_bytes=300 * MIB, cpu_seconds=10, wall_seconds=15, total_seconds=0.3)
    assert ended(bare.start(ChildRequest(entry=asked.entry, payload=asked.payload, limits=limits))).reason == 'deadline'


@pytest.mark.parametrize('number', [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EDQUOT])
def test_what_the_host_lacks_is_told_from_a_crash(bare: Zygote, number: int):
    assert ended(bare.start(request('meet_the_host', errno=number))).reason == 'host'


def test_a_removed_scratch_folder_is_told_from_a_crash(bare: Zygote, tmp_path: Path):
    assert ended(bare.start(request('lose_the_scratch_folder', path=str(tmp_path / 'gone')))).reason == 'host'


def test_a_result_is_not_kept_waiting_by_the_exit_which_has_its_limit_too(bare: Zygote):
    child = bare.start(request('linger', wall=1))
    assert isinstance(ended(child), Done)
    wait_until(lambda: child.pid != 0)
    assert os.getpgid(child.pid) == child.pid, 'it is still there'
    wait_until_gone(child.pid)


@pytest.mark.parametrize('reason', ['lease-lost', 'draining', 'memory-limit'])
def test_a_kill_gives_its_reason(bare: Zygote, reason: Any):
    child = bare.start(request('wait_for_ever'))
    child.kill(reason)
    child.kill('wall-limit')
    outcome = ended(child)
    assert isinstance(outcome, Died)
    assert (outcome.reason, outcome.signal) == (reason, signal.SIGKILL)


def test_a_kill_after_the_end_changes_nothing(bare: Zygote):
    child = bare.start(request('look_around'))
    outcome = ended(child)
    child.kill('draining')
    assert child.wait(0) is outcome


@pytest.mark.parametrize('number', [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM])
def test_a_death_by_signal_is_told(bare: Zygote, number: signal.Signals):
    outcome = ended(bare.start(request('die_of', signal=int(number))))
    assert (outcome.reason, outcome.signal) == ('killed' if number == signal.SIGKILL else 'crashed', number)


def test_an_exception_is_a_crash_and_what_was_printed_is_logged(bare: Zygote, capfd: Any, caplog: Any):
    outcome = ended(bare.start(request('crash')))
    assert (outcome.reason, outcome.detail) == ('crashed', 'ValueError: as asked')
    logged = caplog.text + capfd.readouterr().out
    assert 'said before the crash' in logged
    assert 'Traceback' in logged


def test_leaving_without_a_word_is_a_crash(bare: Zygote):
    assert ended(bare.start(request('leave'))).detail == 'it left with exit code 3'


def test_a_file_that_grows_too_large_is_a_crash_not_a_result(bare: Zygote, tmp_path: Path):
    outcome = ended(bare.start(request('fill_the_disk', path=str(tmp_path / 'big'))))
    assert outcome.reason == 'crashed'


@pytest.mark.parametrize('stay', [False, True])
def test_what_a_child_started_ends_with_it(bare: Zygote, stay: bool):
    child = bare.start(request('leave_a_grandchild', stay=stay))
    if stay:
        wait_until(lambda: child.position is not None)
        child.kill('draining')
    ended(child)
    assert child.position is not None
    wait_until_gone(child.position[0])


@pytest.mark.parametrize('stay', [False, True])
def test_temporary_files_of_a_child_are_removed(bare: Zygote, stay: bool):
    child = bare.start(request('touch_temporary', stay=stay))
    wait_until(lambda: child.position is not None)
    if stay:
        assert list(bare._folder.glob('*/*/left'))
        child.kill('draining')
    ended(child)
    wait_until(lambda: list(bare._folder.iterdir()) == [bare._folder / 'lock'])


def test_siblings_outlive_a_death(bare: Zygote):
    patient = bare.start(request('wait_for_ever'))
    ended(bare.start(request('fill_memory', memory_mib=64)))
    assert patient.wait(0) is None
    patient.kill('draining')
    ended(patient)


def test_many_children_at_once_from_many_threads(bare: Zygote):
    outcomes: list[Any] = []
    threads = [
        threading.Thread(target=lambda index=index: outcomes.append(ended(bare.start(request('look_around', n=index)))))
        for index in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.result['payload']['n'] for outcome in outcomes) == list(range(24))


def test_what_a_child_prints_is_logged_with_the_ids_of_who_started_it(bare: Zygote, monkeypatch: pytest.MonkeyPatch):
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr('worker.zygote.log.warning', lambda *_, **__: logged.append(get_contextvars()))
    with bind(job_id='a-job', part_index=3):
        child = bare.start(request('crash'))
    ended(child)
    assert [(seen['job_id'], seen['part_index']) for seen in logged] == [('a-job', '3')]
