"""The clients against real servers."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.running import Server, Together, running
from tests.clients.python.stub import Stub


@pytest.fixture(scope="session")
def together() -> Iterator[Together]:
    """Starts servers that are stopped side by side at the end of the session."""
    opened = Together()
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session's own MNEMOLOG_CACHE_DIR."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def server(cache_dir: Path, together: Together) -> Server:
    """A real server; each test keeps to a project of its own, and may kill and restart what it consists of."""
    return together(running(cache_dir, partitions=4))


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A server that answers what the test says."""
    with Stub() as started:
        yield started


@pytest.fixture
def project() -> str:
    """A project that no other test knows."""
    return f"project-{uuid4().hex[:12]}"
