"""Profiles of the MCP door as their clients meet them: the official SDK against a running server."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import mcp.types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from api.dialects.profiles import PROFILES
from ingest.ids import shortened_id
from tests.acceptance.running import Server
from tests.acceptance.test_mcp_gateway import bridge_command

TURNS = [
    {
        "type": "USER_INPUT",
        "content": "<USER_REQUEST>why is the cart wrong?</USER_REQUEST>\n/home/ada/shop -> ada/shop",
    },
    {"type": "PLANNER_RESPONSE", "content": "Rounding: each line is rounded before the sum."},
    {"type": "USER_INPUT", "content": "<USER_REQUEST>todo: fix it</USER_REQUEST>"},
    {"type": "PLANNER_RESPONSE", "content": "Fixed in cart.py."},
]
CONVERSATION = "0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d"
SYNCED = "antigravity_0a1b2c3d_4e5f_6a7b"


@asynccontextmanager
async def client_of(server: Server, profile: str = "", agent: str = "") -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {server.secret}"} | ({"X-Agent-Id": agent} if agent else {})
    query = f"?profile={profile}" if profile else ""
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{server.url}/mcp{query}", http_client=http), mode="legacy") as client,
    ):
        yield client


def text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


class Agent:
    """Calls agentmemory's tools and keeps which it called, well and badly."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.good, self.bad = set[str](), set[str]()

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a good call: its text is JSON, and its data the same."""
        result = await self._client.call_tool(name, arguments)
        assert not result.is_error, text(result)
        assert json.loads(text(result)) == result.structured_content
        self.good.add(name)
        return result.structured_content

    async def bad_argument(self, name: str, at_fault: str, **arguments: Any) -> None:
        """A call with a bad argument is an error that names it."""
        result = await self._client.call_tool(name, arguments)
        assert result.is_error, text(result)
        assert at_fault in text(result)
        self.bad.add(name)

    async def fails(self, name: str, **arguments: Any) -> str:
        """A call that is well formed and cannot be done says so, without being an error of the protocol."""
        answer = await self(name, **arguments)
        assert answer["success"] is False
        return answer["error"]


@pytest.fixture
def antigravity_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, of servers that are started from now on, with one conversation of Antigravity."""
    logs = tmp_path / ".gemini/antigravity/brain" / CONVERSATION / ".system_generated/logs"
    logs.mkdir(parents=True)
    (logs / "transcript.jsonl").write_text("\n".join(map(json.dumps, TURNS)))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def test_every_tool_of_agentmemory_does_what_it_says(
    private_server: Callable[..., Server], antigravity_home: Path
):
    """All 31, each with a good call and a bad argument; what was written is read back at once."""
    server = private_server()
    async with client_of(server, "agentmemory") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == list(PROFILES.offer(("agentmemory",)).tools)
        agent = Agent(client)
        await _memories(agent)
        await _sessions(agent)
        await _lessons(agent)
        await _slots(agent)
        await _actions(agent)
        await _condensing(agent)
        await _antigravity(agent)
        await _export(agent)
        await _forgetting(agent)
        await _of_the_plugin(agent)
        assert agent.good == tools.keys()
        without_bad = {"memory_slot_list"}  # takes nothing that could be wrong but its project
        assert agent.bad >= tools.keys() - without_bad


