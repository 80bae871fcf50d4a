"""Clients of the memex door: its REST API, its MCP port as it is on the wire, and through the official client."""

import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

import httpx
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tool_text import text_of

from tests.acceptance.running import PATIENT, Doors

BOTH = "application/json, text/event-stream"
SESSION = "mcp-session-id"
USER = "grace"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
STORED = re.compile(rf"Stored memory ({UUID}) \(type=(\w+), importance=(\d+\.\d+)\)")
HIT = re.compile(rf"^(\d+)\. \[(\w+)\] score=(-?\d\.\d{{4}})  id=({UUID})$", re.MULTILINE)


class Rest:
    """The API, by what its clients want of it; every memory is about grace if nothing else is said."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def store(self, agent: str, content: str, **more: Any) -> dict[str, Any]:
        """Store a memory."""
        answer = await self.http.post("/v1/memories", json=memory(agent, content=content, **more))
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def search(self, agent: str, query: str, **more: Any) -> list[dict[str, Any]]:
        """What is found, the best first."""
        answer = await self.http.post("/v1/memories/search", json=memory(agent, query=query, **more))
        assert answer.status_code == 200, answer.text
        results = answer.json()
        assert results.keys() == {"results", "query", "total"}
        assert (results["query"], results["total"]) == (query, len(results["results"]))
        return results["results"]

    async def count(self, agent: str, user: str = USER) -> int:
        """How much there is."""
        answer = await self.http.get("/v1/memories/count", params={"agent_id": agent, "user_id": user})
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"agent_id": agent, "user_id": user, "count": answer.json()["count"]}
        return answer.json()["count"]

    async def delete(self, agent: str, name: str) -> httpx.Response:
        """The answer to deleting a memory."""
        return await self.http.delete(f"/v1/memories/{name}", params={"agent_id": agent})


def memory(agent: str, **more: Any) -> dict[str, Any]:
    """A body of an agent's about grace."""
    return {"agent_id": agent, "user_id": USER, **more}


def rpc(method: str, number: int | None = 1, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request; a notification without a number."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if number is None else {**message, "id": number}


def initialize(version: str = "2024-11-05") -> dict[str, Any]:
    """The first request of a session."""
    return rpc("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "test", "version": "1"})


class Mcp:
    """The official client, by the texts of its tools' answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of an answer that is no error; it is said twice."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content == {"result": text_of(result)}
        return text_of(result)

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text of an answer that is an error."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    async def store(self, agent: str, content: str, **more: Any) -> str:
        """Store a memory; its id."""
        answer = await self.call("store_memory", **memory(agent, content=content, **more))
        stored = STORED.fullmatch(answer)
        assert stored, answer
        return stored[1]

    async def search(self, agent: str, query: str, **more: Any) -> list[str]:
        """The ids that are found, the best first."""
        answer = await self.call("search_memories", **memory(agent, query=query, **more))
        return [hit[3] for hit in HIT.findall(answer)]


def connected(
    doors: Doors, path: str = "/mcp/", mode: Literal["legacy", "auto"] = "legacy"
) -> AbstractAsyncContextManager[Client]:
    """The official client; without more with the handshake that all servers know."""
    return Client(streamable_http_client(f"{doors.memex_mcp}{path}"), mode=mode)


@pytest.fixture
async def rest(doors: Doors) -> AsyncGenerator[Rest]:
    """The API."""
    async with httpx.AsyncClient(base_url=doors.memex, timeout=PATIENT, trust_env=False) as http:
        yield Rest(http)


@pytest.fixture
async def wire(doors: Doors) -> AsyncGenerator[httpx.AsyncClient]:
    """The MCP port, a request at a time; it accepts what official clients accept."""
    headers = {"Accept": BOTH}
    async with httpx.AsyncClient(base_url=doors.memex_mcp, headers=headers, timeout=PATIENT, trust_env=False) as http:
        yield http
