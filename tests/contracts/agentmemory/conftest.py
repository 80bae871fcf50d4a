"""Clients of the agentmemory door: of the shared server, and of one with a secret that hardly anybody writes to."""

from collections.abc import Iterator

import httpx
import pytest
from together import Together

from tests.acceptance.running import Doors, Server, running
from tests.contracts.agentmemory.calling import Api


@pytest.fixture(scope="session")
def api(doors: Doors) -> Iterator[Api]:
    """A client of the shared server."""
    with httpx.Client(base_url=doors.agentmemory, timeout=60, trust_env=False) as http:
        yield Api(http)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory, together: Together) -> Server:
    """A server with a secret and without an embedder; what is written there has a project."""
    return together(running(tmp_path_factory.mktemp("cache"), embedder="none", partitions=2))


@pytest.fixture(scope="session")
def trusted(guarded: Server) -> Iterator[Api]:
    """A client of the guarded server that knows the secret."""
    headers = {"Authorization": f"Bearer {guarded.secret}"}
    with httpx.Client(base_url=guarded.url, headers=headers, timeout=60, trust_env=False) as http:
        yield Api(http)