async def _memories(agent: Agent) -> None:
    said = "The shop is deployed on Tuesdays from the green pipeline only"
    saved = await agent("memory_save", content=said, type="workflow", concepts="deploy, pipeline", project="shop")
    memory = saved["memory"]
    assert memory.items() >= {"content": said, "type": "workflow", "version": 1, "isLatest": True}.items()
    assert (memory["concepts"], memory["strength"]) == (["deploy", "pipeline"], 7)
    assert "similarTo" not in saved
    near = await agent("memory_save", content="The shop is deployed on Tuesdays from a red pipeline mostly, since May")
    assert near["similarTo"]["id"] == memory["id"]
    assert 0.4 < near["similarTo"]["similarity"] <= 0.7
    again = await agent("agent_remember", content=f"{said}!", project="shop", files=["ci.yml"], agentId="ada")
    assert (again["memory"]["version"], again["memory"]["supersedes"]) == (2, [memory["id"]])
    await agent.bad_argument("memory_save", "content", content=" ")
    await agent.bad_argument("agent_remember", "project", content="x")

    found = await agent("memory_recall", query="when is the shop deployed?", limit="5", unknown="x")
    assert found["format"] == "full"
    results = {one["obsId"]: one for one in found["results"]}
    assert results[again["memory"]["id"]]["observation"]["narrative"] == f"{said}!"
    assert results[again["memory"]["id"]]["type"] == "decision"
    assert memory["id"] not in [one["obsId"] for one in found["results"]]
    compact = await agent("memory_recall", query="green pipeline", format="compact", token_budget=1)
    assert (compact["results"], compact["truncated"], compact["tokens_budget"]) == ([], True, 1)
    await agent.bad_argument("memory_recall", "query", query=5)

    smart = await agent("memory_smart_search", query="green pipeline")
    assert smart["mode"] == "compact"
    assert smart["results"][0].keys() >= {"obsId", "sessionId", "title", "type", "score", "timestamp"}
    whole = await agent("memory_smart_search", expandIds=[{"obsId": memory["id"]}, "obs_unknown"])
    assert [one["observation"]["narrative"] for one in whole["results"]] == [said]
    assert (whole["mode"], whole["truncated"]) == ("expanded", False)
    await agent.bad_argument("memory_smart_search", "limit", query="x", limit="many")


async def _sessions(agent: Agent) -> None:
    seen: dict[str, Any] = {}
    for number in range(12):
        told = f"The `Cart Total` is off since step {number}, see src/cart.py.\ntodo: round step {number}"
        seen = await agent(
            "agent_observe",
            sessionId="s1",
            project="shop",
            text=told,
            type="error",
            cwd="/home/ada/shop",
            agentId="ada",
        )
    linked = await agent("memory_save", content="Totals are kept in cents.", project="shop", sessionId="s1")
    await agent.bad_argument("agent_observe", "text", sessionId="s1", project="shop")
    listed = await agent("memory_observations", sessionId="s1")
    observations = listed["observations"]
    assert len(observations) == 13
    assert observations[11]["id"] == seen["observationId"]
    assert observations[12]["toolInput"] == {"memoryId": linked["memory"]["id"], "type": "fact"}
    first = observations[0]
    assert (first["type"], first["hookType"], first["toolName"]) == ("error", "post_tool_use", "agent_error")
    assert first["timestamp"] <= observations[1]["timestamp"]
    assert len((await agent("memory_observations", sessionId="s1", limit="2"))["observations"]) == 2
    await agent.bad_argument("memory_observations", "sessionId", sessionId=" ")

    (session,) = (await agent("memory_sessions"))["sessions"]
    assert session.items() >= {"id": "s1", "project": "shop", "cwd": "/home/ada/shop", "status": "active"}.items()
    assert (session["observationCount"], session["agentId"]) == (13, "ada")
    assert (await agent("memory_sessions_list", limit=1))["sessions"] == [session]
    await agent.bad_argument("memory_sessions", "limit", limit="few")
    await agent.bad_argument("memory_sessions_list", "limit", limit=[])

    around = await agent("memory_timeline", anchor=observations[5]["id"], before=2, after="1")
    assert [one["relativePosition"] for one in around["entries"]] == [-2, -1, 0, 1]
    assert [one["id"] for one in around["observations"]] == [observation["id"] for observation in observations[3:7]]
    assert around["anchorIndex"] == 2
    nothing = await agent("memory_timeline", anchor="zeppelin")
    assert (nothing["entries"], nothing["reason"]) == ([], "no_match")
    await agent.bad_argument("memory_timeline", "anchor")

    profile = await agent("memory_profile", project="shop", refresh="true")
    assert profile["profile"]["sessionCount"] == profile["sessionCount"] == 1
    assert "cart total" in [one["concept"] for one in profile["topConcepts"]]
    assert await agent("memory_profile", project="unheard of") == {"profile": None, "reason": "no_sessions"}
    await agent.bad_argument("memory_profile", "project")


