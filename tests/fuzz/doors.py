"""A server with every door open and a secret, as the fuzzers find it; and what each door says of itself."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.acceptance.running import SECRET, Server, every_dialect

DESCRIBED = {
    "native": "/openapi.json",
    "agentmemory": "/agentmemory/openapi.json",
    "agentd": "/openapi.json",
    "agent-memory": "/openapi.json",
    "memex": "/openapi.json",
}
"""The APIs that have a document, and where."""
PER_MINUTE = 1_000_000_000
"""memex's limits would answer most of what is sent with 429."""


class Api(NamedTuple):
    """One API: its address and its OpenAPI document."""

    name: str
    url: str
    document: dict[str, Any]


class Doors(NamedTuple):
    """The server, its APIs, and the address of MCP."""

    server: Server
    doors: list[Api]
    headers: dict[str, str]


@contextmanager
def all_doors(cache_dir: Path, **changes: Any) -> Generator[Doors]:
    """A server of its own with all doors; stopped whatever happens."""
    limits = {"memex_writes_per_minute": PER_MINUTE, "memex_searches_per_minute": PER_MINUTE}
    with every_dialect(cache_dir, **{**limits, "partitions": 4, **changes}) as started:
        headers = {"Authorization": f"Bearer {SECRET}"}
        doors: list[Api] = []
        for name, path in DESCRIBED.items():
            url = started.server.url if name == "native" else getattr(started, name.replace("-", "_"))
            told = httpx.get(url + path, headers=headers, trust_env=False, timeout=30)
            doors.append(Api(name, url, json.loads(told.raise_for_status().content)))
        yield Doors(started.server, doors, headers)
