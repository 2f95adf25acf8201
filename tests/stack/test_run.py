"""`./run` on machines that lack something, from elsewhere, in a folder with a space in its name, several at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import ROOT

SAY = """
import os, sys
print('arguments:', sys.argv[1:], 'in', os.getcwd())
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose command `fanfold` says how it was called, and whose environment needs nothing."""
    root = tmp_path / 'a checkout'
    (root / 'fanfold').mkdir(parents=True)
    (root / 'requirements').mkdir()
    shutil.copy(ROOT / 'run', root / 'run')
    (root / 'fanfold' / '__init__.py').touch()
    (root / 'fanfold' / '__main__.py').write_text(SAY)
    for name in ('embedded', 'test'):
        (root / 'requirements' / f'{name}.txt').write_text('# nothing\n')
    return root


@pytest.fixture
def bare(checkout: Path) -> Path:
    """A folder for the front of the path, with commands that stand in for a machine's."""
    folder = checkout.parent / 'bare'
    folder.mkdir()
    return folder


def put(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f'#!/bin/sh\n{script}\n')
    path.chmod(0o755)
    return path


def run(
    checkout: Path, *arguments: str, path: Path | None = None, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith('PYTHON')}
    if path:
        environment['PATH'] = f'{path}{os.pathsep}{environment["PATH"]}'
    environment.setdefault('PYTHON', sys.executable)
    return subprocess.run(
        [checkout / 'run', *arguments],
        cwd=cwd or checkout.parent,
        env={**environment, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_arguments_and_working_directory_reach_the_command(checkout: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / 'else where'
    elsewhere.mkdir()
    done = run(checkout, 'fanfold', 'submit', 'a b.html', '', cwd=elsewhere)
    assert done.stdout == f"arguments: ['submit', 'a b.html', ''] in {elsewhere}\n", done.stderr
    assert run(checkout, 'demo').stdout.startswith("arguments: ['demo']")


def test_environment_is_made_once_and_again_when_the_lock_changes(checkout: Path) -> None:
    assert 'installing requirements/embedded.txt' in run(checkout, 'fanfold').stderr
    assert run(checkout, 'fanfold').stderr == ''
    (checkout / 'requirements' / 'embedded.txt').write_text('# still nothing, but another\n')
    assert 'installing requirements/embedded.txt' in run(checkout, 'fanfold').stderr
    assert run(checkout, 'fanfold').stderr == ''


def test_several_at_once_make_one_environment(checkout: Path) -> None:
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: run(checkout, 'fanfold'), range(3)))
    assert [each.returncode for each in done] == [0, 0, 0], [each.stderr for each in done]
    assert sum('installing' in each.stderr for each in done) == 1


def test_environment_left_half_made_is_made_again(checkout: Path) -> None:
    (checkout / '.venv' / 'bin').mkdir(parents=True)
    (checkout / '.venv' / 'bin' / 'python').symlink_to('/nowhere/python')
    done = run(checkout, 'fanfold')
    assert done.returncode == 0, done.stderr


def test_old_python_is_refused_by_name(checkout: Path, bare: Path) -> None:
    old = put(bare, 'python3', 'if [ "$1" = --version ]; then echo "Python 3.9.2"; else exit 1; fi')
    done = run(checkout, 'fanfold', PYTHON=str(old))
    assert (done.returncode, f'PYTHON={old} does not run as Python 3.11 or newer' in done.stderr) == (1, True)
    for name in ('python3.14', 'python3.13', 'python3.12', 'python3.11'):
        put(bare, name, 'exit 1')
    done = run(checkout, 'fanfold', path=bare, PYTHON='')
    assert done.returncode == 1
    assert 'Fanfold needs Python 3.11 or newer, and here is Python 3.9.2' in done.stderr


def python_that_lacks(bare: Path, *packages: str) -> str:
    """An interpreter whose check finds these packages missing, until `apt-get` was called."""
    script = f'[ "$1" != - ] || [ -e "{bare}/installed" ] || echo {" ".join(packages)}\n[ "$1" != -m ] || exit 1'
    return str(put(bare, 'some-python', script))


def test_ordinary_user_is_told_the_line_to_type(checkout: Path, bare: Path) -> None:
    put(bare, 'id', 'echo 1000')
    put(bare, 'apt-get', 'echo must not be called; exit 9')
    lacking = python_that_lacks(bare, 'python3.11-venv', 'libpangoft2-1.0-0')
    done = run(checkout, 'fanfold', path=bare, PYTHON=lacking)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].strip() == (
        'sudo apt-get update && sudo apt-get install -y --no-install-recommends python3.11-venv libpangoft2-1.0-0'
    )
    assert not (checkout / '.venv').exists()


def test_root_installs_what_is_missing_and_nothing_else(checkout: Path, bare: Path) -> None:
    put(bare, 'id', 'echo 0')
    put(bare, 'apt-get', f'echo "$@" >>"{bare}/calls"; touch "{bare}/installed"')
    lacking = python_that_lacks(bare, 'libharfbuzz-subset0', 'fonts-dejavu-core')
    run(checkout, 'fanfold', path=bare, PYTHON=lacking)  # this interpreter cannot make an environment
    update, install = (bare / 'calls').read_text().splitlines()
    assert update.endswith('update')
    assert install.endswith('install -y --no-install-recommends libharfbuzz-subset0 fonts-dejavu-core')


def test_help_and_unknown_commands(checkout: Path) -> None:
    assert 'usage: ./run COMMAND' in run(checkout, '--help').stdout
    done = run(checkout, 'bogus')
    assert (done.returncode, done.stdout) == (2, '')
    assert 'usage: ./run COMMAND' in done.stderr
    assert not (checkout / '.venv').exists()
