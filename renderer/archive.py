"""The input archive of a job, opened for reading: the user's files by name, and the inline sources.

A name is looked up as it is written, then in Unicode's composed form (archives made on a Mac hold
decomposed names); it is never anything but a key into the archive, so no name leads outside it.
"""

from __future__ import annotations

import posixpath
import unicodedata
import zipfile
from pathlib import Path
from typing import Final, Self

from runtime.errors import Problem, Refusal

FILES: Final = 'files/'
INLINE: Final = 'inline/'


class Archive:
    """One job's input. Raises zipfile.BadZipFile for what is not an archive."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zip = zipfile.ZipFile(path)
        self._members = {unicodedata.normalize('NFC', name): name for name in self._zip.namelist()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._zip.close()

    def reopen(self) -> None:
        """To be called after a fork: parent and child would share one place in the file."""
        self._zip = zipfile.ZipFile(self._path)

    def read(self, member: str) -> bytes:
        """The bytes of `files/…` or `inline/…`. Raises Refusal (file-missing)."""
        found = self._members.get(unicodedata.normalize('NFC', member))
        if found is None:
            raise Refusal(Problem(name='file-missing', detail=self._missing(member)))
        return self._zip.read(found)

    def file(self, name: str) -> bytes | None:
        """The user's file of that name, None if there is none."""
        found = self._members.get(unicodedata.normalize('NFC', FILES + name))
        return None if found is None else self._zip.read(found)

    def has_file(self, name: str) -> bool:
        return unicodedata.normalize('NFC', FILES + name) in self._members

    def like(self, name: str) -> str | None:
        """A file whose name differs in upper and lower case only: what was probably meant."""
        wanted = unicodedata.normalize('NFC', FILES + name).casefold()
        return next((member.removeprefix(FILES) for member in self._members if member.casefold() == wanted), None)

    def _missing(self, member: str) -> str:
        name = member.removeprefix(FILES)
        like = self.like(name)
        return f'the job has no file {name!r}' + (f'; there is {like!r}' if like else '')


def read_text(archive: Archive, member: str) -> str:
    """A template or another file that must be UTF-8. Raises Refusal (file-missing, invalid-encoding)."""
    return decode(archive.read(member), member)


def decode(data: bytes, member: str) -> str:
    """UTF-8, with or without a byte order mark. Raises Refusal (invalid-encoding), naming file and line."""
    try:
        return data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = data.count(b'\n', 0, error.start) + 1
        name = member.removeprefix(FILES)
        problem = Problem(
            name='invalid-encoding',
            detail=f'{name}, line {line}: not valid UTF-8 (byte 0x{data[error.start]:02x})',
            extra={'file': name, 'line': line},
        )
        raise Refusal(problem) from error


def joined(folder_of: str, name: str) -> str:
    """`name` as seen from the folder of the file `folder_of`, without leading out of the archive."""
    return posixpath.normpath(posixpath.join('/', posixpath.dirname(folder_of), name)).lstrip('/')