async def _lessons(agent: Agent) -> None:
    advice = "Sum the lines first, round the total last"
    new = await agent("memory_lesson_save", content=advice, project="shop", confidence="0.8", tags="money")
    assert (new["action"], new["lesson"]["confidence"], new["lesson"]["tags"]) == ("created", 0.8, ["money"])
    again = await agent("memory_lesson_save", content=advice, project="shop")
    assert (again["action"], again["lesson"]["reinforcements"]) == ("strengthened", 1)
    assert again["lesson"]["confidence"] > new["lesson"]["confidence"]
    await agent.bad_argument("memory_lesson_save", "content")
    assert [one["id"] for one in (await agent("memory_lessons", project="shop"))["lessons"]] == [new["lesson"]["id"]]
    assert (await agent("memory_lessons", minConfidence=0.99))["lessons"] == []
    await agent.bad_argument("memory_lessons", "limit", limit="x")
    for name in ("memory_lesson_recall", "memory_lesson_search"):
        (found,) = (await agent(name, query="how is a total rounded?", project="shop"))["lessons"]
        assert found["content"] == advice
        assert 0 < found["score"] <= 1
        await agent.bad_argument(name, "query")
    hinted = await agent("memory_smart_search", query="round the total", project="shop")
    assert [one["lessonId"] for one in hinted["lessons"]] == [new["lesson"]["id"]]


async def _slots(agent: Agent) -> None:
    labels = [one["label"] for one in (await agent("memory_slot_list"))["slots"]]
    assert labels == sorted(labels)
    assert {"persona", "pending_items", "self_notes"} <= set(labels)
    made = await agent("memory_slot_create", label="notes", content="one", sizeLimit="10", pinned="false")
    assert made["slot"].items() >= {"label": "notes", "sizeLimit": 10, "pinned": False, "scope": "global"}.items()
    await agent.bad_argument("memory_slot_create", "label", label="No Label")
    await agent.bad_argument("memory_slot_create", "sizeLimit", label="notes", sizeLimit=0)
    assert "already exists" in await agent.fails("memory_slot_create", label="notes", overwrite=False)
    added = await agent("memory_slot_append", label="notes", text="two")
    assert (added["slot"]["content"], added["size"]) == ("one\ntwo", 7)
    assert "10" in await agent.fails("memory_slot_append", label="notes", text="and three")
    await agent.bad_argument("memory_slot_append", "text", label="notes")
    assert (await agent("memory_slot_get", label="notes"))["slot"]["content"] == "one\ntwo"
    assert "no slot" in await agent.fails("memory_slot_get", label="nowhere")
    await agent.bad_argument("memory_slot_get", "label")
    emptied = await agent("memory_slot_replace", label="notes", content="")
    assert emptied["slot"].items() >= {"content": "", "sizeLimit": 10, "pinned": False}.items()
    await agent.bad_argument("memory_slot_replace", "content", label="notes")
    assert await agent("memory_slot_delete", label="notes") == {"success": True}
    await agent("memory_slot_replace", label="guidance", content="Ask before deploying.")
    seen = {one["label"]: one["content"] for one in (await agent("memory_slot_list", project="shop"))["slots"]}
    assert seen["guidance"] == "Ask before deploying."  # a project's own, which nobody wrote, gives way
    assert "no slot" in await agent.fails("memory_slot_delete", label="notes")
    await agent.bad_argument("memory_slot_delete", "label", label=7)


