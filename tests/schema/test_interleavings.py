"""Every interleaving of complete with complete, fail, cancel, advance, deadline and the reconciler; and of those.

Each pair of operations is run in all orders of their statements, on a fresh job each time, at every
isolation level. What both return must fit the state that is left; the invariants are checked at the
end, after everything was relayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import Connection, IsolationLevel

import schema
from tests.schema.given import relay, status
from tests.schema.scenes import SCENES, Left, Pair, Scene
from tests.schema.stepping import Operation, Stage, orders

Conn = Connection[Any]


@pytest.fixture
def stage(database_url: str, any_isolation: IsolationLevel) -> Iterator[Stage]:
    stage = Stage(database_url, any_isolation)
    yield stage
    stage.close()


def explore(stage: Stage, conn: Conn, scene: Scene) -> tuple[set[Left], set[Left]]:
    """Play a scene in every order; return the outcomes met and those allowed, or raise AssertionError for another."""
    met = set()
    first = rehearse(stage, conn, scene, lambda pair: (pair.first, pair.second))
    second = rehearse(stage, conn, scene, lambda pair: (pair.second, pair.first))
    for order in orders(first, second):
        pair = set_up(conn, scene)
        outcome = stage.play(pair.first, pair.second, order)
        left = (outcome.first, outcome.second, *status(conn, pair.key)[1:])
        assert left in pair.allowed, f'{left} in order {order}'
        met.add(left)
        settle(conn, pair)
    return met, pair.allowed


def rehearse(stage: Stage, conn: Conn, scene: Scene, turn: Callable[[Pair], tuple[Operation, Operation]]) -> int:
    """How many steps an operation has that goes first."""
    pair = set_up(conn, scene)
    operation, other = turn(pair)
    steps = stage.count_steps(operation)
    stage.count_steps(other)
    settle(conn, pair)
    return steps


def set_up(conn: Conn, scene: Scene) -> Pair:
    with conn.transaction():
        return scene(conn)


def settle(conn: Conn, pair: Pair) -> None:
    """Act on what waits, then cancel what would be in the next order's way."""
    with conn.transaction():
        relay(conn)
        schema.cancel_job(conn, pair.key.job_id)
        relay(conn)


@pytest.mark.parametrize('scene', SCENES, ids=lambda scene: scene.__name__)
def test_every_order_of_steps_ends_well(stage: Stage, conn: Conn, scene: Scene) -> None:
    met, allowed = explore(stage, conn, scene)

    assert met == allowed, 'no order led to some outcome'
