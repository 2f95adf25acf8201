"""The demo, as `./run demo` runs it, with fewer documents."""

from __future__ import annotations

import re
import signal

import psutil
import pytest

from tests.client.conftest import start


def test_the_demo_shows_parts_painted_at_the_same_time_and_leaves_nothing_running(tmp_path):
    pdf = tmp_path / 'out' / 'demo.pdf'
    process = start('demo', '--documents', '40', '--parts', '8', '-o', pdf, '--log', tmp_path / 'log')
    out, err = process.communicate(timeout=280)
    assert (process.returncode, err) == (0, b''), out.decode() + (tmp_path / 'log').read_text()[-3_000:]
    shown = out.decode()
    assert str(pdf) in shown
    assert re.search(r'Seconds  plan [\d.]+, paint [\d.]+, assemble [\d.]+, total [\d.]+', shown)
    assert '8 parts by 8 processes' in shown
    assert 'all 40 notes are there' in shown
    assert 'stopped' in (tmp_path / 'log').read_text().splitlines()[-1]


@pytest.mark.parametrize('how', [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_in_the_middle_leaves_nothing_running(tmp_path, how):
    process = start('demo', '--documents', '2000', '-o', tmp_path / 'demo.pdf')
    assert process.stdout is not None
    until_rendering = iter(process.stdout.readline, b'')
    assert any(line.startswith(b'Rendering') for line in until_rendering)
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(how)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, b'Traceback' in err) == (130, False)
    assert len(started) > 6
    assert [child for child in started if child.is_running()] == []
    assert not (tmp_path / 'demo.pdf').exists()