async def _actions(agent: Agent) -> None:
    low = (await agent("memory_action_create", title="Write the test", project="shop", tags="a,b"))["action"]
    assert low.items() >= {"status": "pending", "priority": 0, "tags": ["a", "b"]}.items()
    high = (await agent("memory_action_create", title="Find the fault", project="shop", priority="9"))["action"]
    waiting = await agent("memory_action_create", title="Fix it", project="shop", priority=50, requires=[high["id"]])
    assert waiting["action"]["status"] == "blocked"
    assert [one["targetActionId"] for one in waiting["edges"]] == [high["id"]]
    await agent.bad_argument("memory_action_create", "title", title="")

    frontier = await agent("memory_frontier", project="shop")
    assert [one["id"] for one in frontier["frontier"]] == [high["id"], low["id"]]
    assert frontier["frontier"][0]["action"]["title"] == "Find the fault"
    assert (frontier["total"], frontier["totalActions"], frontier["totalUnblocked"]) == (2, 3, 2)
    await agent.bad_argument("memory_frontier", "limit", limit="all")

    done = await agent("memory_action_update", actionId=high["id"], status="completed", result="It was rounding.")
    assert (done["action"]["status"], done["action"]["result"]) == ("completed", "It was rounding.")
    frontier = await agent("memory_frontier", project="shop")
    assert [one["id"] for one in frontier["frontier"]] == [waiting["action"]["id"], low["id"]]
    assert "no action" in await agent.fails("memory_action_update", actionId="act_unknown", status="done")
    await agent.bad_argument("memory_action_update", "actionId", status="done")

    crystal = (await agent("memory_crystallize", actionIds=[high["id"]]))["crystal"]
    assert crystal["sourceActionIds"] == [high["id"]]
    assert "not finished" in await agent.fails("memory_crystallize", actionIds=low["id"])


async def _condensing(agent: Agent) -> None:
    summary = (await agent("memory_crystallize", sessionId="s1"))["summary"]
    assert summary.items() >= {"sessionId": "s1", "project": "shop", "observationCount": 13}.items()
    (session,) = [one for one in (await agent("memory_sessions"))["sessions"] if one["id"] == "s1"]
    assert session["summary"]["title"] == summary["title"]
    assert await agent.fails("memory_crystallize", sessionId="unheard of") == "session_not_found"
    await agent.bad_argument("memory_crystallize", "sessionId")

    reflected = await agent("memory_reflect", sessionId="s1", maxObservations="20")
    assert reflected["applied"] >= 1
    assert reflected["observationsReviewed"] == 13
    slots = {one["label"]: one["content"] for one in (await agent("memory_slot_list"))["slots"]}
    assert "step 11" in slots["pending_items"]
    insights = await agent("memory_reflect", project="shop", maxClusters=3)
    assert insights.keys() >= {"newInsights", "reinforced", "clustersProcessed", "clustersSkipped", "usedFallback"}
    await agent.bad_argument("memory_reflect", "sessionId")

    made = await agent("memory_consolidate", project="shop")
    assert made["consolidated"] >= 1
    assert made["totalObservations"] >= 10
    assert made["semantic"].keys() == {"newFacts", "totalSummaries"}
    few = await agent("memory_consolidate", project="unheard of")
    assert (few["consolidated"], few["reason"]) == (0, "insufficient_observations")
    await agent.bad_argument("memory_consolidate", "force", force="maybe")
    faded = await agent("memory_consolidate", project="shop", tier="decay")
    assert (faded["consolidated"], faded["reason"]) == (0, "lessons_fade_by_themselves")
    assert "reflect" not in await agent("memory_consolidate", project="shop", tier="semantic")
    assert "newInsights" in (await agent("memory_consolidate", project="shop", tier="reflect"))["reflect"]
    await agent.bad_argument("memory_consolidate", "tier", tier="unheard of")

    health = await agent("memory_diagnose")
    assert health["status"] in ("healthy", "degraded")
    assert health["summary"].keys() == {"pass", "warn", "fail", "fixable"}
    assert {one["status"] for one in health["checks"]} <= {"pass", "warn", "fail"}
    only = await agent("memory_diagnose", categories="memories, unheard_of")
    assert {one["category"] for one in only["checks"]} == {"memories"}
    await agent.bad_argument("memory_diagnose", "categories", categories=5)


