"""Clients of the agentmemory door: of the shared server, and of one with a secret that hardly anybody writes to."""

from collections.abc import Iterator
from pathlib import Path

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
def guarded(cache_dir: Path, together: Together) -> Server:
    """A server with a secret, without an embedder; what is written there has a project."""
    return together(running(cache_dir, embedder="none", partitions=2))


@pytest.fixture(scope="session")
def trusted(guarded: Server) -> Iterator[Api]:
    """A client of the guarded server that knows the secret."""
    headers = {"Authorization": f"Bearer {guarded.secret}"}
    with httpx.Client(base_url=guarded.url, headers=headers, timeout=60, trust_env=False) as http:
        yield Api(http)
