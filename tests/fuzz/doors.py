"""A server with every door open and a secret, as the fuzzers find it; and what each door says of itself."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.acceptance.running import SECRET, Server, running
from tests.support.ports import free_port

DESCRIBED = {
    "native": "/openapi.json",
    "agentmemory": "/agentmemory/openapi.json",
    "agentd": "/openapi.json",
    "agent-memory": "/openapi.json",
    "memex": "/openapi.json",
}
"""The doors that have a document, and where."""
PER_MINUTE = 1_000_000_000
"""memex's limits would answer most of what is sent with 429."""


class ToolContext(NamedTuple):
    """One door: where it is, and its OpenAPI document."""

    name: str
    url: str
    document: dict[str, Any]


class Doors(NamedTuple):
    """The server, its doors, and where MCP is spoken."""

    server: Server
    doors: list[ToolContext]
    headers: dict[str, str]


@contextmanager
def all_doors(cache_dir: Path, **changes: Any) -> Generator[Doors]:
    """A server of its own with all doors; stopped whatever happens."""
    ports = {name: free_port() for name in ("agentd", "agent-memory", "memex", "memex-mcp")}
    chosen: dict[str, Any] = {
        "drop_in": ("agentd", "agent-memory", "memex"),
        "agentd_ports": (ports["agentd"],),
        "agent_memory_ports": (ports["agent-memory"],),
        "memex_ports": (ports["memex"],),
        "memex_mcp_ports": (ports["memex-mcp"],),
        "memex_writes_per_minute": PER_MINUTE,
        "memex_searches_per_minute": PER_MINUTE,
        "agent_memory_spool": cache_dir / "spool",
        "partitions": 4,
        **changes,
    }
    with running(cache_dir, **chosen) as server:
        headers = {"Authorization": f"Bearer {SECRET}"}
        doors: list[ToolContext] = []
        for name, path in DESCRIBED.items():
            url = f"http://127.0.0.1:{ports[name]}" if name in ports else server.url
            told = httpx.get(url + path, headers=headers, trust_env=False, timeout=30)
            doors.append(ToolContext(name, url, json.loads(told.raise_for_status().content)))
        yield Doors(server, doors, headers)
