"""Calls in a fresh process each, forked from a single-threaded server that has WeasyPrint imported."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

CONTEXT: Final = multiprocessing.get_context('forkserver')
CONTEXT.set_forkserver_preload(['weasyprint'])

Result = TypeVar('Result')


class FailedThere(Exception):
    """What the function raised, in words."""


def in_fresh_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """What the function returns. Raises FailedThere."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_call, args=(sender, function, arguments))
    process.start()
    sender.close()
    with receiver:
        try:
            outcome, value = receiver.recv()
        except EOFError:
            outcome, value = 'died', None
    process.join()
    if outcome == 'raised':
        raise FailedThere(value)
    assert outcome == 'returned', f'the process ended with {process.exitcode} and without a word'
    return value


def _call(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        outcome = 'returned', function(*arguments)
    except Exception as error:  # errors may not be fit to be sent
        outcome = 'raised', f'{type(error).__name__}: {error}'
    sender.send(outcome)
