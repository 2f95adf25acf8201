"""Names of files in a job: relative, with forward slashes, never leading outside."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MOST_BYTES: Final = 1_000
_DRIVE: Final = re.compile(r'[A-Za-z]:')
_CONTROL: Final = re.compile(r'[\x00-\x1f\x7f]')


def fault_of(name: str) -> str | None:
    """Why a name cannot be a file's, or None."""
    if not name:
        return 'is empty'
    if _CONTROL.search(name):
        return 'has a control character'
    if '\\' in name:
        return 'has a backslash; folders are separated by /'
    if name.startswith('/') or _DRIVE.match(name):
        return 'is absolute; names are relative to the job'
    if '://' in name:
        return 'is a URL; only files of the job can be named'
    if '..' in name.split('/'):
        return 'leads outside the job'
    if name.endswith(('/', '/.')) or not normal(name):
        return 'is a folder'
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return 'is not valid Unicode'
    return f'is longer than {MOST_BYTES} bytes' if size > MOST_BYTES else None


def normal(name: str) -> str:
    """The one spelling of a valid name: without `./` and doubled slashes, composed (NFC, as Macs do not)."""
    composed = unicodedata.normalize('NFC', name)
    return '/'.join(step for step in composed.split('/') if step not in {'', '.'})
