"""The file format of a painted part: what it holds, told in front of the bytes themselves.

    fanfold-part 1\\n                       magic and version
    {"pages": 3, …}\\n                      the part's result: one line of JSON, UTF-8
    %PDF-1.7 …                             the pages

One object, written at once, so a part that exists is a part whose page count and documents are
known, whoever painted it. A worker that finds its part already painted adopts what the file says.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from runtime.errors import ObjectCorrupt

MAGIC: Final = b'fanfold-part '
VERSION: Final = b'1'
MEDIA_TYPE: Final = 'application/vnd.fanfold.part'
LONGEST_HEADER_BYTES: Final = 64 * 1024 * 1024


def pack(pdf: Path, result: dict[str, Any], out: Path) -> None:
    """Write the bundle of one painted part."""
    with out.open('wb') as target, pdf.open('rb') as pages:
        target.write(MAGIC + VERSION + b'\n')
        target.write(json.dumps(result, separators=(',', ':')).encode() + b'\n')
        shutil.copyfileobj(pages, target)


def unpack(bundle: Path, pdf: Path) -> dict[str, Any]:
    """Write the pages to `pdf` and return the result. Raises ObjectCorrupt, naming what is wrong."""
    with bundle.open('rb') as source:
        if source.readline(len(MAGIC) + 8) != MAGIC + VERSION + b'\n':
            raise ObjectCorrupt(f'{bundle.name}: not a part of format version {VERSION.decode()}')
        try:
            result = json.loads(source.readline(LONGEST_HEADER_BYTES))
        except ValueError as error:
            raise ObjectCorrupt(f'{bundle.name}: the header cannot be read') from error
        if not isinstance(result, dict) or not isinstance(result.get('pages'), int):
            raise ObjectCorrupt(f'{bundle.name}: the header does not say how many pages there are')
        with pdf.open('wb') as target:
            shutil.copyfileobj(source, target)
    return result
