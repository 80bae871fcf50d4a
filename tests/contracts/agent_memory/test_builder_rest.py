"""What showed in building agent-memory's REST door: races, own writes, and what clients rely on without saying so."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from tests.contracts.agent_memory.conftest import well
from tests.contracts.conftest import Doors
from tests.support.waiting import wait_until

PATIENT_S = 30
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


@pytest.fixture
async def api(doors: Doors) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=doors.agent_memory, timeout=PATIENT_S, trust_env=False) as client:
        yield client


async def observe(api: httpx.AsyncClient, project: str, title: str, **more: Any) -> dict[str, Any]:
    """Make an observation in a session of the project's name."""
    answer = await api.post(
        "/api/observations", json={"session_id": project, "project": project, "title": title, **more}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(api: httpx.AsyncClient, what: str, **asked: Any) -> list[dict[str, Any]]:
    """A list of observations, sessions or lessons."""
    answer = await api.get(f"/api/{what}", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def queue(api: httpx.AsyncClient, session: str, cwd: str | None, **more: Any) -> None:
    """Report the use of a tool."""
    said = {"session_id": session, "tool_name": "Bash", "tool_input": {"command": "ls"}, "cwd": cwd, **more}
    assert (await api.post("/api/queue", json=said)).json() == {"status": "queued"}


async def observed(api: httpx.AsyncClient, project: str, count: int) -> list[dict[str, Any]]:
    """A project's observations, newest first, once there are so many."""

    async def there() -> bool:
        return len(await listed(api, "observations", project=project)) == count

    await wait_until(there, PATIENT_S)
    return await listed(api, "observations", project=project)


@pytest.mark.covers("POST /api/observations", "GET /api/observations", "GET /api/observations/{id}")
async def test_an_observation_is_read_as_it_was_answered(api: httpx.AsyncClient, name: str):
    made = await observe(
        api, name, "Pool leaks", subtitle="after restarts", type="bugfix", narrative=f"{name} leaks", facts=["one"],
        concepts=["gotcha"], files_read=["a.py"], files_modified=["b.py"], tool_name="Edit", prompt_number=7, more="x",
    )  # fmt: skip
    assert TIME.match(made["created_at"])
    assert made["score"] is None
    assert [made] == [{**one, "has_embedding": False} for one in await listed(api, "observations", project=name)]
    found = await api.get(f"/api/observations/{made['id']}")
    assert {**found.json(), "has_embedding": False} == made


@pytest.mark.covers("GET /api/observations")
async def test_pages_go_back_in_time_and_their_ids_rise_with_it(api: httpx.AsyncClient, name: str):
    for number in range(7):
        await observe(api, name, f"number {number}", type="gotcha" if number % 2 else "pattern")
    pages = [await listed(api, "observations", project=name, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    found = [one for page in pages for one in page]
    assert [one["title"] for one in found] == [f"number {number}" for number in reversed(range(7))]
    assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)
    gotchas = await listed(api, "observations", project=name, type="gotcha")
    assert [one["title"] for one in gotchas] == ["number 5", "number 3", "number 1"]
    assert await listed(api, "observations", project=name, limit=0) == []


@pytest.mark.covers("GET /api/observations")
async def test_what_hooks_reported_has_rising_ids_too(api: httpx.AsyncClient, name: str):
    for number in range(4):
        await queue(api, name, f"/w/{name}", tool_input={"command": f"echo {number}"})
    found = await observed(api, name, 4)
    assert [one["title"] for one in found] == [f"Bash: echo {number}" for number in reversed(range(4))]
    assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)


@pytest.mark.covers("POST /api/observations/search")
@pytest.mark.parametrize("query", ["{0} & (pool)", "!{0}:*", '"{0}" | -pool', "{0}' OR 1=1; --"])
async def test_operators_are_plain_words(api: httpx.AsyncClient, name: str, query: str):
    made = await observe(api, name, f"{name} pool or 1=1")
    answer = await api.post("/api/observations/search", json={"query": query.format(name), "project": name})
    assert [one["id"] for one in answer.json()["observations"]] == [made["id"]]
    assert answer.json()["total"] == 1


@pytest.mark.covers("POST /api/observations/search")
async def test_every_word_must_be_there_and_scores_are_from_rank_0(api: httpx.AsyncClient, name: str):
    made = await observe(api, name, f"{name} zebra", narrative="An owl and a zebra met.", type="feature")
    await observe(api, name, f"{name} owl")

    async def search(**asked: Any) -> dict[str, Any]:
        answer = await api.post("/api/observations/search", json={"project": name, **asked})
        assert answer.status_code == 200, answer.text
        return answer.json()

    by_words = await search(query=f"{name} zebra", mode="fts")
    assert [(one["id"], one["score"]) for one in by_words["observations"]] == [(made["id"], 0.0333)]
    assert (by_words["mode"], by_words["total"]) == ("fts", 1)
    assert (await search(query=f"{name} zebra", type=["bugfix"]))["observations"] == []
    assert (await search(query=f"{name} zebra", type=["nonsense"]))["observations"] == []
    assert [one["id"] for one in (await search(query="zebra", type=["feature", "bugfix"]))["observations"]] == [
        made["id"]
    ]
    assert (await search(query="zebra", mode="nonsense"))["total"] == 0
    assert (await search(query="  "))["total"] == 0
    elsewhere = await search(query=f"{name} zebra", project="another", cross_project=True, limit=1_000)
    assert made["id"] in [one["id"] for one in elsewhere["observations"]]


@pytest.mark.covers("POST /api/queue")
async def test_a_known_session_keeps_its_first_project(api: httpx.AsyncClient, name: str):
    await asyncio.gather(*(queue(api, name, f"/w/{name}/sub{number}") for number in range(5)))
    (session,) = [one for one in await listed(api, "sessions", limit=100) if one["session_id"] == name]
    assert len(await observed(api, session["project_name"], 5)) == 5


@pytest.mark.covers("POST /api/queue")
async def test_equal_reports_are_two_and_skipped_tools_none(api: httpx.AsyncClient, name: str):
    await queue(api, name, f"/w/{name}", tool_name="TodoWrite")
    (session,) = await listed(api, "sessions", project=name)
    assert session["status"] == "active"
    await queue(api, name, f"/w/{name}")
    await queue(api, name, f"/w/{name}")
    assert len(await observed(api, name, 2)) == 2


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize(
    "said",
    [
        {"tool_input": {"content": "x" * (8 << 20)}},
        {"tool_input": {"n": 10**40, "\0": "\0"}, "tool_response_preview": "\0" * 5_000},
        {"tool_input": json.loads('{"a":' * 400 + "1" + "}" * 400)},
        {"tool_name": None, "tool_input": None},
        {"last_user_message": "half of a pair: \ud83c"},
        {"unknown": [1, 2]},
    ],
    ids=["eight megabytes", "numbers and NUL", "deep", "nothing", "half a pair", "unknown key"],
)
async def test_whatever_can_be_read_is_kept(api: httpx.AsyncClient, name: str, said: dict[str, Any]):
    report = {"session_id": name, "tool_name": "Write", "cwd": f"/w/{name}", **said}
    assert (await api.post("/api/queue", content=json.dumps(report))).json() == {"status": "queued"}
    (one,) = await observed(api, name, 1)
    assert one["title"]


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"tool_name":"Bash"}', b'{"session_id":"s","tool_input":[]}'])
async def test_what_is_no_report_is_refused_as_a_list_of_faults(api: httpx.AsyncClient, content: bytes):
    answer = await api.post("/api/queue", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][0] == "body"


@pytest.mark.covers("POST /api/sessions")
async def test_a_session_begins_once_even_when_two_begin_it(api: httpx.AsyncClient, name: str):
    begun = {"session_id": name, "project": name}
    answers = await asyncio.gather(*(api.post("/api/sessions", json=begun) for _ in range(6)))
    assert sorted(one.status_code for one in answers) == [200] + [409] * 5
    made = next(one.json() for one in answers if one.status_code == 200)
    assert [made] == await listed(api, "sessions", project=name)
    assert TIME.match(made["started_at"])


@pytest.mark.covers("POST /api/sessions")
async def test_a_session_that_a_hook_or_an_observation_made_exists(api: httpx.AsyncClient, name: str):
    await queue(api, f"{name}-1", f"/w/{name}")
    await observe(api, f"{name}-2", "first")
    for session in (f"{name}-1", f"{name}-2"):
        answer = await api.post("/api/sessions", json={"session_id": session, "project": "another"})
        assert answer.status_code == 409
        assert isinstance(answer.json()["detail"], str)


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_a_session_ends_fails_goes_on_and_is_told_of(api: httpx.AsyncClient, name: str):
    session = f"{name}/with/slashes é"
    await queue(api, session, f"/w/{name}")
    path = f"/api/sessions/{httpx.QueryParams({'x': session})!s}".replace("x=", "", 1).replace("+", "%20")

    async def now(**changes: Any) -> tuple[str, bool, str | None]:
        answer = await api.patch(path, json=changes)
        assert answer.json() == {"status": "updated"}, answer.text
        (one,) = await listed(api, "sessions", project=name)
        return one["status"], one["completed_at"] is not None, one["summary"]

    assert await now(status="completed") == ("completed", True, None)
    assert await now(summary="It works now.") == ("completed", True, "It works now.")
    assert await now(status="failed", summary="It broke.") == ("failed", True, "It broke.")
    assert await now(status="active") == ("active", False, "It broke.")
    assert await listed(api, "sessions", project=name, status="failed") == []


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_changes_of_a_session_that_cannot_be(api: httpx.AsyncClient, name: str):
    await queue(api, name, f"/w/{name}")
    assert (await api.patch(f"/api/sessions/{name}", json={})).status_code == 400
    assert (await api.patch(f"/api/sessions/{name}", json={"status": "", "summary": ""})).status_code == 400
    assert (await api.patch(f"/api/sessions/{name}", json={"status": "over"})).status_code == 422
    unknown = await api.patch(f"/api/sessions/{name}-other", json={"status": "completed"})
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "Session not found"})


