"""The MCP gateway as clients meet it: the official SDK over HTTP and through the bridge, and requests byte by byte."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Literal, Protocol

import httpx
import httpx2
import mcp.types as types
import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from ports import free_port
from tool_text import text_of as text
from waiting import wait_until

from ingest.ids import shortened_id
from mcp_gateway.profiles import NATIVE
from tests.acceptance.running import Server as RunningServer

ROOT = Path(__file__).parents[2]
TOOLS = ["recall", "remember", "observe", "lesson", "context", "confirm", "revise", "forget", "slots", "claim"]
OpenClient = Callable[[], AbstractAsyncContextManager[Client]]


class Server(Protocol):
    """A running mnemolog."""

    url: str
    secret: str | None


@asynccontextmanager
async def over_http(
    url: str, secret: str | None, mode: Literal["legacy", "auto"] = "auto", agent: str = ""
) -> AsyncGenerator[Client, None]:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    headers |= {"X-Agent-Id": agent} if agent else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def bridge_command(url: str, secret: str | None) -> StdioServerParameters:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")}
    environment |= {"MNEMOLOG_URL": url} | ({} if secret is None else {"MNEMOLOG_SECRET": secret})
    return StdioServerParameters(command=sys.executable, args=["-m", "api.cli.main", "mcp"], env=environment, cwd=ROOT)


@asynccontextmanager
async def over_stdio(
    url: str, secret: str | None, mode: Literal["legacy", "auto"] = "auto"
) -> AsyncGenerator[Client, None]:
    async with Client(bridge_command(url, secret), mode=mode) as client:
        yield client


@pytest.fixture(
    params=[
        pytest.param((over_http, "auto"), id="http"),
        pytest.param((over_http, "legacy"), id="http-legacy"),
        pytest.param((over_stdio, "auto"), id="stdio"),
        pytest.param((over_stdio, "legacy"), id="stdio-legacy", marks=pytest.mark.nightly),
    ]
)
def every_client(request: pytest.FixtureRequest, server: Server) -> OpenClient:
    """Opens a client: over HTTP and over stdio, with the newest protocol and the one before.

    By day `test_the_bridge_survives_a_server_that_is_down_and_uses_it_when_it_is_up` speaks the older one over stdio.
    """
    connect, mode = request.param
    return lambda: connect(server.url, server.secret, mode)


@pytest.fixture(params=[over_http, over_stdio], ids=["http", "stdio"])
def connection(request: pytest.FixtureRequest, server: Server) -> OpenClient:
    """Opens a client, over HTTP and over stdio."""
    return lambda: request.param(server.url, server.secret)


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a good call, checked against the tool's schema, which is not listed."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text(result)
    schemas = {tool.name: tool.output_schema for tool in NATIVE}
    Draft202012Validator(schemas[name] or {}).validate(result.structured_content)
    assert text(result)
    return result.structured_content


async def test_the_server_introduces_itself_and_lists_few_tools_with_valid_schemas(every_client: OpenClient):
    async with every_client() as client:
        assert client.server_info is not None
        assert client.server_info.name == "mnemolog"
        assert "recall" in (client.instructions or "")
        listed = await client.list_tools()
        assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) <= 4 * 2_700, (
            "2,700 tokens of 4 characters"
        )
        tools = listed.tools
        assert [tool.name for tool in tools] == TOOLS
        for tool in tools:
            Draft202012Validator.check_schema(tool.input_schema)
            assert tool.output_schema is None
            assert tool.description
            assert tool.annotations


async def test_what_was_remembered_is_recalled_at_once(every_client: OpenClient, project: str):
    """No sleep and no position passed on: the read waits for its caller's own writes."""
    async with every_client() as client:
        for drink in ("oolong tea", "black coffee", "birch sap"):
            said = f"At breakfast the {project} crew drinks {drink}."
            memory = await call(client, "remember", content=said, project=project, agent_id=project)
            found = await call(client, "recall", query=said, project=project, agent_id=project)
            assert found["degraded"] == []
            assert memory["id"] in [one["id"] for one in found["results"]]
            best = next(one for one in found["results"] if one["id"] == memory["id"])
            assert (best["kind"], best["title"], best["agent_id"]) == ("memory", said, project)


