"""Which WeasyPrint this is, and what else of this host has a say in how a page looks."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pydyf
import weasyprint
from weasyprint.text import ffi
from weasyprint.text.fonts import FontConfiguration

import fanfold
from runtime.errors import ConfigurationError

WEASYPRINT: Final = '70.0'
PYDYF: Final = '0.13.0'
PACKAGES: Final = (
    'weasyprint', 'pydyf', 'tinycss2', 'cssselect2', 'tinyhtml5', 'fonttools', 'pyphen', 'pillow', 'jinja2',
    'markupsafe',
)  # fmt: skip
#: bytes at the start of a font file that hold its table directory, with a checksum of every table
FONT_HEAD_BYTES: Final = 4_096


def check_versions() -> None:
    """Raise ConfigurationError unless WeasyPrint and pydyf are the versions this module was written for."""
    for name, wanted, found in (('weasyprint', WEASYPRINT, weasyprint.VERSION), ('pydyf', PYDYF, pydyf.VERSION)):
        if found != wanted:
            raise ConfigurationError(
                f'{name} {found} is installed, but Fanfold works with {wanted} only: pip install {name}=={wanted}'
            )


def versions() -> dict[str, str]:
    """Versions of all that has a say in how a page looks."""
    found = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {**found, 'fanfold': fanfold.__version__, 'pango': str(ffi.pango.pango_version())}


def font_digests() -> list[str]:
    """One SHA-256 for each font file of this host, sorted: of its size and its table directory."""
    digests = set()
    for path in system_fonts():
        with path.open('rb') as file:
            head = file.read(FONT_HEAD_BYTES)
        digests.add(hashlib.sha256(b'%d %b' % (path.stat().st_size, head)).hexdigest())
    return sorted(digests)


def system_fonts() -> Iterator[Path]:
    """The font files of this host that pages may use, as fontconfig lists them."""
    configuration = FontConfiguration()
    fonts = ffi.fontconfig.FcConfigGetFonts(configuration._config, ffi.fontconfig.FcSetSystem)
    name = ffi.ffi.new('FcChar8 **')
    for index in range(fonts.nfont):
        ffi.fontconfig.FcPatternGetString(fonts.fonts[index], b'file', 0, name)
        yield Path(ffi.ffi.string(name[0]).decode())
