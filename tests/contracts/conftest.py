"""Servers with every dialect's port, as the clients of four other systems find them: no secret.

The suites here are black boxes: they speak HTTP, WebSocket, MCP and stdio to the server and know nothing of its parts.
`@pytest.mark.covers("POST /agentmemory/observe")` says which endpoint a test is about; docs/compatibility.md is made
from that.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.running import Doors, Together, every_dialect, seed_cache
from tests.contracts.stdio import Stdio, bridge

PAGE = "http://ui.example"
"""Its pages may call agentd's port of the configured server."""


@pytest.fixture(scope="session")
def together() -> Iterator[Together]:
    """Starts servers that are stopped side by side at the end of the session."""
    opened = Together()
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory, together: Together) -> Doors:
    """The server of all suites; every test keeps to names of its own."""
    cache = tmp_path_factory.mktemp("cache")
    seed_cache(cache)
    return together(every_dialect(cache, secret=None, partitions=8))


@pytest.fixture(scope="session")
def configured(tmp_path_factory: pytest.TempPathFactory, together: Together) -> Doors:
    """A server without an embedder and with other settings than the default; tests may freeze its processes.

    Nothing is written to it that belongs to no project.
    """
    changes: dict[str, Any] = {
        "embedder": "none", "partitions": 2, "observations_per_session": 3,
        "agentd_origins": f"{PAGE}, http://other.example:8080/", "agentd_strict": True,
        "memex_mcp_hosts": ("memex.example",), "memex_writes_per_minute": 999_999, "memex_searches_per_minute": 999_999,
        "condense_every": 1,
    }  # fmt: skip
    return together(every_dialect(tmp_path_factory.mktemp("cache"), secret=None, **changes))


@pytest.fixture(scope="session")
def mcp(doors: Doors) -> Iterator[Stdio]:
    """agent-memory's MCP server, which is a process, initialized."""
    with bridge("agent-memory", doors.agentmemory) as server:
        server.hello()
        yield server


@pytest.fixture
def name() -> str:
    """A name that no other test knows: for sessions, projects, agents."""
    return f"n{uuid4().hex[:12]}"