async def test_of_two_agents_that_claim_work_one_gets_it(connection: OpenClient, project: str):
    async with connection() as client:
        start = {"do": "start", "title": "Refactor the pool", "paths": ["src/pool/**"], "event_id": project}
        mine, again = [await call(client, "claim", agent_id="ada", project=project, **start) for _ in range(2)]
        assert (again["id"], again["token"]) == (mine["id"], mine["token"])
        bob = {"agent_id": "bob", "project": project}
        said = text(await client.call_tool("claim", {"do": "claim", "id": mine["id"], **bob}))
        assert said.startswith("ada works on this action until ")
        nothing = text(await client.call_tool("claim", {"do": "next", **bob}))
        assert nothing == f"no action of project {project!r} is free. Nothing was changed."
        assert "- src/pool/** – ada until " in (await call(client, "context", **bob))["context"]
        held = {"id": mine["id"], "token": mine["token"]}
        assert (await call(client, "claim", do="renew", lease_seconds=7200, **held))["token"] == mine["token"]
        await call(client, "claim", do="release", **held)
        taken = await call(client, "claim", do="next", **bob)
        assert "claim of this token has ended" in text(await client.call_tool("claim", {"do": "complete", **held}))
        await call(client, "claim", do="complete", id=taken["id"], token=taken["token"], result="Done.")


async def test_agent_judges_what_it_was_given_and_is_told_when_its_revision_is_late(
    connection: OpenClient, project: str
):
    async with connection() as client:
        ada, bob = {"agent_id": "ada"}, {"agent_id": "bob"}
        memory = await call(client, "remember", content="The API listens on port 8080.", project=project, **ada)
        unseen = await call(client, "confirm", ids=[memory["id"]], verdict="wrong", **bob)
        assert (unseen["judged"], unseen["unknown"]) == ([], [memory["id"]])
        await call(client, "recall", query="port of the API", project=project, **bob)
        judged = await client.call_tool("confirm", {"ids": [memory["id"]], "verdict": "wrong", **bob})
        assert text(judged) == f"wrong: {memory['id']}"
        revised = {"id": memory["id"], "expected_version": 1}
        await call(client, "revise", **revised, content="The API listens on port 9090.", **bob)
        late = await client.call_tool("revise", {**revised, "content": "The API listens on port 7070.", **ada})
        assert late.is_error
        assert "at version 2, changed by bob" in text(late)


async def test_a_lesson_opens_the_context_of_its_project(connection: OpenClient, project: str):
    async with connection() as client:
        advice = f"Drain the {project} queue before a migration, because half-applied jobs corrupt it."
        first = await call(client, "lesson", content=advice, project=project, confidence=0.9)
        again = await call(client, "lesson", content=advice, project=project)
        assert again["id"] == first["id"]
        compiled = await call(client, "context", project=project, query="migration", token_budget=1000)
        assert advice in compiled["context"]
        assert compiled["tokens"] <= 1000
        assert first["id"] in compiled["blocks"][0]["sources"]


REPORT = "The exporter writes a row for each order and flushes once a minute. " * 40


async def test_what_is_recalled_is_short_and_read_whole_by_its_id(connection: OpenClient, project: str):
    """By tools alone: an agent sees a snippet, and reads the rest by the id beside it."""
    async with connection() as client:
        kept = await call(client, "remember", content=f"Exporter notes. {REPORT}", project=project, tags=["export"])
        found = await client.call_tool("recall", {"query": "How does the exporter write rows?", "project": project})
        (short,) = found.structured_content["results"]
        assert shortened_id(kept["id"]) in text(found)
        assert len(text(found)) < 700
        assert "content" not in short
        assert REPORT.startswith(short["title"].removeprefix("Exporter notes. ").removesuffix("…"))
        whole = await client.call_tool("recall", {"ids": [shortened_id(short["id"]), "mem_nowhere"]})
        (document,) = whole.structured_content["results"]
        assert document["content"] == f"Exporter notes. {REPORT}"
        assert document["details"] == {"tags": ["export"]}
        assert REPORT.strip() in text(whole)
        assert whole.structured_content["degraded"] == ["there is no document 'mem_nowhere'"]


