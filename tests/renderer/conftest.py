"""A job to fill, in a folder of its own, and one press for the tests that need a running one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from renderer.press import Press
from tests.renderer.bundles import Job, MakeJob


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    return partial(Job, folder=tmp_path)


@pytest.fixture(scope='session')
def press(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Press]:
    running = Press(scratch=tmp_path_factory.mktemp('press'))
    yield running
    running.close()
