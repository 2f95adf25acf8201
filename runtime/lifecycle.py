"""The life of a long-running process: say when it is ready, and wait until it is told to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from typing import Final

#: The kernel may give a signal to another thread than the main one, which alone runs handlers: so that one wakes up.
WAKE_SECONDS: Final = 1.0


class StopSignal:
    """SIGTERM or SIGINT, from the moment this is made in the main thread."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())

    def wait(self) -> None:
        while not self._stop.wait(WAKE_SECONDS):
            continue


def announce_ready() -> None:
    """Tell whoever started this process: READY=1 to the socket in NOTIFY_SOCKET, as sd_notify(3) does."""
    path = os.environ.get('NOTIFY_SOCKET')
    if not path:
        return
    address = '\0' + path[1:] if path.startswith('@') else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b'READY=1', address)
