"""A zygote starts, is closed, dies and is replaced, and nothing outlives what it belongs to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.worker.asking import PATIENCE, PRELOAD, ended, request, wait_until_gone
from worker.outcomes import Done
from worker.zygote import Zygote, ZygoteUnavailable


def test_a_zygote_that_dies_takes_its_children_along_and_is_replaced(tmp_path: Path):
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    try:
        children = [zygote.start(request('wait_for_ever')) for _ in range(3)]
        assert zygote._process is not None
        zygote._process.kill()
        for child in children:
            assert ended(child).reason == 'zygote-died'
            wait_until_gone(child.pid)
        assert isinstance(ended(zygote.start(request('look_around'))), Done)
    finally:
        zygote.close()


def test_a_stopped_zygote_can_be_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('worker.zygote.STOP_PATIENCE_SECONDS', 0.2)
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    child = zygote.start(request('wait_for_ever'))
    assert zygote._process is not None
    os.kill(zygote._process.pid, signal.SIGSTOP)
    zygote.close()
    assert ended(child).reason == 'zygote-died'
    wait_until_gone(child.pid)


@pytest.mark.parametrize('backlog', [0, 400])
def test_a_stuck_zygote_is_killed_when_a_kill_goes_unanswered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backlog: int
):
    monkeypatch.setattr('worker.zygote.ANSWER_PATIENCE_SECONDS', 0.3)
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    try:
        sibling, child = zygote.start(request('wait_for_ever')), zygote.start(request('wait_for_ever'))
        assert zygote._process is not None
        os.kill(zygote._process.pid, signal.SIGSTOP)
        started = time.monotonic()
        for _ in range(backlog):  # more orders than the socket holds
            zygote._post(lambda: zygote._tell({'kill': 10_000}))
        child.kill('lease-lost')
        assert ended(child).reason == 'lease-lost'
        assert ended(sibling).reason == 'zygote-died'
        assert time.monotonic() - started < 10
        wait_until_gone(child.pid)
        wait_until_gone(sibling.pid)
        assert isinstance(ended(zygote.start(request('look_around'))), Done)
    finally:
        zygote.close()


def test_a_zygote_whose_thread_failed_says_so_and_keeps_nobody_waiting(tmp_path: Path, caplog: Any):
    told: list[str] = []
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD, on_broken=told.append)
    child = zygote.start(request('wait_for_ever'))
    zygote._post(lambda: 1 / 0)
    assert ended(child).reason == 'zygote-died'
    zygote._thread.join(PATIENCE)
    assert len(told) == 1
    assert 'ZeroDivisionError' in told[0]
    with pytest.raises(ZygoteUnavailable):
        zygote.start(request('look_around'))
    zygote.close()
    assert list(tmp_path.iterdir()) == []


def test_a_zygote_that_cannot_be_replaced_breaks_unasked(tmp_path: Path):
    broken = threading.Event()
    zygote = Zygote(scratch=tmp_path, preload='tests.worker.entries:warm_once', on_broken=lambda _: broken.set())
    try:
        assert zygote.warmed
        assert zygote._process is not None
        zygote._process.kill()
        assert broken.wait(PATIENCE)
        with pytest.raises(ZygoteUnavailable):
            assert zygote.warmed
    finally:
        zygote.close()


def test_a_zygote_that_cannot_be_executed_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []
    monkeypatch.setattr('worker.zygote.sys.executable', str(tmp_path))
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD, on_broken=told.append)
    zygote._thread.join(PATIENCE)
    with pytest.raises(ZygoteUnavailable):
        zygote.start(request('look_around'))
    assert 'PermissionError' in told[0]
    zygote.close()
    assert list(tmp_path.iterdir()) == []


def test_a_child_whose_end_was_never_settled_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    child = zygote.start(request('wait_for_ever'))
    monkeypatch.setattr(zygote, '_finish', lambda child: None)
    zygote.close()
    assert ended(child).reason == 'zygote-died'
    assert child._channel is not None
    child._channel.close()


def test_closing_kills_children_and_removes_folders(tmp_path: Path):
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    child = zygote.start(request('wait_for_ever'))
    zygote.close()
    zygote.close()
    assert ended(child).reason == 'zygote-died'
    wait_until_gone(child.pid)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZygoteUnavailable):
        zygote.start(request('look_around'))


def test_a_zygote_that_cannot_start_says_so(tmp_path: Path):
    told: list[str] = []
    zygote = Zygote(scratch=tmp_path, preload='tests.worker.entries:fail_to_warm', on_broken=told.append)
    try:
        for _ in range(2):
            with pytest.raises(ZygoteUnavailable, match='did not start'):
                zygote.start(request('look_around'))
        assert told
    finally:
        zygote.close()


def test_a_zygote_that_got_a_thread_begins_again_without_what_started_it(tmp_path: Path):
    zygote = Zygote(scratch=tmp_path, preload='tests.worker.entries:warm_with_a_thread')
    try:
        assert zygote.warmed == {'fingerprint': 'may render: False'}
        assert ended(zygote.start(request('look_around'))).result['threads'] == 1
    finally:
        zygote.close()


OWNER = """
import signal, sys
from pathlib import Path
from worker.zygote import Zygote
from tests.worker.asking import PRELOAD, request
zygote = Zygote(scratch=Path(sys.argv[1]), preload=PRELOAD)
children = [zygote.start(request('touch_temporary', stay=True)), zygote.start(request('wait_for_ever'))]
print(zygote._process.pid, *[child.pid for child in children], flush=True)
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
    zygote = Zygote(scratch=tmp_path, preload=PRELOAD)
    try:
        assert not left[0].exists()
    finally:
        zygote.close()
