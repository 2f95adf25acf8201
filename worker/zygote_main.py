"""The process that forks: warm, with one thread, started by exec as `python -m worker.zygote_main`.

Its owner (`worker.zygote`) sends `{"start": number, "folder": …}` with the child's channel, and
`{"kill": number}`; the answers are `{"ready": …}` once, then `{"started": number, "pid": …}` and
`{"ended": number, …}`. This process alone reaps its children, so a number always means the child it was given
to. When the owner's end closes, all children are killed and the process leaves; when it dies, the kernel kills
its children.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from worker.child import die_with, leave_network, load, run_child

LONGEST_MESSAGE: Final = 65_536
COLD: Final = '--cold'
PAYLOAD: Final = '--payload'
NETWORK: Final = '--network'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forked:
    number: int
    pid: int
    pidfd: int


class Forker:
    """Forks children on request and says how they ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._children: dict[int, _Forked] = {}
        self._pid = os.getpid()

    def run(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    self._obey()
                else:
                    self._reap(key.data)

    def _obey(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, LONGEST_MESSAGE, 1)
        except ConnectionError:
            message, descriptors = b'', []
        if not message:
            self._leave()
        order = json.loads(message)
        if 'start' in order:
            self._fork(order['start'], Path(order['folder']), socket.socket(fileno=descriptors[0]))
        elif order['kill'] in self._children:
            _kill(self._children[order['kill']].pid)

    def _fork(self, number: int, folder: Path, channel: socket.socket) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            channel.close()
            self._say({'ended': number, 'error': f'fork: {error.strerror}'})
            return
        if pid == 0:
            self._control.close()
            self._selector.close()
            for child in self._children.values():
                os.close(child.pidfd)
            run_child(folder, channel, self._pid)
        channel.close()
        with contextlib.suppress(OSError):  # the child was first, or is gone
            os.setpgid(pid, pid)
        child = _Forked(number=number, pid=pid, pidfd=os.pidfd_open(pid))
        self._children[number] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, child)
        self._say({'started': number, 'pid': pid})

    def _reap(self, child: _Forked) -> None:
        _kill(child.pid)  # what the child may have started; it is not reaped yet, so its id is still its own
        _, status, used = os.wait4(child.pid, 0)
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        del self._children[child.number]
        self._say({
            'ended': child.number,
            'exit': os.waitstatus_to_exitcode(status),
            'max_rss': used.ru_maxrss * 1024,
        })  # fmt: skip

    def _say(self, value: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(value).encode())
        except ConnectionError:
            self._leave()

    def _leave(self) -> NoReturn:
        for child in self._children.values():
            _kill(child.pid)
        os._exit(0)


def _kill(pid: int) -> None:
    """Kill a child that is not reaped yet, and its process group."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def threads() -> int:
    """Threads of this process, those of C libraries too."""
    return len(os.listdir('/proc/self/task'))


def main() -> NoReturn:
    """`python -m worker.zygote_main <control fd> <parent pid> <entry to warm up with> [--payload FILE] [--network]`"""
    descriptor, parent, preload, *rest = sys.argv[1:]
    if COLD not in rest and NETWORK not in rest:
        leave_network()  # nothing that is loaded asks for it, and what should not ask gets no answer
    die_with(int(parent))
    control = socket.socket(fileno=int(descriptor))
    if PAYLOAD in rest:
        warmed = load(preload)(json.loads(Path(rest[rest.index(PAYLOAD) + 1]).read_bytes()))
    else:
        warmed = load(preload)(COLD not in rest)
    if threads() > 1:
        if COLD in rest:
            raise SystemExit('the zygote has more than one thread, so it cannot fork')
        # some versions of Pango start a thread once they have laid text out: begin again without that
        os.set_inheritable(control.detach(), True)
        os.execv(sys.executable, [sys.executable, '-P', '-m', 'worker.zygote_main', *sys.argv[1:], COLD])
    gc.collect()
    gc.freeze()
    control.send(json.dumps({'ready': warmed}).encode())
    Forker(control).run()


if __name__ == '__main__':
    main()
