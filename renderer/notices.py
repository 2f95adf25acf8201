"""What WeasyPrint warns about while it renders, as the warnings of a job: each once, bounded in number."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from renderer.fetch import ROOT_URL, SCHEME, Refused
from renderer.sources import Item

MOST_WARNINGS: Final = 100
LONGEST_WARNING: Final = 500

JOB_URL: Final = re.compile(rf'\b{SCHEME}://[^\s\'"<>]*')
#: in messages of Python, where an object has no name: ` <_io.BytesIO object at 0x7f…>`
OBJECT: Final = re.compile(r' <[\w.]+ object at 0x[0-9a-f]+>')


class Notices(logging.Handler):
    """Collects warnings. With `name_items`, each tells where it was first met and how often it came."""

    def __init__(self, *, name_items: bool) -> None:
        super().__init__(logging.DEBUG)
        self._name_items = name_items
        self._item: Item | None = None
        self._found: dict[str, tuple[Item | None, int]] = {}

    def at(self, item: Item) -> None:
        """What comes now comes from this item."""
        self._item = item

    @contextmanager
    def listening(self) -> Iterator[None]:
        logger = logging.getLogger('weasyprint')
        logger.addHandler(self)
        before = logger.propagate, logger.level
        logger.propagate = False
        logger.setLevel(logging.DEBUG)  # where WeasyPrint tells what it caught
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.propagate = before[0]
            logger.setLevel(before[1])

    def emit(self, record: logging.LogRecord) -> None:
        """Note a warning. Raises MemoryError where WeasyPrint would go on after one."""
        caught = [sys.exc_info()[1], *(record.exc_info or ()), *_values(record.args)]
        if any(_is_out_of_memory(error) for error in caught if isinstance(error, BaseException)):
            raise MemoryError(record.getMessage())
        if record.levelno >= logging.WARNING:
            message = record.getMessage()
            if f'{Refused.__name__}: ' not in message:  # the fetcher lists those
                self.add(_told(record))

    def add(self, message: str) -> None:
        message = ' '.join(message.split())[:LONGEST_WARNING]
        if message in self._found or len(self._found) < MOST_WARNINGS:
            item, times = self._found.get(message, (self._item, 0))
            self._found[message] = (item, times + 1)

    def warnings(self, more: Iterable[str] = ()) -> list[str]:
        """The warnings in the order they came, after those given."""
        noted = [self._placed(message, item, times) for message, (item, times) in self._found.items()]
        return [*more, *noted][:MOST_WARNINGS]

    def _placed(self, message: str, item: Item | None, times: int) -> str:
        if not self._name_items or item is None:
            return message
        record = '' if item.record is None else f', record {item.record}'
        again = '' if times == 1 else f' ({times} times)'
        return f'document {item.document}{record}: {message}{again}'


class Heard(logging.Handler):
    """Collects warnings as WeasyPrint gives them, each once, as pairs of a level's name and a message."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._found: dict[tuple[str, str], None] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        logger = logging.getLogger('weasyprint')
        logger.addHandler(self)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._found.setdefault((record.levelname, record.getMessage()))

    def warnings(self, more: Iterable[str] = ()) -> list[str]:
        """Each as `LEVEL message`."""
        return [*more, *(f'{level} {message}' for level, message in self._found)]


def _told(record: logging.LogRecord) -> str:
    """The message, with files under the names that they have in the job, and causes where WeasyPrint tells none."""
    args = tuple(_cause(arg) if isinstance(arg, BaseException) else arg for arg in _values(record.args))
    message = str(record.msg) % args if args else record.getMessage()
    return JOB_URL.sub(lambda url: _file_name(url[0]), message)


def _cause(error: BaseException) -> str:
    """The first line of what an error says, or else of what caused it."""
    told: BaseException = error
    while not str(told).strip() and told.__cause__ is not None:
        told = told.__cause__
    lines = OBJECT.sub('', str(told)).strip().splitlines()
    return lines[0] if lines else type(told).__name__


def _file_name(url: str) -> str:
    return unquote(url.removeprefix(ROOT_URL)) if url.startswith(ROOT_URL) else url.removeprefix(f'{SCHEME}:')


def _values(args: object) -> Iterable[object]:
    return args if isinstance(args, tuple) else ()


def _is_out_of_memory(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None
