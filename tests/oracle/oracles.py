"""The oracle of each document of the catalogue, made once for all tests."""

from __future__ import annotations

from functools import cache

from tests.oracle.catalogue import source
from tests.oracle.replay import Oracle, oracle


@cache
def oracle_of(name: str) -> Oracle:
    return oracle(source(name))
