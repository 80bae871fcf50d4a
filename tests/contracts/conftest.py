"""Servers with every dialect's port, as the clients of four other systems find them: no secret.

The suites here are black boxes: they speak HTTP, WebSocket, MCP and stdio to the server and know nothing of its parts.
`@pytest.mark.covers("POST /agentmemory/observe")` says which endpoint a test is about; docs/compatibility.md is made
from that.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.acceptance.running import Server, running, seed_cache
from tests.support.ports import free_port

PAGE = "http://ui.example"
"""Its pages may call agentd's port of the configured server."""


class Doors(NamedTuple):
    """Where each system's clients find their server; base URLs without a slash at the end."""

    server: Server
    agentmemory: str
    agentd: str
    agent_memory: str
    memex: str
    memex_mcp: str
    spool: Path


@contextmanager
def serving(cache: Path, spool: Path, **more: Any) -> Generator[Doors]:
    """A server with every dialect's port."""
    ports = [free_port() for _ in range(4)]
    changes = {
        "secret": None,
        "drop_in": ("agentd", "agent-memory", "memex"),
        "agentd_ports": (ports[0],),
        "agent_memory_ports": (ports[1],),
        "memex_ports": (ports[2],),
        "memex_mcp_ports": (ports[3],),
        "agent_memory_spool": spool,
        **more,
    }
    with running(cache, **changes) as server:
        agentd, agent_memory, memex, memex_mcp = (f"http://127.0.0.1:{port}" for port in ports)
        yield Doors(server, server.url, agentd, agent_memory, memex, memex_mcp, spool)


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The server of all suites; every test keeps to names of its own."""
    cache = tmp_path_factory.mktemp("cache")
    seed_cache(cache)
    with serving(cache, tmp_path_factory.mktemp("spool"), partitions=8) as started:
        yield started


@pytest.fixture(scope="session")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A server without an embedder and with other settings than the default; tests may freeze its processes.

    Nothing is written to it that belongs to no project.
    """
    changes: dict[str, Any] = {
        "embedder": "none",
        "partitions": 2,
        "observations_per_session": 3,
        "agentd_origins": f"{PAGE}, http://other.example:8080/",
        "agentd_strict": True,
        "memex_mcp_hosts": ("memex.example",),
        "memex_writes_per_minute": 999_999,
        "memex_searches_per_minute": 999_999,
        "condense_every": 1,
    }
    with serving(tmp_path_factory.mktemp("cache"), tmp_path_factory.mktemp("spool"), **changes) as started:
        yield started


@pytest.fixture
def name() -> str:
    """A name that no other test knows: for sessions, projects, agents."""
    return f"n{uuid4().hex[:12]}"
