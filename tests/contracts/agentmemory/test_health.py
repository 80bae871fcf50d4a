"""What the server says of itself."""

import re

import pytest

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
