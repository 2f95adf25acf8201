"""Settings come from the environment, name the variable at fault, and are documented one by one."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from runtime.errors import ConfigurationError
from runtime.settings import Settings, load_settings, usable_cores

DOCS = Path(__file__).parents[2] / 'docs' / 'settings.md'


def test_a_wrong_value_names_its_variable(monkeypatch):
    monkeypatch.setenv('FANFOLD_MAX_BODY_BYTES', 'many')
    with pytest.raises(ConfigurationError, match='FANFOLD_MAX_BODY_BYTES'):
        load_settings()


def test_an_unknown_log_format_lists_the_valid_ones(monkeypatch):
    monkeypatch.setenv('FANFOLD_LOG_FORMAT', 'xml')
    with pytest.raises(ConfigurationError, match=r'FANFOLD_LOG_FORMAT.*auto, console, json'):
        load_settings()


def test_settings_cannot_be_changed():
    with pytest.raises(ValidationError, match='frozen'):
        Settings().part_attempts = 5  # type: ignore[misc]


def test_the_secret_key_is_not_shown():
    assert 'hush' not in repr(load_settings(s3_secret_access_key='hush'))


def test_every_setting_is_documented_with_its_default():
    rows = dict(re.findall(r'^\| `(FANFOLD_\w+)` \| (.*?) \|', DOCS.read_text(), re.MULTILINE))
    expected = {f'FANFOLD_{name.upper()}': shown(name) for name in Settings.model_fields}
    assert rows == expected


def shown(name):
    if name == 'worker_threads':
        return 'usable cores'
    default = Settings.model_fields[name].default
    return '—' if default is None else f'`{default}`'


def test_at_least_one_core_is_usable():
    assert usable_cores() >= 1


UNITS = {'s': 1, 'min': 60, 'hour': 3600, 'hours': 3600, 'day': 86400, 'days': 86400, 'MiB': 2**20, 'GiB': 2**30, '': 1}


def amount(text):
    number, _, unit = text.partition(' ')
    return int(number.replace(',', '')) * UNITS[unit]


def test_the_table_of_defaults_is_true():
    text = DOCS.with_name('defaults.md').read_text()
    rows = re.findall(r'^\| [^|]+ \| ([^|]+) \| `FANFOLD_(\w+)` \|', text, re.MULTILINE)
    bounds = re.findall(r'at most ([\w ]+) \(`FANFOLD_(\w+)`\)', text)
    settings = Settings()
    documented = {name.lower(): amount(shown) for shown, name in [*rows, *bounds]}
    assert len(documented) >= 15
    assert documented == {name: getattr(settings, name) for name in documented}
