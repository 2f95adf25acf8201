"""Where the tests' servers come from, in this order: URLs in the environment, containers, the embedded stack.

A server that cannot be had is an error of the tests that need it, never a skip.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fanfold.stack.objectstore import is_healthy
from fanfold.stack.postgres import accepts_connections
from fanfold.stack.valkey import answers_ping

ROOT = Path(__file__).parent.parent
STARTS_WITHIN = 120.0
POSTGRES_IMAGE = 'postgres:18-alpine'
VALKEY_IMAGE = 'valkey/valkey:9-alpine'
OBJECT_STORE_IMAGE = 'chrislusf/seaweedfs:4.48'


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """An S3 service and keys that may make buckets."""

    endpoint_url: str
    access_key_id: str
    secret_access_key: str

    @property
    def settings(self) -> dict[str, Any]:
        """As keyword arguments of `load_settings`."""
        return {
            's3_endpoint_url': self.endpoint_url,
            's3_access_key_id': self.access_key_id,
            's3_secret_access_key': self.secret_access_key,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """`postgres_url` is a superuser's."""

    postgres_url: str
    redis_url: str
    object_store: ObjectStore


@contextmanager
def running_servers() -> Iterator[Servers]:
    """All three; those that the environment names, and the rest from one other source."""
    given = from_environment()
    if len(given) == len(Servers.__slots__):
        yield Servers(**given)
    elif engine_answers():
        with in_containers(given) as servers:
            yield servers
    else:
        with embedded() as stack:
            yield Servers(**{**stack, **given})


def from_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    if url := os.environ.get('FANFOLD_TEST_DATABASE_URL'):
        found['postgres_url'] = url
    if url := os.environ.get('FANFOLD_TEST_REDIS_URL'):
        found['redis_url'] = url
    if url := os.environ.get('FANFOLD_TEST_S3_ENDPOINT_URL'):
        found['object_store'] = ObjectStore(
            endpoint_url=url,
            access_key_id=os.environ['FANFOLD_TEST_S3_ACCESS_KEY_ID'],
            secret_access_key=os.environ['FANFOLD_TEST_S3_SECRET_ACCESS_KEY'],
        )
    return found


def engine_answers() -> bool:
    """Whether a container engine can be used from here. Asked by another process: a failed ping leaks a socket."""
    ping = 'import docker; docker.from_env(timeout=5).ping()'
    return subprocess.run([sys.executable, '-c', ping], check=False, capture_output=True).returncode == 0


@contextmanager
def in_containers(given: dict[str, Any]) -> Iterator[Servers]:
    """Containers for what is not given."""
    found = dict(given)
    with ExitStack() as running:
        if 'postgres_url' not in found:
            found['postgres_url'] = running.enter_context(_postgres_container())
        if 'redis_url' not in found:
            found['redis_url'] = running.enter_context(_valkey_container())
        if 'object_store' not in found:
            found['object_store'] = running.enter_context(_object_store_container())
        yield Servers(**found)


@contextmanager
def embedded() -> Iterator[dict[str, Any]]:
    """The three servers of `fanfold up`, in a folder of their own, for as long as the block runs."""
    folder = tempfile.mkdtemp(prefix='fanfold-tests-')
    data = Path(folder)
    data.chmod(0o755)  # the account that the servers run as has to pass
    ready_file = data / 'ready.json'
    command = [sys.executable, '-m', 'fanfold', 'up', '--servers-only', '--stop-with-parent']
    command += ['--data', folder, '--ready-file', str(ready_file)]
    with (data / 'log').open('wb') as log:
        stack = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: ready_file.exists() or stack.poll() is not None, 'the embedded servers')
        if stack.poll() is not None:
            raise AssertionError(f'the embedded servers do not start:\n{(data / "log").read_text()}')
        ready = json.loads(ready_file.read_text())
        yield {
            'postgres_url': ready['database_url'],
            'redis_url': ready['redis_url'],
            'object_store': ObjectStore(
                endpoint_url=ready['s3_endpoint_url'],
                access_key_id=ready['s3_access_key_id'],
                secret_access_key=ready['s3_secret_access_key'],
            ),
        }
    finally:
        stack.terminate()
        stack.wait(timeout=60)
        subprocess.run(['rm', '-rf', folder], check=True)


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = STARTS_WITHIN) -> None:
    """For starting servers, which have no event to wait for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f'{what}: not ready within {seconds:.0f} seconds')
        time.sleep(0.05)


@contextmanager
def _container(image: str, port: int, **arguments: Any) -> Iterator[tuple[str, int]]:
    from testcontainers.core.container import DockerContainer

    with DockerContainer(image, ports=[port], **arguments) as container:
        yield container.get_container_host_ip(), int(container.get_exposed_port(port))


@contextmanager
def _postgres_container() -> Iterator[str]:
    password = secrets.token_hex(12)
    env = {'POSTGRES_USER': 'fanfold', 'POSTGRES_PASSWORD': password}
    with _container(POSTGRES_IMAGE, 5432, env=env) as (host, port):
        wait_until(lambda: accepts_connections(host, port), POSTGRES_IMAGE)
        yield f'postgresql://fanfold:{password}@{host}:{port}/postgres'


@contextmanager
def _valkey_container() -> Iterator[str]:
    command = 'valkey-server --maxmemory-policy noeviction --databases 64'
    with _container(VALKEY_IMAGE, 6379, command=command) as (host, port):
        wait_until(lambda: answers_ping(host, port, None), VALKEY_IMAGE)
        yield f'redis://{host}:{port}/0'


@contextmanager
def _object_store_container() -> Iterator[ObjectStore]:
    keys = {'AWS_ACCESS_KEY_ID': 'fanfold', 'AWS_SECRET_ACCESS_KEY': secrets.token_hex(16)}
    command = 'mini -dir=/data -master.telemetry=false -admin.ui=false -webdav=false -s3.port=8333'
    with _container(OBJECT_STORE_IMAGE, 8333, command=command, env=keys) as (host, port):
        wait_until(lambda: is_healthy(host, port), OBJECT_STORE_IMAGE)
        yield ObjectStore(
            endpoint_url=f'http://{host}:{port}',
            access_key_id=keys['AWS_ACCESS_KEY_ID'],
            secret_access_key=keys['AWS_SECRET_ACCESS_KEY'],
        )
