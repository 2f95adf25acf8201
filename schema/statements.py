"""The named SQL of `schema/sql/*.sql`, and the few ways to run it.

A file holds statements, each headed by `-- name: …` and a line or more of description. Parameters are
`%(named)s`; every statement that needs the time takes `%(now)s`, which only tests pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeVar

from psycopg.types.json import Jsonb

from schema.rows import PartKey

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from psycopg import Connection, Cursor
    from psycopg.rows import TupleRow

    Row = TypeVar('Row', bound=DataclassInstance)

HEADER: Final = re.compile(r'^-- name: (\w+)\n((?:-- .+\n)+)', re.MULTILINE)
#: what a string of Python may hold and one of jsonb may not
UNSTORABLE: Final = re.compile(r'[\x00\ud800-\udfff]')
PLACE: Final = frozenset({'job_id', 'batch_no', 'part_index'})


def load_statements() -> dict[str, bytes]:
    """All statements by name. Raises ValueError for one without a description, or a name used twice."""
    found: dict[str, bytes] = {}
    for file in sorted((files('schema') / 'sql').iterdir(), key=lambda file: file.name):
        _, *pieces = HEADER.split(file.read_text('utf-8'))
        for name, text in zip(pieces[::3], pieces[2::3], strict=True):
            if name in found or '-- name:' in text:
                raise ValueError(f'{file.name}: {name!r} is there twice, or is followed by one without a description')
            found[name] = text.strip().removesuffix(';').encode()
    return found


STATEMENTS: Final = load_statements()


def run(conn: Connection[Any], name: str, /, **params: Any) -> Cursor[TupleRow]:
    """Execute a statement; dicts and lists of dicts become jsonb, a `key` its three columns."""
    if (key := params.pop('key', None)) is not None:
        params.update(job_id=key.job_id, batch_no=key.batch_no, part_index=key.part_index)
    adapted = {field: Jsonb(value, dumps) if is_json(value) else value for field, value in params.items()}
    return conn.execute(STATEMENTS[name], adapted)


def changed(conn: Connection[Any], name: str, /, **params: Any) -> bool:
    """Whether a statement met any row."""
    return run(conn, name, **params).rowcount > 0


def value(conn: Connection[Any], name: str, /, **params: Any) -> Any:
    """The first column of the first row, or None."""
    row = run(conn, name, **params).fetchone()
    return None if row is None else row[0]


def one(conn: Connection[Any], kind: type[Row], name: str, /, **params: Any) -> Row | None:
    cursor = run(conn, name, **params)
    row = cursor.fetchone()
    return None if row is None else row_maker(kind, cursor)(row)


def many(conn: Connection[Any], kind: type[Row], name: str, /, **params: Any) -> list[Row]:
    cursor = run(conn, name, **params)
    return [*map(row_maker(kind, cursor), cursor.fetchall())]


def row_maker(kind: type[Row], cursor: Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    """Turns tuples into dataclasses by column name; columns that the class does not name are left out.

    Statements name the columns that they return: `*` would make prepared ones fail when a migration adds one.
    """
    columns = [column.name for column in cursor.description or ()]
    wanted = [field.name for field in fields(kind)]

    def make(values: Sequence[Any]) -> Row:
        row = dict(zip(columns, values, strict=True))
        if 'key' in wanted:
            row['key'] = PartKey(**{column: row[column] for column in PLACE})
        return kind(**{name: row[name] for name in wanted})

    return make


def is_json(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def dumps(value: Any) -> str:
    """JSON that jsonb takes: U+0000 and lone surrogates, which documents bring along, become U+FFFD."""
    text = json.dumps(value)
    # All that is not ASCII is escaped, so two looks tell whether there may be anything to replace.
    return json.dumps(storable(value)) if '\\u0000' in text or '\\ud' in text else text


def storable(value: Any) -> Any:
    match value:
        case str():
            return UNSTORABLE.sub('\ufffd', value)
        case dict():
            return {storable(key): storable(item) for key, item in value.items()}
        case list() | tuple():
            return [*map(storable, value)]
    return value
