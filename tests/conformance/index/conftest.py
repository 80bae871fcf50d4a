"""What answers the questions of `Index`, one of them after the other: every test runs on each."""

from collections.abc import AsyncIterator
from typing import cast

import numpy as np
import pytest
from indexes import Filled, OpenIndex, opens_on_engine, opens_replicas

from projections.vectors.static import StaticTable

TABLE = StaticTable(
    "static-one",
    ["dog", "puppi", "bark", "car", "engin"],
    np.array([[1, 0, 0.1], [0.9, 0.1, 0], [0.8, 0, 0.3], [0, 1, 0], [0.1, 0.9, 0.1]], np.float32),
)


@pytest.fixture(params=["embedded", "engine"])
def open_index(request: pytest.FixtureRequest) -> OpenIndex:
    """Opens empty indexes of one kind."""
    if request.param == "embedded":
        return opens_replicas()
    return opens_on_engine(cast(str, request.getfixturevalue("engine_url")))


@pytest.fixture
def open_both(engine_url: str) -> tuple[OpenIndex, OpenIndex]:
    """What opens embedded indexes, and indexes on an engine."""
    return opens_replicas(), opens_on_engine(engine_url)


@pytest.fixture
async def filled(open_index: OpenIndex) -> AsyncIterator[Filled]:
    """An empty index without static vectors."""
    async with open_index(None) as item:
        yield item


@pytest.fixture
async def with_table(open_index: OpenIndex) -> AsyncIterator[Filled]:
    """An empty index with the static vectors of TABLE."""
    async with open_index(TABLE) as item:
        yield item
