"""Health, figures, re-embedding, and what is beside the endpoints."""

import pytest

from tests.contracts.agent_memory.conftest import Rest, done, well
from tests.contracts.refusals import places, said
from tests.support.waiting import wait_until

TYPES = {"decision", "bugfix", "feature", "refactor", "discovery", "change", "pattern", "gotcha"}


@pytest.mark.covers("GET /api/health")
async def test_health_tells_of_every_part(rest: Rest):
    healthy = await well(rest.http)
    assert healthy.keys() == {"status", "db", "embeddings", "queue"}
    assert healthy["db"].keys() == {"status", "version", "pgvector"}
    assert healthy["db"]["status"] == "ok"
    assert isinstance(healthy["db"]["version"], str)
    assert isinstance(healthy["db"]["pgvector"], bool)
    assert healthy["queue"].keys() == {"pending", "observations_total"}
    assert min(healthy["queue"].values()) >= 0


@pytest.mark.covers("GET /api/health")
async def test_health_is_ok_exactly_when_its_parts_are(rest: Rest):
    healthy = done(await rest.http.get("/api/health"))
    fine = healthy["db"]["status"] == healthy["embeddings"]["status"] == "ok"
    assert healthy["status"] == ("ok" if fine else "degraded")
    if healthy["embeddings"]["status"] == "ok":
        assert healthy["embeddings"].keys() == {"status", "model", "dimensions", "provider"}
        assert healthy["embeddings"]["dimensions"] > 0
    else:
        assert healthy["embeddings"].keys() == {"status", "error"}


@pytest.mark.covers("GET /api/admin/stats")
async def test_stats_count_by_type_and_project(rest: Rest, name: str):
    before = done(await rest.http.get("/api/admin/stats"))
    assert before.keys() == {"observations", "sessions", "projects", "queue", "by_type", "by_project"}
    assert before["observations"].keys() == {"total", "with_embedding", "without_embedding"}
    assert before["queue"].keys() == {"pending", "done", "failed"}
    assert before["by_type"].keys() <= TYPES
    for number, kind in enumerate(["gotcha", "gotcha", "pattern"]):
        await rest.observe(name, f"number {number}", session=f"{name}-{number}", type=kind)

    async def counted() -> bool:
        return done(await rest.http.get("/api/admin/stats"))["by_project"].get(name) == 3

    await wait_until(counted, 60)
    after = done(await rest.http.get("/api/admin/stats"))
    assert after["by_type"]["gotcha"] - before["by_type"].get("gotcha", 0) >= 2
    assert after["observations"]["total"] - before["observations"]["total"] >= 3
    assert after["sessions"] - before["sessions"] >= 3
    assert after["projects"] - before["projects"] >= 1
    counts = after["observations"]
    assert counts["with_embedding"] + counts["without_embedding"] == counts["total"] == after["queue"]["done"]

    async def all_counted() -> bool:
        return (await well(rest.http))["queue"]["observations_total"] >= counts["total"]

    await wait_until(all_counted, 60)


@pytest.mark.covers("POST /api/admin/re-embed", "GET /api/admin/re-embed/status", "POST /api/admin/re-embed/cancel")
async def test_re_embedding_is_one_job_at_a_time_that_can_be_followed_and_cancelled(rest: Rest, name: str):
    await rest.observe(name, "to be embedded")
    done(await rest.http.post("/api/admin/re-embed/cancel"))

    async def over() -> bool:
        return done(await rest.http.get("/api/admin/re-embed/status"))["status"] != "running"

    await wait_until(over, 60)
    started = done(await rest.http.post("/api/admin/re-embed"))
    assert started == {"status": "started", "only_missing": True, "batch_size": 100}
    again = done(await rest.http.post("/api/admin/re-embed", params={"only_missing": "false", "batch_size": 7}))
    if "error" in again:
        assert again.keys() == {"error", "status"}
        assert again["status"].keys() >= {"status", "total", "processed", "errors", "model", "only_missing"}
    else:
        assert again == {"status": "started", "only_missing": False, "batch_size": 7}
    progress = done(await rest.http.get("/api/admin/re-embed/status"))
    required = {"status", "total", "processed", "errors", "model", "only_missing"}
    assert required <= progress.keys() <= required | {"rate", "elapsed_seconds"}
    assert progress["status"] in ("running", "done")
    cancelled = done(await rest.http.post("/api/admin/re-embed/cancel"))
    assert cancelled in ({"status": "cancelling"}, {"status": "no job running"})
    await wait_until(over, 60)
    progress = done(await rest.http.get("/api/admin/re-embed/status"))
    assert progress["status"] in ("done", "cancelled")
    assert progress["status"] == "cancelled" or progress["processed"] == progress["total"]
    assert done(await rest.http.post("/api/admin/re-embed/cancel")) == {"status": "no job running"}


@pytest.mark.covers("POST /api/admin/re-embed")
@pytest.mark.parametrize("options", [{"only_missing": "perhaps"}, {"batch_size": "many"}])
async def test_re_embedding_refuses_what_is_no_setting(rest: Rest, options: dict[str, str]):
    answer = await rest.http.post("/api/admin/re-embed", params=options)
    assert places(answer) == [["query", next(iter(options))]]


@pytest.mark.covers("GET /api/health")
@pytest.mark.parametrize("path", ["/", "/metrics", "/api", "/api/nothing", "/api/observations/1/nothing"])
async def test_an_unknown_path_is_404(rest: Rest, path: str):
    assert said(await rest.http.get(path), 404) == "Not Found"


@pytest.mark.covers("GET /api/health", "POST /api/queue", "GET /api/observations/{id}", "PATCH /api/lessons/{id}")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/health"),
        ("GET", "/api/queue"),
        ("DELETE", "/api/observations/1"),
        ("GET", "/api/lessons/1"),
        ("DELETE", "/api/lessons/1"),
        ("DELETE", "/api/sessions"),
    ],
)
async def test_a_wrong_method_is_405(rest: Rest, method: str, path: str):
    assert said(await rest.http.request(method, path), 405) == "Method Not Allowed"


@pytest.mark.covers("GET /docs", "GET /redoc", "GET /openapi.json")
async def test_it_describes_itself(rest: Rest):
    for page in ("/docs", "/redoc"):
        answer = await rest.http.get(page)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "agent-memory" in answer.text
    described = done(await rest.http.get("/openapi.json"))
    assert described["info"]["version"] == "0.1.0"
    assert {
        "/api/health", "/api/queue", "/api/observations", "/api/observations/search", "/api/sessions", "/api/lessons",
        "/api/lessons/match", "/api/admin/stats", "/api/admin/re-embed",
    } <= described["paths"].keys()  # fmt: skip
