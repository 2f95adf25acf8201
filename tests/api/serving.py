"""The API as tests run it: in a thread of this process, or as processes of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from pydantic import SecretStr

from api.app import create_app
from runtime.settings import Settings

ROOT = Path(__file__).parents[2]


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The API's URL. Requests that come before it is up wait in the socket."""
    listener = socket.create_server(('127.0.0.1', 0))
    config = uvicorn.Config(create_app(settings), log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={'sockets': [listener]})
    thread.start()
    try:
        yield f'http://127.0.0.1:{listener.getsockname()[1]}'
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    popen: subprocess.Popen[bytes]
    log: Path
    url: str

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith('}')]


@contextmanager
def process(settings: Settings, log: Path, *arguments: str) -> Iterator[Process]:
    """`fanfold api` on a free port, once it listens; killed in the end if it still runs."""
    command = [sys.executable, '-m', 'fanfold', 'api', '--port', '0', '--log-format', 'json', *arguments]
    popen = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment(settings)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert popen.stderr is not None
    url = ''
    with log.open('wb') as kept:
        for line in popen.stderr:
            kept.write(line)
            if b'"api listens"' in line:
                url = json.loads(line)['url']
                break
    copy = threading.Thread(target=_copy, args=(popen.stderr, log))
    copy.start()
    try:
        assert url, log.read_text()
        yield Process(popen=popen, log=log, url=url)
    finally:
        popen.kill()
        popen.wait()
        copy.join()
        popen.stderr.close()


def _copy(stream: Any, log: Path) -> None:
    with log.open('ab', buffering=0) as kept:
        for line in stream:
            kept.write(line)


def environment(settings: Settings) -> dict[str, str]:
    """The variables that give a process these settings."""
    values = {name: getattr(settings, name) for name in Settings.model_fields}
    return {
        f'FANFOLD_{name.upper()}': value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in values.items()
        if value is not None
    }


def client_of(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=30)
