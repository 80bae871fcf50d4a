"""What building memex's REST door showed: limits, races, and what is beside the endpoints."""

import asyncio
import os
import re
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.running import PATIENT, Server, running
from tests.contracts.conftest import Doors
from tests.support.ports import free_port
from tests.support.waiting import wait_until

SEEDING_THREADS = 32
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory):
    """A memex door as its load script wants it: no limits; it condenses every second."""
    ports = free_port(), free_port()
    changes: dict[str, Any] = {
        "secret": None,
        "embedder": "none",
        "partitions": 2,
        "drop_in": ("memex",),
        "memex_ports": ports[:1],
        "memex_mcp_ports": ports[1:],
        "memex_mcp_hosts": ("memex.example",),
        "memex_writes_per_minute": 999_999,
        "memex_searches_per_minute": 999_999,
        "condense_every": 1,
    }
    with running(tmp_path_factory.mktemp("cache"), **changes) as server:
        yield Unlimited(server, f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}")


class Unlimited:
    """Where its clients find it."""

    def __init__(self, server: Server, memex: str, memex_mcp: str) -> None:
        self.server, self.memex, self.memex_mcp = server, memex, memex_mcp


@contextmanager
def frozen(pid: int | None) -> Generator[None]:
    """The process stands still meanwhile."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=PATIENT, trust_env=False)


async def stored(client: httpx.AsyncClient, agent: str, content: str, **more: Any) -> dict[str, Any]:
    said = {"agent_id": agent, "user_id": "grace", "content": content, **more}
    answer = await client.post("/v1/memories", json=said)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def found(client: httpx.AsyncClient, agent: str, query: str, **more: Any) -> list[dict[str, Any]]:
    asked = {"agent_id": agent, "user_id": "grace", "query": query, **more}
    answer = await client.post("/v1/memories/search", json=asked)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["query"], body["total"]) == (query, len(body["results"]))
    return body["results"]


async def count(client: httpx.AsyncClient, agent: str) -> int:
    answer = await client.get("/v1/memories/count", params={"agent_id": agent, "user_id": "grace"})
    assert answer.status_code == 200, answer.text
    return answer.json()["count"]


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
async def test_what_was_created_is_found_as_it_was_answered(doors: Doors, name: str):
    async with client_of(doors.memex) as client:
        kept = await stored(client, name, "The kettle is red.", importance=0.87, memory_type="procedural")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", kept["created_at"])
        (hit,) = await found(client, name, "which colour is the kettle?")
        assert round(hit["score"], 4) == hit["score"]
        assert {**hit, "score": None} == kept


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
async def test_the_next_search_and_count_see_every_one_of_many_writes_at_once(doors: Doors, name: str):
    async with client_of(doors.memex) as client:
        kept = await asyncio.gather(*(stored(client, name, f"Grace owns kettle {n}.") for n in range(30)))
        assert await count(client, name) == 30
        assert {one["id"] for one in await found(client, name, "kettle", top_k=50)} == {one["id"] for one in kept}


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
async def test_blank_texts_pass(doors: Doors, name: str):
    async with client_of(doors.memex) as client:
        blank = await stored(client, name, "  ", user_id="grace")
        other = await stored(client, name, "Grace drinks tea.")
        hits = await found(client, name, " ")
        assert {one["id"] for one in hits} == {blank["id"], other["id"]}
        assert next(one["content"] for one in hits if one["id"] == blank["id"]) == "  "


@pytest.mark.covers("POST /v1/memories")
async def test_half_a_surrogate_pair_is_repaired(doors: Doors, name: str):
    raw = f'{{"agent_id": "{name}", "user_id": "grace", "content": "cut \\ud83c off"}}'
    async with client_of(doors.memex) as client:
        headers = {"content-type": "application/json"}
        answer = await client.post("/v1/memories", content=raw, headers=headers)
        assert (answer.status_code, answer.json()["content"]) == (201, "cut \ufffd off")


@pytest.mark.covers("POST /v1/memories")
async def test_an_agent_cannot_take_the_name_of_all(doors: Doors):
    async with client_of(doors.memex) as client:
        answer = await client.post("/v1/memories", json={"agent_id": "*", "user_id": "grace", "content": "x"})
        assert answer.status_code == 422
        assert "every agent" in answer.json()["detail"]


@pytest.mark.covers("DELETE /v1/memories/{memory_id}")
async def test_two_deletes_at_once_leave_nothing(doors: Doors, name: str):
    async with client_of(doors.memex) as client:
        kept = await stored(client, name, "The kettle is red.")
        path = f"/v1/memories/{kept['id']}"
        answers = await asyncio.gather(*(client.delete(path, params={"agent_id": name}) for _ in range(2)))
        assert {one.status_code for one in answers} <= {204, 404}
        assert 204 in {one.status_code for one in answers}
        assert await count(client, name) == 0
        assert (await client.delete(path, params={"agent_id": name})).status_code == 404


@pytest.mark.covers("DELETE /v1/memories/{memory_id}", "GET /v1/memories/count")
async def test_nobody_has_an_empty_name(doors: Doors, name: str):
    async with client_of(doors.memex) as client:
        kept = await stored(client, name, "The kettle is red.")
        nobody = await client.get("/v1/memories/count", params={"agent_id": "", "user_id": ""})
        assert nobody.json() == {"agent_id": "", "user_id": "", "count": 0}
        assert (await client.delete(f"/v1/memories/{kept['id']}", params={"agent_id": ""})).status_code == 404
        assert await count(client, name) == 1


@pytest.mark.covers("POST /v1/memories")
async def test_creates_and_searches_are_limited_apart(doors: Doors, name: str):
    """61 creates in a row may fall into two minutes of the clock, 121 may not."""
    async with client_of(doors.memex) as client:
        said = {"agent_id": name, "user_id": "grace", "content": "x"}
        answers = [await client.post("/v1/memories", json=said) for _ in range(121)]
        assert {one.status_code for one in answers[:60]} == {201}
        late = [one for one in answers if one.status_code == 429]
        assert late
        assert late[0].headers["retry-after"] == "60"
        assert re.search(r"asked for \d+ creates", late[0].json()["detail"])
        await found(client, name, "x")
        await stored(client, f"{name}-other", "x")


@pytest.mark.covers("GET /metrics", "POST /v1/memories", "DELETE /v1/memories/{memory_id}")
async def test_successes_are_counted_by_operation(unlimited: Unlimited, name: str):
    async with client_of(unlimited.memex) as client:

        async def total(line: str) -> float:
            text = (await client.get("/metrics")).text
            (value,) = re.findall(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE) or ["0"]
            return float(value)

        creates = 'memex_memory_operations_total{operation="create"}'
        deletes = 'memex_memory_operations_total{operation="delete"}'
        missing = 'http_requests_total{handler="/v1/memories/{memory_id}",method="DELETE",status="4xx"}'
        before = [await total(one) for one in (creates, deletes, missing)]
        kept = await stored(client, name, "The kettle is red.")
        for memory in (kept["id"], kept["id"], str(uuid4())):
            await client.delete(f"/v1/memories/{memory}", params={"agent_id": name})
        after = [await total(one) for one in (creates, deletes, missing)]
        assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 2]

        async def idle() -> bool:
            """A connection at work is not idle, and the pool may have grown since its size was asked for."""
            return await total("memex_db_pool_size") >= await total("memex_db_pool_idle") >= 1

        await wait_until(idle)


@pytest.mark.covers("GET /metrics")
async def test_the_embedding_of_a_query_is_timed(doors: Doors, name: str):
    async with client_of(doors.memex) as client:
        await found(client, name, f"what is {name}?")
        text = (await client.get("/metrics")).text
        (embedded,) = re.findall(r'^memex_embedding_duration_seconds_count{operation="embed"} (\S+)$', text, re.M)
        assert float(embedded) >= 1


@pytest.mark.covers("GET /openapi.json", "GET /docs", "GET /redoc", "GET /")
async def test_the_door_describes_itself(doors: Doors):
    async with client_of(doors.memex) as client:
        assert (await client.get("/")).json() == {"service": "memex", "version": "0.1.0", "docs": "/docs"}
        described = (await client.get("/openapi.json")).json()
        assert described["info"]["title"] == "memex"
        assert "/v1/memories/{memory_id}" in described["paths"]
        for path in ("/docs", "/redoc"):
            page = await client.get(path)
            assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert "/v1/memories/search" in page.text


@pytest.mark.covers("POST /v1/memories")
async def test_the_load_scripts_seeding_succeeds(unlimited: Unlimited, name: str):
    """100 creates from 32 threads, each counted by its 201; then every agent finds its own."""

    def create(client: httpx.Client, number: int) -> int:
        said = {
            "agent_id": f"{name}-{number % 20:03d}",
            "user_id": "grace",
            "content": f"Note {number}: the deploy script was run.",
            "memory_type": "episodic",
        }
        return client.post("/v1/memories", json=said).status_code

    def seeded() -> list[int]:
        with (
            httpx.Client(base_url=unlimited.memex, timeout=TIMEOUT_S, trust_env=False) as client,
            ThreadPoolExecutor(SEEDING_THREADS) as threads,
        ):
            return list(threads.map(partial(create, client), range(100)))

    assert set(await asyncio.to_thread(seeded)) == {201}
    async with client_of(unlimited.memex) as client:
        assert [await count(client, f"{name}-{n:03d}") for n in range(20)] == [5] * 20
        assert len(await found(client, f"{name}-000", "deploy", top_k=5, alpha=0.7)) == 5


@pytest.mark.covers("GET /v1/memories/count", "POST /v1/memories/search")
async def test_a_summary_stands_for_the_oldest_50_of_101(unlimited: Unlimited, name: str):
    async with client_of(unlimited.memex) as client:
        (first, *_) = [await stored(client, name, f"On day {n} Grace walked by the river.") for n in range(100)]
        assert await count(client, name) == 100
        await stored(client, name, "On the last day Grace walked by the river.")

        async def condensed() -> bool:
            return await count(client, name) == 52

        await wait_until(condensed, timeout_s=60)
        (summary,) = await found(client, name, "river", memory_type="semantic")
        assert summary["content"].startswith("[Summary of 50 memories] ")
        assert summary["importance"] == 1.0
        gone = await client.delete(f"/v1/memories/{first['id']}", params={"agent_id": name})
        assert gone.status_code == 404


@pytest.mark.covers("POST /v1/memories/search")
async def test_without_an_embedder_words_decide(unlimited: Unlimited, name: str):
    async with client_of(unlimited.memex) as client:
        red = await stored(client, name, "The kettle is red.")
        await stored(client, name, "Grace likes oolong.")
        best, weak = await found(client, name, "kettle red", alpha=1.0)
        assert (best["id"], best["score"], weak["score"]) == (red["id"], 1.0, 0.0)


@pytest.mark.parametrize("host", ["memex.example", "memex.example:8001", "localhost:1"])
async def test_mcp_hosts_are_configurable(unlimited: Unlimited, host: str):
    said = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Host": host, "Accept": "application/json, text/event-stream"}
    async with client_of(unlimited.memex_mcp) as client:
        assert (await client.post("/mcp/", json=said, headers=headers)).status_code == 400
        other = await client.post("/mcp/", json=said, headers={**headers, "Host": "other.example"})
        assert other.status_code == 421


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
async def test_a_create_never_waits_and_a_read_leaves_nothing_out(unlimited: Unlimited, name: str):
    """While nothing is projected, memories are stored; what asks for them fails rather than to answer without them."""
    async with client_of(unlimited.memex) as client:
        await stored(client, name, "The kettle is red.")
        assert await count(client, name) == 1
        worker = unlimited.server.supervisor.worker
        assert worker is not None
        with frozen(worker.pid):
            await stored(client, name, "The kettle is blue.")
            pair = {"agent_id": name, "user_id": "grace"}
            counted, searched = await asyncio.gather(
                client.get("/v1/memories/count", params=pair),
                client.post("/v1/memories/search", json={**pair, "query": "kettle"}),
            )
            for answer in (counted, searched):
                assert (answer.status_code, answer.headers["retry-after"]) == (502, "1")
                assert "not projected yet" in answer.json()["detail"]
            assert await count(client, f"{name}-other") == 0

        async def projected() -> bool:
            return (await client.get("/v1/memories/count", params=pair)).json().get("count") == 2

        await wait_until(projected, timeout_s=60)


@pytest.mark.covers("GET /health", "POST /v1/memories")
async def test_health_answers_200_while_the_store_does_not_answer(unlimited: Unlimited, name: str):
    async with client_of(unlimited.memex) as client:

        async def well() -> bool:
            return (await client.get("/health")).json()["status"] == "ok"

        await wait_until(well, timeout_s=60)  # its workers may have just begun
        assert (await client.get("/health")).json() == {"status": "ok", "db": "ok", "version": "0.1.0"}
        valkey = unlimited.server.supervisor.valkey
        assert valkey is not None
        with frozen(valkey.pid):
            answer, created = await asyncio.gather(
                client.get("/health"),
                client.post("/v1/memories", json={"agent_id": name, "user_id": "grace", "content": "x"}),
            )
            assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
            assert answer.json()["db"].startswith("error: ")
            assert created.status_code == 502
            assert isinstance(created.json()["detail"], str)
        await wait_until(well, timeout_s=60)
