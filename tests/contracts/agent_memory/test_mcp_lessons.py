"""The MCP tools for lessons, and what the MCP server says of itself."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.running import Doors
from tests.contracts.agent_memory.conftest import Rest
from tests.contracts.stdio import Stdio, bridge

TOOLS: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = {
    "memory_search_guide": ({}, {}, []),
    "search": (
        {"query": "string", "project": "string", "type": "string", "limit": "integer", "dateStart": "string",
         "dateEnd": "string"},
        {"limit": 20},
        ["query"],
    ),
    "timeline": (
        {"anchor": "integer", "query": "string", "depth_before": "integer", "depth_after": "integer",
         "project": "string"},
        {"depth_before": 3, "depth_after": 3},
        [],
    ),
    "get_observations": ({"ids": "array"}, {}, ["ids"]),
    "save_memory": ({"text": "string", "title": "string", "project": "string"}, {}, ["text"]),
    "create_lesson": (
        {"rule": "string", "title": "string", "severity": "string", "project": "string", "trigger_tool": "string",
         "trigger_pattern": "string"},
        {"severity": "warning"},
        ["rule"],
    ),
    "search_lessons": (
        {"query": "string", "project": "string", "limit": "integer"}, {"limit": 10}, ["query"]
    ),
}  # fmt: skip
"""Of every tool the properties with their types, the defaults, and what is required."""
KEYS = {
    "id", "title", "rule", "severity", "project", "trigger_tool", "trigger_pattern", "trigger_count", "score",
}  # fmt: skip


def created(mcp: Stdio, rule: str, **more: Any) -> dict[str, Any]:
    answer = mcp.call("create_lesson", rule=rule, **more)
    assert (answer.failed, answer.structured) == (False, None), answer.text
    assert "\n" not in answer.text
    return json.loads(answer.text)


def found(mcp: Stdio, query: str, **options: Any) -> list[dict[str, Any]]:
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
    (hit,) = of(name, found(mcp, f"{name} heron", project=name))
    assert hit.keys() == KEYS
    same = KEYS - {"project", "score"}
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
    hits = {result["id"]: result["project"] for result in found(mcp, f"{name} heron", project=name, limit=50)}
    assert (hits[own], hits[everywhere]) == (name, None)
    assert set(hits.values()) == {name, None}
    assert {own, other, everywhere} <= {result["id"] for result in found(mcp, f"{name} heron", limit=50)}


@pytest.mark.covers("MCP search_lessons", "PATCH /api/lessons/{id}")
async def test_lessons_that_are_switched_off_are_not_found(mcp: Stdio, rest: Rest, name: str):
    made = await rest.learn(f"{name} heron", project=name)
    await rest.http.patch(f"/api/lessons/{made['id']}", json={"active": False})
    assert of(name, found(mcp, f"{name} heron", project=name)) == []


@pytest.mark.covers("MCP search_lessons")
async def test_ten_lessons_are_found_unless_up_to_50_are_asked_for(mcp: Stdio, rest: Rest, name: str):
    await asyncio.gather(*(rest.learn(f"{name} heron {n}", project=name) for n in range(51)))
    assert len(found(mcp, f"{name} heron", project=name)) == 10
    for limit, number in ((2, 2), (50, 50), (100, 50)):
        assert len(found(mcp, f"{name} heron", project=name, limit=limit)) == number


@pytest.mark.covers("MCP search_lessons")
def test_a_project_without_lessons_has_none_of_its_own(mcp: Stdio, name: str):
    assert of(name, found(mcp, name, project=name)) == []


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