async def test_a_project_that_does_not_exist_is_said_with_similar_names(connection: OpenClient, project: str):
    async with connection() as client:
        await call(client, "remember", content="The build runs on Tuesdays.", project=project)
        said = f"project '{project}x' has no searchable documents that you can read; similar: '{project}'"
        found = await client.call_tool("recall", {"query": "When does the build run?", "project": f"{project}x"})
        assert found.structured_content["degraded"] == [said]
        assert text(found).startswith(f"Note: {said}.")
        assert said in (await call(client, "context", project=f"{project}x"))["degraded"]


async def test_a_question_of_a_time_alone_is_answered_in_the_zone_of_who_asks(connection: OpenClient, project: str):
    async with connection() as client:
        kept = await call(client, "remember", content="The build runs on Tuesdays.", project=project)
        asked = {"query": "what did we do today?", "project": project, "time_zone": "Pacific/Kiritimati"}
        (found,) = (await call(client, "recall", **asked))["results"]
        assert found["id"] == kept["id"]
        refused = await client.call_tool("recall", asked | {"time_zone": "Nowhere/City"})
        assert refused.is_error
        assert "Nowhere/City" in text(refused)


def read_text(read: types.ReadResourceResult) -> str:
    (contents,) = read.contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.mime_type == "text/markdown"
    return contents.text


async def test_resources_are_listed_and_read(every_client: OpenClient, project: str):
    """The project's name needs encoding in an address; its context is listed once it has a session."""
    async with every_client() as client:
        place = f"{project}/app 1"
        said = "Orders are exported at midnight."
        kept = await call(client, "remember", content=said, project=place)
        await call(client, "observe", session_id=f"{project}-s", content="Looked at the exporter.", project=place)
        steps = "Export the orders\n1. Stop the writer.\n2. Run `make export`."
        how = await call(client, "remember", content=steps, project=place, memory_type="procedural")
        await call(client, "remember", content="Undo it\n1. Ask.", project=place, memory_type="procedural")
        await call(client, "confirm", ids=[how["id"]])
        listed = {resource.uri: resource.title for resource in (await client.list_resources()).resources}
        assert listed[f"mnemolog://documents/{how['id']}"] == "Export the orders"
        assert "Undo it" not in listed.values()
        assert "make export" in read_text(await client.read_resource(f"mnemolog://documents/{how['id']}"))
        address = f"mnemolog://projects/{project}%2Fapp%201/context"
        assert listed["mnemolog://projects"] == "Projects"
        assert listed[address] == f"Context of {place}"
        assert address in read_text(await client.read_resource("mnemolog://projects"))
        assert said in read_text(await client.read_resource(address))
        assert said in read_text(await client.read_resource(f"mnemolog://documents/{kept['id']}"))
        summary = await client.read_resource(f"mnemolog://sessions/{project}-s/summary?project={project}%2Fapp%201")
        assert "no summary yet" in read_text(summary)
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [
            "mnemolog://projects/{project}/context",
            "mnemolog://documents/{id}",
            "mnemolog://sessions/{session_id}/summary{?project}",
        ]


async def test_what_is_no_resource_is_a_protocol_error_that_names_it(every_client: OpenClient, project: str):
    async with every_client() as client:
        for uri in ("documents/mem_nowhere", f"projects/{project}/context", "sessions/nowhere/summary", "nothing"):
            with pytest.raises(MCPError, match="there is no resource") as raised:
                await client.read_resource(f"mnemolog://{uri}")
            assert raised.value.error.code == types.INVALID_PARAMS
            assert raised.value.error.data == {"uri": f"mnemolog://{uri}"}