@pytest.mark.covers("GET /api/sessions")
async def test_sessions_are_listed_by_when_they_began(api: httpx.AsyncClient, name: str):
    for number in range(4):
        await api.post("/api/sessions", json={"session_id": f"{name}-{number}", "project": name})
    await queue(api, f"{name}-0", f"/w/{name}")
    found = await listed(api, "sessions", project=name, limit=3)
    assert [one["session_id"] for one in found] == [f"{name}-{number}" for number in (3, 2, 1)]


@pytest.mark.covers("POST /api/lessons", "PATCH /api/lessons/{id}", "GET /api/lessons")
async def test_a_lesson_is_changed_switched_off_and_found_again(api: httpx.AsyncClient, name: str):
    learned_from = await observe(api, name, "It broke")
    said = {"title": "T", "rule": f"Mind {name}", "project": name, "source_observation_id": learned_from["id"]}
    made = (await api.post("/api/lessons", json=said)).json()
    assert (made["severity"], made["source_observation_id"], made["active"]) == ("warning", learned_from["id"], True)
    assert [made] == await listed(api, "lessons", project=name)
    changed = (
        await api.patch(f"/api/lessons/{made['id']}", json={"rule": f"Always mind {name}", "title": None})
    ).json()
    assert changed == {**made, "rule": f"Always mind {name}"}
    assert (await api.patch(f"/api/lessons/{made['id']}", json={"active": False})).json()["active"] is False
    assert await listed(api, "lessons", project=name) == []
    assert (await api.get("/api/lessons/match", params={"tool_name": "Any", "project": name})).json() == []
    assert [one["id"] for one in await listed(api, "lessons", project=name, active=False)] == [made["id"]]
    assert (await api.patch(f"/api/lessons/{made['id']}", json={"active": True})).json()["active"] is True
    assert [one["id"] for one in await listed(api, "lessons", project=name)] == [made["id"]]


