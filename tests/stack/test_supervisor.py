"""The supervisor, with small programs that say what happens to them."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.stack.errors import StackError
from fanfold.stack.output import LineBuffer, Output
from fanfold.stack.program import Program, Stage, Task
from fanfold.stack.supervisor import Supervisor

ANNOUNCE = """
import os, signal, socket, sys
def announce():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.sendto(b'READY=1', os.environ['NOTIFY_SOCKET'])
def stop(*_):
    print('asked to stop', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
"""
SERVE = f'{ANNOUNCE}\nprint("serving", flush=True)\nannounce()\nwhile True: signal.pause()'
IGNORE_STOP = f'{ANNOUNCE}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nannounce()\nwhile True: signal.pause()'


def program(name: str, code: str, *, is_ready: Callable[[], bool] | None = None, **options: float) -> Program:
    return Program(name=name, argv=(sys.executable, '-c', code), env=dict(os.environ), is_ready=is_ready, **options)


def task(name: str, code: str) -> Task:
    return Task(name=name, argv=(sys.executable, '-c', code), env=dict(os.environ))


def run(*stages: Stage, on_ready: Callable[[], None] | None = None, on_change: Callable[[], None] | None = None) -> str:
    """Run the stages, stop when they are ready, and give what was printed."""
    printed = io.StringIO()
    output = Output(printed, [each.name for stage in stages for each in stage])
    supervisor = Supervisor(stages, output, on_ready=on_ready or ask_to_stop, on_change=on_change or (lambda: None))
    try:
        supervisor.run()
    finally:
        assert supervisor.running == []
    return printed.getvalue()


def ask_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def positions(text: str, *parts: str) -> list[int]:
    return [text.index(part) for part in parts]


def test_stages_start_in_order_and_ranks_stop_in_order() -> None:
    printed = run(
        (program('store', SERVE, stop_rank=1),),
        (task('prepare', 'print("prepared")'),),
        (program('api', SERVE), program('worker', SERVE)),
    )
    started = positions(printed, 'store   | serving', 'prepare | prepared', 'api     | serving')
    stopped = positions(printed, 'worker  | asked to stop', 'store   | asked to stop')
    assert started == sorted(started)
    assert stopped == sorted(stopped)
    assert started[-1] < stopped[0]


def test_program_that_never_starts_ends_the_stack_with_its_last_words() -> None:
    complaint = 'import sys; print("port 80 is taken"); sys.exit(3)'
    with pytest.raises(StackError, match=r'(?s)api does not start: exited with status 3\n.*port 80 is taken'):
        run((program('store', SERVE, stop_rank=1),), (program('api', complaint),))


def test_failed_task_ends_the_stack_at_once() -> None:
    with pytest.raises(StackError, match=r'(?s)prepare does not start: exited with status 1.*no such database'):
        run((program('store', SERVE),), (task('prepare', 'import sys; sys.exit("no such database")'),))


def test_program_that_cannot_be_executed_is_named() -> None:
    missing = Program(name='api', argv=('/nowhere/api',), is_ready=None)
    with pytest.raises(StackError, match=r'api cannot be run: .*/nowhere/api'):
        run((missing,))


def test_program_that_does_not_get_ready_in_time_ends_the_stack() -> None:
    with pytest.raises(StackError, match=r'api was not ready within 0\.3 seconds'):
        run((program('api', SERVE, is_ready=lambda: False, start_grace=0.3),))


def test_killed_program_starts_again_at_once_and_then_after_growing_pauses(tmp_path: Path) -> None:
    starts = tmp_path / 'starts'
    code = f'{ANNOUNCE}\nannounce()\nopen({str(starts)!r}, "a").write("x")\nos.kill(os.getpid(), signal.SIGKILL)'
    began = time.monotonic()

    def stop_after_six_starts() -> None:
        if starts.exists() and len(starts.read_text()) >= 6:
            ask_to_stop()

    printed = run((program('worker', code),), on_ready=lambda: None, on_change=stop_after_six_starts)
    pauses = [line.split(' in ')[1] for line in printed.splitlines() if 'starting it again' in line]
    assert pauses[:4] == ['0.05 s', '0.1 s', '0.2 s', '0.4 s']
    assert 'worker was killed by SIGKILL' in printed
    assert time.monotonic() - began > 0.05 + 0.1 + 0.2 + 0.4


def test_program_that_does_not_stop_is_killed() -> None:
    printed = run((program('stubborn', IGNORE_STOP, stop_grace=0.2),))
    assert 'killing stubborn: it did not stop in time' in printed


def test_second_request_to_stop_kills() -> None:
    def ask_twice() -> None:
        ask_to_stop()
        ask_to_stop()

    printed = run((program('stubborn', IGNORE_STOP, stop_grace=60.0),), on_ready=ask_twice)
    assert printed.count('killing stubborn: on request') == 1


def test_request_to_stop_says_at_once_how_long_it_may_take() -> None:
    printed = run((program('store', SERVE, stop_rank=1, stop_grace=99.0), program('worker', SERVE, stop_grace=42.0)))
    lines = [line for line in printed.splitlines() if 'asked to stop' in line or 'stopping' in line]
    assert lines[0] == 'fanfold | stopping; what is in work has up to 42 s to end (once more to kill)'


def test_what_is_not_being_stopped_yet_is_not_killed_on_request() -> None:
    def ask_twice() -> None:
        ask_to_stop()
        ask_to_stop()

    stages = (program('store', SERVE, stop_rank=1), program('stubborn', IGNORE_STOP, stop_grace=60.0))
    printed = run(stages, on_ready=ask_twice)
    assert 'killing stubborn: on request' in printed
    assert 'store    | asked to stop' in printed


def test_every_line_carries_its_name_even_the_last_one_without_an_end() -> None:
    code = 'import sys; print("one"); print("two", file=sys.stderr); sys.stdout.write("three")'
    printed = run((task('prepare', code), program('api', SERVE)))
    lines = {line.rstrip() for line in printed.splitlines()}
    assert {'prepare | one', 'prepare | two', 'prepare | three'} <= lines
    assert all(line.split('|')[0].strip() in {'fanfold', 'prepare', 'api'} for line in lines)


def test_output_of_a_process_that_is_gone_is_not_awaited() -> None:
    # The grandchild keeps the pipe open; only its own end, with the session, lets go of it.
    code = 'import subprocess, sys; subprocess.Popen(["sleep", "600"]); print("done")'
    assert 'prepare | done' in run((task('prepare', code), program('api', SERVE)))


def test_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv('NO_COLOR', raising=False)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        Output(stream, ['api']).line('api', 'hello')
    assert '\x1b[' in terminal.getvalue()
    assert pipe.getvalue() == 'api     | hello\n'
    monkeypatch.setenv('NO_COLOR', '1')
    plain = Terminal()
    Output(plain, ['api']).line('api', 'hello')
    assert plain.getvalue() == 'api     | hello\n'


def test_endless_line_is_cut_and_bytes_that_are_no_text_are_shown() -> None:
    buffer = LineBuffer()
    assert [len(line) for line in buffer.feed(b'x' * 20_000)] == [20_000]
    assert buffer.feed(b'\xff\n') == ['\N{REPLACEMENT CHARACTER}']
    assert buffer.end() == []
