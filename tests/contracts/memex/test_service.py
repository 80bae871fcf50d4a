"""What is beside the memories: health, metrics, what it says of itself, and its load script's requests."""

import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.memex.conftest import Rest, memory
from tests.contracts.refusals import said

METRICS = {
    "http_requests_total": "counter",
    "http_request_size_bytes": "summary",
    "http_response_size_bytes": "summary",
    "http_request_duration_seconds": "histogram",
    "http_request_duration_highr_seconds": "histogram",
    "memex_embedding_duration_seconds": "histogram",
    "memex_embedding_errors_total": "counter",
    "memex_memory_operations_total": "counter",
    "memex_db_pool_size": "gauge",
    "memex_db_pool_idle": "gauge",
    "memex_summarizer_runs_total": "counter",
    "memex_summarizer_memories_condensed_total": "counter",
}


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
    assert said(await rest.http.get(path), 404) == "Not Found"


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
