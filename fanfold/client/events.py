"""Server-sent events, as much of them as the job stream needs: `id`, `event`, `data` and `retry` lines.

After the WHATWG HTML standard, section 9.2.6 (interpreting an event stream).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    id: str | None
    event: str
    data: str


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines that end in LF or CR LF, and in nothing else: a JSON text may hold other line separators of Unicode."""
    rest = b''
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b'\n')
        for line in lines:
            yield line.removesuffix(b'\r').decode(errors='replace')


def read_events(lines: Iterable[str]) -> Iterator[ServerEvent | None]:
    """The events in a stream of lines without their ends; None for each comment, which shows that the peer lives."""
    last_id: str | None = None
    event, data = '', list[str]()
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(id=last_id, event=event or 'message', data='\n'.join(data))
            event, data = '', []
            continue
        if line.startswith(':'):
            yield None
            continue
        name, _, value = line.partition(':')
        value = value.removeprefix(' ')
        if name == 'data':
            data.append(value)
        elif name == 'event':
            event = value
        elif name == 'id' and '\0' not in value:
            last_id = value
