"""Lessons: stated, changed, listed, and found before a tool runs."""

import asyncio
import re
from typing import Any

import pytest

from tests.contracts.agent_memory.conftest import Rest, done
from tests.contracts.refusals import places, refusals, said

KEYS = {
    "id", "project_id", "project_name", "title", "rule", "severity", "trigger_tool", "trigger_pattern",
    "source_observation_id", "trigger_count", "last_triggered_at", "active", "created_at",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


async def ids(rest: Rest, **options: Any) -> list[int]:
    return [row["id"] for row in await rest.listed("lessons", **options)]


async def change(rest: Rest, lesson: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return done(await rest.http.patch(f"/api/lessons/{lesson['id']}", json=changes))


@pytest.mark.covers("POST /api/lessons", "GET /api/lessons")
async def test_a_lesson_is_answered_whole(rest: Rest, name: str):
    source = await rest.observe(name, "It broke")
    fields = {
        "title": "No force", "rule": f"Never push {name} by force", "severity": "critical", "project": name,
        "trigger_tool": "Bash", "trigger_pattern": "push.*-f", "source_observation_id": source["id"],
    }  # fmt: skip
    made = done(await rest.http.post("/api/lessons", json=fields))
    assert made.keys() == KEYS
    assert {key: made[key] for key in fields if key != "project"} == {k: v for k, v in fields.items() if k != "project"}
    assert (made["project_name"], made["project_id"]) == (name, source["project_id"])
    assert (made["trigger_count"], made["last_triggered_at"], made["active"]) == (0, None, True)
    assert TIME.fullmatch(made["created_at"])
    assert await rest.listed("lessons", project=name) == [made]


@pytest.mark.covers("POST /api/lessons")
async def test_a_title_and_a_rule_make_a_warning_for_all_projects(rest: Rest, name: str):
    made = await rest.learn(f"Mind {name}", trigger_tool=name)
    assert (made["severity"], made["project_id"], made["project_name"]) == ("warning", None, None)
    assert (made["trigger_pattern"], made["source_observation_id"]) == (None, None)


@pytest.mark.covers("POST /api/lessons")
async def test_every_missing_field_is_named(rest: Rest):
    assert places(await rest.http.post("/api/lessons", json={})) == [["body", "title"], ["body", "rule"]]


@pytest.mark.covers("POST /api/lessons", "PATCH /api/lessons/{id}")
@pytest.mark.parametrize("pattern", ["(", "[a", "*a", "(?=x)", "x" * 501])
async def test_a_pattern_that_cannot_be_used_is_400(rest: Rest, name: str, pattern: str):
    body = {"title": "t", "rule": name, "project": name, "trigger_pattern": pattern}
    said(await rest.http.post("/api/lessons", json=body), 400)
    assert await rest.listed("lessons", project=name) == []
    made = await rest.learn(name, project=name, trigger_pattern="fine")
    said(await rest.http.patch(f"/api/lessons/{made['id']}", json={"trigger_pattern": pattern}), 400)
    assert await rest.listed("lessons", project=name) == [made]


@pytest.mark.covers("POST /api/lessons")
async def test_a_pattern_of_500_characters_can_be_used(rest: Rest, name: str):
    assert (await rest.learn(name, project=name, trigger_pattern="x" * 500))["trigger_pattern"] == "x" * 500


@pytest.mark.covers("POST /api/lessons")
@pytest.mark.parametrize(
    "changes",
    [{"severity": "grave"}, {"source_observation_id": 999_999_999}, {"title": None}, {"rule": 5}, {"rule": " "}],
)
async def test_a_field_that_does_not_fit_is_422(rest: Rest, name: str, changes: dict[str, Any]):
    body = {"title": "t", "rule": name, "project": name, **changes}
    assert places(await rest.http.post("/api/lessons", json=body)) == [["body", next(iter(changes))]]
    assert await rest.listed("lessons", project=name) == []


@pytest.mark.covers("GET /api/lessons")
async def test_lessons_are_listed_by_severity_then_newest_first(rest: Rest, name: str):
    severities = ("info", "critical", "warning", "critical", "info", "warning")
    made = [await rest.learn(f"{name} {n}", project=name, severity=kind) for n, kind in enumerate(severities)]
    order = [made[n]["id"] for n in (3, 1, 5, 2, 4, 0)]
    assert await ids(rest, project=name) == order
    assert await ids(rest, project=name, limit=3) == order[:3]
    assert await ids(rest, project=name, severity="warning") == order[2:4]


@pytest.mark.covers("GET /api/lessons")
async def test_a_projects_lessons_are_its_own_and_not_those_for_all(rest: Rest, name: str):
    own = await rest.learn(f"{name} own", project=name, trigger_tool=name)
    everywhere = await rest.learn(f"{name} everywhere", trigger_tool=name)
    assert await ids(rest, project=name) == [own["id"]]
    assert {own["id"], everywhere["id"]} <= set(await ids(rest, severity="warning", limit=100))


@pytest.mark.covers("GET /api/lessons", "PATCH /api/lessons/{id}")
async def test_lessons_that_are_switched_off_are_listed_when_asked_for(rest: Rest, name: str):
    off, on = await rest.learn(f"{name} off", project=name), await rest.learn(f"{name} on", project=name)
    assert (await change(rest, off, active=False))["active"] is False
    assert await ids(rest, project=name) == [on["id"]]
    assert await ids(rest, project=name, active="true") == [on["id"]]
    assert off["id"] in await ids(rest, project=name, active="false")
    assert await rest.matched("Any", project=name) == [on["id"]]
    assert (await change(rest, off, active=True))["active"] is True
    assert set(await ids(rest, project=name)) == {on["id"], off["id"]}


@pytest.mark.covers("GET /api/lessons")
@pytest.mark.parametrize("options", [{"limit": "101"}, {"limit": "-1"}, {"active": "perhaps"}])
async def test_a_list_that_cannot_be_is_refused(rest: Rest, options: dict[str, str]):
    assert places(await rest.http.get("/api/lessons", params=options)) == [["query", next(iter(options))]]


@pytest.mark.covers("PATCH /api/lessons/{id}")
@pytest.mark.parametrize(
    "changes",
    [
        {"title": "Another"},
        {"rule": "{0} otherwise"},
        {"severity": "critical"},
        {"severity": "info"},
        {"trigger_tool": "Edit"},
        {"trigger_pattern": "rm -rf"},
        {"title": "Another", "severity": "critical", "trigger_tool": "Edit"},
    ],
)
async def test_what_is_named_changes_and_the_rest_stays(rest: Rest, name: str, changes: dict[str, str]):
    made = await rest.learn(name, project=name, trigger_tool="Bash", trigger_pattern="x")
    changes = {key: value.format(name) for key, value in changes.items()}
    assert await change(rest, made, **changes) == {**made, **changes}
    assert await rest.listed("lessons", project=name) == [{**made, **changes}]


@pytest.mark.covers("PATCH /api/lessons/{id}")
async def test_null_leaves_a_field(rest: Rest, name: str):
    made = await rest.learn(name, project=name, trigger_tool="Bash", trigger_pattern="x")
    nothing = dict.fromkeys(("title", "rule", "severity", "trigger_pattern", "active"))
    assert await change(rest, made, **nothing, trigger_tool="Edit") == {**made, "trigger_tool": "Edit"}
    said(await rest.http.patch(f"/api/lessons/{made['id']}", json={**nothing, "trigger_tool": None}), 400)
    said(await rest.http.patch(f"/api/lessons/{made['id']}", json={}), 400)


@pytest.mark.covers("PATCH /api/lessons/{id}")
async def test_a_lesson_that_there_is_not_cannot_change(rest: Rest):
    said(await rest.http.patch("/api/lessons/999999999", json={"title": "x"}), 404)
    (refusal,) = refusals(await rest.http.patch("/api/lessons/one", json={"title": "x"}))
    assert (refusal.type, refusal.loc[0], refusal.input) == ("int_parsing", "path", "one")


@pytest.mark.covers("PATCH /api/lessons/{id}")
async def test_a_severity_that_there_is_not_is_422(rest: Rest, name: str):
    made = await rest.learn(name, project=name)
    answer = await rest.http.patch(f"/api/lessons/{made['id']}", json={"severity": "grave"})
    assert places(answer) == [["body", "severity"]]


@pytest.mark.covers("POST /api/lessons/{id}/trigger", "GET /api/lessons")
async def test_triggers_are_counted_whatever_they_say(rest: Rest, name: str):
    made = await rest.learn(name, project=name)
    path = f"/api/lessons/{made['id']}/trigger"
    assert done(await rest.http.post(path)) == {"triggered": True}
    assert done(await rest.http.post(path, json={"anything": 1})) == {"triggered": True}
    assert done(await rest.http.post(path, content=b"{no json")) == {"triggered": True}
    (now,) = await rest.listed("lessons", project=name)
    assert now["trigger_count"] == 3
    assert TIME.fullmatch(now["last_triggered_at"])
    assert {**now, "trigger_count": 0, "last_triggered_at": None} == made


@pytest.mark.covers("POST /api/lessons/{id}/trigger")
async def test_a_trigger_of_an_unknown_lesson_is_fine(rest: Rest):
    assert done(await rest.http.post("/api/lessons/999999999/trigger")) == {"triggered": True}


@pytest.mark.covers("GET /api/lessons/match")
async def test_a_match_says_what_the_hook_shows(rest: Rest, name: str):
    made = await rest.learn(name, project=name, severity="info", trigger_tool=name)
    everywhere = await rest.learn(f"{name} everywhere", severity="critical", trigger_tool=name)
    query = {"tool_name": name, "project": name}
    results = done(await rest.http.get("/api/lessons/match", params=query))
    keys = ("id", "title", "rule", "severity", "project_name", "trigger_count")
    assert [result for result in results if result["id"] in (made["id"], everywhere["id"])] == [
        {key: result[key] for key in keys} for result in (everywhere, made)
    ]


@pytest.mark.covers("GET /api/lessons/match")
async def test_a_match_is_no_trigger(rest: Rest, name: str):
    made = await rest.learn(name, project=name, trigger_tool=name)
    assert made["id"] in await rest.matched(name, project=name)
    assert await rest.listed("lessons", project=name) == [made]


@pytest.mark.covers("GET /api/lessons/match")
@pytest.mark.parametrize(
    ("lesson", "tool", "preview", "matches"),
    [
        ({}, "Anything", None, True),
        ({"trigger_tool": "Bash{0}"}, "Bash{0}", None, True),
        ({"trigger_tool": "Bash{0}"}, "bash{0}", None, False),
        ({"trigger_tool": "Bash{0}"}, "Bash", None, False),
        ({"trigger_pattern": "rm\\s+-rf"}, "Bash", "sudo RM  -RF /", True),
        ({"trigger_pattern": "rm\\s+-rf"}, "Bash", "rm -r", False),
        ({"trigger_pattern": "rm\\s+-rf"}, "Bash", None, False),
        ({"trigger_pattern": "^$"}, "Bash", None, True),
        ({"trigger_pattern": "é|ü"}, "Edit", "/w/é.py", True),
        ({"trigger_tool": "Edit{0}", "trigger_pattern": "\\.env$"}, "Edit{0}", "/w/.env", True),
        ({"trigger_tool": "Edit{0}", "trigger_pattern": "\\.env$"}, "Write{0}", "/w/.env", False),
        ({"active": False}, "Bash", None, False),
    ],
)
async def test_a_lesson_is_matched_by_tool_and_pattern(
    rest: Rest, name: str, lesson: dict[str, Any], tool: str, preview: str | None, *, matches: bool
):
    fields = {key: value.format(name) if isinstance(value, str) else value for key, value in lesson.items()}
    active = fields.pop("active", True)
    made = await rest.learn(name, project=name, severity="critical", **fields)
    if not active:
        await change(rest, made, active=False)
    results = await rest.matched(tool.format(name), preview, project=name)
    assert (made["id"] in results) is matches


@pytest.mark.covers("GET /api/lessons/match")
async def test_a_match_is_of_the_project_and_of_all(rest: Rest, name: str):
    own, other, everywhere = [
        await rest.learn(f"{name} {n}", severity="critical", trigger_tool=name, project=project)
        for n, project in enumerate((name, f"{name}-2", None))
    ]
    assert set(await rest.matched(name, project=name)) == {own["id"], everywhere["id"]}
    assert set(await rest.matched(name, project=f"{name}-2")) == {other["id"], everywhere["id"]}
    assert set(await rest.matched(name, project=f"{name}-3")) == {everywhere["id"]}
    assert set(await rest.matched(name)) == {everywhere["id"]}


@pytest.mark.covers("GET /api/lessons/match")
async def test_the_five_gravest_of_however_many_are_told(rest: Rest, name: str):
    """Those that the pattern leaves out do not count: all candidates are looked at."""
    fields = {"project": name, "severity": "critical", "trigger_tool": name, "trigger_pattern": "never there"}
    await asyncio.gather(*(rest.learn(f"{name} x{number}", **fields) for number in range(22)))
    made = {
        kind: [
            (await rest.learn(f"{name} {kind}{n}", project=name, severity=kind, trigger_tool=name))["id"] for n in "ab"
        ]
        for kind in ("info", "warning", "critical")
    }
    results = await rest.matched(name, "something", project=name)
    assert len(results) == 5
    assert set(results[:2]) == set(made["critical"])
    assert set(results[2:4]) == set(made["warning"])
    assert results[4] in made["info"]


@pytest.mark.covers("GET /api/lessons/match")
async def test_no_pattern_can_hang_a_match(rest: Rest, name: str):
    for number, pattern in enumerate(["(a+)+$", "(a|aa)*b", "(.*a){25}$", "^(([a-z])+.)+[A-Z]([a-z])+$"]):
        body = {"title": "t", "rule": f"{name} {number}", "project": name, "trigger_pattern": pattern}
        assert (await rest.http.post("/api/lessons", json=body)).status_code in (200, 400)
    answer = await rest.http.get(
        "/api/lessons/match", params={"tool_name": "Bash", "project": name, "tool_input_preview": "a" * 999 + "!"}
    )
    assert answer.status_code == 200


@pytest.mark.covers("GET /api/lessons/match")
async def test_a_match_needs_a_tool(rest: Rest):
    assert places(await rest.http.get("/api/lessons/match")) == [["query", "tool_name"]]
