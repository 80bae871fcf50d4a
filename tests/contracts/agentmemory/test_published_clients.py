"""The published 0.9.29 hook scripts, MCP shim and command line, unmodified, against the server.

agentmemory's published clients, installed once, and run as their users run them.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.acceptance.running import Doors
from tests.support.waiting import wait_until

VERSION = "0.9.29"
PACKAGES = ("@agentmemory/agentmemory", "@agentmemory/mcp")
INSTALL_TIMEOUT_S = 200
RUN_TIMEOUT_S = 60
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Unavailable(Exception):
    """The packages cannot be had here; says why."""


class Ran(NamedTuple):
    """What a program left: its exit code and what it wrote, without colours."""

    code: int
    out: str
    err: str


class Published(NamedTuple):
    """The installed packages, and a home folder that is only theirs."""

    folder: Path
    home: Path

    @property
    def package(self) -> Path:
        """The main package."""
        return self.folder / "node_modules" / PACKAGES[0]

    @property
    def private_store(self) -> Path:
        """The file that the MCP shim writes to when it believes that there is no server."""
        return self.home / ".agentmemory" / "standalone.json"

    def environment(self, url: str, **more: str) -> dict[str, str]:
        """What the clients are told; nothing of the user's own configuration."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "AGENTMEMORY_URL": url, "NO_COLOR": "1", **more}

    def hook(self, name: str, url: str, payload: Mapping[str, Any], cwd: Path, **more: str) -> Ran:
        """Run a hook script with its payload on standard input."""
        script = self.package / "plugin" / "scripts" / f"{name}.mjs"
        return self._run([str(script)], self.environment(url, **more), cwd, json.dumps(payload))

    def start_hook(self, name: str, url: str, payload: Mapping[str, Any], cwd: Path) -> "subprocess.Popen[str]":
        """Begin to run a hook script; its standard input is written already."""
        script = self.package / "plugin" / "scripts" / f"{name}.mjs"
        process = subprocess.Popen(
            ["node", str(script)], env=self.environment(url), cwd=cwd, stdin=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(payload))
        process.stdin.close()
        return process

    def command(self, url: str, *arguments: str) -> Ran:
        """Run the command line; it finds the server by its port."""
        port = url.rpartition(":")[2]
        line = [str(self.package / "dist" / "cli.mjs"), *arguments, "--port", port]
        return self._run(line, self.environment(url), self.home, "")

    def _run(self, arguments: list[str], environment: dict[str, str], cwd: Path, given: str) -> Ran:
        done = subprocess.run(
            ["node", *arguments], env=environment, cwd=cwd, input=given, capture_output=True, text=True,
            timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        return Ran(done.returncode, _COLOURS.sub("", done.stdout), _COLOURS.sub("", done.stderr))


def install(folder: Path) -> Published:
    """Install the packages below a folder; raises Unavailable where there is no Node, npm or registry."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")
    expected = [f"{name}@{VERSION}" for name in PACKAGES]
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--prefix", str(folder)]
    try:
        done = subprocess.run(
            ["npm", "install", *options, *expected],
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm did not install {', '.join(expected)} within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode:
        raise Unavailable(f"npm could not install {', '.join(expected)}: {done.stderr.strip()[-300:]}")
    home = folder / "home"
    home.mkdir()
    return Published(folder, home)


SETTLES_S = 30.0
LATE_S = 5.0
ROUNDS = 4
"""How often a hook runs at most until what it says has arrived."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    try:
        return install(tmp_path_factory.mktemp("published"))
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def project_folder(tmp_path: Path, name: str) -> Path:
    """A git checkout named like nothing else, with two commits; hooks tell the project from its folder."""
    folder = tmp_path / name
    folder.mkdir()
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for arguments in (
        ["init", "-q", "-b", "main"],
        [*author, "commit", "-q", "--allow-empty", "-m", "first"],
        ["add", "checkout.py"],
        [*author, "commit", "-q", "-m", "Reconnect the pool"],
    ):
        (folder / "checkout.py").write_text("pool.reconnect()\n")
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return folder


def hook_payload(folder: Path, session: str, **fields: Any) -> dict[str, Any]:
    return {"session_id": session, "cwd": str(folder), **fields}


async def observations(doors: Doors, session: str) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(base_url=doors.agentmemory, timeout=30) as http:
        answer = await http.get("/agentmemory/observations", params={"sessionId": session})
        assert answer.status_code == 200, answer.text
        return answer.json()["observations"]


async def arrived(doors: Doors, session: str, count: int) -> list[dict[str, Any]]:
    """The observations of a session, once there are so many, or none came for seconds."""
    pages: list[dict[str, Any]] = []
    heard = time.monotonic()
    while len(pages) < count and time.monotonic() - heard < LATE_S:
        now = await observations(doors, session)
        if len(now) > len(pages):
            pages, heard = now, time.monotonic()
        await asyncio.sleep(0.05)
    return pages


async def get(doors: Doors, path: str, **params: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=doors.agentmemory, timeout=30) as http:
        answer = await http.get(f"/agentmemory/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.mark.covers(
    "POST /agentmemory/session/start", "POST /agentmemory/observe", "POST /agentmemory/context",
    "POST /agentmemory/session/end", "POST /agentmemory/session/commit", "POST /agentmemory/claude-bridge/sync",
)  # fmt: skip
async def test_a_session_through_every_hook_is_all_there(
    doors: Doors, published: Published, project_folder: Path, tmp_path: Path, name: str
):
    session = f"ses-{name}"
    transcript = tmp_path / "transcript.jsonl"
    body = {"role": "user", "content": [{"type": "text", "text": "what did the transcript say?"}]}
    transcript.write_text(json.dumps({"type": "user", "message": body, "role": "user", "content": body["content"]}))
    tool = {"tool_name": "Edit", "tool_input": {"file_path": "checkout.py", "new_string": "pool.reconnect()"}}
    runs: list[tuple[str, dict[str, Any]]] = [
        ("session-start", {"hook_event_name": "SessionStart", "source": "startup"}),
        ("prompt-submit", {"prompt": "why does checkout time out?"}),
        ("post-tool-use", {**tool, "tool_response": "edited"}),
        ("post-tool-use", {**tool, "tool_response": {"emoji cut in half": "x" * 7999 + "😀" * 10}}),
        ("post-tool-failure", {"tool_name": "Bash", "tool_input": {"command": "make test"}, "error": "exit 2"}),
        ("subagent-start", {"agent_id": "sub-1", "agent_type": "reviewer"}),
        ("subagent-stop", {"agent_id": "sub-1", "agent_type": "reviewer", "last_assistant_message": "looks good"}),
        ("notification", {"notification_type": "permission_prompt", "title": "May I?", "message": "run make"}),
        ("task-completed", {"task_id": "t1", "task_subject": "fix checkout", "task_description": "the pool"}),
        ("pre-compact", {}),
        ("stop", {}),
        ("session-end", {"transcript_path": str(transcript), "reason": "exit"}),
    ]
    for script, fields in runs:
        ran = await asyncio.to_thread(
            published.hook, script, doors.agentmemory, hook_payload(project_folder, session, **fields),
            project_folder, CLAUDE_MEMORY_BRIDGE="true",
        )  # fmt: skip
        assert ran.code == 0, (script, ran)
    ran = await asyncio.to_thread(
        published.hook, "post-commit", doors.agentmemory, hook_payload(project_folder, session), project_folder
    )
    assert ran.code == 0, ran

    async def all_there() -> bool:
        return len(await observations(doors, session)) >= 8

    await wait_until(all_there, SETTLES_S)
    observation = await observations(doors, session)
    hooks = [item["hookType"] for item in observation]
    assert {"prompt_submit", "post_tool_use", "post_tool_failure", "subagent_start", "subagent_stop", "notification",
            "task_completed"} <= set(hooks)  # fmt: skip
    assert hooks.count("post_tool_use") == 2
    edited = next(item for item in observation if item["hookType"] == "post_tool_use")
    assert (edited["type"], edited["title"], edited["files"]) == ("file_edit", "Edit", ["checkout.py"])
    assert any("why does checkout time out?" in item.get("userPrompt", "") for item in observation)
    [row] = [item for item in (await get(doors, "sessions", limit="100"))["sessions"] if item["id"] == session]
    assert (row["project"], row["status"]) == (name, "completed")
    commits = (await get(doors, "commits", limit="100"))["commits"]
    [commit] = [commit for commit in commits if session in commit["sessionIds"]]
    assert (commit["message"], commit["branch"], commit["files"]) == ("Reconnect the pool", "main", ["checkout.py"])
    by_commit = await get(doors, "session/by-commit", sha=commit["sha"])
    assert [item["id"] for item in by_commit["sessions"]] == [session]


@pytest.mark.covers("POST /agentmemory/session/start", "POST /agentmemory/enrich", "POST /agentmemory/context")
async def test_hooks_hand_the_context_to_their_host(
    doors: Doors, published: Published, project_folder: Path, name: str
):
    async with httpx.AsyncClient(base_url=doors.agentmemory, timeout=30) as http:
        lesson = {"content": f"Reconnect the {name} pool first", "project": name, "confidence": 0.9}
        assert (await http.post("/agentmemory/lessons", json=lesson)).status_code == 201
        body = {
            "hookType": "post_tool_use",
            "sessionId": f"before-{name}",
            "project": name,
            "cwd": "/",
            "timestamp": "2026-11-22T05:00:00.000Z",
            "data": {"tool_name": "Edit", "tool_input": {"file_path": "checkout.py"}, "tool_output": "pool"},
        }
        assert (await http.post("/agentmemory/observe", json=body)).status_code == 201
    inject = {"AGENTMEMORY_INJECT_CONTEXT": "true"}
    for script, fields in (
        ("session-start", {}),
        ("pre-tool-use", {"tool_name": "Edit", "tool_input": {"file_path": "checkout.py"}, "project": name}),
        ("pre-compact", {}),
    ):
        payload = hook_payload(project_folder, f"now-{name}", **fields)

        async def handed(script: str = script, payload: dict[str, Any] = payload) -> bool:
            """A context that takes too long is left out: hooks wait for half a second."""
            ran = await asyncio.to_thread(
                published.hook, script, doors.agentmemory, payload, project_folder, **inject
            )  # fmt: skip
            assert ran.code == 0, ran
            return "<agentmemory-" in ran.out

        await wait_until(handed, SETTLES_S)


@pytest.mark.covers("POST /agentmemory/observe")
async def test_twenty_first_observations_at_once_are_all_stored(
    doors: Doors, published: Published, project_folder: Path, name: str
):
    """A hook ends half a second after it began to send, whatever became of it: one that was too slow runs again."""
    session, missing = f"parallel-{name}", set(range(20))
    for _ in range(ROUNDS):
        started = [
            published.start_hook(
                "post-tool-use",
                doors.agentmemory,
                hook_payload(project_folder, session, tool_name="Read", tool_input={"n": number}, tool_response="ok"),
                project_folder,
            )
            for number in sorted(missing)
        ]
        assert [await asyncio.to_thread(item.wait, 60) for item in started] == [0] * len(started)
        missing -= {item["toolInput"]["n"] for item in await arrived(doors, session, 20)}
        if not missing:
            break
    assert sorted(observation["toolInput"]["n"] for observation in await observations(doors, session)) == list(
        range(20)
    )


@pytest.mark.covers("POST /agentmemory/observe")
async def test_a_tool_input_of_five_megabytes_is_taken(
    doors: Doors, published: Published, project_folder: Path, name: str
):
    session = f"big-{name}"
    tool = {"tool_name": "Write", "tool_input": {"file_path": "big.txt", "content": "word " * 1_000_000}}
    payload = hook_payload(project_folder, session, **tool, tool_response="written")
    for _ in range(ROUNDS):
        ran = await asyncio.to_thread(published.hook, "post-tool-use", doors.agentmemory, payload, project_folder)
        assert ran.code == 0
        if await arrived(doors, session, 1):
            break
    [observation] = await observations(doors, session)
    assert (observation["title"], observation["files"]) == ("Write", ["big.txt"])


@asynccontextmanager
async def shim(doors: Doors, published: Published, log: Path, **more: str) -> AsyncGenerator[Client]:
    """The official SDK's client of the published shim; what the shim writes on its standard error goes to a file."""
    command = StdioServerParameters(
        command="node",
        args=[str(published.folder / "node_modules" / PACKAGES[1] / "bin.mjs")],
        env=published.environment(doors.agentmemory, **more),
        cwd=published.home,
    )
    with log.open("w") as errors:
        async with Client(stdio_client(command, errlog=errors), mode="legacy") as client:
            yield client


@pytest.mark.covers(
    "GET /agentmemory/livez", "GET /agentmemory/mcp/tools", "POST /agentmemory/mcp/call", "POST /agentmemory/remember",
    "POST /agentmemory/search", "POST /agentmemory/smart-search", "GET /agentmemory/sessions",
    "GET /agentmemory/export", "GET /agentmemory/audit", "DELETE /agentmemory/governance/memories",
)  # fmt: skip
async def test_the_shim_asks_the_server_for_everything(doors: Doors, published: Published, tmp_path: Path, name: str):
    async def call(tool: str, **arguments: Any) -> Any:
        answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, (tool, answer)
        [content] = answer.content
        assert content.type == "text"
        return json.loads(content.text)

    log = tmp_path / "shim.log"
    async with shim(doors, published, log) as client:
        listed = await client.list_tools()
        assert len(listed.tools) == 35
        saved = await call(
            "memory_save", content=f"The {name} pool has twenty connections", concepts="pool,redis", project=name
        )
        memory = saved["memory"]["id"]
        assert any(
            result["obsId"] == memory for result in (await call("memory_recall", query=f"{name} pool"))["results"]
        )
        results = await call("memory_smart_search", query=f"{name} pool", limit=3)
        assert results["mode"] == "compact"
        assert results["results"][0]["obsId"] == memory
        assert "sessions" in await call("memory_sessions", limit=5)
        assert any(result["id"] == memory for result in (await call("memory_export"))["memories"])
        assert (await call("memory_lesson_save", content=f"Count the {name} connections"))["action"] == "created"
        assert (await call("memory_lesson_recall", query=f"{name} connections"))["lessons"]
        assert (await call("memory_slot_append", label="pending_items", text=f"look at {name}"))["success"]
        assert (await call("memory_diagnose"))["success"]
        assert (await call("memory_audit", limit=10))["entries"]
        gone = await call("memory_governance_delete", memoryIds=memory)
        assert (gone["success"], gone["deleted"]) == (True, 1)
        left = await call("memory_recall", query=f"{name} pool")
        assert all(result["obsId"] != memory for result in left["results"])
    assert "falling back" not in log.read_text()
    assert not published.private_store.exists()


@pytest.mark.covers(
    "GET /agentmemory/livez", "GET /agentmemory/health", "GET /agentmemory/config/flags", "GET /agentmemory/memories",
    "GET /agentmemory/graph/stats", "GET /agentmemory/diagnostics/followup", "POST /agentmemory/smart-search", "GET /",
)  # fmt: skip
async def test_the_command_line_plays_its_demo_and_finds_the_server_well(doors: Doors, published: Published):
    demo = await asyncio.to_thread(published.command, doors.agentmemory, "demo")
    assert demo.code == 0, demo
    assert "6 observations" in demo.out, demo.out
    assert "0 hit(s)" not in demo.out, demo.out
    status = await asyncio.to_thread(published.command, doors.agentmemory, "status")
    assert status.code == 0, status
    assert "healthy" in status.out.lower(), status.out
    assert "not running" not in status.out.lower(), status.out


@pytest.mark.covers("POST /agentmemory/replay/import-jsonl")
async def test_the_command_line_imports_transcripts(doors: Doors, published: Published, tmp_path: Path, name: str):
    session = "0b8f6c1e-8f6e-4a58-9a0e-" + name[1:]
    line = {
        "sessionId": session, "cwd": f"/src/{name}", "version": "2.0.0", "isSidechain": False, "userType": "external",
    }  # fmt: skip
    lines = [
        {**line, "type": "user", "uuid": "u1", "timestamp": "2026-11-20T10:00:00.000Z",
         "message": {"role": "user", "content": f"what of {name}?"}},
        {**line, "type": "assistant", "uuid": "u2", "parentUuid": "u1", "timestamp": "2026-11-20T10:00:05.000Z",
         "message": {"role": "assistant", "content": [{"type": "text", "text": f"{name} is well"}]}},
    ]  # fmt: skip
    folder = tmp_path / "projects" / f"-src-{name}"
    folder.mkdir(parents=True)
    (folder / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for _ in range(2):
        ran = await asyncio.to_thread(published.command, doors.agentmemory, "import-jsonl", str(tmp_path / "projects"))
        assert ran.code == 0, ran

    async def there() -> bool:
        return len(await observations(doors, session)) >= 1

    await wait_until(there, SETTLES_S)
    texts = json.dumps(await observations(doors, session))
    assert texts.count(f"what of {name}?") >= 1
    assert len({observation["id"] for observation in await observations(doors, session)}) <= 2
