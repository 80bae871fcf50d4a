"""Real processes for the tests of the doors: one server that they share, and servers of their own for those that break
things. Everything is stopped when the session or the test ends, whatever became of it."""

import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.running import Server, running, seed_cache


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session's own MNEMOLOG_CACHE_DIR; the embedding model is in it, or exported once."""
    folder = tmp_path_factory.mktemp("cache")
    seed_cache(folder)
    return folder


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder whose path leaves room for a unix socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server(cache_dir: Path) -> Iterator[Server]:
    """The server that tests share; each keeps to a project of its own."""
    with running(cache_dir) as started:
        yield started


@pytest.fixture
def private_server(cache_dir: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server that the test may break: `private_server(partitions=2)`. It has no embedder unless asked for."""
    with ExitStack() as stack:

        def start(**changes: Any) -> Server:
            return stack.enter_context(running(cache_dir, **{"embedder": "none", "partitions": 4, **changes}))

        yield start


@pytest.fixture
def project() -> str:
    """A project that no other test knows."""
    return f"project-{uuid4().hex[:12]}"


@pytest.fixture
async def client(server: Server) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the shared server, with its secret, reading as nobody in particular."""
    async with server.client() as http:
        yield http
