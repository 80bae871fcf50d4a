"""The sequence of requests by which agentmemory's own suite tests a live server, and what it does with a secret.

One answer differs on purpose: `health` says `healthy`, which the published clients want; the suite expects `ok`. With a
secret `health` asks for it, as the published server does.
"""

import time

import httpx
import pytest

from tests.acceptance.running import SECRET, Doors, Server


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
        asked_first = {
            "Origin": "http://localhost:3113",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        preflight = client.options("/search", headers=asked_first)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "http://localhost:3113"
        shown = client.get("/health", headers={**right, "Origin": "null"})
        assert shown.headers["access-control-allow-origin"] == "null"
        assert shown.headers["access-control-allow-credentials"] == "true"
