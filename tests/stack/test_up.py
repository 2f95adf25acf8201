"""`fanfold up` as its operator meets it: kept data, crashes, Ctrl-C, second starts, folders out of reach."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis

from fanfold.stack.account import Account, can_reach, reachable_tree, unprivileged_account
from fanfold.stack.errors import StackError
from fanfold.stack.place import Place
from fanfold.stack.ports import free_ports, is_free
from tests.servers import ROOT, wait_until
from tests.stack.conftest import RunningStack
from tests.stack.test_servers import storage

StartStack = Callable[..., RunningStack]
NOBODY = Account(name='nobody', uid=65534, gid=65534)
SERVERS = ('postgres', 'valkey', 'objects')


def write_everywhere(stack: RunningStack, tmp_path: Path) -> None:
    with psycopg.connect(stack.ready['database_url']) as connection:
        connection.execute('CREATE TABLE kept AS SELECT 42 AS answer')
    with redis.Redis.from_url(stack.ready['redis_url']) as client:
        client.set('kept', 42)
    store = storage(stack.ready)
    store.ensure_bucket(retention_days=1)
    (tmp_path / 'kept').write_bytes(b'42')
    digest = '73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049'
    store.put_new('jobs/kept', tmp_path / 'kept', sha256=digest, content_type='text/plain')


def assert_everything_is_there(stack: RunningStack) -> None:
    with psycopg.connect(stack.ready['database_url']) as connection:
        assert connection.execute('SELECT answer FROM kept').fetchone() == (42,)
    with redis.Redis.from_url(stack.ready['redis_url']) as client:
        assert client.get('kept') == b'42'
    store = storage(stack.ready)
    assert b''.join(store.open('jobs/kept')) == b'42'


def test_data_is_kept_between_runs_and_so_are_the_addresses(start_stack: StartStack, tmp_path: Path) -> None:
    first = start_stack('--servers-only')
    first.wait_until_ready()
    addresses = first.ready['environment']
    write_everywhere(first, tmp_path)
    assert first.stop() == 0
    assert not first.ready_file.exists()

    second = start_stack('--servers-only')
    second.wait_until_ready()
    assert second.ready['environment'] == addresses
    assert_everything_is_there(second)


def test_data_is_kept_when_the_ports_of_the_last_run_are_taken(
    start_stack: StartStack, folder: Path, tmp_path: Path
) -> None:
    first = start_stack('--servers-only')
    first.wait_until_ready()
    addresses = first.ready['environment']
    write_everywhere(first, tmp_path)
    first.stop()
    (folder / 'data' / 'run' / 'ports.json').unlink()

    second = start_stack('--servers-only')
    second.wait_until_ready()
    assert second.ready['environment'] != addresses
    assert_everything_is_there(second)


def test_killed_servers_come_back_with_their_data(servers_stack: RunningStack, tmp_path: Path) -> None:
    write_everywhere(servers_stack, tmp_path)
    for name in SERVERS:
        servers_stack.kill(name)
    wait_until(lambda: servers_answer(servers_stack), 'the servers', seconds=20)
    assert_everything_is_there(servers_stack)


def servers_answer(stack: RunningStack) -> bool:
    try:
        assert_everything_is_there(stack)
    except Exception:  # whatever they answer while they start
        return False
    return True


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_stop_it_leaves_no_process(servers_stack: RunningStack, number: signal.Signals) -> None:
    assert servers_stack.stop(number) == 0
    assert servers_stack.wait_for_end() == []
    log = servers_stack.log.read_text()
    assert log.index('Valkey is now ready to exit') < log.index('received fast shutdown request')
    assert log.rstrip().endswith('stopped')


def test_nohup_lets_it_survive_a_hang_up_and_the_background_of_a_shell_does_not_keep_it_from_stopping(
    folder: Path,
) -> None:
    ready_file = folder / 'ready.json'
    command = [sys.executable, '-m', 'fanfold', 'up', '--servers-only', '--stop-with-parent']
    command += ['--data', str(folder / 'data'), '--ready-file', str(ready_file)]

    def ignore() -> None:
        for number in (signal.SIGHUP, signal.SIGINT):  # as nohup does, and a shell for what it starts with &
            signal.signal(number, signal.SIG_IGN)

    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=ignore) as stack:
        wait_until(ready_file.exists, 'the stack')
        stack.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            stack.wait(timeout=1)
        stack.send_signal(signal.SIGINT)
        assert stack.wait(timeout=30) == 0


def test_killed_supervisor_takes_its_servers_along(servers_stack: RunningStack) -> None:
    servers_stack.stop(signal.SIGKILL)
    assert servers_stack.wait_for_end() == []


def test_stack_starts_right_after_another_was_killed(start_stack: StartStack, tmp_path: Path) -> None:
    first = start_stack('--servers-only')
    first.wait_until_ready()
    write_everywhere(first, tmp_path)
    first.stop(signal.SIGKILL)

    second = start_stack('--servers-only')  # some of the first may still be on its way out
    second.wait_until_ready()
    assert_everything_is_there(second)


def test_second_stack_in_the_same_folder_is_refused(servers_stack: RunningStack, start_stack: StartStack) -> None:
    second = start_stack('--servers-only')
    assert second.process.wait(timeout=30) == 1
    complaint = second.log.read_text()
    assert f'another stack (process {servers_stack.process.pid})' in complaint
    assert '--data' in complaint


def test_folder_that_cannot_be_made_is_a_clear_error(start_stack: StartStack) -> None:
    stack = start_stack('--servers-only', data=Path('/proc/fanfold'))
    assert stack.process.wait(timeout=30) == 1
    assert stack.log.read_text().startswith('Error: /proc/fanfold cannot hold the data: ')


def test_outside_database_that_is_away_is_a_clear_error(start_stack: StartStack, servers_stack: RunningStack) -> None:
    outside = {**servers_stack.ready, 'database_url': 'postgresql://fanfold@127.0.0.1:1/fanfold'}
    urls = ('--database-url', outside['database_url'], '--redis-url', outside['redis_url'])
    stack = start_stack('--port', '0', *urls, data=Path(outside['data']) / 'other', env=outside_store(outside))
    assert stack.process.wait(timeout=60) == 1
    complaint = stack.log.read_text()
    assert 'migrate does not start: exited with status' in complaint
    assert 'FANFOLD_DATABASE_URL' in complaint
    assert 'Traceback' not in complaint


def test_port_in_use_is_a_clear_error(start_stack: StartStack) -> None:
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        stack = start_stack('--port', str(port))
        assert stack.process.wait(timeout=30) == 1
    assert f'port {port} of 127.0.0.1 is in use; give another with --port' in stack.log.read_text()


def test_outside_servers_are_used_instead_of_own_ones(
    servers_stack: RunningStack, start_stack: StartStack, folder: Path
) -> None:
    outside = servers_stack.ready
    stack = start_stack(
        '--servers-only', '--database-url', outside['database_url'], data=folder / 'other', env=outside_store(outside)
    )
    stack.wait_until_ready()
    assert list(stack.ready['pids']) == ['valkey']
    assert stack.ready['database_url'] == outside['database_url']
    assert stack.ready['s3_endpoint_url'] == outside['s3_endpoint_url']
    assert not (folder / 'other' / 'postgres').exists()


def outside_store(ready: dict[str, str]) -> dict[str, str]:
    names = ('s3_endpoint_url', 's3_access_key_id', 's3_secret_access_key')
    return {f'FANFOLD_{name.upper()}': ready[name] for name in names}


def test_stack_ends_with_the_process_that_started_it(folder: Path) -> None:
    ready_file = folder / 'ready.json'
    start = (
        'import subprocess, sys\n'
        f'stack = subprocess.Popen([sys.executable, "-m", "fanfold", "up", "--servers-only", "--stop-with-parent",'
        f' "--data", {str(folder / "data")!r}, "--ready-file", {str(ready_file)!r}], stdout=subprocess.DEVNULL)\n'
        'print(stack.pid, flush=True)\n'
        'sys.stdin.read()\n'
    )
    with subprocess.Popen(
        [sys.executable, '-c', start], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_until(ready_file.exists, 'the stack')
        parent.kill()
    wait_until(lambda: not Path(f'/proc/{pid}').exists(), 'the end of the stack', seconds=30)


def test_folder_out_of_reach_is_left_alone_and_another_one_used(folder: Path) -> None:
    private = folder / 'private'
    private.mkdir(mode=0o700)
    place = Place(private / 'data', unprivileged_account(), elsewhere=folder / 'elsewhere')
    assert private.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert place.servers.parent == folder / 'elsewhere'
        assert Place(private / 'data', NOBODY, elsewhere=folder / 'elsewhere').servers == place.servers
    else:
        assert place.servers == place.data


def test_binaries_out_of_reach_are_copied_once(folder: Path) -> None:
    account = unprivileged_account()
    home = folder / 'home'
    home.mkdir(mode=0o700)
    binary = home / 'server'
    shutil.copy('/bin/true', binary)
    found = reachable_tree(binary, account, folder / 'cache')
    assert can_reach(account, found, run=True)
    assert home.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert found.is_relative_to(folder / 'cache')
        made = found.stat().st_ino
        assert reachable_tree(binary, account, folder / 'cache').stat().st_ino == made
    else:
        assert found == binary


def test_lost_password_is_an_error_not_a_new_database(folder: Path) -> None:
    place = Place(folder / 'data', unprivileged_account())
    secrets = place.secrets()
    assert place.secrets() == secrets
    (place.servers / 'postgres').mkdir()
    (place.servers / 'postgres' / 'PG_VERSION').write_text('18\n')
    (place.servers / 'secrets.json').unlink()
    with pytest.raises(StackError, match=r'secrets\.json is missing'):
        place.secrets()


def test_ports_are_remembered_while_they_are_free() -> None:
    first = free_ports(3)
    assert len(set(first)) == 3
    assert free_ports(3, remembered=first) == first
    with socket.create_server(('127.0.0.1', first[1])):
        assert not is_free(first[1])
        assert free_ports(3, remembered=first) != first
