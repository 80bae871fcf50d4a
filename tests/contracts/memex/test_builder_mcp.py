"""What building memex's MCP door showed: old and new clients, sessions, and what both doors share."""

from typing import Any

import httpx
import mcp.types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.running import PATIENT
from tests.contracts.conftest import Doors

BOTH = {"Accept": "application/json, text/event-stream"}
SESSION = "mcp-session-id"


def rpc(method: str, number: int | None = 1, **params: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if number is None else {**message, "id": number}


def initialize(version: str = "2024-11-05") -> dict[str, Any]:
    return rpc("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "test", "version": "1"})


def client_of(doors: Doors) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=doors.memex_mcp, headers=BOTH, timeout=PATIENT, trust_env=False)


async def session_of(client: httpx.AsyncClient, path: str = "/mcp/") -> dict[str, str]:
    """Open a session; the header that names it."""
    answer = await client.post(path, json=initialize())
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    return {SESSION: answer.headers[SESSION]}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.covers("MCP store_memory", "MCP search_memories", "MCP count_memories", "MCP delete_memory")
async def test_the_official_client_works_with_both_handshakes_and_both_spellings(
    doors: Doors, name: str, path: str, mode: Any
):
    async with Client(streamable_http_client(f"{doors.memex_mcp}{path}"), mode=mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == "memex"

        async def said(tool: str, **arguments: Any) -> str:
            result = await client.call_tool(tool, {"agent_id": name, **arguments})
            (content,) = result.content
            assert isinstance(content, types.TextContent)
            assert not result.is_error, content.text
            assert result.structured_content == {"result": content.text}
            return content.text

        stored = await said("store_memory", user_id="grace", content="The kettle is red.")
        memory = stored.split()[2]
        assert memory in await said("search_memories", user_id="grace", query="kettle")
        assert "1 memory" in await said("count_memories", user_id="grace")
        assert memory in await said("delete_memory", memory_id=memory)
        assert "0 memories" in await said("count_memories", user_id="grace")


@pytest.mark.covers("MCP store_memory", "POST /v1/memories/search", "DELETE /v1/memories/{memory_id}")
async def test_both_doors_see_each_others_writes_at_once(doors: Doors, name: str):
    async with (
        Client(streamable_http_client(f"{doors.memex_mcp}/mcp/"), mode="legacy") as mcp,
        httpx.AsyncClient(base_url=doors.memex, timeout=PATIENT, trust_env=False) as rest,
    ):
        pair = {"agent_id": name, "user_id": "grace"}
        for number in range(5):
            await mcp.call_tool("store_memory", {**pair, "content": f"Kettle {number}.", "importance": 1.37})
            found = (await rest.post("/v1/memories/search", json={**pair, "query": "kettle"})).json()
            assert found["total"] == 1
            (memory,) = found["results"]
            assert (memory["content"], memory["importance"]) == (f"Kettle {number}.", 1.37)
            await rest.delete(f"/v1/memories/{memory['id']}", params={"agent_id": name})
            (counted,) = (await mcp.call_tool("count_memories", pair)).content
            assert isinstance(counted, types.TextContent)
            assert "0 memories" in counted.text


async def test_a_session_is_its_own_and_ends_alone(doors: Doors):
    async with client_of(doors) as client:
        first, second = await session_of(client, "/mcp"), await session_of(client)
        assert first != second
        assert (await client.delete("/mcp", headers=first)).status_code == 200
        assert (await client.post("/mcp/", json=rpc("tools/list"), headers=first)).status_code == 404
        assert (await client.post("/mcp/", json=rpc("ping"), headers=second)).status_code == 200


async def test_a_call_with_half_a_surrogate_pair_is_answered(doors: Doors, name: str):
    call = rpc("tools/call", name="store_memory", arguments={"agent_id": name, "user_id": "g", "content": "CUT"})
    async with client_of(doors) as client:
        session = await session_of(client)
        raw = httpx.Request("POST", doors.memex_mcp, json=call).content.replace(b"CUT", b"\\ud83c")
        headers = {**session, "content-type": "application/json"}
        answer = await client.post("/mcp/", content=raw, headers=headers)
        assert (answer.status_code, "Stored memory" in answer.text) == (200, True)


async def test_an_open_stream_does_not_keep_others_from_the_session(doors: Doors):
    async with client_of(doors) as client:
        session = await session_of(client)
        async with client.stream("GET", "/mcp/", headers={**session, "Accept": "text/event-stream"}) as stream:
            assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream")
            second = await client.get("/mcp/", headers={**session, "Accept": "text/event-stream"})
            assert second.status_code == 409
            assert (await client.post("/mcp/", json=rpc("ping"), headers=session)).status_code == 200


async def test_a_page_of_another_site_is_refused(doors: Doors):
    async with client_of(doors) as client:
        answer = await client.post("/mcp/", json=initialize(), headers={"Origin": "http://evil.example"})
        assert answer.status_code == 403
