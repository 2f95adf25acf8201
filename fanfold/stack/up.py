"""What a whole stack consists of: from what the operator asked for to the programs that the supervisor runs.

Three servers, each of which may be an outside one, given by URL; then the database's schema and the bucket; then the
API, the workers and the assembler. All of them are configured through `FANFOLD_…` variables alone, so that a process
started by hand with the same variables belongs to the same stack.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fanfold
from fanfold.stack.account import Account, unprivileged_account
from fanfold.stack.errors import StackError
from fanfold.stack.objectstore import Keys, object_store_ports, object_store_url, prepare_object_store
from fanfold.stack.output import Output
from fanfold.stack.place import Place, write_json
from fanfold.stack.ports import free_ports
from fanfold.stack.postgres import postgres_url, prepare_postgres
from fanfold.stack.program import Program, Stage, Task
from fanfold.stack.supervisor import Supervisor
from fanfold.stack.valkey import prepare_valkey, valkey_url
from runtime.settings import Settings

HAND_BACK_SECONDS = 20.0  # what a worker may take on top of FANFOLD_GRACE_SECONDS, to hand back what is unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator asked for. A URL of None means: run that server here."""

    data: Path
    host: str = '127.0.0.1'
    port: int = 8000
    workers: int = 1
    threads: int | None = None
    database_url: str | None = None
    redis_url: str | None = None
    s3: dict[str, str] | None = None  # the FANFOLD_S3_… variables of an outside store
    postgres_bin: Path | None = None
    servers_only: bool = False
    ready_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of the stack: its program unless it is an outside one, and the variables that lead to it."""

    environment: dict[str, str]
    program: Program | None = None


def run_stack(wish: Wish) -> None:
    """Run the stack until a signal asks to stop. Raises StackError; in the end nothing is left running."""
    account = unprivileged_account()
    place = _place(wish.data, account)
    if wish.ready_file:
        wish.ready_file.unlink(missing_ok=True)
    port = None if wish.servers_only else _api_port(wish.host, wish.port)
    orphans = place.end_orphans()
    servers = _servers(wish, place, account)
    environment = {name: value for server in servers for name, value in server.environment.items()}
    stages = _stages(wish, place, servers, environment, port)
    output = Output(sys.stdout, [program.name for stage in stages for program in stage])
    _say_where(output, place, account, orphans)
    api_url = f'http://{_reachable(wish.host)}:{port}' if port else None

    def on_change() -> None:
        place.record_processes((program.name, pid, program.stop_signal) for program, pid in supervisor.running)
        if wish.ready_file and wish.ready_file.exists():
            _write_ready(wish.ready_file)

    def _write_ready(path: Path) -> None:
        pids = {program.name: pid for program, pid in supervisor.running}
        write_json(path, ready_report(api_url=api_url, data=place.data, environment=environment, pids=pids))

    def on_ready() -> None:
        if wish.ready_file:
            _write_ready(wish.ready_file)
        _say_ready(output, api_url)

    supervisor = Supervisor(stages, output, on_ready=on_ready, on_change=on_change)
    try:
        supervisor.run()
    finally:
        if wish.ready_file:
            wish.ready_file.unlink(missing_ok=True)
    output.say('stopped')


def _place(data: Path, account: Account | None) -> Place:
    try:
        place = Place(data, account)
        place.lock()
    except OSError as error:
        raise StackError(f'{data} cannot hold the data: {error}; give another folder with --data') from error
    return place


def ready_report(
    *, api_url: str | None, data: Path, environment: dict[str, str], pids: dict[str, int]
) -> dict[str, Any]:
    """What `--ready-file` holds: how to reach everything, and the variables for further processes of this stack."""
    urls = {name.removeprefix('FANFOLD_').lower(): value for name, value in environment.items()}
    return {'api_url': api_url, **urls, 'data': str(data), 'pids': pids, 'environment': environment}


def _servers(wish: Wish, place: Place, account: Account | None) -> list[Server]:
    """The three servers, with the ports of the last run where they are still free."""
    remembered = place.remembered_ports()
    (postgres_port,) = free_ports(1, remembered=remembered.get('postgres', ()))
    (valkey_port,) = free_ports(1, remembered=remembered.get('valkey', ()))
    object_ports = object_store_ports(remembered.get('objects', ()))
    place.remember_ports({'postgres': (postgres_port,), 'valkey': (valkey_port,), 'objects': object_ports})
    return [
        _postgres(wish, place, account, postgres_port),
        _valkey(wish, place, account, valkey_port),
        _object_store(wish, place, account, object_ports),
    ]


def _postgres(wish: Wish, place: Place, account: Account | None, port: int) -> Server:
    if wish.database_url:
        return Server(environment={'FANFOLD_DATABASE_URL': wish.database_url})
    password = place.secrets().postgres_password
    program = prepare_postgres(
        data=place.servers,
        cache=place.servers / 'bin',
        account=account,
        port=port,
        password=password,
        bin_folder=wish.postgres_bin,
    )
    return Server(environment={'FANFOLD_DATABASE_URL': postgres_url(port, password)}, program=program)


def _valkey(wish: Wish, place: Place, account: Account | None, port: int) -> Server:
    if wish.redis_url:
        return Server(environment={'FANFOLD_REDIS_URL': wish.redis_url})
    password = place.secrets().valkey_password
    program = prepare_valkey(
        data=place.servers, cache=place.servers / 'bin', account=account, port=port, password=password
    )
    return Server(environment={'FANFOLD_REDIS_URL': valkey_url(port, password)}, program=program)


def _object_store(wish: Wish, place: Place, account: Account | None, ports: tuple[int, ...]) -> Server:
    if wish.s3:
        return Server(environment=wish.s3)
    secrets = place.secrets()
    keys = Keys(access_key_id=secrets.access_key_id, secret_access_key=secrets.secret_access_key)
    program = prepare_object_store(
        data=place.servers, cache=place.servers / 'bin', account=account, ports=ports, keys=keys
    )
    environment = {
        'FANFOLD_S3_ENDPOINT_URL': object_store_url(ports[0]),
        'FANFOLD_S3_ACCESS_KEY_ID': keys.access_key_id,
        'FANFOLD_S3_SECRET_ACCESS_KEY': keys.secret_access_key,
        'FANFOLD_S3_BUCKET': 'fanfold',
        'FANFOLD_S3_REGION': 'us-east-1',
        'FANFOLD_S3_PATH_STYLE': 'true',
    }
    return Server(environment=environment, program=program)


def _stages(
    wish: Wish, place: Place, servers: list[Server], environment: dict[str, str], port: int | None
) -> list[Stage]:
    own = tuple(server.program for server in servers if server.program is not None)
    stages: list[Stage] = [own] if own else []
    if port is None:
        return stages
    scratch = place.data / 'scratch'
    shutil.rmtree(scratch, ignore_errors=True)  # what killed processes left
    scratch.mkdir(mode=0o700)
    variables = _process_environment({'FANFOLD_SCRATCH_DIR': str(scratch), **environment})
    migrate = Task(name='migrate', argv=_command('migrate'), env=variables, cwd=Path.cwd())
    api = _process(
        'api', _command('api', '--host', wish.host, '--port', str(port)), variables, _answers(wish.host, port)
    )
    threads = ('--threads', str(wish.threads)) if wish.threads else ()
    names = ['worker'] if wish.workers == 1 else [f'worker-{number}' for number in range(1, wish.workers + 1)]
    workers = [_process(name, _command('worker', *threads), variables) for name in names]
    assembler = _process('assembler', _command('assembler'), variables)
    return [*stages, (migrate,), (api, *workers, assembler)]


def _process(
    name: str, argv: tuple[str, ...], variables: dict[str, str], is_ready: Callable[[], bool] | None = None
) -> Program:
    grace = _grace_seconds(variables) + HAND_BACK_SECONDS
    return Program(name=name, argv=argv, env=variables, cwd=Path.cwd(), stop_grace=grace, is_ready=is_ready)


def _grace_seconds(variables: Mapping[str, str]) -> float:
    """What workers give their parts to finish; of a value that is none they say so themselves."""
    try:
        return float(variables['FANFOLD_GRACE_SECONDS'])
    except (KeyError, ValueError):
        return float(Settings.model_fields['grace_seconds'].default)


def _command(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, '-m', 'fanfold', *arguments)


def _process_environment(variables: dict[str, str]) -> dict[str, str]:
    root = str(Path(fanfold.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))
    defaults = {'FANFOLD_LOG_FORMAT': 'console', 'PYTHONUNBUFFERED': '1'}
    # Safe path: a folder `runtime` or `schema` in the working directory must not stand in for ours.
    return {**defaults, **os.environ, **variables, 'PYTHONPATH': path, 'PYTHONSAFEPATH': '1'}


def _answers(host: str, port: int) -> Callable[[], bool]:
    def is_ready() -> bool:
        try:
            with urllib.request.urlopen(f'http://{_reachable(host)}:{port}/readyz', timeout=0.5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    return is_ready


def _reachable(host: str) -> str:
    """A host name for URLs, for the address that the API listens on."""
    known = {'0.0.0.0': '127.0.0.1', '::': '[::1]'}
    return known.get(host, f'[{host}]' if ':' in host else host)


def _api_port(host: str, port: int) -> int:
    """The port, or a free one for 0. Raises StackError where the API could not listen there."""
    if port == 0:
        return free_ports(1)[0]
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StackError(
                f'port {port} of {host} is in use; give another with --port, or --port 0 for any'
            ) from None
        raise StackError(f'the API cannot listen on {host}, port {port}: {error.strerror or error}') from error
    return port


def _say_where(output: Output, place: Place, account: Account | None, orphans: list[str]) -> None:
    if orphans:
        output.say(f'ended what an earlier stack had left running: {", ".join(orphans)}')
    output.say(f'data in {place.data}' + (f', servers run as {account.name}' if account else ''))
    if place.servers != place.data and account is not None:
        output.say(f'the account {account.name} cannot reach that folder: the servers keep theirs in {place.servers}')


def _say_ready(output: Output, api_url: str | None) -> None:
    if api_url is None:
        output.say('the servers are ready; Ctrl-C stops them')
        return
    output.say(f'ready: {api_url}')
    output.say(f'try:   curl -F files=@index.html {api_url}/v1/jobs')
    output.say(f'or:    fanfold submit index.html --url {api_url}')
    output.say('Ctrl-C stops everything')
