"""What children get of the worker's environment: what rendering needs; no settings, no secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PASSED_ON: Final = frozenset({
    'PATH', 'HOME', 'USER', 'LANG', 'LANGUAGE', 'TZ', 'LD_LIBRARY_PATH', 'PYTHONPATH', 'VIRTUAL_ENV',
    'SOURCE_DATE_EPOCH', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_DATA_DIRS',
})  # fmt: skip
PASSED_ON_PREFIXES: Final = ('LC_', 'FONTCONFIG_', 'PANGO')


def environment(folder: Path) -> dict[str, str]:
    """The environment of a zygote whose temporary files go to `folder`."""
    passed = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    here = str(Path(__file__).resolve().parent.parent)
    passed['PYTHONPATH'] = os.pathsep.join(filter(None, [here, passed.get('PYTHONPATH')]))
    passed['TMPDIR'] = str(folder)
    return passed
