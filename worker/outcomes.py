"""How a child ended, told from what it said last, its exit status and why it was killed. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from runtime.errors import Retryable


class ZygoteUnavailable(Retryable):
    """There was no child: the forking process could not be started, or the zygote is closed."""


Position = tuple[int, int | None] | None

#: how C code dies that gets no memory
ALLOCATION_SIGNALS: Final = frozenset({signal.SIGABRT, signal.SIGTRAP, signal.SIGSEGV, signal.SIGBUS})
#: what libraries print when they do
ALLOCATION_MESSAGES: Final = ('failed to allocate', 'out of memory', 'std::bad_alloc', 'MemoryError')
#: part of the memory limit at which such a death is put down to it
NEAR_LIMIT: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The child did what it was asked to."""

    result: dict[str, Any]
    output: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The content of the job is at fault: `problem` as in runtime.errors.Problem.to_json."""

    problem: dict[str, Any]
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The child ended without a result.

    `reason` is that of a kill (lease-lost, draining, deadline, wall-limit, memory-limit), a limit it ran into
    (memory-limit, cpu-limit), host (no space, no descriptors, …), zygote-died, killed (from outside, by `signal`) or
    crashed.
    """

    reason: str
    signal: int | None
    position: Position
    detail: str
    max_rss: int


ChildOutcome = Done | Refused | Died


class _Limits(Protocol):
    @property
    def memory_bytes(self) -> int: ...
    @property
    def cpu_seconds(self) -> float: ...
    @property
    def wall_seconds(self) -> float: ...


@dataclass(slots=True, kw_only=True)
class Ending:
    """What is known of how a child ended."""

    limits: _Limits
    killed_for: str | None = None
    last_word: dict[str, Any] | None = None
    exit_code: int | None = None
    max_rss: int = 0
    #: why there is no exit code
    error: str | None = None


def judge(ending: Ending, *, position: Position, output: Path | None, printed: str) -> ChildOutcome:
    """What a last word says counts, even if a kill came after it."""
    word = ending.last_word or {}
    if 'done' in word:
        return Done(result=word['done'], output=output)
    if 'refused' in word:
        return Refused(problem=word['refused'], position=position)
    number = -ending.exit_code if ending.exit_code is not None and ending.exit_code < 0 else None
    reason, detail = _reason(ending, word, number, printed)
    return Died(reason=reason, signal=number, position=position, detail=detail, max_rss=ending.max_rss)


def _reason(ending: Ending, word: dict[str, Any], number: int | None, printed: str) -> tuple[str, str]:
    limits = ending.limits
    memory = f'it needed more than {limits.memory_bytes // 2**20} MiB of memory'
    texts = {
        'wall-limit': f'it took longer than {limits.wall_seconds:g} s',
        'memory-limit': memory,
        'lease-lost': 'the part is no longer ours',
        'draining': 'the worker is stopping',
        'deadline': 'the job has no time left',
    }
    if ending.killed_for is not None:
        return ending.killed_for, texts[ending.killed_for]
    if 'died' in word:
        return word['died'], word.get('detail') or texts[word['died']]
    if ending.error is not None:
        return 'zygote-died', ending.error
    if number == signal.SIGXCPU:
        return 'cpu-limit', f'it needed more than {limits.cpu_seconds:g} s of CPU time'
    if number in ALLOCATION_SIGNALS and _ran_out(ending, printed):
        return 'memory-limit', memory
    if number == signal.SIGKILL:
        return 'killed', 'it was killed from outside, perhaps by the kernel for lack of memory'
    if number is not None:
        return 'crashed', f'it died of {signal.Signals(number).name}'
    return 'crashed', f'it left with exit code {ending.exit_code}'


def _ran_out(ending: Ending, printed: str) -> bool:
    near = ending.max_rss >= NEAR_LIMIT * ending.limits.memory_bytes
    return near or any(message in printed for message in ALLOCATION_MESSAGES)
