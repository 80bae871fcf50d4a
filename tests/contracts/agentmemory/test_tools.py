"""The 31 tools, called as a client of another process calls them.

The four tools that the plugin of 0.9.29 calls beside the 31: what their routes do.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.agentmemory.calling import Api, Json, ok, refused

TOOLS: dict[str, tuple[set[str], set[str]]] = {
    name: (set(required), set(optional))
    for name, (required, optional) in json.loads(Path(__file__).with_name("tools.json").read_text()).items()
}
"""What the schema of each requires and what it offers besides."""
PLUGIN = ("memory_governance_delete", "memory_lesson_delete", "memory_commits", "memory_commit_lookup")
ALTERNATIVES = {"memory_reflect", "memory_crystallize", "memory_antigravity_sync", "memory_antigravity_sync_all"}
"""Take other arguments instead of the required one, so that a schema may leave it optional."""


def schemas(api: Api) -> dict[str, Json]:
    return {tool["name"]: tool for tool in ok(api.get("mcp/tools"))["tools"]}


@pytest.mark.covers("GET /agentmemory/mcp/tools")
def test_the_31_tools_are_listed_and_then_those_of_the_plugin_as_mcp_lists_them(api: Api):
    listed = list(schemas(api))
    assert (set(listed[:31]), tuple(listed[31:])) == (TOOLS.keys(), PLUGIN)
    query: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = api.http.post("/mcp", params={"profile": "agentmemory"}, json=query, headers=headers).json()
    assert [tool["name"] for tool in answer["result"]["tools"]] == listed


@pytest.mark.covers("GET /agentmemory/mcp/tools")
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_says_what_it_takes(api: Api, tool: str):
    listed = schemas(api)[tool]
    assert listed["description"]
    schema = listed["inputSchema"]
    required, optional = TOOLS[tool]
    assert schema["type"] == "object"
    assert schema["properties"].keys() >= required | optional
    assert set(schema.get("required", [])) == required or tool in ALTERNATIVES


@pytest.mark.covers("POST /agentmemory/mcp/call", "POST /agentmemory/mcp/tools")
@pytest.mark.parametrize("path", ["mcp/call", "mcp/tools"])
def test_a_tool_answers_with_one_text_of_json(api: Api, name: str, path: str):
    answer = ok(api.post(path, name="memory_save", arguments={"content": f"{name} is kept"}))
    (content,) = answer["content"]
    assert content["type"] == "text"
    assert json.loads(content["text"])["memory"]["content"] == f"{name} is kept"


@pytest.mark.covers("POST /agentmemory/mcp/call", "POST /agentmemory/mcp/tools")
@pytest.mark.parametrize("tool", [tool for tool, (required, _) in TOOLS.items() if required - {"mode"}])
def test_a_missing_argument_is_told_in_text_to_some_and_by_status_to_others(api: Api, tool: str):
    if tool not in ALTERNATIVES:
        assert api.tool(tool)["success"] is False
        refused(api.post("mcp/tools", name=tool, arguments={}))
        refused(api.post("mcp/tools", name=tool))


@pytest.mark.covers("MCP memory_action_update", "POST /agentmemory/mcp/tools")
def test_an_unknown_action_is_told_in_text_to_some_and_by_status_to_others(api: Api):
    arguments = {"actionId": "act_none", "title": "x"}
    assert api.tool("memory_action_update", **arguments)["success"] is False
    refused(api.post("mcp/tools", name="memory_action_update", arguments=arguments), 404)


@pytest.mark.covers("MCP memory_save")
def test_memory_save_keeps_a_memory(api: Api, name: str):
    answer = api.tool("memory_save", content=f"{name} is kept", type="bug", concepts="a, b", files=["c"], project=name)
    assert answer["success"] is True
    memory = answer["memory"]
    assert (memory["type"], memory["concepts"], memory["files"], memory["project"]) == ("bug", ["a", "b"], ["c"], name)


@pytest.mark.covers("MCP memory_save", "MCP memory_observations")
def test_memory_save_in_a_session_leaves_an_observation_there(api: Api, name: str):
    api.tool("memory_save", content=f"{name} is kept", sessionId=name, project=name)
    assert len(api.tool("memory_observations", sessionId=name)["observations"]) == 1


@pytest.mark.covers("MCP memory_recall")
def test_memory_recall_finds_in_every_format_and_within_a_budget(api: Api, name: str):
    memory = api.remember(f"{name} stands by the pond", project=name)["id"]
    for form in ("full", "compact"):
        answer = api.tool("memory_recall", query=name, limit="5", format=form, project=name)
        assert answer["format"] == form
        assert answer["results"][0]["obsId"] == memory
        assert ("observation" in answer["results"][0]) is (form == "full")
    narrated = ok(api.post("mcp/call", name="memory_recall", arguments={"query": name, "format": "narrative"}))
    assert f"{name} stands by the pond" in narrated["content"][0]["text"]
    api.remember(f"{name}-2 " + "word " * 200, project=f"{name}-2")
    short = api.tool("memory_recall", query=f"{name}-2", token_budget=10, project=f"{name}-2")
    assert (short["results"], short["truncated"]) == ([], True)


@pytest.mark.covers("MCP memory_sessions", "MCP memory_sessions_list")
@pytest.mark.parametrize("tool", ["memory_sessions", "memory_sessions_list"])
def test_sessions_are_listed(api: Api, name: str, tool: str):
    api.start(name)
    assert name in [session["id"] for session in api.tool(tool, limit=500)["sessions"]]
    assert len(api.tool(tool, limit="1")["sessions"]) == 1


@pytest.mark.covers("MCP memory_smart_search")
def test_memory_smart_search_finds_and_expands(api: Api, name: str):
    observation = api.observe(name, tool_name="Bash", tool_output=name)
    answer = api.tool("memory_smart_search", query=name, limit=3)
    assert answer["mode"] == "compact"
    assert observation in [result["obsId"] for result in answer["results"]]
    assert isinstance(answer["lessons"], list)
    for ids in (observation, [observation]):
        expanded = api.tool("memory_smart_search", query=name, expandIds=ids)
        assert expanded["mode"] == "expanded"
        assert expanded["results"][0]["observation"]["toolOutput"] == name


@pytest.mark.covers("MCP memory_timeline")
def test_memory_timeline_shows_what_was_around(api: Api, name: str):
    for day in (1, 2, 3):
        api.hook(name, "notification", project=name, timestamp=f"2026-01-0{day}T00:00:00Z")
    answer = api.tool("memory_timeline", anchor="2026-01-02", project=name, before=1, after="0")
    assert [entry["relativePosition"] for entry in answer["entries"]] == [-1, 0]
    assert len(answer["observations"]) == 2


@pytest.mark.covers("MCP memory_observations")
def test_memory_observations_are_the_oldest_first(api: Api, name: str):
    for day in (2, 1):
        api.hook(name, "notification", timestamp=f"2026-01-0{day}T00:00:00.000Z")
    observations = api.tool("memory_observations", sessionId=name)["observations"]
    assert [observation["timestamp"][9] for observation in observations] == ["1", "2"]


@pytest.mark.covers("MCP memory_profile")
def test_memory_profile_is_of_a_project(api: Api, name: str):
    api.hook(name, "notification", project=name)
    answer = api.tool("memory_profile", project=name, refresh="true")
    assert answer["profile"]["sessionCount"] == answer["sessionCount"] == 1
    assert api.tool("memory_profile", project=f"{name}-none")["reason"] == "no_sessions"


@pytest.mark.covers(
    "MCP memory_lesson_save", "MCP memory_lessons", "MCP memory_lesson_recall", "MCP memory_lesson_search"
)
def test_lessons_are_saved_strengthened_listed_and_found(api: Api, name: str):
    fields = {"content": f"{name} must not be polled", "context": "in tests", "project": name}
    first = api.tool("memory_lesson_save", **fields, confidence="0.8", tags="a,b")
    assert (first["success"], first["action"], first["lesson"]["confidence"]) == (True, "created", 0.8)
    assert first["lesson"]["tags"] == ["a", "b"]
    assert api.tool("memory_lesson_save", **fields)["action"] == "strengthened"
    assert len(api.tool("memory_lessons", project=name, minConfidence=0.1, limit=5)["lessons"]) == 1
    for tool in ("memory_lesson_recall", "memory_lesson_search"):
        (result,) = api.tool(tool, query=f"{name} polled", project=name)["lessons"]
        assert result["id"] == first["lesson"]["id"]
        assert result["score"] > 0


@pytest.mark.covers("MCP memory_consolidate")
def test_memory_consolidate_says_what_came_of_it(api: Api, name: str):
    answer = api.tool("memory_consolidate", project=name, force=True)
    assert (answer["success"], answer["consolidated"]) == (True, 0)
    assert "reason" in answer or answer.keys() >= {"totalObservations", "semantic", "procedural"}


@pytest.mark.covers("MCP memory_reflect")
def test_memory_reflect_is_of_a_session_or_for_insights(trusted: Api, name: str):
    trusted.observe(name, tool_name="Bash", tool_input="make")
    answer = trusted.tool("memory_reflect", sessionId=name, maxObservations="5")
    assert (answer["success"], answer["observationsReviewed"]) == (True, 1)
    insights = trusted.tool("memory_reflect", project=name, maxClusters=2)
    assert insights["success"] is True
    assert insights.keys() >= {"newInsights", "reinforced", "clustersProcessed", "clustersSkipped", "usedFallback"}


@pytest.mark.covers("MCP memory_diagnose")
def test_memory_diagnose_checks(api: Api):
    answer = api.tool("memory_diagnose", categories="lessons")
    assert (answer["success"], answer["service"]) == (True, "agentmemory")
    assert [check["category"] for check in answer["checks"]] == ["lessons"]


@pytest.mark.covers("MCP memory_forget")
def test_memory_forget_forgets_by_any_name(api: Api, name: str):
    memory = api.remember(f"{name} is kept")["id"]
    assert api.tool("memory_forget", memoryId=memory) == {"success": True, "deleted": 1}
    observation = [api.observe(name, tool_name="Bash") for _ in range(3)]
    assert api.tool("memory_forget", sessionId=name, observationIds=observation[0])["deleted"] == 1
    assert api.tool("memory_forget", sessionId=name)["deleted"] == 4


@pytest.mark.covers("MCP memory_export")
def test_memory_export_has_everything(api: Api, name: str):
    api.start(name)
    answer = api.tool("memory_export", maxSessions="1", offset=0)
    assert answer.keys() >= {"version", "exportedAt", "sessions", "observations", "memories", "summaries", "pagination"}
    assert len(answer["sessions"]) == 1
    assert name in [session["id"] for session in api.tool("memory_export")["sessions"]]


@pytest.mark.covers("MCP agent_observe")
@pytest.mark.parametrize("field", ["text", "content"])
def test_agent_observe_keeps_what_an_agent_says(api: Api, name: str, field: str):
    assert api.tool("agent_observe", sessionId=name, project=name)["success"] is False
    answer = api.tool("agent_observe", **{"sessionId": name, "project": name, field: "said", "title": "Note"})
    stored = api.seen(name)
    assert stored["id"] == answer["observationId"]
    assert (stored["toolName"], stored["toolInput"]) == ("Note", "said")


@pytest.mark.covers("MCP agent_remember")
def test_agent_remember_keeps_a_memory(api: Api, name: str):
    answer = api.tool("agent_remember", content=f"{name} is kept", project=name, concepts="a,b", agentId="ada")
    assert answer["success"] is True
    assert (answer["memory"]["concepts"], answer["memory"]["agentId"]) == (["a", "b"], "ada")


@pytest.mark.covers("MCP memory_antigravity_sync", "MCP memory_antigravity_sync_all")
@pytest.mark.parametrize("tool", ["memory_antigravity_sync", "memory_antigravity_sync_all"])
@pytest.mark.parametrize("mode", [{"mode": "current_session"}, {}])
def test_conversations_that_are_not_there_are_not_synced(api: Api, name: str, tool: str, mode: Json):
    answer = api.tool(tool, **mode, currentConversationId=name, currentFolder=f"/{name}")
    assert (answer["syncedSessions"], answer["observationsAdded"]) == ([], 0)
    assert answer["success"] is True or isinstance(answer["error"], str)
    if tool == "memory_antigravity_sync_all" and answer["success"]:
        assert (answer["crystallizations"], answer["reflections"]) == ({}, {})


@pytest.mark.covers(
    "MCP memory_slot_create", "MCP memory_slot_get", "MCP memory_slot_list", "MCP memory_slot_append",
    "MCP memory_slot_replace", "MCP memory_slot_delete",
)  # fmt: skip
def test_a_slot_lives_its_life(api: Api, name: str):
    made = api.tool("memory_slot_create", label=name, content="a", sizeLimit="50", pinned="false")
    assert made["success"] is True
    assert (made["slot"]["scope"], made["slot"]["pinned"], made["slot"]["sizeLimit"]) == ("global", False, 50)
    got = api.tool("memory_slot_get", label=name)
    assert (got["success"], got["slot"]["content"], got["scope"]) == (True, "a", "global")
    assert name in [slot["label"] for slot in api.tool("memory_slot_list")["slots"]]
    appended = api.tool("memory_slot_append", label=name, text="b")
    assert (appended["success"], appended["slot"]["content"], appended["size"]) == (True, "a\nb", 3)
    assert api.tool("memory_slot_append", label=name, text="c" * 50)["success"] is False
    replaced = api.tool("memory_slot_replace", label=name, content="")
    assert (replaced["success"], replaced["slot"]["content"], replaced["size"]) == (True, "", 0)
    assert api.tool("memory_slot_delete", label=name)["success"] is True
    assert api.tool("memory_slot_get", label=name)["success"] is False


@pytest.mark.covers("MCP memory_action_create", "MCP memory_action_update", "MCP memory_frontier")
def test_actions_are_made_changed_and_waited_for(api: Api, name: str):
    first = api.tool("memory_action_create", title="first", priority="3", tags="a,b", project=name)
    assert (first["success"], first["edges"]) == (True, [])
    assert {"priority": 3, "status": "pending", "tags": ["a", "b"]}.items() <= first["action"].items()
    second = api.tool("memory_action_create", title="second", project=name, requires=[first["action"]["id"]])
    assert second["action"]["status"] == "blocked"
    assert len(second["edges"]) == 1

    def ready() -> list[Any]:
        return [item["title"] for item in api.tool("memory_frontier", project=name, limit=5)["frontier"]]

    assert ready() == ["first"]
    done = api.tool("memory_action_update", actionId=first["action"]["id"], status="done", result="it works")
    assert (done["success"], done["action"]["status"], done["action"]["result"]) == (True, "done", "it works")
    assert ready() == ["second"]


@pytest.mark.covers("MCP memory_crystallize")
def test_memory_crystallize_is_of_a_session_or_of_actions(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_input="make")
    answer = api.tool("memory_crystallize", sessionId=name)
    assert (answer["success"], answer["summary"]["sessionId"]) == (True, name)
    action = ok(api.post("actions", title=name, project=name, status="done"), 201)["action"]["id"]
    crystal = api.tool("memory_crystallize", actionIds=[action], project=name)
    assert (crystal["success"], crystal["crystal"]["sourceActionIds"]) == (True, [action])


@pytest.mark.covers("MCP memory_governance_delete")
@pytest.mark.parametrize("as_text", [False, True])
def test_memory_governance_delete_forgets_what_it_names_and_counts_it(api: Api, name: str, as_text: bool):
    stored = [ok(api.post("remember", content=f"{name} {word}", project=name), 201)["memory"]["id"]
            for word in ("opens at noon", "is painted red", "was built by Ada")]  # fmt: skip
    expected = [*stored[:2], "mem_none"]
    text = api.tool("memory_governance_delete", memoryIds=",".join(expected) if as_text else expected, reason="a test")
    assert (text["success"], text["deleted"], text["total"]) == (True, 2, 3)
    assert [api.get(f"memories/{row}").status_code for row in stored] == [404, 404, 200]


@pytest.mark.covers("MCP memory_lesson_delete")
def test_memory_lesson_delete_forgets_a_lesson_once(api: Api, name: str):
    lesson = ok(api.post("lessons", content=f"never paint {name}", project=name), 201)["lesson"]["id"]
    assert api.tool("memory_lesson_delete", lessonId=lesson)["success"] is True
    assert api.tool("memory_lesson_delete", lessonId=lesson) == {"success": False, "error": "lesson not found"}


@pytest.mark.covers("MCP memory_commits", "MCP memory_commit_lookup")
def test_memory_commits_and_memory_commit_lookup_answer_as_their_routes(api: Api, name: str):
    ok(api.post("session/start", sessionId=name, project=name, cwd="/x"))
    for sha in (f"{name}a", f"{name}b"):
        ok(api.post("session/commit", sha=sha, sessionId=name, branch=name))
    listed = api.tool("memory_commits", branch=name, limit="5")
    assert listed == ok(api.get("commits", branch=name, limit=5))
    assert [commit["sha"] for commit in listed["commits"]] == [f"{name}b", f"{name}a"]
    results = api.tool("memory_commit_lookup", sha=f"{name}a")
    assert results == ok(api.get("session/by-commit", sha=f"{name}a"))
    assert [commit["id"] for commit in results["sessions"]] == [name]
    assert api.tool("memory_commit_lookup", sha="none")["success"] is False
    refused(api.post("mcp/tools", name="memory_commit_lookup", arguments={"sha": "none"}), 404)
