"""memex with other settings than the default, without an embedder, and while a process of its server stands still."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.acceptance.running import PATIENT, Doors, frozen
from tests.contracts.memex.conftest import BOTH, Rest, memory, rpc
from tests.support.waiting import wait_until

PATIENT_S = 60


@pytest.fixture
async def rest(configured: Doors) -> AsyncGenerator[Rest]:
    """The API of the configured server, once it is healthy."""
    async with httpx.AsyncClient(base_url=configured.memex, timeout=PATIENT, trust_env=False) as http:
        await wait_until(lambda: healthy(http), PATIENT_S)
        yield Rest(http)


async def healthy(http: httpx.AsyncClient) -> bool:
    """Whether memex calls itself healthy."""
    return (await http.get("/health")).json()["status"] == "ok"


@pytest.mark.covers("GET /v1/memories/count", "POST /v1/memories/search")
async def test_a_summary_replaces_the_oldest_50_of_101(rest: Rest, name: str):
    (first, *_) = [await rest.store(name, f"On day {n} Grace walked by the river.") for n in range(100)]
    assert await rest.count(name) == 100
    await rest.store(name, "On the last day Grace walked by the river.")

    async def condensed() -> bool:
        return await rest.count(name) == 52

    await wait_until(condensed, PATIENT_S)
    (summary,) = await rest.search(name, "river", memory_type="semantic")
    assert summary["content"].startswith("[Summary of 50 memories] ")
    assert summary["importance"] == 1.0
    assert (await rest.delete(name, first["id"])).status_code == 404
    assert (await rest.delete(name, summary["id"])).status_code == 204
    assert await rest.count(name) == 51
    assert await rest.search(name, "river", memory_type="semantic") == []


@pytest.mark.covers("POST /v1/memories/search")
async def test_without_an_embedder_words_decide(rest: Rest, name: str):
    red = await rest.store(name, "The kettle is red.")
    await rest.store(name, "Grace likes oolong.")
    best, weak = await rest.search(name, "kettle red", alpha=1.0)
    assert (best["id"], best["score"], weak["score"]) == (red["id"], 1.0, 0.0)


@pytest.mark.parametrize("host", ["memex.example", "memex.example:8001", "localhost:1"])
async def test_mcp_hosts_are_configurable(configured: Doors, host: str):
    async with httpx.AsyncClient(base_url=configured.memex_mcp, headers={"Accept": BOTH}, timeout=PATIENT) as client:
        assert (await client.post("/mcp/", json=rpc("ping"), headers={"Host": host})).status_code == 400
        other = await client.post("/mcp/", json=rpc("ping"), headers={"Host": "other.example"})
        assert other.status_code == 421


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
async def test_reads_of_what_is_not_projected_fail_and_writes_go_on(configured: Doors, rest: Rest, name: str):
    await rest.store(name, "The kettle is red.")
    assert await rest.count(name) == 1
    pair = memory(name)
    with frozen(configured.server.supervisor.worker.pid):
        await rest.store(name, "The kettle is blue.")
        counted, searched = await asyncio.gather(
            rest.http.get("/v1/memories/count", params=pair),
            rest.http.post("/v1/memories/search", json={**pair, "query": "kettle"}),
        )
        for answer in (counted, searched):
            assert (answer.status_code, answer.headers["retry-after"]) == (502, "1")
            assert "not projected yet" in answer.json()["detail"]
        assert await rest.count(f"{name}-other") == 0

    async def projected() -> bool:
        return (await rest.http.get("/v1/memories/count", params=pair)).json().get("count") == 2

    await wait_until(projected, PATIENT_S)


@pytest.mark.covers("GET /health", "POST /v1/memories")
async def test_health_is_200_and_degraded_while_the_log_does_not_answer(configured: Doors, rest: Rest, name: str):
    assert (await rest.http.get("/health")).json() == {"status": "ok", "db": "ok", "version": "0.1.0"}
    valkey = configured.server.supervisor.valkey
    assert valkey is not None
    with frozen(valkey.pid):
        answer, created = await asyncio.gather(
            rest.http.get("/health"), rest.http.post("/v1/memories", json=memory(name, content="x"))
        )
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert answer.json()["db"].startswith("error: ")
        assert created.status_code == 502
        assert isinstance(created.json()["detail"], str)
    await wait_until(lambda: healthy(rest.http), PATIENT_S)
