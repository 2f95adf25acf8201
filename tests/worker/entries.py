"""Functions that a zygote runs in its children, for tests: each ends, or does not end, in its own way."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from runtime.errors import Problem, Refusal

Report = Callable[[Any], None]


def warm(may_render: bool) -> dict[str, Any]:
    return {'fingerprint': f'may render: {may_render}'}


def warm_with_a_thread(may_render: bool) -> dict[str, Any]:
    """As Pango does in some versions once it has laid out text."""
    if may_render:
        threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
    return warm(may_render)


def fail_to_warm(may_render: bool) -> dict[str, Any]:
    raise SystemExit('no fonts')


def warm_once(may_render: bool) -> dict[str, Any]:
    """The processes of a zygote share their folder for temporary files."""
    Path(os.environ['TMPDIR'], 'warmed').touch(exist_ok=False)
    return warm(may_render)


def look_around(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    descriptors = []
    for number in os.listdir('/proc/self/fd'):
        try:
            descriptors.append(os.readlink(f'/proc/self/fd/{number}').split(':')[0])
        except FileNotFoundError:  # that of the listing itself
            continue
    return {
        'payload': payload,
        'environment': dict(os.environ),
        'threads': len(os.listdir('/proc/self/task')),
        'descriptors': descriptors,
        'group': os.getpgid(0),
        'pid': os.getpid(),
    }


def reach_out(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    import socket

    try:
        socket.create_connection(('127.0.0.1', payload['port']), timeout=5).close()
    except OSError as error:
        return {'error': str(error)}
    return {}


def touch_temporary(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    import tempfile

    folder = Path(tempfile.mkdtemp())
    (folder / 'left').write_text('behind')
    report([0, None])
    if payload.get('stay'):
        signal.pause()
    return {'folder': str(folder)}


def fill_memory(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    report([2, 5])
    kept = []
    while True:
        kept.append(bytearray(payload.get('piece', 1 << 20)))


def fill_memory_below_python(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """C code that gets no memory often aborts."""
    kept = []
    try:
        while True:
            kept.append(bytearray(1 << 20))
    except MemoryError:
        os.abort()


def spin(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    report([0, 3])
    while True:
        pass


def wait_for_ever(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    report([1, None])
    signal.pause()
    return {}


def leave_a_grandchild(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """A process in the child's group that lives on; its id is reported as the position."""
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    report([pid, None])
    if payload.get('stay'):
        signal.pause()
    return {}


def refuse(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    report([0, 4])
    raise Refusal(Problem(name='template-error', detail='as asked', extra={'record': 4}))


def crash(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    sys.stdout.write('said before the crash\n')
    raise ValueError('as asked')


def die_of(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    os.kill(os.getpid(), payload['signal'])
    return {}


def linger(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Done with the work, but not with leaving."""
    sys.stdout = SimpleNamespace(flush=signal.pause)
    return {}


def leave(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    os._exit(3)


def fill_the_disk(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
    Path(payload['path']).write_bytes(bytes(2_000))
    return {}


def meet_the_host(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    raise OSError(payload['errno'], os.strerror(payload['errno']))


def lose_the_scratch_folder(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    Path(payload['path'], 'out').write_bytes(b'')
    return {}


def work_on_items(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Three items that take a while each; then one that takes for ever, if asked for."""
    for item in range(3):
        report([0, item])
        busy_until = time.process_time() + payload['cpu']
        while time.process_time() < busy_until:
            pass
        threading.Event().wait(payload['wall'])
    if payload.get('stay'):
        report([0, 3])
        while True:
            if payload['stay'] == 'idle':
                signal.pause()
    return {}
