"""The service itself: health, counters, browsers, what is said of what does not exist, its description."""

import re

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.running import frozen
from tests.contracts.agentd.conftest import Guarded, Remember
from tests.contracts.conftest import PAGE


def counters(client: httpx.Client) -> dict[str, float]:
    """The samples of /metrics."""
    lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[:1] != "#")}


@pytest.mark.covers("GET /health")
def test_a_healthy_service_says_what_it_stands_on(agentd: httpx.Client):
    answer = agentd.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "service": "agentd-memory",
        "version": "0.2.0",
        "details": {"vector_store": True, "sqlite_storage": True},
    }


@pytest.mark.covers("GET /health")
async def test_a_service_whose_log_is_away_is_degraded(guarded: Guarded):
    valkey = guarded.server.supervisor.valkey
    assert valkey is not None
    assert guarded.client.get("/health").status_code == 200  # the keys are known for a minute from here
    with frozen(valkey.pid):
        answer = guarded.client.get("/health")
        assert answer.status_code == 503
        body = answer.json()
        assert (body["status"], body["service"], body["version"]) == ("degraded", "agentd-memory", "0.2.0")
        assert body["details"]["sqlite_storage"] is False
        assert "does not answer" in body["details"]["sqlite_storage_error"]
        stored = guarded.client.post("/memories", json={"content": "text", "created_by": "ada"})
        assert stored.status_code == 503
        assert stored.json()["error"].startswith("service unavailable: ")
    await wait_until(lambda: guarded.client.get("/health").status_code == 200, timeout_s=60)


@pytest.mark.covers("GET /metrics")
def test_counters_count_what_was_done(agentd: httpx.Client, remember: Remember, name: str):
    before = counters(agentd)
    stored = remember("a", type="question", visibility="private")
    agentd.post("/memories", json={"content": " ", "created_by": "ada"})
    agentd.post("/memories/search", json={"query": name})
    agentd.post("/memories/search", json={"query": ""})
    for _ in range(2):
        agentd.delete(f"/memories/{stored['id']}")
    after = counters(agentd)
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        'memories_created_total{type="question",visibility="private"}': 1,
        "memories_deleted_total": 1,
        "memories_searched_total": 1,
    }


@pytest.mark.covers("GET /metrics")
def test_every_counter_is_there_from_the_start(guarded: Guarded):
    answer = guarded.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    names = set(counters(guarded.client))
    pairs = {(kind, level) for kind in ("information", "question", "request") for level in LEVELS}
    assert names == {
        *(f'memories_created_total{{type="{kind}",visibility="{level}"}}' for kind, level in pairs),
        "memories_deleted_total",
        "memories_searched_total",
        'service_info{service="memory",version="0.2.0"}',
    }
    assert "# TYPE memories_created_total counter" in answer.text
    assert re.search(r"^service_info\{.*\} 1(\.0)?$", answer.text, re.MULTILINE)


LEVELS = ("public", "shared", "private")


@pytest.mark.covers("GET /memories", "POST /memories")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_pages_of_any_origin_may_call(agentd: httpx.Client, name: str, method: str):
    origin = {"Origin": "http://ui.example:5173"}
    headers = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "content-type, authorization"}
    preflight = agentd.options("/memories", headers={**origin, **headers})
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] in ("*", origin["Origin"])
    assert method in preflight.headers["access-control-allow-methods"]
    assert {"content-type", "authorization"} <= {
        item.strip().lower() for item in preflight.headers["access-control-allow-headers"].split(",")
    }
    for answer in (
        agentd.post("/memories", json={"content": name, "created_by": "ada"}, headers=origin),
        agentd.post("/memories", json={"content": "", "created_by": "ada"}, headers=origin),
        agentd.get("/memories/nothing", headers=origin),
    ):
        assert answer.headers["access-control-allow-origin"] in ("*", origin["Origin"])


def test_a_list_of_origins_shuts_the_others_out(guarded: Guarded):
    for origin in (PAGE, "http://other.example:8080"):
        answer = guarded.client.get("/memories", headers={"Origin": origin})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    for origin in ("http://uixexample", f"{PAGE}.evil.example", "null"):
        answer = guarded.client.get("/memories", headers={"Origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
        assert isinstance(answer.json()["error"], str)
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        assert guarded.client.options("/memories", headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/memories/mem_1/visibility/more", 404),
        ("PUT", "/memories", 405),
        ("GET", "/memories/mem_1/visibility", 405),
        ("POST", "/memories/mem_1", 405),
        ("POST", "/health", 405),
    ],
)
def test_what_does_not_exist_is_said_as_json(agentd: httpx.Client, method: str, path: str, status: int):
    answer = agentd.request(method, path)
    assert answer.status_code == status
    assert isinstance(answer.json()["error"], str)


@pytest.mark.covers("GET /health")
def test_both_loopbacks_are_the_service(agentd: httpx.Client):
    """Clients say `localhost`."""
    port = agentd.base_url.port
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert httpx.get(f"http://{host}:{port}/health", trust_env=False, timeout=60).status_code == 200


@pytest.mark.covers("GET /openapi.json", "GET /docs", "GET /redoc")
def test_the_door_describes_itself(agentd: httpx.Client):
    described = agentd.get("/openapi.json").json()
    assert described["info"]["title"] == "agentd-memory"
    operations = {f"{method.upper()} {path}" for path, result in described["paths"].items() for method in result}
    assert {
        "GET /health", "GET /metrics", "POST /memories", "GET /memories", "GET /memories/{id}", "DELETE /memories/{id}",
        "PUT /memories/{id}/visibility", "POST /memories/search",
    } <= operations  # fmt: skip
    for page in ("/docs", "/redoc"):
        assert "/memories/search" in agentd.get(page).text
