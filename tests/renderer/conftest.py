"""A job to fill, in a folder of its own, and one zygote for the tests that need a running one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.renderer.bundles import Job, MakeJob
from worker.zygote import Zygote


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    return partial(Job, folder=tmp_path)


@pytest.fixture(scope='session')
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    running = Zygote(scratch=tmp_path_factory.mktemp('zygote'), preload='renderer.paint:preload')
    yield running
    running.close()
