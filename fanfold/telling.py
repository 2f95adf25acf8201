"""What a local rendering says: WeasyPrint's messages, each warning once, and on standard error how far it is.

On a terminal there is a bar, and messages stand above it; in a pipe there are only messages.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fanfold.progress import counted_pages

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from fanfold.local import Progress

#: as the `weasyprint` command prints them
FORMAT: Final = '%(levelname)s: %(message)s'
DEBUG_FORMAT: Final = '%(levelname)s: %(name)s %(filename)s:%(lineno)d (%(funcName)s): %(message)s'


class Telling:
    """Where messages and progress go. In a pipe there is no bar."""

    def __init__(self, bar: Bar | None = None) -> None:
        self._bar = bar
        self._task = bar.add_task('preparing', total=None, note='') if bar else None

    def line(self, text: str) -> None:
        if self._bar:
            self._bar.console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
        else:
            sys.stderr.write(f'{text}\n')

    def progress(self, progress: Progress) -> None:
        if self._bar and self._task is not None:
            note = '' if progress.pages is None else counted_pages(progress.pages)
            self._bar.update(
                self._task, description=progress.step, completed=progress.done, total=progress.total, note=note
            )


class _Lines(logging.Handler):
    """Gives what is logged on, as lines."""

    def __init__(self, tell: Callable[[str], None], level: int) -> None:
        super().__init__(level)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(self.format(record))


class _Once(logging.Filter):
    """Lets a warning or error through that has not come before."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[tuple[str, str]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        told = record.levelname, record.getMessage()
        if told in self._told:
            return False
        if record.levelno >= logging.WARNING:
            self._told.add(told)
        return True


@contextmanager
def warnings_once() -> Iterator[None]:
    """Each of WeasyPrint's warnings comes once to whoever listens."""
    logger, once = logging.getLogger('weasyprint'), _Once()
    logger.addFilter(once)
    try:
        yield
    finally:
        logger.removeFilter(once)


@contextmanager
def telling(level: int | None) -> Iterator[Telling]:
    """Messages from `level` on, None for no messages, and a bar where standard error is a terminal."""
    if not sys.stderr.isatty():
        with _messages(Telling(), level) as told:
            yield told
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with (
        Progress(
            TextColumn('{task.description:<12}'),
            BarColumn(),
            TextColumn('{task.completed}/{task.total}'),
            TextColumn('{task.fields[note]}'),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bar,
        _messages(Telling(bar), level) as told,
    ):
        yield told


@contextmanager
def _messages(told: Telling, level: int | None) -> Iterator[Telling]:
    logger, root = logging.getLogger('weasyprint'), logging.getLogger()
    levels = logger.level, root.level
    handler: logging.Handler = logging.NullHandler()
    if level is not None:
        handler = _Lines(told.line, level)
        handler.setFormatter(logging.Formatter(DEBUG_FORMAT if level <= logging.DEBUG else FORMAT))
        logger.setLevel(level)
        if level <= logging.DEBUG:
            root.setLevel(level)
    root.addHandler(handler)
    try:
        yield told
    finally:
        root.removeHandler(handler)
        logger.setLevel(levels[0])
        root.setLevel(levels[1])
