"""What the server says of itself.

Pages for people, and what the door says of itself.

The sequence of requests by which agentmemory's own suite tests a live server, and what it does with a secret.

One answer differs on purpose: `health` says `healthy`, which the published clients want; the suite expects `ok`. With a
secret `health` asks for it, as the published server does.
"""

import re
import time

import httpx
import pytest

from tests.acceptance.running import SECRET, Doors, Server
from tests.contracts.agentmemory.calling import Api, at_last, ok

FLAGS = {
    "GRAPH_EXTRACTION_ENABLED",
    "CONSOLIDATION_ENABLED",
    "AGENTMEMORY_AUTO_COMPRESS",
    "AGENTMEMORY_INJECT_CONTEXT",
}


@pytest.mark.covers("GET /agentmemory/livez")
def test_livez_tells_a_client_that_it_may_start(api: Api):
    answer = ok(api.get("livez"))
    assert (answer["status"], answer["service"]) == ("ok", "agentmemory")
    assert isinstance(answer["viewerSkipped"], bool)
    assert answer["viewerSkipped"] or isinstance(answer["viewerPort"], int)


@pytest.mark.covers("GET /agentmemory/livez", "GET /agentmemory/health")
@pytest.mark.parametrize("path", ["livez", "health"])
def test_the_stream_is_on_the_port_of_the_rest(api: Api, path: str):
    assert ok(api.get(path))["streamsPort"] == api.http.base_url.port


@pytest.mark.covers("GET /agentmemory/health")
def test_health_has_what_dashboards_show(api: Api):
    answer = at_last(lambda: ok(api.get("health")), lambda answer: answer["status"] == "healthy")
    assert answer["service"] == "agentmemory"
    assert re.fullmatch(r"\d+\.\d+\.\d+", answer["version"])
    assert isinstance(answer["functionMetrics"], list)
    assert answer.keys() >= {"circuitBreaker", "viewerPort", "viewerSkipped", "database", "databaseStatus"}


@pytest.mark.covers("GET /agentmemory/health")
def test_health_tells_of_the_process(api: Api):
    inner = at_last(lambda: ok(api.get("health"))["health"], lambda answer: answer["status"] == "healthy")
    assert isinstance(inner["connectionState"], str)
    assert inner["memory"].keys() >= {"heapUsed", "heapTotal", "rss", "external"}
    assert inner["cpu"]["percent"] >= 0
    assert inner["eventLoopLagMs"] >= 0
    assert inner["uptimeSeconds"] >= 0
    assert inner["kvConnectivity"].keys() >= {"status", "latencyMs"}
    assert all(isinstance(inner[key], list) for key in ("workers", "alerts", "notes"))


@pytest.mark.covers("GET /agentmemory/health")
def test_the_circuit_breaker_is_closed_or_there_is_none(api: Api):
    breaker = ok(api.get("health"))["circuitBreaker"]
    assert breaker is None or (breaker["state"], breaker["failures"]) == ("closed", 0)


@pytest.mark.covers("GET /agentmemory/config/flags")
def test_the_flags_are_explained(api: Api):
    answer = ok(api.get("config/flags"))
    assert answer["provider"] in ("llm", "noop")
    assert answer["embeddingProvider"] in ("embeddings", "none")
    assert isinstance(answer["version"], str)
    assert {item["key"] for item in answer["flags"]} == FLAGS
    for flag in answer["flags"]:
        assert isinstance(flag["affects"], list)
        assert [type(flag[key]) for key in ("enabled", "default", "needsLlm")] == [bool] * 3
        assert all(isinstance(flag[key], str) for key in ("label", "description", "enableHow", "docsHref"))


@pytest.mark.covers("GET /agentmemory/graph/stats")
def test_the_graph_is_counted_under_the_names_of_all_clients(api: Api):
    answer = ok(api.get("graph/stats"))
    assert answer["success"] is True
    assert (answer["nodes"], answer["edges"]) == (answer["totalNodes"], answer["totalEdges"])
    assert sum(answer["nodesByType"].values()) == answer["totalNodes"]
    assert sum(answer["edgesByType"].values()) == answer["totalEdges"]


@pytest.mark.covers("GET /agentmemory/diagnostics/followup")
def test_searches_and_their_repeats_are_counted(api: Api, name: str):
    answer = ok(api.get("diagnostics/followup"))
    assert answer["success"] is True
    assert answer["windowSeconds"] > 0
    assert answer["followupWithinWindow"] <= answer["agentInitiatedSearches"]
    assert 0 <= answer["rate"] <= 1
    assert isinstance(answer["caveat"], str)
    for _ in range(2):
        ok(api.post("smart-search", query=name, sessionId=name))
    after = ok(api.get("diagnostics/followup"))
    assert after["agentInitiatedSearches"] == answer["agentInitiatedSearches"] + 2
    assert after["followupWithinWindow"] == answer["followupWithinWindow"] + 1


