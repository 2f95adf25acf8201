"""The data folder of a stack: its lock, its secrets, its ports, and the processes it started.

One stack at a time may use a folder (`flock`, so a killed one leaves no lock behind). Where the servers' account cannot
reach the folder, theirs is another one below `/var/lib/fanfold`, always the same for the same folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from fanfold.stack.account import Account, can_reach
from fanfold.stack.errors import DataInUse, StackError

ELSEWHERE = Path('/var/lib/fanfold')
ORPHAN_GRACE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    postgres_password: str
    valkey_password: str
    access_key_id: str
    secret_access_key: str


class Place:
    """`data` is the folder asked for, `servers` the one that the servers' account can use: the same one if it can."""

    def __init__(self, data: Path, account: Account | None, *, elsewhere: Path = ELSEWHERE) -> None:
        self.data = _folder(data.absolute(), account)
        self.servers = self.data
        if not can_reach(account, self.data):
            digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]
            self.servers = _folder(elsewhere / f'{self.data.name.lstrip(".")}-{digest}', account)
            if not can_reach(account, self.servers):
                raise StackError(f'neither {self.data} nor {self.servers} can be reached by the account {account}')
        self.run = self.data / 'run'
        self.run.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> None:
        """Hold the folder until this process ends. Raises DataInUse."""
        handle = os.open(self.run / 'lock', os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode().strip() or 'unknown'
            os.close(handle)
            raise DataInUse(
                f'another stack (process {holder}) runs in {self.data}; stop it, or give another folder with --data'
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f'{os.getpid()}\n'.encode(), 0)  # the handle stays open until this process ends

    def secrets(self) -> Secrets:
        """Those of the last run, or new ones. They lie beside the data that they protect."""
        path = self.servers / 'secrets.json'
        if path.exists():
            return Secrets(**json.loads(path.read_text()))
        if (self.servers / 'postgres' / 'PG_VERSION').exists():
            raise StackError(f'{path} is missing, and the database beside it cannot be opened without; bring it back')
        drawn = Secrets(
            postgres_password=secrets.token_urlsafe(18),
            valkey_password=secrets.token_urlsafe(18),
            access_key_id=f'fanfold-{secrets.token_hex(4)}',
            secret_access_key=secrets.token_urlsafe(30),
        )
        write_json(path, asdict(drawn))
        return drawn

    def remembered_ports(self) -> dict[str, tuple[int, ...]]:
        try:
            return {name: tuple(ports) for name, ports in json.loads((self.run / 'ports.json').read_text()).items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def remember_ports(self, ports: dict[str, tuple[int, ...]]) -> None:
        write_json(self.run / 'ports.json', ports)

    def record_processes(self, processes: Iterable[tuple[str, int, signal.Signals]]) -> None:
        """For `end_orphans` of the next run: name, pid, how to end it (and its start: pids are used again)."""
        found = []
        for name, pid, end in processes:
            with suppress(psutil.Error):
                started = psutil.Process(pid).create_time()
                found.append({'name': name, 'pid': pid, 'started': started, 'signal': int(end)})
        write_json(self.run / 'processes.json', found)

    def end_orphans(self) -> list[str]:
        """End what a killed stack left running in this folder; their names. Call with the lock held."""
        try:
            recorded = json.loads((self.run / 'processes.json').read_text())
        except (OSError, ValueError):
            return []
        orphans = {}
        for entry in recorded:
            with suppress(psutil.Error):
                process = psutil.Process(entry['pid'])
                if process.create_time() == entry['started'] and process.status() != psutil.STATUS_ZOMBIE:
                    process.send_signal(entry['signal'])
                    orphans[entry['name']] = process
        _, stubborn = psutil.wait_procs(list(orphans.values()), timeout=ORPHAN_GRACE)
        for process in stubborn:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stubborn, timeout=ORPHAN_GRACE)
        return sorted(orphans)


def write_json(path: Path, value: Any) -> None:
    """A file that only its owner can read, complete or not at all."""
    unfinished = path.with_name(f'.{path.name}.{os.getpid()}')
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, 'w') as file:
        json.dump(value, file, indent=2)
    unfinished.replace(path)


def _folder(path: Path, account: Account | None) -> Path:
    """The folder, made where it is missing: the servers' account may pass, and its own folders inside are private."""
    if not path.is_dir():
        path.mkdir(parents=True)
        if account is not None:
            path.chmod(0o755)
    return path.resolve()
