"""What the stack prints: every line of every process behind its name, coloured on a terminal."""

from __future__ import annotations

import os
from itertools import cycle
from typing import TextIO

COLOURS = ('36', '33', '32', '35', '34', '96', '93', '92', '95', '94')
LONGEST_LINE = 16_384
OWN_NAME = 'fanfold'


class Output:
    """Writes to one stream. A reader that has gone is no reason to stop the stack."""

    def __init__(self, stream: TextIO, names: list[str]) -> None:
        self._stream = stream
        self._width = max(map(len, [OWN_NAME, *names]))
        colours = cycle(COLOURS)
        coloured = stream.isatty() and 'NO_COLOR' not in os.environ
        self._colours = {name: next(colours) for name in names} | {OWN_NAME: '1'} if coloured else {}

    def say(self, text: str) -> None:
        self.line(OWN_NAME, text)

    def line(self, name: str, text: str) -> None:
        prefix = f'{name:<{self._width}} |'
        if name in self._colours:
            prefix = f'\x1b[{self._colours[name]}m{prefix}\x1b[0m'
        try:
            self._stream.write(f'{prefix} {text}\n')
            self._stream.flush()
        except (OSError, ValueError):
            return


class LineBuffer:
    """Cuts the bytes of one process into lines, and remembers the last few for an error message."""

    def __init__(self) -> None:
        self._rest = b''
        self.last: list[str] = []

    def feed(self, data: bytes) -> list[str]:
        """The lines that are complete now; a line without an end is cut at LONGEST_LINE bytes."""
        *complete, self._rest = (self._rest + data).split(b'\n')
        if len(self._rest) > LONGEST_LINE:
            complete, self._rest = [*complete, self._rest], b''
        return self._remember(complete)

    def end(self) -> list[str]:
        rest, self._rest = self._rest, b''
        return self._remember([rest] if rest else [])

    def _remember(self, lines: list[bytes]) -> list[str]:
        texts = [line.decode(errors='replace').rstrip() for line in lines]
        self.last = [*self.last, *(text for text in texts if text)][-10:]
        return texts