async def _antigravity(agent: Agent) -> None:
    await agent.bad_argument("memory_antigravity_sync", "mode", mode="some")
    await agent.bad_argument("memory_antigravity_sync_all", "mode", mode="some")
    assert "currentConversationId" in await agent.fails("memory_antigravity_sync", mode="current_session")
    first = await agent("memory_antigravity_sync", mode="current_session", currentConversationId=CONVERSATION)
    assert first == {"success": True, "syncedSessions": [SYNCED], "observationsAdded": 2}
    elsewhere = await agent("memory_antigravity_sync", mode="current_folder", currentFolder="/home/ada/other")
    assert elsewhere["syncedSessions"] == []
    again = await agent("memory_antigravity_sync_all", mode="current_folder", currentFolder="/home/ada/shop/")
    assert (again["syncedSessions"], again["observationsAdded"]) == ([SYNCED], 0)
    assert again["crystallizations"][SYNCED]["summary"]["observationCount"] == 2
    assert again["reflections"][SYNCED]["observationsReviewed"] == 2
    asked, _ = (await agent("memory_observations", sessionId=SYNCED))["observations"]
    assert (asked["toolInput"], asked["toolName"]) == ("why is the cart wrong?", "conversation")
    assert (asked["project"], asked["agentId"]) == ("/home/ada/shop", "antigravity")


async def _export(agent: Agent) -> None:
    whole = await agent("memory_export")
    assert {one["id"] for one in whole["sessions"]} == {"s1", SYNCED}
    assert len(whole["observations"]["s1"]) == 13
    assert {one["content"] for one in whole["memories"]} >= {"Totals are kept in cents."}
    pending = [one["project"] for one in whole["slots"] if one["label"] == "pending_items"]
    assert sorted(pending) == ["/home/ada/shop", "shop"]  # each filled from sessions of its project
    assert whole.keys() >= {"version", "exportedAt", "summaries", "lessons", "actions", "actionEdges"}
    assert "pagination" not in whole
    page = await agent("memory_export", maxSessions="1", offset=1)
    assert page["pagination"] == {"offset": 1, "limit": 1, "total": 2, "hasMore": False}
    assert [one["id"] for one in page["sessions"]] == list(page["observations"])
    await agent.bad_argument("memory_export", "maxSessions", maxSessions="all")


async def _forgetting(agent: Agent) -> None:
    secret = "The spare key hangs behind the quince tree"
    saved = await agent("memory_save", content=secret, sessionId="s1", project="shop")
    found = await agent("memory_recall", query="quince tree")
    assert saved["memory"]["id"] in [one["obsId"] for one in found["results"]]
    assert (await agent("memory_forget", memoryId=saved["memory"]["id"]))["deleted"] == 1
    assert (await agent("memory_forget", memoryId=saved["memory"]["id"]))["deleted"] == 0
    assert "quince" not in json.dumps(await agent("memory_recall", query="quince tree"))
    assert "quince" not in json.dumps(await agent("memory_export"))
    observations = (await agent("memory_observations", sessionId="s1"))["observations"]
    some = [observation["id"] for observation in observations[:2]]
    assert (await agent("memory_forget", sessionId="s1", observationIds=",".join(some)))["deleted"] == 2
    left = await agent("memory_observations", sessionId="s1")
    assert [one["id"] for one in left["observations"]] == [observation["id"] for observation in observations[2:]]
    assert (await agent("memory_forget", sessionId="s1"))["deleted"] == len(observations)  # two less, two more
    assert [one["id"] for one in (await agent("memory_sessions"))["sessions"]] == [SYNCED]
    assert (await agent("memory_forget", sessionId="s1"))["deleted"] == 0
    await agent.bad_argument("memory_forget", "memoryId")


async def _of_the_plugin(agent: Agent) -> None:
    saved = await agent("memory_save", content="The blue key opens the shed", project="shop")
    ids = [saved["memory"]["id"], "mem_00000000000000000000"]
    deleted = await agent("memory_governance_delete", memoryIds=ids, reason="a test")
    assert (deleted["deleted"], deleted["total"]) == (1, 2)
    await agent.bad_argument("memory_governance_delete", "memoryIds")
    lesson = (await agent("memory_lesson_save", content="Measure before you cut", project="shop"))["lesson"]
    assert (await agent("memory_lesson_delete", lessonId=lesson["id"]))["success"]
    await agent.bad_argument("memory_lesson_delete", "lessonId")
    assert (await agent("memory_commits"))["commits"] == []
    await agent.bad_argument("memory_commits", "limit", limit="many")
    await agent.fails("memory_commit_lookup", sha="0" * 40)
    await agent.bad_argument("memory_commit_lookup", "sha")


