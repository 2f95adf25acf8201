"""Children end within their limits, and nothing outlives what it belongs to."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from renderer.press import Child, ChildRequest, Died, Limits, Painted, Press, PressUnavailable, Refused
from runtime.logs import bind

PATIENCE = 20.0
MIB = 1 << 20


@pytest.fixture(scope='module')
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Press]:
    """A press whose zygote loads nothing to render with."""
    running = Press(scratch=tmp_path_factory.mktemp('bare'), preload='tests.renderer.entries:warm')
    yield running
    running.close()


def request(entry: str, *, memory_mib: int = 300, cpu: float = 10, wall: float = 15, **payload: Any) -> ChildRequest:
    limits = Limits(memory_bytes=memory_mib * MIB, cpu_seconds=cpu, wall_seconds=wall)
    payload = payload.get('payload', payload)
    return ChildRequest(entry=f'tests.renderer.entries:{entry}', payload=payload, limits=limits)


def ended(child: Child) -> Any:
    outcome = child.wait(PATIENCE)
    assert outcome is not None
    return outcome


def wait_until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    give_up = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up
        pause.wait(0.01)


def wait_until_gone(pid: int) -> None:
    """Until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], PATIENCE)[0]
    finally:
        os.close(descriptor)


def test_a_child_starts_with_nothing_but_its_channel(bare: Press, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv('FANFOLD_S3_SECRET_ACCESS_KEY', 'secret')
    monkeypatch.setenv('AWS_SECRET_ACCESS_KEY', 'secret')
    monkeypatch.setenv('LC_TIME', 'C')
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    try:
        waiting = press.start(request('wait_for_ever'))
        outcome = ended(press.start(request('look_around', value='ü')))
        assert waiting.wait(0) is None
    finally:
        press.close()
    seen = outcome.result
    assert seen['payload'] == {'value': 'ü'}
    assert 'secret' not in seen['environment'].values()
    assert seen['environment']['LC_TIME'] == 'C'
    assert seen['threads'] == 1
    assert seen['group'] == seen['pid']
    # input, output, errors, and the channel
    assert [name for name in seen['descriptors'] if not name.startswith('/')] == ['socket']
    assert len(seen['descriptors']) == 4


def test_a_child_has_no_network_where_the_host_allows_that(bare: Press):
    allowed = 'from renderer.child import leave_network; raise SystemExit(not leave_network())'
    alone = subprocess.run([sys.executable, '-c', allowed], check=False).returncode == 0
    with socket.create_server(('127.0.0.1', 0)) as server:
        outcome = ended(bare.start(request('reach_out', port=server.getsockname()[1])))
    assert ('error' in outcome.result) == alone


def test_a_result_comes_with_the_output_that_was_asked_for(bare: Press, tmp_path: Path):
    asked = request('look_around')
    asked = ChildRequest(entry=asked.entry, payload={}, limits=asked.limits, output=tmp_path / 'out.pdf')
    assert ended(bare.start(asked)).output == tmp_path / 'out.pdf'


def test_a_refusal_carries_its_problem_and_the_position(bare: Press):
    outcome = ended(bare.start(request('refuse')))
    assert isinstance(outcome, Refused)
    assert (outcome.problem['type'], outcome.problem['record']) == ('urn:fanfold:template-error', 4)
    assert outcome.position == (0, 4)


@pytest.mark.parametrize('piece', [1_000, MIB, 1_000 * MIB])
def test_memory_is_limited(bare: Press, piece: int):
    outcome = ended(bare.start(request('fill_memory', memory_mib=64, piece=piece)))
    assert (outcome.reason, outcome.position) == ('memory-limit', (2, 5))
    assert '64 MiB' in outcome.detail
    assert outcome.max_rss < 250 * MIB


def test_memory_that_runs_out_below_python_is_known_too(bare: Press):
    outcome = ended(bare.start(request('fill_memory_below_python', memory_mib=64)))
    assert (outcome.reason, outcome.signal) == ('memory-limit', signal.SIGABRT)


def test_cpu_time_is_limited(bare: Press):
    outcome = ended(bare.start(request('spin', cpu=1)))
    assert (outcome.reason, outcome.position) == ('cpu-limit', (0, 3))


def test_wall_time_is_limited(bare: Press):
    started = time.monotonic()
    outcome = ended(bare.start(request('wait_for_ever', wall=0.3)))
    assert (outcome.reason, outcome.position) == ('wall-limit', (1, None))
    assert 0.3 <= time.monotonic() - started < 5


@pytest.mark.parametrize(
    ('limits', 'taken'), [({'cpu': 1, 'wall': 60}, {'cpu': 0.6, 'wall': 0}), ({'wall': 2}, {'cpu': 0, 'wall': 0.7})]
)
def test_the_limits_are_for_each_item_and_not_for_the_run(bare: Press, limits: Any, taken: Any):
    asked = request('work_on_items', **limits, payload=taken)
    assert isinstance(ended(bare.start(asked)), Painted)


@pytest.mark.parametrize(('stay', 'reason'), [('busy', 'cpu-limit'), ('idle', 'wall-limit')])
def test_a_limit_is_met_by_the_item_that_takes_for_ever(bare: Press, stay: str, reason: str):
    wall = 1 if stay == 'idle' else 15
    asked = request('work_on_items', cpu=1, wall=wall, payload={'cpu': 0.1, 'wall': 0, 'stay': stay})
    outcome = ended(bare.start(asked))
    assert (outcome.reason, outcome.position) == (reason, (0, 3))


def test_all_items_together_have_the_time_that_the_job_has_left(bare: Press):
    asked = request('work_on_items', payload={'cpu': 0, 'wall': 0, 'stay': 'idle'})
    limits = Limits(memory_bytes=300 * MIB, cpu_seconds=10, wall_seconds=15, total_seconds=0.3)
    assert ended(bare.start(ChildRequest(entry=asked.entry, payload=asked.payload, limits=limits))).reason == 'deadline'


@pytest.mark.parametrize('number', [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EDQUOT])
def test_what_the_host_lacks_is_told_from_a_crash(bare: Press, number: int):
    assert ended(bare.start(request('meet_the_host', errno=number))).reason == 'host'


def test_a_removed_scratch_folder_is_told_from_a_crash(bare: Press, tmp_path: Path):
    assert ended(bare.start(request('lose_the_scratch_folder', path=str(tmp_path / 'gone')))).reason == 'host'


@pytest.mark.parametrize('reason', ['lease-lost', 'draining', 'memory-limit'])
def test_a_kill_gives_its_reason(bare: Press, reason: Any):
    child = bare.start(request('wait_for_ever'))
    child.kill(reason)
    child.kill('wall-limit')
    outcome = ended(child)
    assert isinstance(outcome, Died)
    assert (outcome.reason, outcome.signal) == (reason, signal.SIGKILL)


def test_a_kill_after_the_end_changes_nothing(bare: Press):
    child = bare.start(request('look_around'))
    outcome = ended(child)
    child.kill('draining')
    assert child.wait(0) is outcome


@pytest.mark.parametrize('number', [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM])
def test_a_death_by_signal_is_told(bare: Press, number: signal.Signals):
    outcome = ended(bare.start(request('die_of', signal=int(number))))
    assert (outcome.reason, outcome.signal) == ('killed' if number == signal.SIGKILL else 'crashed', number)


def test_an_exception_is_a_crash_and_what_was_printed_is_logged(bare: Press, capfd: Any, caplog: Any):
    outcome = ended(bare.start(request('crash')))
    assert (outcome.reason, outcome.detail) == ('crashed', 'ValueError: as asked')
    logged = caplog.text + capfd.readouterr().out
    assert 'said before the crash' in logged
    assert 'Traceback' in logged


def test_leaving_without_a_word_is_a_crash(bare: Press):
    assert ended(bare.start(request('leave'))).detail == 'it left with exit code 3'


def test_a_file_that_grows_too_large_is_a_crash_not_a_result(bare: Press, tmp_path: Path):
    outcome = ended(bare.start(request('fill_the_disk', path=str(tmp_path / 'big'))))
    assert outcome.reason == 'crashed'


@pytest.mark.parametrize('stay', [False, True])
def test_what_a_child_started_ends_with_it(bare: Press, stay: bool):
    child = bare.start(request('leave_a_grandchild', stay=stay))
    if stay:
        wait_until(lambda: child.position is not None)
        child.kill('draining')
    ended(child)
    assert child.position is not None
    wait_until_gone(child.position[0])


@pytest.mark.parametrize('stay', [False, True])
def test_temporary_files_of_a_child_are_removed(bare: Press, stay: bool):
    child = bare.start(request('touch_temporary', stay=stay))
    wait_until(lambda: child.position is not None)
    if stay:
        assert list(bare._folder.glob('*/*/left'))
        child.kill('draining')
    ended(child)
    assert list(bare._folder.iterdir()) == [bare._folder / 'lock']


def test_siblings_outlive_a_death(bare: Press):
    patient = bare.start(request('wait_for_ever'))
    ended(bare.start(request('fill_memory', memory_mib=64)))
    assert patient.wait(0) is None
    patient.kill('draining')
    ended(patient)


def test_many_children_at_once_from_many_threads(bare: Press):
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


def test_a_zygote_that_dies_takes_its_children_along_and_is_replaced(tmp_path: Path):
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    try:
        children = [press.start(request('wait_for_ever')) for _ in range(3)]
        assert press._process is not None
        press._process.kill()
        for child in children:
            assert ended(child).reason == 'press-died'
            wait_until_gone(child.pid)
        assert isinstance(ended(press.start(request('look_around'))), Painted)
    finally:
        press.close()


def test_a_stopped_zygote_does_not_keep_the_press_from_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('renderer.press.STOP_PATIENCE_SECONDS', 0.2)
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    child = press.start(request('wait_for_ever'))
    assert press._process is not None
    os.kill(press._process.pid, signal.SIGSTOP)
    press.close()
    assert ended(child).reason == 'press-died'
    wait_until_gone(child.pid)


@pytest.mark.parametrize('backlog', [0, 400])
def test_a_stuck_zygote_is_killed_when_a_kill_goes_unanswered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backlog: int
):
    monkeypatch.setattr('renderer.press.ANSWER_PATIENCE_SECONDS', 0.3)
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    try:
        sibling, child = press.start(request('wait_for_ever')), press.start(request('wait_for_ever'))
        assert press._process is not None
        os.kill(press._process.pid, signal.SIGSTOP)
        started = time.monotonic()
        for _ in range(backlog):  # more orders than the socket holds
            press._post(lambda: press._tell({'kill': 10_000}))
        child.kill('lease-lost')
        assert ended(child).reason == 'lease-lost'
        assert ended(sibling).reason == 'press-died'
        assert time.monotonic() - started < 10
        wait_until_gone(child.pid)
        wait_until_gone(sibling.pid)
        assert isinstance(ended(press.start(request('look_around'))), Painted)
    finally:
        press.close()


