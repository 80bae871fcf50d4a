"""How often an agent may ask: 60 creates and 120 searches a minute, each for itself."""

import re
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.memex.conftest import USER, Mcp, Rest, connected, memory
from tests.contracts.refusals import said


async def until_refused(ask: Callable[[], Awaitable[httpx.Response]], status: int, limit: int) -> httpx.Response:
    """Ask until it is too often; that is after `limit` answers, or up to twice as many where a minute passes."""
    for number in range(2 * limit + 2):
        answer = await ask()
        if answer.status_code == 429:
            assert number >= limit
            return answer
        assert answer.status_code == status, answer.text
    raise AssertionError(f"{2 * limit + 2} requests and none is refused")


@pytest.mark.covers(
    "POST /v1/memories", "DELETE /v1/memories/{memory_id}", "GET /v1/memories/count", "MCP store_memory"
)
async def test_the_61st_create_of_a_minute_is_refused_and_nothing_else(doors: Doors, rest: Rest, name: str):
    made = await rest.store(name, "The kettle is red.")

    async def create() -> httpx.Response:
        return await rest.http.post("/v1/memories", json=memory(name, content="x"))

    refused = await until_refused(create, 201, 59)
    assert said(refused, 429)
    assert re.search(r"asked for \d+ creates", said(refused, 429))
    assert refused.headers["retry-after"] == "60"
    stored = await rest.count(name)
    assert stored >= 60
    assert (await rest.delete(name, made["id"])).status_code == 204
    assert await rest.count(name) == stored - 1
    assert len(await rest.search(name, "x", top_k=50)) == 50
    await rest.store(f"{name}-2", "another agent's")
    async with connected(doors) as client:
        await Mcp(client).store(name, "over MCP")
    assert await rest.count(name) == stored


@pytest.mark.covers("POST /v1/memories/search", "POST /v1/memories", "MCP search_memories")
async def test_the_121st_search_of_a_minute_is_refused_and_nothing_else(doors: Doors, rest: Rest, name: str):
    async def search() -> httpx.Response:
        return await rest.http.post("/v1/memories/search", json=memory(name, query="x"))

    refused = await until_refused(search, 200, 120)
    assert said(refused, 429)
    assert refused.headers["retry-after"] == "60"
    await rest.store(name, "The kettle is red.")
    assert await rest.search(f"{name}-2", "x") == []
    async with connected(doors) as client:
        assert len(await Mcp(client).search(name, "kettle")) == 1


@pytest.mark.covers("GET /v1/memories/count", "DELETE /v1/memories/{memory_id}")
async def test_counts_and_deletes_are_not_limited(rest: Rest, name: str):
    nothing = "00000000-0000-4000-8000-000000000000"
    for _ in range(130):
        answer = await rest.http.get("/v1/memories/count", params={"agent_id": name, "user_id": USER})
        assert answer.status_code == 200
    for _ in range(70):
        assert (await rest.delete(name, nothing)).status_code == 404
