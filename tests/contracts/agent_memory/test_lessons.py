"""Lessons: stated, changed, listed, and found before a tool runs.

The MCP tools for lessons, and what the MCP server says of itself.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.running import Doors
from tests.contracts.agent_memory.conftest import TIME, Rest, done
from tests.contracts.conftest import Stdio, bridge
from tests.contracts.refusals import places, reason

DATA = json.loads(Path(__file__).with_name("lessons.json").read_text())

KEYS = {
    "id", "project_id", "project_name", "title", "rule", "severity", "trigger_tool", "trigger_pattern",
    "source_observation_id", "trigger_count", "last_triggered_at", "active", "created_at",
}  # fmt: skip


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


@pytest.mark.covers("POST /api/lessons", "PATCH /api/lessons/{id}")
async def test_a_pattern_that_cannot_be_used_is_400_and_a_severity_that_there_is_not_422(rest: Rest, name: str):
    patterns = ("(", "[a", "*a", "(?=x)", "x" * 501)
    for pattern in patterns:
        body = {"title": "t", "rule": name, "project": name, "trigger_pattern": pattern}
        reason(await rest.http.post("/api/lessons", json=body), 400)
    assert await rest.listed("lessons", project=name) == []
    made = await rest.learn(name, project=name, trigger_pattern="x" * 500)
    assert made["trigger_pattern"] == "x" * 500
    for pattern in patterns:
        reason(await rest.http.patch(f"/api/lessons/{made['id']}", json={"trigger_pattern": pattern}), 400)
    answer = await rest.http.patch(f"/api/lessons/{made['id']}", json={"severity": "grave"})
    assert places(answer) == [["body", "severity"]]
    assert await rest.listed("lessons", project=name) == [made]


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


@pytest.mark.covers("PATCH /api/lessons/{id}")
async def test_what_is_named_changes_and_the_rest_stays(rest: Rest, name: str):
    lesson = await rest.learn(name, project=name, trigger_tool="Bash", trigger_pattern="x")
    for changes in (
        {"title": "Another"}, {"rule": f"{name} otherwise"}, {"severity": "critical"}, {"severity": "info"},
        {"trigger_tool": "Edit"}, {"trigger_pattern": "rm -rf"},
        {"title": "A third", "severity": "critical", "trigger_tool": "Write"},
    ):  # fmt: skip
        lesson = {**lesson, **changes}
        assert await change(rest, lesson, **changes) == lesson
        assert await rest.listed("lessons", project=name) == [lesson]


@pytest.mark.covers("PATCH /api/lessons/{id}")
async def test_null_leaves_a_field(rest: Rest, name: str):
    made = await rest.learn(name, project=name, trigger_tool="Bash", trigger_pattern="x")
    nothing = dict.fromkeys(("title", "rule", "severity", "trigger_pattern", "active"))
    assert await change(rest, made, **nothing, trigger_tool="Edit") == {**made, "trigger_tool": "Edit"}
    reason(await rest.http.patch(f"/api/lessons/{made['id']}", json={**nothing, "trigger_tool": None}), 400)
    reason(await rest.http.patch(f"/api/lessons/{made['id']}", json={}), 400)


@pytest.mark.covers("POST /api/lessons/{id}/trigger", "GET /api/lessons")
async def test_triggers_are_counted_whatever_they_say(rest: Rest, name: str):
    made = await rest.learn(name, project=name)
    path = f"/api/lessons/{made['id']}/trigger"
    bodies: tuple[dict[str, Any], ...] = ({}, {"json": {"anything": 1}}, {"content": b"{no json"})
    for body in bodies:
        assert done(await rest.http.post(path, **body)) == {"triggered": True}
    assert done(await rest.http.post("/api/lessons/999999999/trigger")) == {"triggered": True}
    (now,) = await rest.listed("lessons", project=name)
    assert now["trigger_count"] == 3
    assert TIME.fullmatch(now["last_triggered_at"])
    assert {**now, "trigger_count": 0, "last_triggered_at": None} == made


@pytest.mark.covers("GET /api/lessons/match")
async def test_a_match_says_what_the_hook_shows_and_is_no_trigger(rest: Rest, name: str):
    made = await rest.learn(name, project=name, severity="info", trigger_tool=name)
    everywhere = await rest.learn(f"{name} everywhere", severity="critical", trigger_tool=name)
    results = done(await rest.http.get("/api/lessons/match", params={"tool_name": name, "project": name}))
    keys = ("id", "title", "rule", "severity", "project_name", "trigger_count")
    assert [result for result in results if result["id"] in (made["id"], everywhere["id"])] == [
        {key: result[key] for key in keys} for result in (everywhere, made)
    ]
    assert await rest.listed("lessons", project=name) == [made]


@pytest.mark.covers("GET /api/lessons/match")
@pytest.mark.parametrize(
    ("lesson", "tool", "preview", "matches"),
    DATA["matches"],
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


TOOLS: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = DATA["tools"]  # fmt: skip
"""Of every tool the properties with their types, the defaults, and what is required."""
LESSON_KEYS = {
    "id", "title", "rule", "severity", "project", "trigger_tool", "trigger_pattern", "trigger_count", "score",
}  # fmt: skip


def created(mcp: Stdio, rule: str, **more: Any) -> dict[str, Any]:
    answer = mcp.call("create_lesson", rule=rule, **more)
    assert (answer.failed, answer.structured) == (False, None), answer.text
    assert "\n" not in answer.text
    return json.loads(answer.text)


def search_lessons(mcp: Stdio, query: str, **options: Any) -> list[dict[str, Any]]:
    answer = mcp.call("search_lessons", query=query, **options)
    assert (answer.failed, answer.structured) == (False, None), answer.text
    return json.loads(answer.text)


def of(project: str, lessons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a project: lessons for all projects are found along with them."""
    return [lesson for lesson in lessons if lesson["project"] == project]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18"])
