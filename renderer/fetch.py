"""What a document may load: the job's own files and `data:` URLs, nothing else.

The job's files are reached as `bundle:///<relative name>`. Everything else (http, ftp, file, another
host) is refused, and each refusal is noted once. Fonts of @font-face, CSS imports, images and
attachments all come this way.
"""

from __future__ import annotations

import posixpath
import urllib.parse
from email.message import EmailMessage
from mimetypes import MimeTypes
from typing import Final
from urllib.parse import unquote, urlsplit

from weasyprint.urls import URLFetcher, URLFetcherResponse

from renderer.archive import Archive

SCHEME: Final = 'bundle'
ROOT_URL: Final = f'{SCHEME}:///'
MOST_REFUSALS: Final = 100
SHOWN_CHARACTERS: Final = 200

# so that urljoin resolves relative names against bundle: URLs
for _known in (urllib.parse.uses_relative, urllib.parse.uses_netloc):
    if SCHEME not in _known:
        _known.append(SCHEME)

#: Python's own table, not the host's, so that hosts agree
_TYPES: Final = MimeTypes()


class Refused(ValueError):
    """A URL that no document may load."""


class BundleFetcher(URLFetcher):  # type: ignore[misc]  # WeasyPrint is not typed
    """WeasyPrint's fetcher over one archive. `refusals` lists what was refused, once each, in order."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(allowed_protocols=frozenset({'data'}), allow_redirects=False)
        self._archive = archive
        self.refusals: dict[str, None] = {}

    def fetch(self, url: str, headers: dict[str, str] | None = None) -> URLFetcherResponse:
        """The response to a URL. Raises Refused, FileNotFoundError, or what a bad data: URL raises."""
        scheme = url.partition(':')[0].lower()
        if scheme == 'data':
            return super().fetch(url, headers)
        if scheme == SCHEME and not (parts := urlsplit(url)).netloc:
            return self._file(url, parts.path)
        self._refuse(url, scheme)
        raise Refused(f'refused: {_shown(url)}')

    def _file(self, url: str, path: str) -> URLFetcherResponse:
        # a name may hold a literal percent sign that nobody encoded
        names = [_normal(unquote(path)), _normal(path)]
        for name in names:
            if (data := self._archive.file(name)) is not None:
                return URLFetcherResponse(url, data, _headers(name))
        like = self._archive.like(names[0])
        raise FileNotFoundError(f'the job has no file {names[0]!r}' + (f'; there is {like!r}' if like else ''))

    def _refuse(self, url: str, scheme: str) -> None:
        if scheme == SCHEME:  # //host/path in a document
            url = url.removeprefix(f'{SCHEME}:')
        note = f'{_shown(url)} was not loaded: only files of the job and data: URLs are'
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.setdefault(note)


def file_url(name: str) -> str:
    """The URL of one of the job's files."""
    return ROOT_URL + urllib.parse.quote(name)


def _normal(path: str) -> str:
    return posixpath.normpath('/' + path).lstrip('/')


def _headers(name: str) -> EmailMessage:
    headers = EmailMessage()
    headers['Content-Type'] = _TYPES.guess_type(name, strict=False)[0] or 'text/plain'
    return headers


def _shown(url: str) -> str:
    return url if len(url) <= SHOWN_CHARACTERS else url[:SHOWN_CHARACTERS] + '…'
