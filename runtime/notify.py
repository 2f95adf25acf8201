"""Tells whoever started this process that it is ready: the protocol of systemd's sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket


def announce_ready() -> None:
    """Send READY=1 to the socket in NOTIFY_SOCKET; nothing happens where there is none."""
    path = os.environ.get('NOTIFY_SOCKET')
    if not path:
        return
    address = '\0' + path[1:] if path.startswith('@') else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b'READY=1', address)
