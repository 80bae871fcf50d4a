"""Clients of the agentd-memory door, as its own clients call it: JSON both ways, no secret."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest

from tests.acceptance.running import Doors, Server


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
def guarded(configured: Doors) -> Iterator[Guarded]:
    """The configured server, which is strict, for the pages of two origins alone, and without an embedder."""
    with httpx.Client(base_url=configured.agentd, timeout=60, trust_env=False) as client:
        yield Guarded(client, configured.server)
