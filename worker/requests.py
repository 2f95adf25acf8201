"""What a zygote can be asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

#: how long before its job's deadline a child is ended, so that what it was at is recorded before the job fails
LAST_WORDS_SECONDS: Final = 1.0
LEAST_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may use: bytes of memory over the zygote's own, seconds of CPU and of wall time.

    The times begin anew whenever the child reports a position; `total_seconds` of wall time is for all of it.
    """

    memory_bytes: int
    cpu_seconds: float
    wall_seconds: float
    total_seconds: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """A function to run in a child: `module:function`, called with the payload (JSON) and a report function."""

    entry: str
    payload: dict[str, Any]
    limits: Limits
    output: Path | None = None


class Request(Protocol):
    """Anything that knows its ChildRequest."""

    def child_request(self) -> ChildRequest: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderRequest:
    """A run of items to paint into `output`; those in `skip` become placeholders. See renderer.paint."""

    archive: Path
    spec: dict[str, Any]
    part: dict[str, Any]
    output: Path
    placeholders: bool
    memory_bytes: int
    cpu_seconds: float
    wall_seconds: float
    total_seconds: float = math.inf
    skip: frozenset[int] = frozenset()

    def child_request(self) -> ChildRequest:
        payload = {
            'archive': str(self.archive.absolute()),
            'spec': self.spec,
            'part': self.part,
            'output': str(self.output.absolute()),
            'placeholders': self.placeholders,
            'skip': sorted(self.skip),
        }
        limits = Limits(
            memory_bytes=self.memory_bytes,
            cpu_seconds=self.cpu_seconds,
            wall_seconds=self.wall_seconds,
            total_seconds=self.total_seconds,
        )
        return ChildRequest(entry='renderer.paint:render_child', payload=payload, limits=limits, output=self.output)


def seconds_for(time_left: timedelta) -> float:
    """The wall time of a child whose job has so much time left."""
    return max(LEAST_SECONDS, time_left.total_seconds() - LAST_WORDS_SECONDS)
