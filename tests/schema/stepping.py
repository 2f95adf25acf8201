"""Two transactions, stepped through every interleaving of their statements.

An Actor runs a function in a transaction on a connection of its own, stopping before each statement
that is the first to touch a job, a part or a batch, and before the commit. A Stage lets two of them
take turns in a given order of steps. One that waits for a row lock is passed over until it has got it;
one that meets a serialization failure starts again, as `transact` would do it. A deadlock is an error
at every level: locks are taken in one order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import psycopg
from psycopg import Connection, IsolationLevel
from psycopg.errors import SerializationFailure

from schema.statements import STATEMENTS

Operation = Callable[[Connection[Any]], Any]

#: what locks or writes a job, a part, a batch; the second such statement of a transaction finds the row locked
TOUCHING: Final = {
    'job': {'lock_job', 'lock_unfinished_job', 'overdue_jobs', 'move_job', 'reopen_job', 'end_job', 'expire_job'},
    'part': {'claim_part', 'renew_lease', 'complete_part', 'lock_expired_part', 'retry_part', 'fail_part'},
    'batch': {'count_down', 'fail_batch', 'end_running_batch', 'lock_batch', 'recount_batch', 'finish_batch'},
}
PATIENCE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.002
BLOCKED: Final = 'SELECT cardinality(pg_blocking_pids(%s)) > 0'


class SteppedConnection(Connection[Any]):
    """Calls `before` with the name of each statement about to be executed."""

    before: Callable[[str], None] | None = None

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        if self.before is not None:
            names = [name for name, text in STATEMENTS.items() if text == query]
            self.before(names[0] if names else 'unnamed')
        return super().execute(query, params, **options)


@dataclass(kw_only=True, slots=True)
class Answer:
    value: Any = None
    error: BaseException | None = None


class Actor:
    """One side: a thread that takes one step when told to."""

    def __init__(self, url: str, isolation: IsolationLevel) -> None:
        self._conn = SteppedConnection.connect(url, autocommit=True)
        self._conn.isolation_level = isolation
        self._conn.before = self._stop_before
        self.pid = self._conn.info.backend_pid
        self._state = threading.Condition()
        self._may_go = False
        self._at_stop = False
        self._free = False
        self._touched: set[str] = set()
        self._thread: threading.Thread | None = None
        self.steps = 0
        self.answer: Answer | None = None

    def start(self, operation: Operation) -> None:
        self._may_go = self._at_stop = self._free = False
        self.steps = 0
        self.answer = None
        self._thread = threading.Thread(target=self._run, args=[operation])
        self._thread.start()
        with self._state:
            assert self._state.wait_for(lambda: self._at_stop or self.answer, PATIENCE_SECONDS)

    def step(self, blocked: Callable[[int], bool]) -> None:
        """Go on to the next stop, to the end, or to where a lock is waited for."""
        with self._state:
            if self._at_stop:
                self._may_go, self._at_stop = True, False
                self.steps += 1
                self._state.notify_all()
            while not self._state.wait_for(lambda: self._at_stop or self.answer, LOOK_SECONDS):
                if blocked(self.pid):
                    return

    def set_free(self) -> None:
        """From now on, go on without a stop."""
        with self._state:
            self._free = True
            self._state.notify_all()

    def finish(self) -> Answer:
        """Go on to the end."""
        self.set_free()
        with self._state:
            assert self._state.wait_for(lambda: self.answer, PATIENCE_SECONDS), 'stuck'
        assert self._thread is not None
        self._thread.join()
        assert self.answer is not None
        return self.answer

    def close(self) -> None:
        self._conn.close()

    def _stop_before(self, statement: str) -> None:
        touched = next((table for table, statements in TOUCHING.items() if statement in statements), None)
        if statement != 'commit' and (touched is None or touched in self._touched):
            return
        if touched is not None:
            self._touched.add(touched)
        with self._state:
            self._at_stop = True
            self._state.notify_all()
            assert self._state.wait_for(lambda: self._may_go or self._free, PATIENCE_SECONDS)
            self._may_go = self._at_stop = False

    def _run(self, operation: Operation) -> None:
        answer = Answer()
        while True:
            self._touched.clear()
            try:
                with self._conn.transaction():
                    answer.value = operation(self._conn)
                    self._stop_before('commit')
            except SerializationFailure:
                continue
            except BaseException as error:
                answer.error = error
            break
        with self._state:
            self.answer = answer
            self._state.notify_all()


def orders(first: int, second: int) -> Iterator[tuple[int, ...]]:
    """Every order of `first` steps of actor 0 and `second` of actor 1."""
    for places in combinations(range(first + second), first):
        chosen = set(places)
        yield tuple(0 if place in chosen else 1 for place in range(first + second))


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What two operations on the same job returned, and in which order their steps were."""

    first: Any
    second: Any
    order: tuple[int, ...]


class Stage:
    """Two actors and a connection that watches them, on one database."""

    def __init__(self, url: str, isolation: IsolationLevel) -> None:
        self.actors = (Actor(url, isolation), Actor(url, isolation))
        self._watch = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        for actor in self.actors:
            actor.close()
        self._watch.close()

    def blocked(self, pid: int) -> bool:
        row = self._watch.execute(BLOCKED, [pid]).fetchone()
        return bool(row and row[0])

    def play(self, first: Operation, second: Operation, order: tuple[int, ...]) -> Outcome:
        """Run both in this order of steps. Raises what either raised."""
        for actor, operation in zip(self.actors, (first, second), strict=True):
            actor.start(operation)
        for number in order:
            self.actors[number].step(self.blocked)
        # Whoever waits for a lock gets it from the other, which must not wait for this one to be told to go on.
        for actor in self.actors:
            actor.set_free()
        answers = [actor.finish() for actor in self.actors]
        for answer in answers:
            if answer.error is not None:
                raise answer.error
        return Outcome(first=answers[0].value, second=answers[1].value, order=order)

    def count_steps(self, operation: Operation) -> int:
        """How many stops an operation has when nobody is in its way."""
        actor = self.actors[0]
        actor.start(operation)
        while actor.answer is None:
            actor.step(self.blocked)
        answer = actor.finish()
        if answer.error is not None:
            raise answer.error
        return actor.steps
