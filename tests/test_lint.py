"""The linters, so that one command says all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = Path(sys.executable).parent
SCRIPTS = ['run', '.ci/run', 'requirements/lock']


@pytest.mark.parametrize(
    'command',
    [
        pytest.param(['ruff', 'check', '--quiet', '.'], id='ruff'),
        pytest.param(['ruff', 'format', '--check', '--quiet', '--diff', '.'], id='ruff-format'),
        pytest.param(['mypy'], id='mypy'),
        pytest.param(['lint-imports'], id='import-linter'),
        pytest.param(['shellcheck', *SCRIPTS], id='shellcheck'),
        pytest.param(['hadolint', 'Dockerfile'], id='hadolint'),
        pytest.param(['docker-compose', '--file', 'docker-compose.yml', 'config', '--quiet'], id='compose'),
    ],
)
def test_linter_has_nothing_to_say(command: list[str]) -> None:
    # Any folder on the path would do to find the tool, but only this one has the locked version.
    done = subprocess.run([TOOLS / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f'{" ".join(command)}\n{done.stdout}{done.stderr}'


def test_scripts_can_be_executed() -> None:
    listed = subprocess.run(
        ['git', 'ls-files', '--stage', *SCRIPTS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[0] for line in listed.splitlines()} == {'100755'}


def test_image_holds_every_package() -> None:
    packages = tomllib.loads((ROOT / 'pyproject.toml').read_text())['tool']['importlinter']['root_packages']
    copied = re.findall(r'^COPY (\w+)/ \1/$', (ROOT / 'Dockerfile').read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(packages)


def test_image_and_bare_machine_get_the_same_system_packages() -> None:
    wanted = {'fonts-dejavu-core', 'libharfbuzz-subset0', 'libpangoft2-1.0-0'}
    for file in ('Dockerfile', 'run'):
        named = re.findall(r'\b(?:fonts|lib[a-z0-9.]+)-[a-z0-9.-]*[a-z0-9]\b', (ROOT / file).read_text())
        assert {name for name in named if '.so' not in name} == wanted, file


def test_compose_publishes_only_the_api_and_waits_for_what_is_needed() -> None:
    config = compose_config()
    services = config['services']
    assert [name for name, service in services.items() if service.get('ports')] == ['api']
    for name in ('api', 'renderer', 'assembler'):
        waits = {needed: how['condition'] for needed, how in services[name]['depends_on'].items()}
        assert waits == {
            'postgres': 'service_healthy',
            'valkey': 'service_healthy',
            'objects': 'service_healthy',
            'migrate': 'service_completed_successfully',
        }
    assert 'container_name' not in services['renderer'], '--scale needs free names'


def test_compose_gives_valkey_and_containers_what_the_service_demands() -> None:
    services = compose_config()['services']
    assert services['valkey']['command'][-2:] == ['--maxmemory-policy', 'noeviction']
    for name in ('postgres', 'valkey', 'objects'):
        assert services[name]['healthcheck']['test'], name
    for name in ('migrate', 'api', 'renderer', 'assembler'):
        assert services[name]['read_only'], name


def compose_config() -> dict:
    command = [TOOLS / 'docker-compose', '--file', 'docker-compose.yml', 'config', '--format', 'json']
    config = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return config
