"""A scripted service and a client of it for each test; and the command line, in this process or as one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fanfold.client import Client
from tests.client.service import Service, serving

ROOT = Path(__file__).parents[2]


class _Switch:
    """One server for all tests, a service for each."""

    service: Service

    async def __call__(self, scope, receive, send) -> None:
        await self.service(scope, receive, send)


@pytest.fixture(scope='session')
def server() -> Iterator[tuple[_Switch, str]]:
    switch = _Switch()
    with serving(switch) as port:
        yield switch, f'http://127.0.0.1:{port}'


@pytest.fixture
def service(server) -> Service:
    switch, url = server
    switch.service = Service(url)
    return switch.service


@pytest.fixture
def pauses() -> list[float]:
    """The pauses the client asked for; none of them was made."""
    return []


@pytest.fixture
def client(service, pauses) -> Iterator[Client]:
    with Client(service.url, patience=5, sleep=pauses.append) as client:
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def fanfold(service, capfd, monkeypatch) -> Callable[..., Ran]:
    """Run a command in this process, against the scripted service."""
    from fanfold.cli import main

    monkeypatch.setenv('FANFOLD_URL', service.url)
    # What is repeated is repeated at once.
    monkeypatch.setattr('fanfold.commands.service.PATIENCE', 0.5)

    def run(*arguments: str | Path) -> Ran:
        with pytest.raises(SystemExit) as exit_info:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Ran(code=exit_info.value.code, out=captured.out, err=captured.err)

    return run


def start(*arguments: str | Path, url: str = '', **streams) -> subprocess.Popen[bytes]:
    """The command line as a process of its own."""
    return subprocess.Popen(
        [sys.executable, '-m', 'fanfold', *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, 'FANFOLD_URL': url, 'TERM': 'xterm', 'COLUMNS': '100'},
        **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **streams},
    )
