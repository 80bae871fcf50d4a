"""One server with every door open, as the clients of four other systems find it: no secret, their own ports.

The suites here are black boxes: they speak HTTP, WebSocket, MCP and stdio to the server and know nothing of its parts.
`@pytest.mark.covers("POST /agentmemory/observe")` says which endpoint a test is about; docs/compatibility.md is made
from that.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

from tests.acceptance.running import Server, running, seed_cache
from tests.support.ports import free_port


class Doors(NamedTuple):
    """Where each system's clients find their server; base URLs without a slash at the end."""

    server: Server
    agentmemory: str
    agentd: str
    agent_memory: str
    memex: str
    memex_mcp: str
    spool: Path


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """The server of all suites; every test keeps to names of its own."""
    cache = tmp_path_factory.mktemp("cache")
    seed_cache(cache)
    spool = tmp_path_factory.mktemp("spool")
    ports = [free_port() for _ in range(4)]
    changes = {
        "secret": None,
        "drop_in": ("agentd", "agent-memory", "memex"),
        "agentd_ports": (ports[0],),
        "agent_memory_ports": (ports[1],),
        "memex_ports": (ports[2],),
        "memex_mcp_ports": (ports[3],),
        "agent_memory_spool": spool,
        "partitions": 8,
    }
    with running(cache, **changes) as server:
        agentd, agent_memory, memex, memex_mcp = (f"http://127.0.0.1:{port}" for port in ports)
        yield Doors(server, server.url, agentd, agent_memory, memex, memex_mcp, spool)


@pytest.fixture
def name() -> str:
    """A name that no other test knows: for sessions, projects, agents."""
    return f"n{uuid4().hex[:12]}"
