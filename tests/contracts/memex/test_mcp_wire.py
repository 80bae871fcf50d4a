"""memex's MCP port on the wire: what every request is answered."""

import json
from typing import Any

import httpx
import pytest

from tests.contracts.memex.conftest import BOTH, SESSION, initialize, rpc


async def session(wire: httpx.AsyncClient) -> dict[str, str]:
    """Open a session; the header that names it."""
    answer = await wire.post("/mcp/", json=initialize())
    assert answer.status_code == 200, answer.text
    return {SESSION: answer.headers[SESSION]}


def message(answer: httpx.Response) -> dict[str, Any]:
    """The one JSON-RPC message of a stream of events."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    (data,) = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return json.loads(data)


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a refusal, which is JSON-RPC too."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.json()["jsonrpc"] == "2.0"
    return answer.json()["error"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_a_session_is_opened_with_a_stream_and_a_name(wire: httpx.AsyncClient, version: str):
    answer = await wire.post("/mcp/", json=initialize(version))
    assert answer.status_code == 200
    assert answer.headers[SESSION]
    hello = message(answer)["result"]
    assert hello["protocolVersion"] == version
    assert hello["serverInfo"]["name"] == "memex"
    assert {"tools", "resources", "prompts"} <= hello["capabilities"].keys()
    assert all(word in hello["instructions"] for word in ("episodic", "semantic", "procedural", "importance", "alpha"))


async def test_an_unknown_version_is_answered_with_a_known_one(wire: httpx.AsyncClient):
    answer = message(await wire.post("/mcp/", json=initialize("1999-01-01")))
    assert answer["result"]["protocolVersion"].startswith("20")


async def test_the_path_without_a_slash_leads_there_too(wire: httpx.AsyncClient):
    answer = await wire.post("/mcp", json=initialize(), follow_redirects=True)
    assert answer.status_code == 200
    assert message(answer)["result"]["serverInfo"]["name"] == "memex"


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "text/html"])
async def test_a_client_must_accept_both_types(wire: httpx.AsyncClient, accept: str):
    answer = await wire.post("/mcp/", json=initialize(), headers={"Accept": accept})
    assert error(answer, 406)["code"] == -32600


@pytest.mark.covers("MCP store_memory", "MCP search_memories", "MCP delete_memory", "MCP count_memories")
async def test_in_a_session_requests_are_answered_as_streams(wire: httpx.AsyncClient):
    opened = await session(wire)
    body = await wire.post("/mcp/", json=rpc("notifications/initialized", None), headers=opened)
    assert (body.status_code, body.content) == (202, b"")
    answer = await wire.post("/mcp/", json=rpc("tools/list", 7), headers=opened)
    assert answer.status_code == 200
    assert message(answer)["id"] == 7
    assert [tool["name"] for tool in message(answer)["result"]["tools"]] == [
        "store_memory", "search_memories", "delete_memory", "count_memories",
    ]  # fmt: skip


@pytest.mark.parametrize(("method", "key"), [("resources/list", "resources"), ("prompts/list", "prompts")])
async def test_there_are_no_resources_and_no_prompts(wire: httpx.AsyncClient, method: str, key: str):
    answer = message(await wire.post("/mcp/", json=rpc(method), headers=await session(wire)))
    assert answer["result"][key] == []


async def test_a_request_without_a_session_is_400(wire: httpx.AsyncClient):
    assert "session" in error(await wire.post("/mcp/", json=rpc("tools/list")), 400)["message"].lower()


async def test_a_request_in_an_unknown_session_is_404(wire: httpx.AsyncClient):
    answer = await wire.post("/mcp/", json=rpc("tools/list"), headers={SESSION: "0" * 32})
    assert "not found" in error(answer, 404)["message"].lower()


async def test_a_stream_can_be_opened_in_a_session_alone(wire: httpx.AsyncClient):
    stream = {"Accept": "text/event-stream"}
    assert (await wire.get("/mcp/", headers=stream)).status_code == 400
    headers = {**stream, **await session(wire)}
    async with wire.stream("GET", "/mcp/", headers=headers) as opened:
        assert opened.status_code == 200
        assert opened.headers["content-type"].startswith("text/event-stream")
        assert (await wire.get("/mcp/", headers=headers)).status_code == 409, "one stream a session"
        assert (await wire.post("/mcp/", json=rpc("ping"), headers=headers | {"Accept": BOTH})).status_code == 200


async def test_a_session_that_is_deleted_is_over(wire: httpx.AsyncClient):
    opened, other = await session(wire), await session(wire)
    assert opened != other
    assert (await wire.delete("/mcp/", headers=opened)).status_code == 200
    assert (await wire.post("/mcp/", json=rpc("tools/list"), headers=opened)).status_code == 404
    assert (await wire.post("/mcp/", json=rpc("ping"), headers=other)).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8001", "127.0.0.2", "localhost.evil.example"])
async def test_another_hosts_name_is_421(wire: httpx.AsyncClient, host: str):
    answer = await wire.post("/mcp/", json=initialize(), headers={"Host": host})
    assert answer.status_code == 421


async def test_a_page_of_another_site_is_403(wire: httpx.AsyncClient):
    answer = await wire.post("/mcp/", json=initialize(), headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


async def test_half_a_surrogate_pair_is_taken(wire: httpx.AsyncClient, name: str):
    call = rpc("tools/call", name="store_memory", arguments={"agent_id": name, "user_id": "g", "content": "CUT"})
    body = json.dumps(call).replace("CUT", "\\ud83c")
    headers = {**await session(wire), "content-type": "application/json"}
    answer = await wire.post("/mcp/", content=body, headers=headers)
    assert (answer.status_code, "Stored memory" in answer.text) == (200, True)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_the_loopbacks_names_are_served_with_any_port(wire: httpx.AsyncClient, host: str):
    answer = await wire.post("/mcp/", json=initialize(), headers={"Host": f"{host}:8001"})
    assert answer.status_code == 200


@pytest.mark.covers("MCP count_memories")
async def test_a_tool_is_called_with_nothing_but_http(wire: httpx.AsyncClient, name: str):
    arguments = {"agent_id": name, "user_id": "grace"}
    call = rpc("tools/call", name="count_memories", arguments=arguments)
    headers = {**await session(wire), "Accept": BOTH}
    result = message(await wire.post("/mcp/", json=call, headers=headers))["result"]
    (content,) = result["content"]
    assert content["type"] == "text"
    assert result["structuredContent"] == {"result": content["text"]}
    assert result["isError"] is False
    assert all(word in content["text"] for word in (name, "grace", "0"))
