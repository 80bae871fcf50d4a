"""agent-memory's hooks on the wire: what each sends, how soon it hangs up, and what it needs of the answers."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.contracts.conftest import Doors
from tests.support.ports import free_port
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
PATIENT_S = 30
POST_AND_EXIT = """
const http = require("http");
const body = process.argv[2];
const request = http.request(process.argv[1], {
  method: "POST", agent: new http.Agent({ keepAlive: true }),
  headers: { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) },
});
request.on("socket", (socket) => socket.unref());
request.on("error", () => {});
request.setTimeout(3000).unref?.();
request.end(body);
"""
"""What the hook does after a tool: it sends, and nothing keeps the process alive until there is an answer."""


@pytest.fixture
async def api(doors: Doors) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=doors.agent_memory, timeout=PATIENT_S, trust_env=False) as client:
        yield client


def item(session: str, number: int, project: str) -> dict[str, Any]:
    """What the hook says after an edit."""
    return {
        "session_id": session,
        "tool_name": "Edit",
        "tool_input": {"file_path": f"/home/ada/{project}/file{number}.py", "new_string": "x"},
        "tool_response_preview": '{"filePath":"file.py"}',
        "cwd": f"/home/ada/{project}",
        "last_user_message": None,
    }


def send_and_hang_up(url: str, path: str, body: bytes) -> None:
    """Write a whole request and close; nothing is read."""
    host = url.removeprefix("http://")
    head = [
        f"POST {path} HTTP/1.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Host: {host}",
        "Connection: keep-alive",
    ]
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port))) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)


async def titles(api: httpx.AsyncClient, project: str) -> list[str]:
    """The titles of a project's observations, oldest first."""
    answer = await api.get("/api/observations", params={"project": project, "limit": 100})
    assert answer.status_code == 200, answer.text
    return [one["title"] for one in reversed(answer.json())]


@pytest.mark.covers("POST /api/queue")
@pytest.mark.parametrize("padding", [0, 300_000])
async def test_a_hook_that_never_reads_the_answer_loses_nothing(
    doors: Doors, api: httpx.AsyncClient, name: str, padding: int
):
    for number in range(30):
        said = item(name, number, name)
        said["tool_input"]["old_string"] = "y" * padding
        send_and_hang_up(doors.agent_memory, "/api/queue", json.dumps(said).encode())

    async def all_there() -> bool:
        return len(await titles(api, name)) == 30

    await wait_until(all_there, PATIENT_S)
    assert sorted(await titles(api, name)) == sorted(f"Edit: file{number}.py" for number in range(30))


@pytest.mark.covers("POST /api/queue")
@pytest.mark.skipif(shutil.which("node") is None, reason="the hooks are Node scripts")
async def test_a_node_process_that_ends_once_it_has_sent_loses_nothing(doors: Doors, api: httpx.AsyncClient, name: str):
    command = ["node", "-e", POST_AND_EXIT, f"{doors.agent_memory}/api/queue", json.dumps(item(name, 0, name))]
    for _ in range(5):
        assert (await asyncio.to_thread(subprocess.run, command, timeout=PATIENT_S)).returncode == 0

    async def all_there() -> bool:
        return len(await titles(api, name)) == 5  # equal payloads are five uses of the tool

    await wait_until(all_there, PATIENT_S)


@pytest.mark.covers("GET /api/health", "POST /api/sessions", "GET /api/observations", "GET /api/lessons")
async def test_a_session_start_gets_all_that_it_shows(api: httpx.AsyncClient, name: str):
    for rule, project in ((f"never {name} here", name), (f"never {name} there", f"{name}-other")):
        lesson = {"title": "t", "rule": rule, "severity": "critical", "project": project}
        assert (await api.post("/api/lessons", json=lesson)).status_code == 200
    assert (await api.post("/api/queue", json=item(f"{name}-before", 1, name))).json() == {"status": "queued"}

    async def seen() -> bool:
        return bool(await titles(api, name))

    await wait_until(seen, PATIENT_S)
    healthy = await api.get("/api/health")
    assert healthy.json()["status"] in ("ok", "degraded")
    begun = {"session_id": name, "project": name, "project_path": f"/home/ada/{name}", "agent_type": "claude-code"}
    assert (await api.post("/api/sessions", json=begun)).status_code == 200
    (observation,) = (await api.get("/api/observations", params={"project": name, "limit": 5})).json()
    assert observation["title"] == "Edit: file1.py"
    assert observation["type"] == "change"
    assert observation["created_at"][10] == "T"
    own = {"active": "true", "limit": 10, "project": name, "severity": "critical"}
    assert [one["rule"] for one in (await api.get("/api/lessons", params=own)).json()] == [f"never {name} here"]
    everywhere = {"active": "true", "limit": 5, "severity": "critical"}
    newest = (await api.get("/api/lessons", params=everywhere)).json()
    assert {f"never {name} here", f"never {name} there"} <= {one["rule"] for one in newest}
    assert {one["severity"] for one in newest} == {"critical"}