async def test_prompts_are_listed_and_become_what_a_model_is_asked(every_client: OpenClient, project: str):
    async def asked(name: str, **arguments: str) -> str:
        (message,) = (await client.get_prompt(name, arguments)).messages
        assert message.role == "user"
        assert isinstance(message.content, types.TextContent)
        return message.content.text

    async with every_client() as client:
        said = f"The {project} gateway retries three times, because the network drops packets."
        await call(client, "remember", content=said, project=project)
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [
            "catch-up",
            "remember-session",
            "recall",
        ]
        assert said in await asked("catch-up", project=project)
        assert said in await asked("recall", topic="Why does the gateway retry?", project=project)
        assert f"in project {project}" in await asked("remember-session", project=project)
        for name, arguments in (("catch-up", {}), ("catch-up", {"project": f"{project}-x"}), ("other", {})):
            with pytest.raises(MCPError) as raised:
                await client.get_prompt(name, arguments)
            assert raised.value.error.code == types.INVALID_PARAMS


async def test_a_private_memory_is_attached_for_its_agent_alone(server: Server, project: str):
    """Resources and prompts have no argument for the agent: the header says who reads."""
    said = f"The {project} password rota is in the blue folder."
    async with over_http(server.url, server.secret, agent=project) as client:
        kept = await call(client, "remember", content=said, project=project, visibility="private")
        assert said in read_text(await client.read_resource(f"mnemolog://documents/{kept['id']}"))
        assert said in str(await client.get_prompt("catch-up", {"project": project}))
    async with over_http(server.url, server.secret, agent=f"{project}-other") as client:
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource(f"mnemolog://documents/{kept['id']}")
        with pytest.raises(MCPError, match="nothing is recorded"):
            await client.get_prompt("catch-up", {"project": project})


async def test_a_bad_argument_is_a_tool_error_that_names_it(every_client: OpenClient):
    async with every_client() as client:
        result = await client.call_tool("remember", {"content": "x", "tagz": ["y"]})
        assert result.is_error
        assert "`tagz`" in text(result)
        assert "Nothing was stored" in text(result)


async def test_text_of_any_kind_passes(connection: OpenClient, project: str):
    """Quotes, emoji, control characters and line breaks arrive as they were sent."""
    said = 'Grüße ☕ "quoted" \\ back\tslash\nsecond line\u2028third 漢字'
    async with connection() as client:
        await call(client, "remember", content=said, project=project)
        found = await call(client, "recall", query="Grüße quoted", project=project, full=True)
        assert [one["content"] for one in found["results"]] == [said]


async def test_a_wrong_secret_stops_a_client_before_it_starts(server: Server):
    if server.secret is None:
        async with over_http(server.url, "not asked for") as client:
            assert (await client.list_tools()).tools
        return
    with pytest.RaisesGroup(Exception, allow_unwrapped=True, flatten_subgroups=True):
        async with over_http(server.url, "wrong"):
            pass


@contextmanager
def answering(status: int) -> Generator[str, None, None]:
    """A web server that answers every POST with one status; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "MNEMOLOG_KEY"), (403, "lacks the scope"), (404, "MNEMOLOG_URL"), (500, "HTTP 500")]
)
async def test_the_bridge_explains_a_refusal(status: int, advice: str):
    with answering(status) as url:
        async with over_stdio(url, "wrong") as client:
            result = await client.call_tool("recall", {"query": "x"})
            assert result.is_error
            assert advice in text(result)


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9"])
async def test_the_bridge_reaches_this_machine_without_the_proxy_that_is_named(
    proxy: str, monkeypatch: pytest.MonkeyPatch
):
    """Nothing listens at the proxy, and for SOCKS the HTTP library lacks a package: it could not even start."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    with answering(404) as url:
        async with over_stdio(url, None) as client:
            assert "is MNEMOLOG_URL a mnemolog server" in text(await client.call_tool("recall", {"query": "x"}))


