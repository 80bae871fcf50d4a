"""A server whose index is on a search engine, which is emptied, stopped and started again while it runs."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from redis import Redis
from search_engines import URL_NAME, engine_server, missing
from valkey_servers import TcpValkey
from waiting import wait_until

from tests.acceptance.asking import read, recall, write
from tests.acceptance.running import Server, running, until_ready

PATIENCE_S = 60.0


class Stack(NamedTuple):
    """A server, and the engine that has its index."""

    server: Server
    engine: TcpValkey

    def keys_with(self, text: str) -> list[bytes]:
        """What the engine holds of a text, in keys and values."""
        with Redis(port=self.engine.port) as redis:
            found: list[bytes] = []
            for key in redis.scan_iter(count=1_000):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                dumped: Any = redis.dump(key)  # pyright: ignore[reportUnknownArgumentType]
                if text.encode() in key or text.encode() in (dumped or b""):
                    found.append(key)
            return found


@pytest.fixture(scope="module")
def stack(cache_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An engine of its own: it is killed."""
    if (why := missing()) is not None:
        pytest.skip(why)
    engine = engine_server(tmp_path_factory.mktemp("search"))
    engine.start()
    try:
        with running(
            cache_dir, index=engine.url.replace("redis://", "redis-search://"), embedder="none", partitions=4
        ) as server:
            yield Stack(server, engine)
    finally:
        engine.stop()


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with stack.server.client() as opened:
        yield opened


async def remember(client: httpx.AsyncClient, content: str, **more: Any) -> dict[str, Any]:
    return await write(client, "/v1/memories", project="tea", content=content, **more)


async def found(client: httpx.AsyncClient, query: str, **asked: Any) -> list[str]:
    return [one["id"] for one in (await recall(client, query, project="tea", **asked))["results"]]


async def test_a_write_is_found_by_a_read_that_names_it(client: httpx.AsyncClient):
    for number in range(10):
        written = await remember(client, f"Gyokuro number {number} steeps at fifty degrees")
        assert written["id"] in await found(client, f"gyokuro number {number}", after=written["position"])


async def test_what_is_listed_and_counted_comes_from_the_engine_too(client: httpx.AsyncClient):
    written = await remember(client, "Oolong is oxidised in part")
    assert written["id"] in await found(client, "oolong", after=written["position"])
    projects = await read(client, "/v1/projects")
    assert "tea" in {one["project"] for one in projects["items"]}
    context = await client.post("/v1/context", json={"project": "tea", "query": "oolong"})
    assert "oxidised in part" in context.text


async def test_what_is_forgotten_is_gone_from_the_engine(stack: Stack, client: httpx.AsyncClient):
    written = await remember(client, "The passphrase was lapsangsouchong")
    assert written["id"] in await found(client, "lapsangsouchong", after=written["position"])
    assert stack.keys_with(written["id"])
    forgotten = await client.delete(f"/v1/memories/{written['id']}")
    assert forgotten.status_code in (200, 202, 204), forgotten.text

    async def gone() -> bool:
        return not stack.keys_with(written["id"]) and not stack.keys_with("lapsangsouchong")

    await wait_until(gone, PATIENCE_S)
    assert written["id"] not in await found(client, "lapsangsouchong")


async def test_without_the_engine_writes_go_on_and_documents_are_read(stack: Stack, client: httpx.AsyncClient):
    """What the index finds is refused with a reason; an empty engine in its place is filled from the documents."""
    before = await remember(client, "Matcha is ground between stones")
    assert before["id"] in await found(client, "matcha", after=before["position"])
    stack.engine.stop()
    refused = await client.post("/v1/recall", json={"query": "matcha", "project": "tea"})
    assert refused.status_code == 503
    assert refused.json()["code"] == "index_unavailable"
    assert "Retry-After" in refused.headers
    meanwhile = await remember(client, "Sencha is steamed")
    assert (await read(client, f"/v1/memories/{before['id']}/history"))["items"][0]["id"] == before["id"]

    async def told() -> bool:
        answer = await client.get("/readyz")
        return answer.status_code == 503 and "search engine" in answer.text

    await wait_until(told, PATIENCE_S)
    stack.engine.start()
    await until_ready(client, PATIENCE_S)
    assert meanwhile["id"] in await found(client, "sencha", after=meanwhile["position"])
    assert before["id"] in await found(client, "matcha")


@pytest.mark.skipif(URL_NAME in os.environ, reason="a real engine may be in use by others")
async def test_an_engine_that_lost_everything_is_filled_again(stack: Stack, client: httpx.AsyncClient):
    written = await remember(client, "Hojicha is roasted")
    assert written["id"] in await found(client, "hojicha", after=written["position"])
    with Redis(port=stack.engine.port) as redis:
        redis.flushall()  # pyright: ignore[reportUnknownMemberType]

    async def back() -> bool:
        answer = await client.post("/v1/recall", json={"query": "hojicha", "project": "tea", "min_confidence": 0.0})
        return answer.status_code == 200 and written["id"] in {one["id"] for one in answer.json()["results"]}

    await wait_until(back, PATIENCE_S)
