"""The clients against real servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from together import Together

from tests.acceptance.running import Server, running
from tests.clients.python.stub import Stub


@pytest.fixture(scope="session")
def server(cache_dir: Path, together: Together) -> Server:
    """A real server; each test keeps to a project of its own, and may kill and restart what it consists of."""
    return together(running(cache_dir, partitions=4))


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A server that answers what the test says."""
    with Stub() as started:
        yield started
