"""Records: the rows that are poured into a template, from a JSON array or from NDJSON.

Each record is a JSON object whose members are the template's variables. Errors name the record and,
where it is known, the line. NDJSON is split by lines, so that a part only parses the records it needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from renderer.archive import FILES, decode
from runtime.errors import Problem, Refusal

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of one member of the archive, counted; each is parsed when it is asked for."""

    name: str
    _values: Sequence[Any]
    #: line of each record, from 1, where a record is a line that is still to be parsed
    _lines: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Record:
        value = self._values[index]
        if self._lines is not None:
            value = self._parsed(value, index, self._lines[index])
        if not isinstance(value, dict):
            self._refuse(f'record {index} is {_kind(value)}, not an object', record=index)
        return value

    def check(self) -> None:
        """Parse every record. Raises Refusal (records-invalid) for the first that is not an object."""
        for index in range(len(self)):
            self[index]

    @classmethod
    def read(cls, data: bytes, member: str) -> Self:
        """Count the records of a JSON array or of NDJSON. Raises Refusal (records-invalid, invalid-encoding)."""
        name = member.removeprefix(FILES)
        text = decode(data, member)
        if text.lstrip()[:1] != '[':
            numbered = [(number, line) for number, line in enumerate(text.split('\n'), 1) if line.strip()]
            return cls(name=name, _values=[line for _, line in numbered], _lines=[number for number, _ in numbered])
        empty = cls(name=name, _values=[])
        try:
            values = json.loads(text, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            empty._refuse(f'line {error.lineno}: not valid JSON: {error.msg}', line=error.lineno)
        except (ValueError, RecursionError) as error:
            empty._refuse(f'not valid JSON: {error}')
        return cls(name=name, _values=values)

    def _parsed(self, line: str, index: int, number: int) -> Any:
        try:
            return json.loads(line, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            reason = f'not valid JSON at column {error.colno}: {error.msg}'
        except (ValueError, RecursionError) as error:
            reason = f'not valid JSON: {error}'
        hint = '; records are a JSON array, or one object a line' if index == 0 else ''
        self._refuse(f'line {number} (record {index}) is {reason}{hint}', record=index, line=number)

    def _refuse(self, detail: str, **extra: int) -> NoReturn:
        problem = Problem(name='records-invalid', detail=f'{self.name}: {detail}', extra={'file': self.name, **extra})
        raise Refusal(problem)


def count_records(data: bytes, member: str) -> int:
    """How many records there are, each of them checked. Raises Refusal (records-invalid, invalid-encoding)."""
    records = Records.read(data, member)
    records.check()
    return len(records)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not a JSON value')


def _kind(value: Any) -> str:
    kinds = {str: 'a string', list: 'an array', bool: 'a boolean', type(None): 'null'}
    return kinds.get(type(value), 'a number')
