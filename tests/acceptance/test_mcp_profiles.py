"""Profiles of the MCP door as their clients meet them: the official SDK against a running server."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tool_text import text_of as text

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


async def called(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a good call: its text is JSON, and its data the same."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text(result)
    assert json.loads(text(result)) == result.structured_content
    return result.structured_content


@pytest.fixture
def antigravity_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, of servers that are started from now on, with one conversation of Antigravity."""
    logs = tmp_path / ".gemini/antigravity/brain" / CONVERSATION / ".system_generated/logs"
    logs.mkdir(parents=True)
    (logs / "transcript.jsonl").write_text("\n".join(map(json.dumps, TURNS)))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def test_a_conversation_of_antigravity_is_synced_once(
    private_server: Callable[..., Server], antigravity_home: Path
):
    """What the tools of agentmemory do, the contract's suite tells; here the folder and the SDK's client are real."""
    async with client_of(private_server(), "agentmemory") as client:
        call = partial(called, client)
        refused = await client.call_tool("memory_antigravity_sync", {"mode": "some"})
        assert refused.is_error
        assert "mode" in text(refused)
        nobodys = await call("memory_antigravity_sync", mode="current_session")
        assert "currentConversationId" in nobodys["error"]
        first = await call("memory_antigravity_sync", mode="current_session", currentConversationId=CONVERSATION)
        assert first == {"success": True, "syncedSessions": [SYNCED], "observationsAdded": 2}
        elsewhere = await call("memory_antigravity_sync", mode="current_folder", currentFolder="/home/ada/other")
        assert elsewhere["syncedSessions"] == []
        again = await call("memory_antigravity_sync_all", mode="current_folder", currentFolder="/home/ada/shop/")
        assert (again["syncedSessions"], again["observationsAdded"]) == ([SYNCED], 0)
        assert again["crystallizations"][SYNCED]["summary"]["observationCount"] == 2
        assert again["reflections"][SYNCED]["observationsReviewed"] == 2
        asked, _ = (await call("memory_observations", sessionId=SYNCED))["observations"]
        assert (asked["toolInput"], asked["toolName"]) == ("why is the cart wrong?", "conversation")
        assert (asked["project"], asked["agentId"]) == ("/home/ada/shop", "antigravity")


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
