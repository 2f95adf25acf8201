"""What may be done with a finished PDF, off unless a job asks for it: a web order of its objects, and encryption.

Source of the methods: ISO 32000-1, annex F (linearization); ISO 32000-2, 7.6 (AES-256). qpdf does both, by way of
pikepdf, which is loaded only when it is needed. The file is replaced once it has been opened again and has all pages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runtime.errors import Problem, Refusal

#: what a job may allow readers without the owner's password → pikepdf's permissions
PERMISSIONS: Final = {
    'print': ('print_lowres', 'print_highres'),
    'copy': ('extract',),
    'annotate': ('modify_annotation',),
    'fill': ('modify_form',),
    'assemble': ('modify_assembly',),
    'modify': ('modify_other',),
}


def finish(path: Path, wanted: Mapping[str, Any], *, pages: int) -> None:
    """Rewrite a PDF as `wanted`: linearize, and encrypt {owner_password, user_password, permissions}.

    Raises Refusal (merge-error) if the file does not have all pages afterwards.
    """
    encrypt = wanted.get('encrypt')
    if not wanted.get('linearize') and not encrypt:
        return
    import pikepdf

    rewritten = path.with_suffix('.finished')
    how: dict[str, Any] = {'linearize': bool(wanted.get('linearize'))}
    if encrypt:
        how['encryption'] = pikepdf.Encryption(
            owner=encrypt['owner_password'], user=encrypt['user_password'], R=6, allow=_permissions(encrypt)
        )
    else:
        how['deterministic_id'] = True
    with pikepdf.open(path) as pdf:
        pdf.save(rewritten, **how)
    with pikepdf.open(rewritten, password=encrypt['owner_password'] if encrypt else '') as pdf:
        found = len(pdf.pages)
    if found != pages:
        raise Refusal(Problem(name='merge-error', detail=f'the finished file has {found} pages, not {pages}'))
    os.replace(rewritten, path)


def _permissions(encrypt: Mapping[str, Any]) -> Any:
    import pikepdf

    allowed = {name for permission in encrypt['permissions'] for name in PERMISSIONS[permission]}
    every = [name for names in PERMISSIONS.values() for name in names]
    return pikepdf.Permissions(accessibility=True, **{name: name in allowed for name in every})
