"""What real clients send to /mcp at the beginning, in the middle and at the end: nothing hangs, nothing is a 500."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.running import Server
from tests.support.waiting import wait_until

ACCEPT = {"Accept": "application/json, text/event-stream"}
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


@pytest.fixture
async def wire(server: Server) -> AsyncGenerator[httpx.AsyncClient]:
    async with server.client() as client:
        client.headers.update(ACCEPT)
        yield client


def initialize(version: str, **more: Any) -> dict[str, Any]:
    """The first request of a client of a version of the protocol."""
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about | more}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_is_answered_in_its_version(wire: httpx.AsyncClient, version: str):
    told = await wire.post("/mcp", json=initialize(version, capabilities={"roots": {"listChanged": True}, "x": {}}))
    assert told.json()["result"]["protocolVersion"] == version
    assert "mcp-session-id" not in told.headers
    listed = await wire.post("/mcp", json=LIST, headers={"MCP-Protocol-Version": version})
    assert listed.json()["result"]["tools"]


async def test_an_unknown_version_is_answered_with_a_known_one(wire: httpx.AsyncClient):
    for version in ("2999-01-01", "x"):
        told = (await wire.post("/mcp", json=initialize(version))).json()
        assert told["result"]["protocolVersion"].startswith("20")


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"method": "notifications/cancelled", "params": {"requestId": 99, "reason": "the user"}},
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5}},
        {"method": "notifications/roots/list_changed"},
        {"method": "notifications/of/tomorrow", "params": {"a": 1}},
        {"id": 7, "result": {}},
        {"id": 7, "error": {"code": -1, "message": "x"}},
    ],
)
async def test_what_wants_no_answer_is_accepted(wire: httpx.AsyncClient, message: dict[str, Any]):
    assert (await wire.post("/mcp", json={"jsonrpc": "2.0", **message})).status_code == 202


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/*", ACCEPT["Accept"]])
async def test_a_client_may_accept_json_alone_or_say_nothing(wire: httpx.AsyncClient, accept: str | None):
    headers = {} if accept is None else {"Accept": accept}
    if accept is None:
        del wire.headers["Accept"]
    assert (await wire.post("/mcp", json=LIST, headers=headers)).json()["id"] == 2


async def test_a_session_of_another_server_or_of_before_a_restart_is_no_obstacle(wire: httpx.AsyncClient):
    """There are no sessions, so none is unknown; nothing is to be streamed or ended."""
    old = {"Mcp-Session-Id": "of-before"}
    assert (await wire.post("/mcp", json=LIST, headers=old)).json()["result"]["tools"]
    assert (
        await wire.get("/mcp", headers={"Accept": "text/event-stream", "Last-Event-ID": "5", **old})
    ).status_code == 405
    assert (await wire.delete("/mcp", headers=old)).status_code == 405


@pytest.mark.parametrize("body", [[LIST, {**LIST, "id": 3}], [], None, "x", {"id": 1, "method": "ping"}, {}])
async def test_what_is_no_single_message_is_refused_as_json_rpc(wire: httpx.AsyncClient, body: Any):
    """Batches were taken back by the protocol in 2025-06-18."""
    told = await wire.post("/mcp", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert (told.status_code, told.json()["jsonrpc"]) == (400, "2.0")
    assert told.json()["error"]["code"] in (-32600, -32602, -32700)


@pytest.mark.parametrize("method", ["no/such", "logging/setLevel", "completion/complete", "resources/subscribe"])
async def test_an_unknown_method_is_named(wire: httpx.AsyncClient, method: str):
    asked = json.dumps({"jsonrpc": "2.0", "id": "abc", "method": method, "params": {}})
    told = (await wire.post("/mcp", content=asked, headers={"Content-Type": "application/json"})).json()
    assert (told["id"], told["error"]["code"] in (-32601, -32602)) == ("abc", True)


async def test_a_client_that_hangs_up_in_a_call_harms_nobody(wire: httpx.AsyncClient, server: Server):
    asked = {"name": "recall", "arguments": {"query": "x " * 500}, "_meta": {"progressToken": 1}}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": asked}
    for _ in range(5):
        async with server.client() as hasty:
            with pytest.raises(httpx.TimeoutException):
                await hasty.post("/mcp", json=call, headers=ACCEPT, timeout=0.001)
    assert (await wire.post("/mcp", json={"jsonrpc": "2.0", "id": 4, "method": "ping"})).json()["result"] == {}


async def test_the_sdks_client_sends_what_models_write(server: Server, project: str):
    headers = {"Authorization": f"Bearer {server.secret}"}
    text = f"[1] is the {project} heron"
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
    ):
        written = await client.call_tool(
            "remember",
            {"content": text, "project": project, "tags": '["a","b, c"]', "importance": "7", "ttl_days": "null",
                "metadata": '{"k": "v"}', "session_id": 5},
        )  # fmt: skip
        assert not written.is_error, written
        lenient = {"query": f"{project} heron", "limit": "5", "full": "true", "tags": '["b, c"]', "project": project}

        async def recalled() -> bool:
            found = await client.call_tool("recall", lenient | {"min_confidence": "0", "session_id": 5})
            return text in str(found.content)

        await wait_until(recalled)
        refused = await client.call_tool("recall", {"query": "x", "limit": "many"})
        assert refused.is_error
