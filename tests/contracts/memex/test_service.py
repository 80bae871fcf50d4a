"""What is beside the memories: health, metrics, what it says of itself, and its load script's requests.

memex with other settings than the default, without an embedder, and while a process of its server stands still.

How often an agent may ask: 60 creates and 120 searches a minute, each for itself.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.acceptance.running import PATIENT, Doors, frozen
from tests.contracts.memex.conftest import BOTH, USER, Mcp, Rest, connected, memory, rpc
from tests.contracts.refusals import reason
from tests.support.waiting import wait_until

METRICS = {
    "http_requests_total": "counter", "http_request_size_bytes": "summary", "http_response_size_bytes": "summary",
    "http_request_duration_seconds": "histogram", "http_request_duration_highr_seconds": "histogram",
    "memex_embedding_duration_seconds": "histogram", "memex_embedding_errors_total": "counter",
    "memex_memory_operations_total": "counter", "memex_db_pool_size": "gauge", "memex_db_pool_idle": "gauge",
    "memex_summarizer_runs_total": "counter", "memex_summarizer_memories_condensed_total": "counter",
}  # fmt: skip


async def value(rest: Rest, sample: str) -> float:
    """A sample of /metrics, 0 when it is not there."""
    text = (await rest.http.get("/metrics")).text
    results = re.findall(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    return float(results[0]) if results else 0.0


@pytest.mark.covers("GET /health")
async def test_health_is_ok(rest: Rest):
    answer = await rest.http.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "db": "ok", "version": "0.1.0"})


@pytest.mark.covers("GET /")
async def test_it_says_what_it_is(rest: Rest):
    answer = await rest.http.get("/")
    assert (answer.status_code, answer.json()) == (200, {"service": "memex", "version": "0.1.0", "docs": "/docs"})


@pytest.mark.covers("GET /docs", "GET /redoc", "GET /openapi.json")
async def test_it_describes_itself(rest: Rest):
    for page in ("/docs", "/redoc"):
        answer = await rest.http.get(page)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "/v1/memories/search" in answer.text
    described = (await rest.http.get("/openapi.json")).json()
    assert {"/v1/memories", "/v1/memories/search", "/v1/memories/{memory_id}", "/v1/memories/count", "/health"} <= (
        described["paths"].keys()
    )
    assert described["info"]["title"] == "memex"


@pytest.mark.covers("GET /")
@pytest.mark.parametrize("path", ["/v1", "/v1/nothing", "/v2/memories", "/v1/memories/a/b"])
async def test_an_unknown_path_is_404(rest: Rest, path: str):
    assert reason(await rest.http.get(path), 404) == "Not Found"


@pytest.mark.covers("GET /metrics")
@pytest.mark.parametrize(("metric", "kind"), METRICS.items())
async def test_every_metric_is_there(rest: Rest, metric: str, kind: str):
    answer = await rest.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert re.search(rf"^# TYPE {metric} {kind}$", answer.text, re.MULTILINE)


@pytest.mark.covers("GET /metrics")
async def test_requests_are_counted_by_route_method_and_group_of_statuses(rest: Rest, name: str):
    query = {
        'handler="/v1/memories",method="POST",status="2xx"': "POST /v1/memories",
        'handler="/v1/memories",method="POST",status="4xx"': "POST /v1/memories",
        'handler="/v1/memories/{memory_id}",method="DELETE",status="4xx"': "DELETE /v1/memories/first",
        'handler="/v1/memories/count",method="GET",status="4xx"': "GET /v1/memories/count",
        'handler="none",method="GET",status="4xx"': "GET /nothing",
    }
    before = {labels: await value(rest, f"http_requests_total{{{labels}}}") for labels in query}
    for labels, request in query.items():
        method, path = request.split()
        body = memory(name, content="x") if "2xx" in labels else None
        await rest.http.request(method, path, json=body)
    after = {labels: await value(rest, f"http_requests_total{{{labels}}}") for labels in query}
    assert {labels: after[labels] - before[labels] for labels in query} == dict.fromkeys(query, 1)


@pytest.mark.covers("GET /metrics")
async def test_successful_operations_are_counted(rest: Rest, name: str):
    operations = ("create", "search", "delete")

    async def counts() -> list[float]:
        return [
            await value(rest, f'memex_memory_operations_total{{operation="{operation}"}}') for operation in operations
        ]

    before = await counts()
    made = await rest.store(name, "x")
    await rest.http.post("/v1/memories", json={})
    await rest.search(name, "x")
    await rest.http.post("/v1/memories/search", json={})
    for _ in range(2):
        await rest.delete(name, made["id"])
    assert [b - a for a, b in zip(before, await counts(), strict=True)] == [1, 1, 1]


@pytest.mark.covers("GET /metrics")
async def test_durations_are_told_by_route_and_exactly(rest: Rest, name: str):
    await rest.store(name, "x")
    await rest.search(name, f"what is {name}?")
    assert await value(rest, 'memex_embedding_duration_seconds_count{operation="embed"}') >= 1
    text = (await rest.http.get("/metrics")).text
    assert re.search(r'^http_request_duration_seconds_bucket\{[^}]*handler="/v1/memories"', text, re.MULTILINE)
    assert 'http_request_duration_highr_seconds_bucket{le="' in text
    buckets = re.findall(r'^memex_embedding_duration_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\}', text, re.MULTILINE)
    assert set(buckets) <= {"0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "+Inf"}
    assert await value(rest, "memex_db_pool_size") >= await value(rest, "memex_db_pool_idle") >= 0


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search")
def test_seeding_from_32_threads_stores_everything(doors: Doors, name: str):
    """As the load script seeds, at the size that the default limits take."""
    # httpcore closes idle connections beyond the limit, without a lock that would show that a thread was just given one
    limits = httpx.Limits(max_keepalive_connections=32)
    with httpx.Client(base_url=doors.memex, timeout=60, trust_env=False, limits=limits) as http:

        def seed(number: int) -> int:
            body = {
                "agent_id": f"{name}-{number % 4}",
                "user_id": f"load-user-{number % 10:03}",
                "content": f"Postgres pool {number}",
                "memory_type": ("episodic", "semantic")[number % 2],
            }
            return http.post("/v1/memories", json=body).status_code

        with ThreadPoolExecutor(32) as threads:
            assert set(threads.map(seed, range(100))) == {201}
        body = {"agent_id": f"{name}-0", "user_id": "load-user-000", "query": "pool", "top_k": 5, "alpha": 0.7}
        assert http.post("/v1/memories/search", json=body).json()["total"] == 5


PATIENT_S = 60


@pytest.fixture
async def configured_rest(configured: Doors) -> AsyncGenerator[Rest]:
    """The API of the configured server, once it is healthy."""
    async with httpx.AsyncClient(base_url=configured.memex, timeout=PATIENT, trust_env=False) as http:
        await wait_until(lambda: healthy(http), PATIENT_S)
        yield Rest(http)


async def healthy(http: httpx.AsyncClient) -> bool:
    """Whether memex calls itself healthy."""
    return (await http.get("/health")).json()["status"] == "ok"


@pytest.mark.covers("GET /v1/memories/count", "POST /v1/memories/search")
async def test_a_summary_replaces_the_oldest_50_of_101(configured_rest: Rest, name: str):
    (first, *_) = [await configured_rest.store(name, f"On day {n} Grace walked by the river.") for n in range(100)]
    assert await configured_rest.count(name) == 100
    await configured_rest.store(name, "On the last day Grace walked by the river.")

    async def condensed() -> bool:
        return await configured_rest.count(name) == 52

    await wait_until(condensed, PATIENT_S)
    (summary,) = await configured_rest.search(name, "river", memory_type="semantic")
    assert summary["content"].startswith("[Summary of 50 memories] ")
    assert summary["importance"] == 1.0
    assert (await configured_rest.delete(name, first["id"])).status_code == 404
    assert (await configured_rest.delete(name, summary["id"])).status_code == 204
    assert await configured_rest.count(name) == 51
    assert await configured_rest.search(name, "river", memory_type="semantic") == []


@pytest.mark.covers("POST /v1/memories/search")
async def test_without_an_embedder_words_decide(configured_rest: Rest, name: str):
    red = await configured_rest.store(name, "The kettle is red.")
    await configured_rest.store(name, "Grace likes oolong.")
    best, weak = await configured_rest.search(name, "kettle red", alpha=1.0)
    assert (best["id"], best["score"], weak["score"]) == (red["id"], 1.0, 0.0)


@pytest.mark.parametrize("host", ["memex.example", "memex.example:8001", "localhost:1"])
async def test_mcp_hosts_are_configurable(configured: Doors, host: str):
    async with httpx.AsyncClient(base_url=configured.memex_mcp, headers={"Accept": BOTH}, timeout=PATIENT) as client:
        assert (await client.post("/mcp/", json=rpc("ping"), headers={"Host": host})).status_code == 400
        other = await client.post("/mcp/", json=rpc("ping"), headers={"Host": "other.example"})
        assert other.status_code == 421


@pytest.mark.covers("POST /v1/memories", "POST /v1/memories/search", "GET /v1/memories/count")
async def test_reads_of_what_is_not_projected_fail_and_writes_go_on(
    configured: Doors, configured_rest: Rest, name: str
):
    await configured_rest.store(name, "The kettle is red.")
    assert await configured_rest.count(name) == 1
    pair = memory(name)
    with frozen(configured.server.supervisor.worker.pid):
        await configured_rest.store(name, "The kettle is blue.")
        counted, searched = await asyncio.gather(
            configured_rest.http.get("/v1/memories/count", params=pair),
            configured_rest.http.post("/v1/memories/search", json={**pair, "query": "kettle"}),
        )
        for answer in (counted, searched):
            assert (answer.status_code, answer.headers["retry-after"]) == (502, "1")
            assert "events are pending" in answer.json()["detail"]
        assert await configured_rest.count(f"{name}-other") == 0

    async def projected() -> bool:
        return (await configured_rest.http.get("/v1/memories/count", params=pair)).json().get("count") == 2

    await wait_until(projected, PATIENT_S)


@pytest.mark.covers("GET /health", "POST /v1/memories")
async def test_health_is_200_and_degraded_while_the_log_does_not_answer(
    configured: Doors, configured_rest: Rest, name: str
):
    assert (await configured_rest.http.get("/health")).json() == {"status": "ok", "db": "ok", "version": "0.1.0"}
    valkey = configured.server.supervisor.valkey
    assert valkey is not None
    with frozen(valkey.pid):
        answer, created = await asyncio.gather(
            configured_rest.http.get("/health"),
            configured_rest.http.post("/v1/memories", json=memory(name, content="x")),
        )
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert answer.json()["db"].startswith("error: ")
        assert created.status_code == 502
        assert isinstance(created.json()["detail"], str)
    await wait_until(lambda: healthy(configured_rest.http), PATIENT_S)


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
    assert reason(refused, 429)
    assert re.search(r"asked for \d+ creates", reason(refused, 429))
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
    assert reason(refused, 429)
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
