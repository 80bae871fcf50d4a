"""Clients of the agentd-memory door, as its own clients call it: JSON both ways, no secret."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.running import Server, running
from tests.contracts.conftest import Doors
from tests.support.ports import free_port

PAGE = "http://ui.example"
"""Whose pages may call the guarded server."""


class Guarded(NamedTuple):
    """A server that does not trust everybody."""

    client: httpx.Client
    server: Server


Remember = Callable[..., dict[str, Any]]


def at_once(client: httpx.Client, contents: list[str], tag: str) -> list[httpx.Response]:
    """The answers to storing all of these, twenty at a time."""

    def store(content: str) -> httpx.Response:
        return client.post("/memories", json={"content": content, "created_by": "ada", "tags": [tag]})

    with ThreadPoolExecutor(20) as threads:
        return list(threads.map(store, contents))


@pytest.fixture
def agentd(doors: Doors) -> Iterator[httpx.Client]:
    """A client of the door."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    with httpx.Client(base_url=doors.agentd, headers=headers, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def remember(agentd: httpx.Client, name: str) -> Remember:
    """`remember(content, **fields)` stores a memory, tagged with the test's own name; returns it."""

    def remember(content: str, *, tags: list[str] | None = None, **fields: Any) -> dict[str, Any]:
        body = {"content": content, "created_by": "ada", "tags": [name, *(tags or [])], **fields}
        answer = agentd.post("/memories", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    return remember


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server of its own: strict, for the pages of two origins alone, without an embedder."""
    port = free_port()
    changes: dict[str, Any] = {
        "drop_in": ("agentd",),
        "agentd_ports": (port,),
        "agentd_origins": f"{PAGE}, http://other.example:8080/",
        "agentd_strict": True,
        "embedder": "none",
        "secret": None,
        "partitions": 4,
    }
    with (
        running(tmp_path_factory.mktemp("cache"), **changes) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client,
    ):
        yield Guarded(client, server)