def test_a_press_whose_thread_failed_says_so_and_keeps_nobody_waiting(tmp_path: Path, caplog: Any):
    told: list[str] = []
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm', on_broken=told.append)
    child = press.start(request('wait_for_ever'))
    press._post(lambda: 1 / 0)
    assert ended(child).reason == 'press-died'
    press._thread.join(PATIENCE)
    assert len(told) == 1
    assert 'ZeroDivisionError' in told[0]
    with pytest.raises(PressUnavailable):
        press.start(request('look_around'))
    press.close()
    assert list(tmp_path.iterdir()) == []


def test_a_zygote_that_cannot_be_replaced_breaks_the_press_unasked(tmp_path: Path):
    broken = threading.Event()
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm_once', on_broken=lambda _: broken.set())
    try:
        assert press.fingerprint
        assert press._process is not None
        press._process.kill()
        assert broken.wait(PATIENCE)
        with pytest.raises(PressUnavailable):
            assert press.fingerprint
    finally:
        press.close()


def test_a_zygote_that_cannot_be_executed_breaks_the_press(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []
    monkeypatch.setattr('renderer.press.sys.executable', str(tmp_path))
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm', on_broken=told.append)
    press._thread.join(PATIENCE)
    with pytest.raises(PressUnavailable):
        press.start(request('look_around'))
    assert 'PermissionError' in told[0]
    press.close()
    assert list(tmp_path.iterdir()) == []


def test_a_child_whose_end_was_never_settled_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    child = press.start(request('wait_for_ever'))
    monkeypatch.setattr(press, '_finish', lambda child: None)
    press.close()
    assert ended(child).reason == 'press-died'
    assert child._channel is not None
    child._channel.close()


def test_what_a_child_prints_is_logged_with_the_ids_of_who_started_it(bare: Press, monkeypatch: pytest.MonkeyPatch):
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr('renderer.press.log.warning', lambda *_, **__: logged.append(get_contextvars()))
    with bind(job_id='a-job', part_index=3):
        child = bare.start(request('crash'))
    ended(child)
    assert [(seen['job_id'], seen['part_index']) for seen in logged] == [('a-job', '3')]


def test_closing_kills_children_and_removes_folders(tmp_path: Path):
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    child = press.start(request('wait_for_ever'))
    press.close()
    press.close()
    assert ended(child).reason == 'press-died'
    wait_until_gone(child.pid)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PressUnavailable):
        press.start(request('look_around'))