async def test_the_bridge_survives_a_server_that_is_down_and_uses_it_when_it_is_up(server: Server, project: str):
    """A client starts the bridge whenever it likes: it lists what it has, calls say how to start the server."""
    port = free_port()
    async with over_stdio(f"http://127.0.0.1:{port}", server.secret, "legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert [resource.uri for resource in (await client.list_resources()).resources] == ["mnemolog://projects"]
        assert len((await client.list_resource_templates()).resource_templates) == 3
        assert len((await client.list_prompts()).prompts) == 3
        with pytest.raises(MCPError, match="mnemolog up"):
            await client.read_resource("mnemolog://projects")
        for _ in range(2):
            result = await client.call_tool("remember", {"content": "x"})
            assert result.is_error
            assert "mnemolog up" in text(result)
            assert "Nothing was stored" in text(result)
        with forwarding(port, server.url):
            await call(client, "remember", content="Back again.", project=project)
            assert "Back again." in str(await client.get_prompt("catch-up", {"project": project}))
        assert (await client.call_tool("remember", {"content": "x"})).is_error


@contextmanager
def forwarding(port: int, url: str) -> Generator[None, None, None]:
    """While open, what reaches `port` goes to the server at `url`: one connection at a time is enough here."""
    target = httpx2.URL(url)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            answer = httpx2.post(target.join(self.path), content=body, headers=headers, timeout=30)
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield
        http.shutdown()
        thread.join()


HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"t","version":"0"}}}\n'
)
CUT_EMOJI = (
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":'
    b'{"name":"remember","arguments":{"content":"tea \\ud83c"}}}\n'
)


@contextmanager
def bridge_process(url: str, secret: str | None) -> Generator[subprocess.Popen[bytes], None, None]:
    """A bridge that has shaken hands, with its three pipes."""
    command = bridge_command(url, secret)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [command.command, *command.args], env=command.env, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        try:
            assert b'"serverInfo"' in told(process, HELLO)
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[bytes], message: bytes) -> bytes:
    """What the process answers to one message."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(message)
    process.stdin.flush()
    return process.stdout.readline()


def test_the_bridge_passes_on_half_a_surrogate_pair(server: Server):
    """Left to the SDK's stdio parser, such a request would never be answered."""
    with bridge_process(server.url, server.secret) as process:
        assert b"remembered as mem_" in told(process, CUT_EMOJI)


@pytest.mark.parametrize("end", ["end of input", "SIGTERM"])
def test_the_bridge_ends_with_its_client(end: str):
    """Clean on end of input, prompt on SIGTERM; nothing but the protocol on standard output."""
    with bridge_process("http://127.0.0.1:9", None) as process:
        assert process.stdin
        assert process.stdout
        if end == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(10) == (-signal.SIGTERM if end == "SIGTERM" else 0)
        assert process.stdout.read() == b""


ACCEPT = {"Accept": "application/json, text/event-stream"}
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


@pytest.fixture
async def wire(server: RunningServer) -> AsyncGenerator[httpx.AsyncClient]:
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


async def test_a_client_that_hangs_up_in_a_call_harms_nobody(wire: httpx.AsyncClient, server: RunningServer):
    asked = {"name": "recall", "arguments": {"query": "x " * 500}, "_meta": {"progressToken": 1}}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": asked}
    for _ in range(5):
        async with server.client() as hasty:
            with pytest.raises(httpx.TimeoutException):
                await hasty.post("/mcp", json=call, headers=ACCEPT, timeout=0.001)
    assert (await wire.post("/mcp", json={"jsonrpc": "2.0", "id": 4, "method": "ping"})).json()["result"] == {}


async def test_the_sdks_client_sends_what_models_write(server: RunningServer, project: str):
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