@pytest.mark.covers("GET /", "GET /viewer", "GET /agentmemory/viewer")
@pytest.mark.parametrize("path", ["/viewer", "/agentmemory/viewer"])
def test_the_viewer_is_a_page_that_keeps_to_itself(api: Api, path: str):
    page = api.http.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src" in page.headers["content-security-policy"]
    assert "<html" in page.text


@pytest.mark.covers("GET /")
def test_the_port_answers(api: Api):
    assert api.http.get("/").status_code < 500


@pytest.mark.covers("GET /favicon.svg")
def test_the_viewer_has_an_icon(api: Api):
    icon = api.http.get("/favicon.svg")
    assert icon.status_code == 200
    assert "<svg" in icon.text


@pytest.mark.covers("GET /agentmemory/openapi.json", "GET /agentmemory/docs")
def test_the_door_has_a_document_of_its_own_beside_that_of_the_port(api: Api):
    described, of_the_port = (api.http.get(f"{below}/openapi.json").json() for below in ("/agentmemory", ""))
    assert "/agentmemory/observe" in described["paths"]
    assert "/v1/observations" in of_the_port["paths"]
    assert not described["paths"].keys() & of_the_port["paths"].keys()
    page = api.http.get("/agentmemory/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "/agentmemory/observe" in page.text


@pytest.mark.covers(
    "GET /agentmemory/health", "POST /agentmemory/session/start", "POST /agentmemory/session/end",
    "GET /agentmemory/sessions", "POST /agentmemory/observe", "GET /agentmemory/observations",
    "POST /agentmemory/search", "POST /agentmemory/context", "GET /agentmemory/viewer",
)  # fmt: skip
def test_the_suite_of_a_live_server_passes(doors: Doors):
    with httpx.Client(base_url=f"{doors.agentmemory}/agentmemory", timeout=60, trust_env=False) as client:

        def listed(session: str) -> dict[str, object]:
            answer = client.get("/sessions")
            assert answer.status_code == 200
            return next(item for item in answer.json()["sessions"] if item["id"] == session)

        health = client.get("/health")
        assert health.status_code == 200
        assert (health.json()["service"], health.json()["status"]) == ("agentmemory", "healthy")

        first = f"test_{time.time_ns() // 1_000_000}"
        started = client.post("/session/start", json={"sessionId": first, "project": "/tmp/live", "cwd": "/tmp/live"})
        assert started.status_code == 200
        assert started.json()["session"]["id"] == first
        assert started.json()["session"]["status"] == "active"
        assert isinstance(started.json()["context"], str)
        assert listed(first)["status"] == "active"

        ended = client.post("/session/end", json={"sessionId": first})
        assert (ended.status_code, ended.json()["success"]) == (200, True)
        assert listed(first)["status"] == "completed"
        assert listed(first)["endedAt"]

        second = f"{first}_obs"
        client.post("/session/start", json={"sessionId": second, "project": "/tmp/live", "cwd": "/tmp/live"})
        for data in (
            {"tool": "Edit", "file": "src/auth.ts", "content": "export const auth = () => jwt.verify()"},
            {"tool": "Bash", "command": "npm test", "output": "12 tests passed"},
        ):
            observation = client.post(
                "/observe",
                json={
                    "hookType": "post_tool_use", "sessionId": second, "project": "/tmp/live", "cwd": "/tmp/live",
                    "timestamp": "2026-01-31T12:00:00.000Z", "data": data,
                },
            )  # fmt: skip
            assert observation.status_code == 201
            assert observation.json()["observationId"]
        observations = client.get("/observations", params={"sessionId": second})
        assert observations.status_code == 200
        assert len(observations.json()["observations"]) == 2
        refused = client.get("/observations")
        assert (refused.status_code, refused.json()["error"]) == (400, "sessionId required")

        assert client.post("/search", json={"query": "auth", "limit": 5}).status_code == 200
        assert client.post("/search", json={"query": "test"}).status_code == 200
        context = client.post("/context", json={"sessionId": "ctx-test", "project": "/tmp/live"})
        assert context.status_code == 200
        assert isinstance(context.json()["context"], str)

        page = client.get("/viewer")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src" in page.headers["content-security-policy"]
        assert "<html" in page.text
        assert client.get("/health").status_code == 200


@pytest.mark.covers("POST /agentmemory/search", "GET /agentmemory/livez", "GET /agentmemory/health")
def test_a_server_with_a_secret_asks_for_it_everywhere_but_at_livez(guarded: Server):
    with httpx.Client(base_url=f"{guarded.url}/agentmemory", timeout=60, trust_env=False) as client:
        query = {"query": "auth"}
        assert client.post("/search", json=query).status_code == 401
        wrong = client.post("/search", json=query, headers={"Authorization": "Bearer wrong"})
        assert (wrong.status_code, wrong.json()) == (401, {"error": "unauthorized"})
        assert client.get("/health").status_code == 401
        assert client.get("/livez").status_code == 200
        right = {"Authorization": f"Bearer {SECRET}"}
        assert client.post("/search", json=query, headers=right).status_code == 200