def test_a_zygote_that_cannot_start_says_so(tmp_path: Path):
    told: list[str] = []
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:fail_to_warm', on_broken=told.append)
    try:
        for _ in range(2):
            with pytest.raises(PressUnavailable, match='did not start'):
                press.start(request('look_around'))
        assert told
    finally:
        press.close()


def test_a_zygote_that_got_a_thread_begins_again_without_what_started_it(tmp_path: Path):
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm_with_a_thread')
    try:
        assert press.fingerprint == 'may render: False'
        assert ended(press.start(request('look_around'))).result['threads'] == 1
    finally:
        press.close()


OWNER = """
import signal, sys
from pathlib import Path
from renderer.press import Press
from tests.renderer.test_press import request
press = Press(scratch=Path(sys.argv[1]), preload='tests.renderer.entries:warm')
children = [press.start(request('leave_a_grandchild', stay=True)), press.start(request('wait_for_ever'))]
print(press._process.pid, *[child.pid for child in children], flush=True)
signal.pause()
"""


def test_sigkill_of_the_owner_leaves_no_orphan(tmp_path: Path):
    owner = subprocess.Popen([sys.executable, '-c', OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 3
        owner.kill()
    for pid in pids:
        wait_until_gone(pid)
    left = list(tmp_path.iterdir())
    assert left  # nobody was there to remove it
    press = Press(scratch=tmp_path, preload='tests.renderer.entries:warm')
    try:
        assert not left[0].exists()
    finally:
        press.close()
