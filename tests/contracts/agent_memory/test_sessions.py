"""Sessions: begun, changed, listed."""

import asyncio
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.contracts.agent_memory.conftest import PATIENT_S, Rest, done
from tests.contracts.refusals import Refusal, places, refusals, said
from tests.support.waiting import wait_until

KEYS = {
    "id", "session_id", "project_id", "project_name", "agent_type", "status", "started_at", "completed_at", "summary",
    "prompt_count",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


async def change(rest: Rest, session: str, **changes: Any) -> None:
    answer = await rest.http.patch(f"/api/sessions/{quote(session, safe='')}", json=changes)
    assert (answer.status_code, answer.json()) == (200, {"status": "updated"}), answer.text


async def only(rest: Rest, project: str) -> dict[str, Any]:
    (session,) = await rest.listed("sessions", project=project)
    return session


@pytest.mark.covers("POST /api/sessions", "GET /api/sessions")
async def test_a_session_is_answered_whole(rest: Rest, name: str):
    made = await rest.begin(f"{name}-s", name, project_path=f"/home/ada/{name}", agent_type="codex")
    assert made.keys() == KEYS
    assert (made["session_id"], made["project_name"], made["agent_type"]) == (f"{name}-s", name, "codex")
    assert (made["status"], made["completed_at"], made["summary"]) == ("active", None, None)
    assert made["prompt_count"] == 0
    assert isinstance(made["id"], int)
    assert isinstance(made["project_id"], int)
    assert TIME.fullmatch(made["started_at"])
    assert await only(rest, name) == made


@pytest.mark.covers("POST /api/sessions")
async def test_a_session_is_claude_codes_unless_it_says_otherwise(rest: Rest, name: str):
    assert (await rest.begin(name, name, project_path=None))["agent_type"] == "claude-code"


@pytest.mark.covers("POST /api/sessions")
async def test_a_session_begins_once(rest: Rest, name: str):
    made = await rest.begin(name, name)
    said(await rest.http.post("/api/sessions", json={"session_id": name, "project": f"{name}-2"}), 409)
    assert await only(rest, name) == made
    assert await rest.listed("sessions", project=f"{name}-2") == []


@pytest.mark.covers("POST /api/sessions")
async def test_one_of_six_concurrent_requests_begins_a_session(rest: Rest, name: str):
    body = {"session_id": name, "project": name}
    answers = await asyncio.gather(*(rest.http.post("/api/sessions", json=body) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5
    assert [await only(rest, name)] == [answer.json() for answer in answers if answer.status_code == 200]


@pytest.mark.covers("POST /api/sessions", "POST /api/queue")
async def test_a_session_that_a_report_or_an_observation_made_exists(rest: Rest, name: str):
    await rest.queue(f"{name}-1", f"/w/{name}")
    await rest.observe(name, "one", session=f"{name}-2")
    for session in (f"{name}-1", f"{name}-2"):
        said(await rest.http.post("/api/sessions", json={"session_id": session, "project": name}), 409)


@pytest.mark.covers("POST /api/sessions")
async def test_sessions_of_a_project_share_its_number(rest: Rest, name: str):
    first, second = await rest.begin(f"{name}-1", name), await rest.begin(f"{name}-2", name)
    assert first["project_id"] == second["project_id"]
    assert first["id"] != second["id"]


@pytest.mark.covers("POST /api/sessions")
async def test_every_missing_field_is_named(rest: Rest):
    answer = await rest.http.post("/api/sessions", json={})
    assert refusals(answer) == [Refusal("missing", ["body", key], {}) for key in ("session_id", "project")]


@pytest.mark.covers("POST /api/sessions")
@pytest.mark.parametrize("changes", [{"session_id": 5}, {"project": None}, {"project_path": 5}, {"agent_type": None}])
async def test_a_field_of_another_type_is_refused(rest: Rest, name: str, changes: dict[str, Any]):
    answer = await rest.http.post("/api/sessions", json={"session_id": name, "project": name, **changes})
    assert places(answer) == [["body", next(iter(changes))]]


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
@pytest.mark.parametrize("session", ["{0}", "{0} with é and %", "{0}/with/slashes", "{0}?#&"])
async def test_a_session_of_any_name_is_completed(rest: Rest, name: str, session: str):
    await rest.begin(session.format(name), name)
    await change(rest, session.format(name), status="completed")
    now = await only(rest, name)
    assert (now["session_id"], now["status"]) == (session.format(name), "completed")
    assert TIME.fullmatch(now["completed_at"])
    assert now["completed_at"] >= now["started_at"]


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_a_summary_is_kept_with_and_without_a_status(rest: Rest, name: str):
    await rest.begin(name, name)
    await change(rest, name, summary="It works.")
    now = await only(rest, name)
    assert (now["status"], now["summary"], now["completed_at"]) == ("active", "It works.", None)
    await change(rest, name, status="failed", summary="It broke.")
    now = await only(rest, name)
    assert (now["status"], now["summary"]) == ("failed", "It broke.")
    await change(rest, name, summary="It broke again.")
    now = await only(rest, name)
    assert (now["status"], now["summary"], now["completed_at"] is None) == ("failed", "It broke again.", False)
    await change(rest, name, status="active")
    assert (await only(rest, name))["summary"] == "It broke again."


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_no_transition_is_refused(rest: Rest, name: str):
    await rest.begin(name, name)
    for status in ("completed", "failed", "completed", "active", "active", "failed", "active"):
        await change(rest, name, status=status)
        now = await only(rest, name)
        assert (now["status"], now["completed_at"] is None) == (status, status == "active")


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
@pytest.mark.parametrize("changes", [{}, {"status": "", "summary": ""}, {"status": None}, {"unknown": 1}])
async def test_a_change_of_nothing_is_400(rest: Rest, name: str, changes: dict[str, Any]):
    await rest.begin(name, name)
    said(await rest.http.patch(f"/api/sessions/{name}", json=changes), 400)


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
async def test_an_unknown_session_is_404(rest: Rest, name: str):
    refused = await rest.http.patch(f"/api/sessions/{name}", json={"status": "completed"})
    assert said(refused, 404) == "Session not found"
    assert await rest.listed("sessions", project=name) == []


@pytest.mark.covers("PATCH /api/sessions/{session_id}")
@pytest.mark.parametrize("changes", [{"status": "paused"}, {"status": 1}, {"summary": []}])
async def test_a_status_that_there_is_not_is_422(rest: Rest, name: str, changes: dict[str, Any]):
    await rest.begin(name, name)
    assert places(await rest.http.patch(f"/api/sessions/{name}", json=changes)) == [["body", next(iter(changes))]]
    assert (await only(rest, name))["status"] == "active"


@pytest.mark.covers("PATCH /api/sessions/{session_id}", "POST /api/queue")
async def test_a_session_that_ended_goes_on_with_later_activity(rest: Rest, name: str):
    """The hook of an end fires after every answer of the agent, not once a session."""
    await rest.queue(name, f"/w/{name}")
    await change(rest, name, status="completed")
    await rest.queue(name, f"/w/{name}")

    async def active() -> bool:
        return (await only(rest, name))["status"] == "active"

    await wait_until(active, PATIENT_S)
    await rest.observed(name, 2)


@pytest.mark.covers("GET /api/sessions")
async def test_sessions_are_listed_newest_start_first_by_project_and_status(rest: Rest, name: str):
    for number in range(4):
        await rest.begin(f"{name}-{number}", name)
    await change(rest, f"{name}-1", status="completed")
    await rest.queue(f"{name}-0", f"/w/{name}")

    async def listed(**query: Any) -> list[str]:
        return [row["session_id"].removeprefix(name) for row in await rest.listed("sessions", project=name, **query)]

    assert await listed() == ["-3", "-2", "-1", "-0"]
    assert await listed(limit=2) == ["-3", "-2"]
    assert await listed(status="completed") == ["-1"]
    assert await listed(status="active") == ["-3", "-2", "-0"]
    assert await listed(status="failed") == []
    assert done(await rest.http.get("/api/sessions", params={"project": name[:-1]})) == []


@pytest.mark.covers("GET /api/sessions")
async def test_20_sessions_are_listed_unless_more_are_asked_for(rest: Rest, name: str):
    await asyncio.gather(*(rest.begin(f"{name}-{number}", name) for number in range(21)))
    assert len(await rest.listed("sessions", project=name)) == 20
    assert len(await rest.listed("sessions", project=name, limit=100)) == 21


@pytest.mark.covers("GET /api/sessions")
@pytest.mark.parametrize("limit", ["101", "-1", "ten"])
async def test_a_page_that_cannot_be_is_refused(rest: Rest, limit: str):
    assert places(await rest.http.get("/api/sessions", params={"limit": limit})) == [["query", "limit"]]