@pytest.mark.covers("GET /api/health")
async def test_health_answers_a_hook_in_time_while_others_write(doors: Doors, api: httpx.AsyncClient, name: str):
    """The hook waits for half a second; most probes make it on the busiest machine."""
    took: list[float] = []
    fine = 0
    for number in range(40):
        send_and_hang_up(doors.agent_memory, "/api/queue", json.dumps(item(name, number, name)).encode())
        began = time.perf_counter()
        fine += (await api.get("/api/health")).json()["db"]["status"] == "ok"
        took.append(time.perf_counter() - began)
    assert sorted(took)[20] < 0.5
    assert fine > 20


@pytest.mark.covers("GET /api/lessons/match", "POST /api/lessons/{id}/trigger")
async def test_a_hook_is_told_before_the_tool_runs(api: httpx.AsyncClient, name: str):
    said = {"title": "No force", "rule": f"Ask before {name}", "severity": "critical", "project": name}
    lesson = (
        await api.post("/api/lessons", json={**said, "trigger_tool": "Bash", "trigger_pattern": "push.*-f"})
    ).json()
    asked = urlencode({"tool_name": "Bash", "tool_input_preview": "git push origin  -F", "project": name})
    found = (await api.get(f"/api/lessons/match?{asked}")).json()
    assert lesson["id"] in [one["id"] for one in found]
    assert found[0].keys() == {"id", "title", "rule", "severity", "project_name", "trigger_count"}
    assert (await api.get("/api/lessons/match", params={"tool_name": "Edit", "project": name})).json() == [
        one for one in found if one["id"] != lesson["id"]
    ]
    assert (await api.post(f"/api/lessons/{lesson['id']}/trigger")).json() == {"triggered": True}
    listed = (await api.get("/api/lessons", params={"project": name})).json()
    assert [one["trigger_count"] for one in listed] == [1]


@pytest.mark.covers("POST /api/queue")
async def test_what_a_hook_spooled_is_fetched_and_deleted(doors: Doors, api: httpx.AsyncClient, name: str):
    """A refused connection makes the hook write the body into a file; nobody but the server sends it again."""
    with pytest.raises(ConnectionRefusedError):
        send_and_hang_up(f"http://127.0.0.1:{free_port()}", "/api/queue", b"{}")
    at = int(time.time() * 1000) - 60_000
    for number in range(3):
        (doors.spool / f"{at + number}-{os.getpid()}.json").write_text(json.dumps(item(name, number, name)))
    skipped = {**item(name, 9, name), "tool_name": "TodoWrite"}
    (doors.spool / f"{at + 3}-{os.getpid()}.json").write_text(json.dumps(skipped))

    async def drained() -> bool:
        return len(await titles(api, name)) == 3 and not list(doors.spool.glob(f"{at}*.json"))

    await wait_until(drained, PATIENT_S)
    assert await titles(api, name) == [f"Edit: file{number}.py" for number in range(3)]
    newest = (await api.get("/api/observations", params={"project": name, "limit": 1})).json()[0]
    assert newest["created_at"] < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 30))


@pytest.mark.covers("MCP memory_search_guide", "MCP search")
def test_the_mcp_process_introduces_itself_as_the_hook_expects(doors: Doors, name: str):
    """The hook writes one line, waits 8 s for `"serverInfo"` on standard output, and kills the process."""
    observation = {"session_id": name, "project": name, "title": f"Saw {name}"}
    made = httpx.post(f"{doors.agent_memory}/api/observations", json=observation, timeout=PATIENT_S, trust_env=False)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MNEMOLOG_")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from api.cli.main import main; main()", "mcp", "--profile", "agent-memory"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**environment, "MNEMOLOG_URL": doors.agentmemory, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout

    def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
        stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    def call(number: int, tool: str, **arguments: Any) -> tuple[bool, str]:
        result = ask(number, "tools/call", name=tool, arguments=arguments)["result"]
        (content,) = result["content"]
        assert "structuredContent" not in result
        return result["isError"], content["text"]

    try:
        client = {"name": "health-check", "version": "1.0.0"}
        hello = ask(1, "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo=client)["result"]
        assert hello["serverInfo"]["name"] == "agent-memory"
        assert hello["protocolVersion"] == "2024-11-05"
        assert set(hello["capabilities"]) == {"tools"}
        stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        tools = {one["name"]: one for one in ask(2, "tools/list")["result"]["tools"]}
        assert set(tools) == {
            "memory_search_guide", "search", "timeline", "get_observations", "save_memory", "create_lesson",
            "search_lessons",
        }  # fmt: skip
        assert not any("outputSchema" in one for one in tools.values())
        failed, text = call(3, "search", query=name, project=name)
        found, _, reminder = text.partition("\n\n---\n")
        assert not failed
        assert [one["id"] for one in json.loads(found)] == [made.json()["id"]]
        assert reminder
        failed, text = call(4, "search")
        assert failed
        assert text.startswith("Input validation error:")
        failed, text = call(5, "search", query=name, dateStart="yesterday")
        assert not failed
        assert "error" in json.loads(text)
        failed, text = call(6, "no_such_tool")
        assert not failed
        assert "no_such_tool" in text
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENT_S)
        stdin.close()
        stdout.close()
