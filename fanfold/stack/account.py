"""Who the servers run as, and what that account can reach.

PostgreSQL refuses to run as root, and the other two servers have no need for it: a stack that root starts runs its
servers as an unprivileged account. Nothing here ever changes the mode or the owner of a folder that this stack did
not make: a place that the account cannot reach is left alone and another one is used.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

PREFERRED_ACCOUNTS = ('postgres', 'nobody')


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    name: str
    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """The account for servers when this process is root; None when it is not, and servers simply run as the user."""
    if os.geteuid() != 0:
        return None
    for name in PREFERRED_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    return Account(name='65534', uid=65534, gid=65534)


def can_reach(account: Account | None, path: Path, *, run: bool = False) -> bool:
    """Whether the account can pass a folder, read a file, or `run` it: asked of the kernel, as that account."""
    test = 'test -x "$1"' if path.is_dir() else 'test -r "$1" && test -x "$1"' if run else 'test -r "$1"'
    command = ['/bin/sh', '-c', test, 'sh', str(path)]
    return subprocess.run(command, check=False, cwd='/', **identity(account)).returncode == 0


class Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def identity(account: Account | None) -> Identity:
    """The arguments of `Popen` that make a child this account."""
    if account is None:
        return {}
    return {'user': account.uid, 'group': account.gid, 'extra_groups': []}


def make_folder(path: Path, account: Account | None, *, mode: int = 0o700) -> Path:
    """Make one folder that the account owns; one that exists already is left as it is."""
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        return path
    path.chmod(mode)
    if account is not None:
        os.chown(path, account.uid, account.gid)
    return path


def write_private(path: Path, text: str, account: Account | None) -> Path:
    """Write a file that only the account can read, complete or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f'.{path.name}.')
    with os.fdopen(handle, 'w') as file:
        file.write(text)
        if account is not None:
            os.fchown(handle, account.uid, account.gid)
    Path(name).replace(path)
    return path


def reachable_tree(tree: Path, account: Account | None, cache: Path) -> Path:
    """`tree` (a file or a folder) itself if the account can use it, else a copy of it in `cache`, made once.

    A virtual environment under a home of mode 0700 is the usual reason.
    """
    if can_reach(account, tree, run=True):
        return tree
    size, changed = tree.stat().st_size, tree.stat().st_mtime_ns
    copy = cache / f'{tree.name}-{size:x}-{changed:x}' / tree.name
    if copy.exists():
        return copy
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        unfinished = Path(folder, copy.parent.name)
        unfinished.mkdir(mode=0o755)
        if tree.is_dir():
            shutil.copytree(tree, unfinished / tree.name, symlinks=True)
        else:
            shutil.copy2(tree, unfinished / tree.name)
        try:
            unfinished.rename(copy.parent)
        except OSError:
            if not copy.exists():
                raise
    return copy
