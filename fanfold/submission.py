"""From paths on this machine to a job: its documents in order and its files under relative names.

Names are relative to the folder that is sent, or to the folder that holds all documents. A style
sheet or records from elsewhere go under `extra/<n>/`, so that two of the same name do not meet.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fanfold.assets import Collection, collect, files_below
from fanfold.client.errors import NotSendable

STANDARD_INPUT: Final = Path('-')
INDEX: Final = 'index.html'
PDF_SUFFIX: Final = '.pdf'


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the command line names. `stdin` is what came by standard input, for the path `-`."""

    paths: Sequence[Path] = ()
    template: Path | None = None
    records: Path | None = None
    css: Sequence[Path] = ()
    folder: Path | None = None
    stdin: bytes = b''


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What to give to `Client.submit`. `left_out` tells what the documents name and is not sent."""

    documents: list[dict[str, Any]]
    files: dict[str, Path | bytes]
    stylesheets: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def gather(sources: Sources) -> Submission:
    """Find all that has to be sent. Raises NotSendable naming what is missing or does not fit together."""
    sources = _with_folder_of_index(sources)
    if (sources.template is None) != (sources.records is None):
        raise NotSendable('--template and --records go together')
    if not sources.paths and sources.template is None:
        raise NotSendable('nothing to submit: give HTML files, or --template with --records')
    return _Gathering(sources).submission()


class _Gathering:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._files: dict[str, Path | bytes] = {}
        self._left_out: list[str] = []
        self._extra_folders: dict[Path, str] = {}
        documents = [path for path in (*sources.paths, sources.template) if path and path != STANDARD_INPUT]
        self._base = _absolute(sources.folder) if sources.folder else _common_folder(documents)
        self._collection = Collection()

    def submission(self) -> Submission:
        sources = self._sources
        if sources.folder:
            self._take_folder(sources.folder)
        documents: list[dict[str, Any]] = [{_field_for(path): self._document(path)} for path in sources.paths]
        if sources.template and sources.records:
            documents.append(
                {'template_file': self._document(sources.template), 'records_file': self._records(sources.records)}
            )
        stylesheets = [self._beside(path) for path in sources.css]
        return Submission(documents=documents, files=self._files, stylesheets=stylesheets, left_out=self._left_out)

    def _take_folder(self, folder: Path) -> None:
        taken, left_out = files_below(folder)
        self._files.update({path.relative_to(self._base).as_posix(): path for path in taken})
        self._left_out += [f'{path}: hidden, or a link that leads out of {folder}' for path in left_out]

    def _document(self, path: Path) -> str:
        if path == STANDARD_INPUT:
            return self._standard_input('stdin.html')
        path = self._existing(path)
        if self._sources.folder and not path.is_relative_to(self._base):
            raise NotSendable(f'{path} is not in {self._sources.folder}')
        return self._add(path)

    def _records(self, path: Path) -> str:
        if path == STANDARD_INPUT:
            return self._standard_input('stdin.ndjson')
        return self._beside(path)

    def _beside(self, path: Path) -> str:
        """A file that belongs to the documents, wherever it lies."""
        return self._add(self._existing(path))

    def _existing(self, path: Path) -> Path:
        candidates = [_absolute(path)]
        if self._sources.folder:
            candidates.append(_absolute(self._base / path))
            candidates.sort(key=lambda candidate: not candidate.is_relative_to(self._base))
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        raise NotSendable(f'{path}: {"not a file" if path.exists() else "no such file"}')

    def _add(self, path: Path) -> str:
        """Send a file, and what it needs unless a whole folder is sent; the name it goes by."""
        name = self._name(path)
        if name in self._files and self._sources.folder:
            return name
        known, told = len(self._collection.files), len(self._collection.left_out)
        collect(path, into=self._collection)
        for file in list(self._collection.files)[known:]:
            self._files[self._name(file)] = file
        self._left_out += map(str, self._collection.left_out[told:])
        return name

    def _name(self, path: Path) -> str:
        if path.is_relative_to(self._base):
            return path.relative_to(self._base).as_posix()
        for folder, prefix in self._extra_folders.items():
            if path.is_relative_to(folder):
                return f'{prefix}/{path.relative_to(folder).as_posix()}'
        prefix = self._extra_folders[path.parent] = f'extra/{len(self._extra_folders) + 1}'
        return f'{prefix}/{path.name}'

    def _standard_input(self, name: str) -> str:
        if name in self._files:
            raise NotSendable(f'standard input can be given once, and {name} cannot be among the files')
        self._files[name] = self._sources.stdin
        return name


def _field_for(path: Path) -> str:
    """The field of a document that names this file."""
    return 'pdf_file' if path.suffix.lower() == PDF_SUFFIX else 'file'


def _with_folder_of_index(sources: Sources) -> Sources:
    """A folder given as the only path means the index.html in it, sent with the whole folder."""
    folders = [path for path in sources.paths if path != STANDARD_INPUT and path.is_dir()]
    if not folders:
        return sources
    if len(sources.paths) > 1 or sources.folder:
        raise NotSendable(f'{folders[0]} is a folder; give it alone, or as --files')
    (folder,) = folders
    if not (folder / INDEX).is_file():
        raise NotSendable(f'{folder} has no {INDEX}; name the documents and give --files {folder}')
    return Sources(
        paths=[folder / INDEX],
        template=sources.template,
        records=sources.records,
        css=sources.css,
        folder=folder,
        stdin=sources.stdin,
    )


def _common_folder(paths: Sequence[Path]) -> Path:
    folders = [_absolute(path).parent for path in paths]
    return Path(os.path.commonpath(folders)) if folders else Path.cwd()


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))