def test_it_introduces_itself_at_the_version_asked_for(doors: Doors, version: str):
    """The hook at a session's start looks for `serverInfo` in the first line, and kills the process."""
    with bridge("agent-memory", doors.agentmemory) as server:
        hello = server.hello(version)
    assert hello["serverInfo"]["name"] == "agent-memory"
    assert hello["protocolVersion"] == version
    assert hello["capabilities"].keys() == {"tools"}


@pytest.mark.covers(
    "MCP memory_search_guide", "MCP search", "MCP timeline", "MCP get_observations", "MCP save_memory",
    "MCP create_lesson", "MCP search_lessons",
)  # fmt: skip
def test_there_are_seven_tools(mcp: Stdio):
    assert mcp.tools().keys() == TOOLS.keys()


@pytest.mark.covers("MCP search", "MCP timeline", "MCP get_observations", "MCP create_lesson", "MCP search_lessons")
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_says_what_it_takes(mcp: Stdio, tool: str):
    types, defaults, required = TOOLS[tool]
    described = mcp.tools()[tool]
    schema = described["inputSchema"]
    assert described["description"]
    assert "outputSchema" not in described
    assert {key: property_["type"] for key, property_ in schema.get("properties", {}).items()} == types
    assert {
        key: property_["default"] for key, property_ in schema.get("properties", {}).items() if "default" in property_
    } == defaults
    assert schema.get("required", []) == required
    if tool in ("search", "get_observations"):
        assert schema.get("additionalProperties", True) is True
    if tool == "create_lesson":
        assert schema["properties"]["severity"]["enum"] == ["critical", "warning", "info"]
    if tool == "get_observations":
        assert schema["properties"]["ids"]["items"]["type"] == "integer"


@pytest.mark.covers("MCP memory_search_guide")
def test_the_guide_names_the_three_steps_in_order(mcp: Stdio):
    answer = mcp.call("memory_search_guide")
    assert not answer.failed
    assert -1 < answer.text.find("search") < answer.text.find("timeline") < answer.text.find("get_observations")


@pytest.mark.covers("MCP search")
def test_a_tool_that_there_is_not_is_no_error(mcp: Stdio):
    answer = mcp.call("forget_everything")
    assert not answer.failed
    assert answer.text


@pytest.mark.covers("MCP create_lesson", "GET /api/lessons")
async def test_a_lesson_is_created_with_all_that_is_said(mcp: Stdio, rest: Rest, name: str):
    fields = {"severity": "critical", "trigger_tool": "Bash", "trigger_pattern": "push.*-f"}
    made = created(mcp, f"Never force {name}", title="No force", project=name, **fields)
    assert made == {"saved": True, "id": made["id"], "title": "No force", "severity": "critical", "project": name}
    (lesson,) = await rest.listed("lessons", project=name)
    assert (lesson["id"], lesson["title"], lesson["rule"]) == (made["id"], "No force", f"Never force {name}")
    assert {key: lesson[key] for key in fields} == fields
    assert await rest.matched("Bash", "git push -f", project=name) == [made["id"]]


@pytest.mark.covers("MCP create_lesson")
def test_a_rule_makes_a_warning_titled_by_its_beginning(mcp: Stdio, name: str):
    rule = f"Mind {name}: " + "herons are easily disturbed. " * 5
    made = created(mcp, rule, trigger_tool=name)
    assert (made["title"], made["severity"], made["project"]) == (rule[:80], "warning", None)


