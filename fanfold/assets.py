"""Which files a document needs: those that HTML, SVG, CSS and templates name, as far as they lie in its folder.

Only what is named is collected, only from the folder of the document and what lies below it, and
only up to a size. What is named and not collected is told with the reason. A template's expressions
are not evaluated: a file whose name depends on a record has to be sent by its folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from fanfold.client.errors import NotSendable

LIMIT_BYTES: Final = 64 * 1024 * 1024

_URL = re.compile(r"""url\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|((?:[^\s"'()\\]|\\.)*))\s*\)""", re.I | re.S)
_IMPORT = re.compile(r"""@import\s+(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", re.I | re.S)
_COMMENT = re.compile(r'/\*.*?\*/', re.S)
_TEMPLATE = re.compile(r"""\{%-?\s*(?:include|extends|import|from)\s+["']([^"']+)["']""")
_HTML: Final = frozenset({'.html', '.htm', '.xhtml', '.svg', '.xml', '.j2', '.jinja', '.jinja2'})
_ATTRIBUTES: Final = {
    'link': ('href',),
    'a': ('href',),
    'img': ('src',),
    'embed': ('src',),
    'object': ('data',),
    'image': ('href', 'xlink:href'),
    'use': ('href', 'xlink:href'),
    'body': ('background',),
    'table': ('background',),
    'td': ('background',),
    'th': ('background',),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file that `file` names as `url` and that is not sent."""

    file: Path
    url: str
    reason: str

    def __str__(self) -> str:
        return f'{self.url} in {self.file}: {self.reason}'


@dataclass(slots=True)
class Collection:
    """Files by absolute path in the order they were met, and what was left out."""

    files: dict[Path, None] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    bytes: int = 0


def collect(start: Path, *, into: Collection, limit_bytes: int = LIMIT_BYTES) -> None:
    """Add `start` and all it needs from its own folder, however indirectly.

    Raises NotSendable if `start` cannot be read or the limit is passed.
    """
    home = _absolute(start).parent
    waiting = [(_absolute(start), home)]
    while waiting:
        path, base = waiting.pop()
        if path in into.files:
            continue
        _add(path, into, limit_bytes)
        text = path.read_text(errors='replace') if _kind(path) else ''
        wanted = [(_target(url, base), url) for url in _loaded(path, text)]
        for target, url in wanted:
            if target and _unfit(target, home):
                into.left_out.append(LeftOut(file=path, url=url, reason=_unfit(target, home)))
            elif target:
                # What a style sheet names is relative to the style sheet.
                waiting.append((target, target.parent))
        for name in _TEMPLATE.findall(text) if _kind(path) == 'html' else ():
            # Included text becomes part of the document, so what it names is relative to the document.
            places = [_absolute(path.parent / name), _absolute(home / name)]
            target = next((place for place in places if not _unfit(place, home)), None)
            if target:
                waiting.append((target, base))
            else:
                into.left_out.append(LeftOut(file=path, url=name, reason=_unfit(places[0], home)))


def files_below(folder: Path, *, most: int = 10_000) -> tuple[list[Path], list[Path]]:
    """All files in a folder, sorted, and what was left out: hidden names, and links that lead out of it."""
    taken: list[Path] = []
    left_out: list[Path] = []
    root = _absolute(folder)
    for place, folders, names in os.walk(root):
        hidden = [name for name in folders if name.startswith('.')]
        folders[:] = sorted(set(folders) - set(hidden))
        left_out += [Path(place, name) for name in hidden]
        for path in (Path(place, name) for name in sorted(names)):
            (left_out if path.name.startswith('.') or _unfit(path, root) else taken).append(path)
        if len(taken) > most:
            raise NotSendable(f'{folder} holds more than {most:,} files')
    return taken, left_out


def css_references(text: str) -> Iterator[str]:
    """What a style sheet or a `style` attribute loads."""
    text = _COMMENT.sub(' ', text)
    for pattern in (_IMPORT, _URL):
        for match in pattern.finditer(text):
            yield re.sub(r'\\(.)', r'\1', next((group for group in match.groups() if group is not None), ''))


def html_references(text: str) -> Iterator[str]:
    """What an HTML, SVG or template file loads."""
    parser = _ReferenceParser()
    parser.feed(text)
    parser.close()
    yield from parser.found


class _ReferenceParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self._in_style = tag == 'style'
        if tag != 'a' or 'attachment' in values.get('rel', '').lower().split():
            self.found += [values[name] for name in _ATTRIBUTES.get(tag, ()) if name in values]
        if 'style' in values:
            self.found += css_references(values['style'])

    def handle_endtag(self, tag: str) -> None:
        self._in_style = self._in_style and tag != 'style'

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += css_references(data)


def _kind(path: Path) -> str:
    """How a file names others: `css`, `html` (SVG and templates too), or not at all."""
    suffixes = {suffix.lower() for suffix in path.suffixes}
    if '.css' in suffixes:
        return 'css'
    return 'html' if suffixes & _HTML else ''


def _loaded(path: Path, text: str) -> Iterable[str]:
    return css_references(text) if _kind(path) == 'css' else html_references(text)


def _target(url: str, folder: Path) -> Path | None:
    """The file a URL means, seen from a folder; None if it means none, or depends on a record."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    if parts.scheme or parts.netloc or not parts.path or '{{' in url or '{%' in url:
        return None
    name = unquote(parts.path)
    return None if '\0' in name else _absolute(folder / name)


def _unfit(path: Path, home: Path) -> str:
    """Why a file is not sent; empty if it is."""
    if not path.is_relative_to(home):
        return f'outside {home}'
    if not path.exists():
        return 'no such file'
    if not path.resolve().is_relative_to(home.resolve()):
        return f'a link that leads out of {home}'
    return '' if path.is_file() else 'not a file'


def _add(path: Path, into: Collection, limit_bytes: int) -> None:
    try:
        size = path.stat().st_size
        with path.open('rb'):
            pass
    except OSError as error:
        raise NotSendable(f'cannot read {path}: {error.strerror}') from error
    if into.bytes + size > limit_bytes:
        raise NotSendable(
            f'{path} ({size:,} bytes) takes the collected files over {limit_bytes:,} bytes; send a folder with --files'
        )
    into.files[path] = None
    into.bytes += size


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))