async def test_tools_are_listed_in_a_stable_order_and_the_usual_ones_are_few(server: Server):
    async with client_of(server) as client:
        usual = [tool.name for tool in (await client.list_tools()).tools]
    assert usual == ["recall", "remember", "observe", "lesson", "context", "confirm", "revise", "forget", "slots"]
    everything = [tool.name for profile in PROFILES.values() for tool in profile.tools]
    for profile in ("all", "all"):
        async with client_of(server, profile) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == everything


@pytest.mark.parametrize("profile", [*PROFILES, "native,agentmemory"])
async def test_a_profile_has_its_tools_its_name_and_nothing_else(server: Server, profile: str):
    async with client_of(server, profile) as client:
        offered = PROFILES.offer(PROFILES.chosen(profile))
        assert [tool.name for tool in (await client.list_tools()).tools] == list(offered.tools)
        assert client.server_info is not None
        assert client.server_info.name == offered.server_name
        if offered.answers_for_any_tool:
            answer = await client.call_tool("no_such_tool", {})
            assert not answer.is_error
            assert "no_such_tool" in str(answer.content)
        else:
            with pytest.raises(MCPError, match="there is no tool"):
                await client.call_tool("no_such_tool", {})


async def test_an_unknown_profile_is_refused(server: Server):
    async with server.client() as http:
        answer = await http.post("/mcp?profile=memry", json={"jsonrpc": "2.0", "id": 3, "method": "tools/list"})
    assert (answer.status_code, answer.json()["id"]) == (400, 3)
    assert "native, files, agentmemory, memex, agent-memory, all" in answer.json()["error"]["message"]


async def test_the_bridge_passes_its_profile_on(server: Server):
    """Tools of the profile, under the name its clients know."""
    command = bridge_command(server.url, server.secret)
    environment = {**(command.env or {}), "MNEMOLOG_MCP_PROFILE": "agentmemory"}
    stdio = StdioServerParameters(command=command.command, args=command.args, env=environment, cwd=command.cwd)
    async with Client(stdio, mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(PROFILES.offer(("agentmemory",)).tools)
        saved = await client.call_tool("memory_save", {"content": f"Bridged {uuid4().hex}."})
        assert json.loads(text(saved))["success"]


async def test_a_write_through_one_profile_is_read_through_another_at_once(server: Server, project: str):
    async with client_of(server, "agentmemory", project) as theirs, client_of(server, "native", project) as ours:
        for drink in ("oolong", "espresso", "birch sap"):
            said = f"The {project} crew drinks {drink} at breakfast."
            saved = json.loads(text(await theirs.call_tool("memory_save", {"content": said, "project": project})))
            found = await ours.call_tool("recall", {"query": said, "project": project})
            assert shortened_id(saved["memory"]["id"]) in text(found)


async def test_a_memory_is_revised_and_forgotten_natively(server: Server, project: str):
    async with client_of(server, "", project) as client:

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, {"project": project, **arguments} if name != "forget" else arguments)
            assert not result.is_error, text(result)
            return result.structured_content or {}

        first = await call("remember", content="Ada drinks tea.")
        revised = await client.call_tool("revise", {"id": first["id"], "content": "Ada drinks coffee."})
        assert text(revised).startswith("revised as ")
        newer = text(revised).removeprefix("revised as ")
        (found,) = (await call("recall", query="what does Ada drink?", full=True))["results"]
        assert (found["id"], found["content"]) == (newer, "Ada drinks coffee.")
        await call("forget", id=newer)
        assert newer not in [one["id"] for one in (await call("recall", query="what does Ada drink?"))["results"]]
        assert (await client.call_tool("forget", {"id": newer})).is_error
        written = await call("slots", action="append", label="pending_items", content="buy beans")
        assert written["slots"][0]["content"] == "buy beans"
        listed = {one["label"]: one for one in (await call("slots"))["slots"]}
        assert listed["pending_items"] == written["slots"][0]
