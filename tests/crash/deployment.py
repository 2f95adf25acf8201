"""A deployment of real processes for one test: servers of its own where it breaks them, and short leases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import schema
from fanfold.client import Client
from fanfold.stack.ports import free_ports

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
#: short enough that a test sees a lease expire, long enough that two busy cores keep one
QUICK = {
    'FANFOLD_LEASE_SECONDS': '3',
    'FANFOLD_RESEND_SECONDS': '1.5',
    'FANFOLD_RECONCILE_SECONDS': '0.3',
    'FANFOLD_DISPATCH_SECONDS': '0.2',
    'FANFOLD_RELAY_SECONDS': '0.2',
    'FANFOLD_GRACE_SECONDS': '1',
    'FANFOLD_LOG_FORMAT': 'json',
}
PAGE = '<h1>Document {{ number }}.</h1><p>{{ "word " * 20 }}</p>'


@dataclass(slots=True, kw_only=True)
class Process:
    """One process of the deployment, with its own log."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    marker: Path | None = None

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(timeout=20)

    def freeze(self) -> None:
        self.popen.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.popen.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM, and wait for a clean end; its exit status."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout=30)


def until(condition: Callable[[], Any], what: str, *, patience: float = PATIENCE) -> Any:
    """The first true value of `condition`. Fails, naming what was waited for, when patience ends."""
    give_up = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            raise AssertionError(f'waited {patience:.0f} s for {what}')
        time.sleep(0.02)


@dataclass(slots=True, kw_only=True)
class Deployment:
    """Processes over one database, one Redis and one bucket."""

    env: dict[str, str]
    folder: Path
    processes: list[Process] = field(default_factory=list)
    url: str = ''

    def start(self, program: str, *, stop_at: str | None = None, **env: str) -> Process:
        """Start `api`, `worker` or `assembler`; with `stop_at` it freezes at that point of tests.crash.stopping."""
        number = len(self.processes)
        log = self.folder / f'{number}-{program}.log'
        marker = self.folder / f'{number}-{program}.reached' if stop_at else None
        if stop_at:
            command = ['-m', 'tests.crash.stopping', stop_at, str(marker), program]
        elif program == 'api':
            (port,) = free_ports(1)
            self.url = f'http://127.0.0.1:{port}'
            command = ['-m', 'tests.crash.bound', 'api', '--port', str(port)]
        elif program == 'worker':
            command = ['-m', 'tests.crash.bound', 'worker', '--threads', env.pop('threads', '2')]
        else:
            command = ['-m', 'tests.crash.bound', program]
        with log.open('wb') as output:
            popen = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, **self.env, **env},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(name=program, popen=popen, log=log, marker=marker)
        self.processes.append(process)
        return process

    def reached(self, process: Process) -> None:
        """Wait until the process has frozen at its point."""
        assert process.marker is not None
        marker = process.marker
        until(lambda: marker.exists() or process.popen.poll() is not None, f'{process.name} to reach its point')
        assert process.popen.poll() is None, process.log.read_text()[-2000:]

    def client(self) -> Client:
        until(lambda: self._api_answers(), 'the api')
        return Client(self.url)

    def _api_answers(self) -> bool:
        import httpx

        try:
            return httpx.get(f'{self.url}/healthz', timeout=1).is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGKILL)
                process.popen.wait(timeout=20)

    def logs(self) -> Iterator[str]:
        for process in self.processes:
            yield f'--- {process.log.name}\n{process.log.read_text(errors="replace")[-3000:]}'


def held_parts(pool: schema.Pool, job_id: UUID, kind: str) -> list[schema.Part]:
    """Parts of this kind whose lease is alive by the database's clock."""
    with pool.connection() as conn:
        now = conn.execute('SELECT clock_timestamp()').fetchone()[0]  # type: ignore[index]
        parts = schema.list_parts(conn, job_id, after=None, limit=10_000)
    return [
        part
        for part in parts
        if part.kind == kind and part.lease_expires_at is not None and part.lease_expires_at > now
    ]
