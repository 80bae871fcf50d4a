"""memex's four tools, as the official client and a process on two pipes call them.

memex's MCP port on the wire: what every request is answered.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import httpx
import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client

from tests.acceptance.running import PATIENT, Doors
from tests.contracts.conftest import Stdio, bridge
from tests.contracts.memex.conftest import (
    BOTH,
    HIT,
    SESSION,
    STORED,
    USER,
    Mcp,
    Rest,
    connected,
    initialize,
    memory,
    rpc,
)

TYPES = ("episodic", "semantic", "procedural")
TOOLS: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = json.loads(
    Path(__file__).with_name("mcp_tools.json").read_text()
)
"""Of every tool the properties with their types, the defaults, and what is required."""


@pytest.fixture(scope="module")
def pipe(doors: Doors) -> Iterator[Stdio]:
    """The same tools, spoken to over stdio."""
    with bridge("memex", doors.agentmemory) as server:
        hello = server.hello()
        assert hello["serverInfo"]["name"] == "memex"
        assert hello["instructions"]
        yield server


@pytest.mark.covers("MCP store_memory", "MCP search_memories", "MCP delete_memory", "MCP count_memories")
async def test_the_tools_say_what_they_take_and_answer(doors: Doors):
    async with connected(doors) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == TOOLS.keys()
    for name, (types, defaults, required) in TOOLS.items():
        schema, output = tools[name].input_schema, tools[name].output_schema
        properties = schema["properties"]
        assert {key: property_["type"] for key, property_ in properties.items()} == types
        assert {
            key: property_["default"] for key, property_ in properties.items() if "default" in property_
        } == defaults
        assert schema["required"] == required
        assert all(property_["title"] for property_ in properties.values())
        assert output is not None
        Draft202012Validator(output).validate({"result": "a text"})
        assert {key: property_["type"] for key, property_ in output["properties"].items()} == {"result": "string"}


@pytest.mark.covers("MCP count_memories", "POST /v1/memories", "DELETE /v1/memories/{memory_id}")
async def test_mcp_sees_what_rest_deleted_at_once(doors: Doors, rest: Rest, name: str):
    async with connected(doors) as client:
        for number in range(5):
            made = await Mcp(client).store(name, f"Kettle {number}.")
            await rest.delete(name, made)
            assert re.search(r"\b0 memories\b", await Mcp(client).call("count_memories", **memory(name)))


@pytest.mark.covers("MCP delete_memory", "MCP count_memories")
async def test_memories_of_other_apis_are_not_there(doors: Doors, name: str):
    """A UUID can be made of any memory's id; only memex's own can be deleted."""
    native = {"content": "Native.", "agent_id": name, "user_id": USER, "project": name}
    async with httpx.AsyncClient(base_url=doors.server.url, timeout=PATIENT, trust_env=False) as http:
        remembered = (await http.post("/v1/memories", json=native)).json()
        digits = remembered["id"].removeprefix("mem_")
        uuid = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-6d656d6578{digits[18:]}"
        async with connected(doors) as client:
            assert "not found" in await Mcp(client).call("delete_memory", agent_id=name, memory_id=uuid)
            assert re.search(r"\b0 memories\b", await Mcp(client).call("count_memories", **memory(name)))
        results = await http.get(f"/v1/memories/{remembered['id']}", params={"after": remembered["position"]})
        assert results.status_code == 200


@pytest.mark.covers("MCP store_memory", "POST /v1/memories/search")
async def test_a_memory_is_stored_and_said_to_be(doors: Doors, rest: Rest, name: str):
    async with connected(doors) as client:
        fields = {"content": "The kettle is red.", "memory_type": "semantic", "importance": 1.25}
        answer = await Mcp(client).call("store_memory", **memory(name, **fields))
    stored = STORED.fullmatch(answer)
    assert stored
    assert stored.groups()[1:] == ("semantic", "1.25")
    (result,) = await rest.search(name, "kettle")
    assert {key: result[key] for key in ("id", *fields)} == {"id": stored[1], **fields}


@pytest.mark.covers("MCP store_memory")
async def test_without_more_a_memory_is_episodic_and_weighs_1(doors: Doors, name: str):
    async with connected(doors) as client:
        answer = await Mcp(client).call("store_memory", **memory(name, content="x"))
    assert re.search(r" \(type=episodic, importance=1\.0\)$", answer)


@pytest.mark.covers("MCP store_memory", "POST /v1/memories/search")
@pytest.mark.parametrize(("given", "expected"), [(5, 2.0), (-1, 0.0), (2.0, 2.0), (0, 0.0)])
async def test_an_importance_is_clamped(doors: Doors, rest: Rest, name: str, given: float, expected: float):
    async with connected(doors) as client:
        answer = await Mcp(client).call("store_memory", **memory(name, content="x", importance=given))
    assert answer.endswith(f"importance={expected})")
    assert [result["importance"] for result in await rest.search(name, "x")] == [expected]


@pytest.mark.covers("MCP search_memories")
async def test_hits_are_numbered_lines_with_their_contents_below(doors: Doors, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        best = await mcp.store(name, "The kettle is red.")
        weak = await mcp.store(name, "Trains leave at noon.", memory_type="procedural")
        answer = await mcp.call("search_memories", **memory(name, query="The kettle is red."))
    header, *lines = answer.splitlines()
    assert "2" in header
    assert "The kettle is red." in header
    assert [(hit[0], hit[1], hit[3]) for hit in HIT.findall(answer)] == [
        ("1", "episodic", best), ("2", "procedural", weak),
    ]  # fmt: skip
    contents = [lines[place + 1] for place, line in enumerate(lines) if HIT.match(line)]
    assert [content.strip() for content in contents] == ["The kettle is red.", "Trains leave at noon."]
    assert all(content.startswith(" ") for content in contents)


@pytest.mark.covers("MCP search_memories", "POST /v1/memories/search")
async def test_scores_are_those_of_rest(doors: Doors, rest: Rest, name: str):
    await rest.store(name, "The kettle is red.")
    async with connected(doors) as client:
        answer = await Mcp(client).call("search_memories", **memory(name, query="The kettle", alpha=0.0))
    assert [float(hit[2]) for hit in HIT.findall(answer)] == [1.0]
    assert [result["score"] for result in await rest.search(name, "The kettle", alpha=0.0)] == [1.0]


@pytest.mark.covers("MCP search_memories")
async def test_five_are_found_unless_top_k_says_otherwise_and_it_is_clamped(doors: Doors, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        for number in range(52):
            await mcp.store(name, f"Kettle {number}.")
        results = {top_k: len(await mcp.search(name, "kettle", top_k=top_k)) for top_k in (0, 1, 7, 50, 1_000, -3)}
        assert results == {0: 1, 1: 1, 7: 7, 50: 50, 1_000: 50, -3: 1}
        assert len(await mcp.search(name, "kettle")) == 5


@pytest.mark.covers("MCP search_memories")
async def test_alpha_is_clamped(doors: Doors, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        await mcp.store(name, "The kettle is red.")
        answer = await mcp.call("search_memories", **memory(name, query="kettle", alpha=-5))
        assert [hit[2] for hit in HIT.findall(answer)] == ["1.0000"]
        answer = await mcp.call("search_memories", **memory(name, query="kettle", alpha=5))
        assert [-1 <= float(hit[2]) <= 1 for hit in HIT.findall(answer)] == [True]


@pytest.mark.covers("MCP search_memories")
async def test_a_search_may_be_for_one_type(doors: Doors, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        made = {kind: await mcp.store(name, "The kettle is red.", memory_type=kind) for kind in TYPES}
        for kind, row in made.items():
            assert await mcp.search(name, "kettle", memory_type=kind) == [row]
        assert set(await mcp.search(name, "kettle", memory_type=None)) == set(made.values())


@pytest.mark.covers("MCP search_memories")
async def test_a_search_that_finds_nothing_is_a_sentence(doors: Doors, name: str):
    async with connected(doors) as client:
        answer = await Mcp(client).call("search_memories", **memory(name, query="kettle"))
    assert not HIT.search(answer)
    assert " " in answer


@pytest.mark.covers("MCP store_memory", "MCP search_memories", "MCP count_memories")
async def test_a_type_that_there_is_not_is_a_sentence_and_no_error(doors: Doors, rest: Rest, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        for tool, more in (("store_memory", {"content": "x"}), ("search_memories", {"query": "x"})):
            answer = await mcp.call(tool, **memory(name, **more, memory_type="declarative"))
            assert all(kind in answer for kind in TYPES)
    assert await rest.count(name) == 0


@pytest.mark.covers("MCP delete_memory", "MCP count_memories")
async def test_a_deleted_memory_is_gone(doors: Doors, rest: Rest, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        item = await mcp.store(name, "The kettle is red.")
        others = await mcp.store(f"{name}-2", "The kettle is red.")
        gone = await mcp.call("delete_memory", agent_id=name, memory_id=item.upper())
        assert item in gone
        again = await mcp.call("delete_memory", agent_id=name, memory_id=item)
        assert item in again
        assert again != gone
        unknown, not_ours = str(uuid4()), others
        for memory_id in (unknown, not_ours, "first"):
            answer = await mcp.call("delete_memory", agent_id=name, memory_id=memory_id)
            assert memory_id in answer
            assert not answer.startswith("Deleted")
        assert await mcp.search(name, "kettle") == []
    assert (await rest.count(name), await rest.count(f"{name}-2")) == (0, 1)


@pytest.mark.covers("MCP count_memories")
async def test_a_count_names_agent_user_and_number(doors: Doors, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        for number in range(3):
            await mcp.store(name, f"Kettle {number}.")
        answer = await mcp.call("count_memories", **memory(name))
        assert re.search(r"\b3\b", answer)
        assert name in answer
        assert USER in answer
        assert re.search(r"\b0\b", await mcp.call("count_memories", **memory(name, user_id="ada")))


@pytest.mark.covers("MCP store_memory", "MCP search_memories", "MCP delete_memory", "MCP count_memories")
async def test_arguments_that_do_not_fit_are_an_error(doors: Doors, rest: Rest, name: str):
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("store_memory", {"agent_id": name}),
        ("store_memory", memory(name, content="")),
        ("store_memory", memory(name, content="x" * 8_001)),
        ("store_memory", memory(name, content=["x"])),
        ("store_memory", memory(name, content="x", importance="high")),
        ("search_memories", memory(name)),
        ("search_memories", memory(name, query="x", top_k="many")),
        ("search_memories", memory(name, query="x", alpha="half")),
        ("delete_memory", {"agent_id": name}),
        ("delete_memory", {"memory_id": str(uuid4())}),
        ("count_memories", {"agent_id": name}),
        ("count_memories", {"user_id": name}),
    ]
    async with connected(doors) as client:
        for tool, arguments in wrong:
            assert "validation" in (await Mcp(client).refused(tool, **arguments)).lower(), (tool, arguments)
    assert await rest.count(name) == 0


@pytest.mark.covers("MCP store_memory", "MCP count_memories")
async def test_tools_are_not_limited(doors: Doors, name: str):
    async with connected(doors) as client:
        mcp = Mcp(client)
        for _ in range(130):
            assert await mcp.search(name, "x") == []
        for number in range(62):
            await mcp.store(name, f"Kettle {number}.")
        assert re.search(r"\b62\b", await mcp.call("count_memories", **memory(name)))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("path", ["/mcp/", "/mcp"])
async def test_a_client_connects_at_either_address_with_either_handshake(
    doors: Doors, name: str, path: str, mode: Literal["legacy", "auto"]
):
    async with connected(doors, path, mode) as client:
        assert isinstance(client, Client)
        assert client.server_info is not None
        assert client.server_info.name == "memex"
        assert await Mcp(client).store(name, "x")


@pytest.mark.covers("MCP store_memory", "MCP search_memories", "MCP delete_memory", "MCP count_memories")
def test_the_same_tools_are_there_over_stdio(pipe: Stdio, name: str):
    assert pipe.tools().keys() == TOOLS.keys()
    stored = STORED.fullmatch(pipe.call("store_memory", **memory(name, content="The kettle is red.")).text)
    assert stored
    results = pipe.call("search_memories", **memory(name, query="kettle"))
    assert [hit[3] for hit in HIT.findall(results.text)] == [stored[1]]
    assert results.structured == {"result": results.text}
    assert re.search(r"\b1\b", pipe.call("count_memories", **memory(name)).text)
    assert stored[1] in pipe.call("delete_memory", agent_id=name, memory_id=stored[1]).text
    assert pipe.call("store_memory", **memory(name, content="")).failed


@pytest.mark.covers("MCP count_memories")
def test_stdio_has_no_resources_and_no_prompts(pipe: Stdio):
    assert pipe.ask("resources/list")["result"]["resources"] == []
    assert pipe.ask("prompts/list")["result"]["prompts"] == []


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