@pytest.mark.covers("MCP search_lessons")
async def test_a_found_lesson_has_nine_fields_and_a_score_without_recency(mcp: Stdio, rest: Rest, name: str):
    made = await rest.learn(f"Mind the {name} heron", project=name, severity="info", trigger_tool="Bash")
    (hit,) = of(name, search_lessons(mcp, f"{name} heron", project=name))
    assert hit.keys() == LESSON_KEYS
    same = LESSON_KEYS - {"project", "score"}
    assert {key: hit[key] for key in same} == {key: made[key] for key in same}
    assert hit["score"] in (0.0167, 0.0333)


@pytest.mark.covers("MCP create_lesson")
async def test_a_repeated_rule_is_the_same_lesson_with_the_graver_severity(mcp: Stdio, rest: Rest, name: str):
    rule = f"Check the locks of {name}."
    made = [
        created(mcp, rule, project=name, severity="info"),
        created(mcp, rule, project=name, severity="critical", trigger_tool="Edit"),
        created(mcp, rule, project=name),
    ]
    assert len({row["id"] for row in made}) == 1
    assert made[-1]["severity"] == "critical"
    (lesson,) = await rest.listed("lessons", project=name)
    assert (lesson["severity"], lesson["trigger_tool"]) == ("critical", "Edit")


@pytest.mark.covers("MCP create_lesson")
async def test_a_lesson_does_not_fade(mcp: Stdio, doors: Doors, name: str):
    """Unconfirmed lessons of the native API do."""
    created(mcp, name, project=name)
    async with httpx.AsyncClient(base_url=doors.server.url, timeout=60, trust_env=False) as http:

        async def reinforced() -> bool:
            (lesson,) = (await http.get("/v1/lessons", params={"project": name})).json()["items"]
            return lesson["reinforcements"] == 1

        await wait_until(reinforced)


@pytest.mark.covers("MCP search_lessons")
async def test_a_projects_search_finds_global_lessons_too(mcp: Stdio, rest: Rest, name: str):
    own, other, everywhere = [
        (await rest.learn(f"{name} heron {n}", trigger_tool=name, project=project))["id"]
        for n, project in enumerate((name, f"{name}-2", None))
    ]
    hits = {result["id"]: result["project"] for result in search_lessons(mcp, f"{name} heron", project=name, limit=50)}
    assert (hits[own], hits[everywhere]) == (name, None)
    assert set(hits.values()) == {name, None}
    assert {own, other, everywhere} <= {result["id"] for result in search_lessons(mcp, f"{name} heron", limit=50)}


@pytest.mark.covers("MCP search_lessons", "PATCH /api/lessons/{id}")
async def test_lessons_that_are_switched_off_are_not_found(mcp: Stdio, rest: Rest, name: str):
    made = await rest.learn(f"{name} heron", project=name)
    await rest.http.patch(f"/api/lessons/{made['id']}", json={"active": False})
    assert of(name, search_lessons(mcp, f"{name} heron", project=name)) == []


@pytest.mark.covers("MCP search_lessons")
async def test_ten_lessons_are_found_unless_up_to_50_are_asked_for(mcp: Stdio, rest: Rest, name: str):
    await asyncio.gather(*(rest.learn(f"{name} heron {n}", project=name) for n in range(51)))
    assert len(search_lessons(mcp, f"{name} heron", project=name)) == 10
    for limit, number in ((2, 2), (50, 50), (100, 50)):
        assert len(search_lessons(mcp, f"{name} heron", project=name, limit=limit)) == number


@pytest.mark.covers("MCP search_lessons")
def test_a_project_without_lessons_has_none_of_its_own(mcp: Stdio, name: str):
    assert of(name, search_lessons(mcp, name, project=name)) == []


@pytest.mark.covers("MCP create_lesson", "MCP search_lessons")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_lesson", {}),
        ("create_lesson", {"rule": 5}),
        ("create_lesson", {"rule": "x", "severity": "grave"}),
        ("create_lesson", {"rule": "x", "trigger_pattern": 5}),
        ("search_lessons", {}),
        ("search_lessons", {"query": "x", "limit": "all"}),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(mcp: Stdio, tool: str, arguments: dict[str, Any]):
    answer = mcp.call(tool, **arguments)
    assert answer.failed
    assert answer.text.startswith("Input validation error:")


@pytest.mark.covers("MCP create_lesson")
@pytest.mark.parametrize(
    ("arguments", "at_fault"),
    [({"trigger_pattern": "("}, "trigger_pattern"), ({"trigger_pattern": "x" * 501}, "trigger_pattern"),
     ({"rule": "", "title": "x"}, "rule")],
)  # fmt: skip
async def test_a_lesson_that_cannot_be_made_is_an_answer_with_the_reason(
    mcp: Stdio, rest: Rest, name: str, arguments: dict[str, Any], at_fault: str
):
    answer = mcp.call("create_lesson", **{"rule": name, "project": name, **arguments})
    assert not answer.failed
    assert json.loads(answer.text).keys() == {"error"}
    assert at_fault in answer.text
    assert await rest.listed("lessons", project=name) == []