@pytest.mark.covers("GET /api/lessons", "GET /api/lessons/match")
async def test_the_gravest_come_first_of_however_many(api: httpx.AsyncClient, name: str):
    for number, severity in enumerate(["info"] * 25 + ["critical", "warning", "critical"]):
        lesson = {"title": "t", "rule": f"{name} {number}", "severity": severity, "project": name}
        if severity == "info":
            lesson["trigger_pattern"] = "never there"
        assert (await api.post("/api/lessons", json=lesson)).status_code == 200
    found = await listed(api, "lessons", project=name, limit=4)
    assert [one["rule"].split()[1] for one in found] == ["27", "25", "26", "24"]
    matching = (await api.get("/api/lessons/match", params={"tool_name": "Any", "project": name})).json()
    own = [one["rule"].split()[1] for one in matching if one["project_name"] == name]
    assert own[:1] == ["27"]
    assert len(matching) <= 5


@pytest.mark.covers("POST /api/lessons", "PATCH /api/lessons/{id}", "POST /api/lessons/{id}/trigger")
async def test_lessons_that_cannot_be(api: httpx.AsyncClient, name: str):
    said = {"title": "t", "rule": name, "project": name}
    for pattern in ("(", "x" * 501, "(?=x)"):
        assert (await api.post("/api/lessons", json={**said, "trigger_pattern": pattern})).status_code == 400
    for wrong in ({"severity": "grave"}, {"source_observation_id": 10**12}, {"rule": " "}):
        refused = await api.post("/api/lessons", json={**said, **wrong})
        assert refused.status_code == 422
        assert refused.json()["detail"][0]["loc"] == ["body", next(iter(wrong))]
    assert (await api.patch("/api/lessons/999999999", json={"title": "x"})).status_code == 404
    assert (await api.patch("/api/lessons/x", json={"title": "x"})).status_code == 422
    assert (await api.post("/api/lessons/999999999/trigger")).json() == {"triggered": True}
    assert (await api.get("/api/lessons/1")).status_code == 405
    assert await listed(api, "lessons", project=name) == []


