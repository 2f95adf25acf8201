"""One zygote for the tests that need a running one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worker.asking import PRELOAD
from worker.zygote import Zygote


@pytest.fixture(scope='session')
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """A zygote that loads nothing to render with."""
    running = Zygote(scratch=tmp_path_factory.mktemp('bare'), preload=PRELOAD)
    yield running
    running.close()
