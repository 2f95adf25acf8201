from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint

from api import services
from api.budget import ByteBudget
from api.intake import prepare
from runtime.settings import Settings
from tests.api.serving import client_of, serving


async def settled() -> None:
    """Every task has come as far as it can."""
    for _ in range(20):
        await checkpoint()


def test_what_is_held_at_once_stays_within_the_budget_and_nobody_is_overtaken() -> None:
    begun: list[str] = []

    async def hold(budget: ByteBudget, name: str, size: int, until: anyio.Event) -> None:
        async with budget.taking(size):
            begun.append(name)
            await until.wait()

    async def play() -> None:
        budget = ByteBudget(10)
        first, rest = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            for name, size, until in [('a', 6, first), ('b', 4, rest), ('huge', 99, rest), ('c', 1, rest)]:
                tasks.start_soon(hold, budget, name, size, until)
                await settled()
            assert (begun, budget.free) == (['a', 'b'], 0)
            first.set()
            await settled()
            assert begun == ['a', 'b'], 'the huge one waits for all there is, and what came later for it'
            rest.set()
        assert begun == ['a', 'b', 'huge', 'c']
        assert budget.free == 10

    anyio.run(play)


def test_who_gives_up_waiting_or_fails_leaves_the_budget_whole() -> None:
    async def play() -> None:
        budget = ByteBudget(10)
        async with budget.taking(10):
            with anyio.move_on_after(0):
                async with budget.taking(1):
                    pytest.fail('there was nothing left')
        with pytest.raises(KeyError):
            async with budget.taking(3):
                raise KeyError
        async with budget.taking(10):
            assert budget.free == 0

    anyio.run(play)


def test_large_bodies_are_looked_into_one_after_the_other(
    shared_settings: Settings, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work: list[int] = []
    most: list[int] = []

    def watched(*arguments: Any) -> Any:
        at_work.append(1)
        most.append(len(at_work))
        try:
            return prepare(*arguments)
        finally:
            at_work.pop()

    monkeypatch.setattr('api.routes.jobs.prepare', watched)
    monkeypatch.setattr(services, 'BYTES_AT_ONCE', 1_000_000)
    record = {'nested': [[]] * 200_000}
    body = json.dumps({'documents': [{'template': '<p>', 'records': [record]}]}, separators=(',', ':'))
    with serving(shared_settings) as url, client_of(url) as client, ThreadPoolExecutor(4) as threads:
        post = {'content': body, 'headers': {'Content-Type': 'application/json'}}
        answers = list(threads.map(lambda _: client.post('/v1/jobs', **post), range(4)))
    assert [answer.status_code for answer in answers] == [202] * 4
    assert max(most) == 1