@pytest.mark.covers("GET /api/admin/stats", "GET /api/health")
async def test_what_is_written_is_counted(api: httpx.AsyncClient, name: str):
    before = (await api.get("/api/admin/stats")).json()
    await observe(api, name, "one", type="gotcha")
    await observe(api, name, "two", type="gotcha")
    after = (await api.get("/api/admin/stats")).json()
    assert after["by_project"][name] == 2
    assert after["by_type"]["gotcha"] >= before["by_type"].get("gotcha", 0) + 2
    assert after["sessions"] > before["sessions"]
    assert after["projects"] > before["projects"]
    counts = after["observations"]
    assert counts["total"] == counts["with_embedding"] + counts["without_embedding"] == after["queue"]["done"]

    async def all_counted() -> bool:
        """What cannot be counted in a few milliseconds is as many as there were the last time."""
        return (await well(api))["queue"]["observations_total"] >= counts["total"]

    await wait_until(all_counted, PATIENT_S)


@pytest.mark.covers("POST /api/admin/re-embed", "GET /api/admin/re-embed/status", "POST /api/admin/re-embed/cancel")
async def test_vectors_are_made_again(api: httpx.AsyncClient, name: str):
    await observe(api, name, "to be embedded")
    started = await api.post("/api/admin/re-embed", params={"only_missing": "false", "batch_size": 10})
    assert started.json() == {"status": "started", "only_missing": False, "batch_size": 10}
    again = (await api.post("/api/admin/re-embed")).json()
    assert again["status"]["status"] == "running" if "error" in again else again["status"] == "started"

    async def done() -> bool:
        return (await api.get("/api/admin/re-embed/status")).json()["status"] == "done"

    await wait_until(done, 120)
    progress = (await api.get("/api/admin/re-embed/status")).json()
    assert progress["processed"] == progress["total"]
    assert (await api.post("/api/admin/re-embed/cancel")).json() == {"status": "no job running"}


@pytest.mark.covers("GET /docs", "GET /redoc", "GET /openapi.json")
async def test_it_describes_itself_and_is_nothing_else(api: httpx.AsyncClient):
    for page in ("/docs", "/redoc"):
        assert "agent-memory" in (await api.get(page)).text
    paths = (await api.get("/openapi.json")).json()["paths"]
    assert {"get", "post"} <= set(paths["/api/lessons"])
    assert "patch" in paths["/api/sessions/{session_id}"]
    for nothing in ("/", "/metrics", "/api/nothing"):
        answer = await api.get(nothing)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
    wrong = await api.delete("/api/health")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
