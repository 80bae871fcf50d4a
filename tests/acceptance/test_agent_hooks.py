"""The hooks of coding agents: real processes of the very script that is installed, and the server's documents."""

import asyncio
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from ports import free_port
from waiting import wait_until

from api.agents import hook, recording
from projections.text.tokens import BYTES_PER_TOKEN, estimated_tokens
from tests.acceptance.asking import all_pages, read, write
from tests.acceptance.running import SECRET, Server, frozen, running
from tests.unit.api.agents.payloads import codex, cursor, gemini

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0
HOOK = [sys.executable, "-I", "-S", str(Path(hook.__file__)), "claude-code"]
TIDY = {"PATH": os.environ["PATH"], "MNEMOLOG_HOOK_CONTEXT": "0"}


class Agent(NamedTuple):
    """A coding agent in a session: the folder it works in, and what its hooks' environment is."""

    session: str
    folder: Path
    environ: dict[str, str]
    command: Sequence[str] = HOOK

    def payload(self, event: str, **fields: Any) -> bytes:
        """What the host hands to the hook."""
        common = {"session_id": self.session, "transcript_path": "/t.jsonl", "cwd": str(self.folder)}
        return json.dumps({**common, "hook_event_name": event, **fields}).encode()

    def hook(self, event: str, **fields: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run the hook; it ends with 0 whatever happens."""
        return self.send(self.payload(event, **fields))

    def send(self, payload: bytes) -> "subprocess.CompletedProcess[bytes]":
        """Run the hook on these bytes, as the host does in the folder it works in."""
        done = subprocess.run(
            self.command, input=payload, capture_output=True, env=self.environ, cwd=self.folder, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done

    def whole_session(self) -> None:
        """From start to end, with a tool that works and one that fails."""
        self.hook("SessionStart", source="startup")
        self.hook("UserPromptSubmit", prompt="Why is the checkout slow?")
        self.hook("PostToolUse", tool_name="Read", tool_input={"file_path": "/src/a.py"}, tool_use_id="t-1")
        self.hook("PostToolUseFailure", tool_name="Bash", tool_input={"command": "x"}, error="no x", tool_use_id="t-2")
        self.hook("Stop", last_assistant_message="The index was missing.")
        self.hook("SessionEnd", reason="prompt_input_exit")

    @property
    def spool(self) -> Path:
        """The spool folder that hooks and server agree on."""
        return Path(self.environ["MNEMOLOG_SPOOL"])

    def spooled(self) -> list[Path]:
        """The files in it."""
        return sorted(self.spool.glob("*.json"))


@pytest.fixture
def agent(server: Server, project: str, tmp_path: Path) -> Agent:
    return agent_of(server, project, tmp_path)


def agent_of(server: Server, project: str, tmp_path: Path) -> Agent:
    """An agent at work in a repository, whose hooks tell the server."""
    folder = tmp_path / project / "src"
    folder.mkdir(parents=True)
    (tmp_path / project / ".git").mkdir()
    environ = TIDY | {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET}
    environ["MNEMOLOG_SPOOL"] = str(server.supervisor.settings.spool)
    return Agent(f"session-of-{project}", folder, environ)


@pytest.fixture
def away(agent: Agent) -> Agent:
    """The same agent, while nobody listens where its hooks send to."""
    return cut_off(agent)


def cut_off(agent: Agent) -> Agent:
    """The agent with hooks that send to where nobody listens."""
    return agent._replace(environ={**agent.environ, "MNEMOLOG_URL": f"http://127.0.0.1:{free_port()}"})


async def observations(client: httpx.AsyncClient, agent: Agent) -> list[dict[str, Any]]:
    """In the order of time: what the server did not take at once came by the spool, behind what it took later.

    Times are compared, not their texts: the text of a whole second has no fraction, and "03Z" sorts behind "03.5Z".
    """
    project = agent.folder.parent.name
    found = await all_pages(client, f"/v1/sessions/{agent.session}/observations", project=project)
    return sorted(found, key=lambda seen: datetime.fromisoformat(seen["occurred_at"]))


async def session(client: httpx.AsyncClient, agent: Agent) -> dict[str, Any]:
    return await read(client, f"/v1/sessions/{agent.session}", project=agent.folder.parent.name)


async def test_a_session_of_hooks_is_a_session_of_observations(server: Server, agent: Agent):
    await asyncio.to_thread(agent.whole_session)
    async with server.client() as client:

        async def ended() -> bool:
            sessions = await all_pages(client, "/v1/sessions", project=agent.folder.parent.name)
            return [session["status"] for session in sessions] == ["ended"]

        await wait_until(ended, PATIENCE_S)
        seen = await observations(client, agent)
        known = await session(client, agent)
    assert [(one["kind"], one["title"]) for one in seen] == [
        ("conversation", "prompt_submit"),
        ("file_read", "Read"),
        ("error", "Bash"),
        ("conversation", "The index was missing."),
    ]
    assert seen[1]["files"] == ["/src/a.py"]
    assert seen[2]["data"]["error"] == "no x"
    assert (known["agent_type"], known["cwd"]) == ("claude-code", str(agent.folder))


async def test_while_the_server_is_away_hooks_spool_and_later_it_is_delivered_once(
    cache_dir: Path, agent: Agent, tmp_path: Path
):
    """Also what the server had already: an answer that came too late."""
    port = free_port()
    environ = agent.environ | {"MNEMOLOG_URL": f"http://127.0.0.1:{port}", "MNEMOLOG_SPOOL": str(tmp_path / "own")}
    agent = agent._replace(environ=environ)
    await asyncio.to_thread(agent.whole_session)
    kept = {path.name: path.read_bytes() for path in agent.spooled()}
    assert len(kept) == 6
    with running(cache_dir, embedder="none", partitions=4, port=port, spool=agent.spool) as server:
        await wait_until(lambda: not agent.spooled(), PATIENCE_S)
        async with server.client() as client:
            await wait_for_count(client, agent, 4)
            first = await observations(client, agent)
            for name, content in kept.items():  # as after a crash between storing and deleting
                (agent.spool / name).write_bytes(content)
            await wait_until(lambda: not agent.spooled(), PATIENCE_S)
            marker = await write(client, "/v1/observations", session_id=agent.session, content="last",
                                 project=agent.folder.parent.name)  # fmt: skip
            page = await read(client, f"/v1/sessions/{agent.session}/observations",
                              project=agent.folder.parent.name, after=marker["position"])  # fmt: skip
    assert [one["id"] for one in page["items"]] == [*(one["id"] for one in first), marker["id"]]


async def wait_for_count(client: httpx.AsyncClient, agent: Agent, count: int) -> None:
    async def arrived() -> bool:
        answer = await client.get(
            f"/v1/sessions/{agent.session}/observations", params={"project": agent.folder.parent.name, "limit": 100}
        )
        return answer.status_code == 200 and len(answer.json()["items"]) >= count

    await wait_until(arrived, PATIENCE_S)


async def test_a_payload_with_a_byte_order_mark_is_recorded(server: Server, agent: Agent):
    payload = agent.payload("UserPromptSubmit", prompt="Why is the checkout slow?")
    await asyncio.to_thread(agent.send, b"\xef\xbb\xbf" + payload)
    async with server.client() as client:

        async def recorded() -> bool:
            return bool(await all_pages(client, "/v1/sessions", project=agent.folder.parent.name))

        await wait_until(recorded, PATIENCE_S)
        assert [one["data"]["prompt"] for one in await observations(client, agent)] == ["Why is the checkout slow?"]


async def test_twenty_hooks_at_once_are_twenty_observations(server: Server, agent: Agent):
    def prompt(number: int) -> None:
        agent.hook("UserPromptSubmit", prompt=f"prompt {number}")

    await asyncio.gather(*(asyncio.to_thread(prompt, number) for number in range(20)))
    async with server.client() as client:
        await wait_until(lambda: not agent.spooled(), PATIENCE_S)
        await wait_for_count(client, agent, 20)
        seen = await observations(client, agent)
    assert sorted(one["data"]["prompt"] for one in seen) == sorted(f"prompt {number}" for number in range(20))


async def test_a_hook_that_runs_twice_for_one_tool_use_stores_it_once(server: Server, agent: Agent, away: Agent):
    """Delivered, and spooled."""
    for one in (agent, agent, away, away):
        await asyncio.to_thread(one.hook, "PostToolUse", tool_name="Bash", tool_use_id="t-1", tool_response="out")
    await asyncio.to_thread(agent.hook, "PostToolUse", tool_name="Bash", tool_use_id="t-2", tool_response="out")
    await wait_until(lambda: not agent.spooled(), PATIENCE_S)
    async with server.client() as client:
        await wait_for_count(client, agent, 2)
        assert len(await observations(client, agent)) == 2


async def test_five_megabytes_of_tool_input_arrive_cut(server: Server, agent: Agent):
    text = "a line of a long file\n" * 240_000
    await asyncio.to_thread(
        agent.hook, "PostToolUse", tool_name="Write", tool_input={"file_path": "/b", "content": text}
    )
    async with server.client() as client:
        await wait_for_count(client, agent, 1)
        (seen,) = await observations(client, agent)
    kept = seen["data"]["tool_input"]["content"].removesuffix(recording.CUT)
    assert text.startswith(kept)
    assert recording.STRING_CHARS - recording.WORD_CHARS < len(kept) <= recording.STRING_CHARS
    assert seen["files"] == ["/b"]


async def test_without_the_secret_hooks_spool_and_the_server_fetches_it(server: Server, agent: Agent):
    """401 is no word about the event. Files are fetched by the server itself, which asks nobody for a secret."""
    stranger = agent._replace(environ={**agent.environ, "MNEMOLOG_KEY": "another"})
    await asyncio.to_thread(stranger.hook, "UserPromptSubmit", prompt="hello")
    async with server.client() as client:
        await wait_for_count(client, agent, 1)


async def test_an_event_that_the_server_refuses_is_kept_with_the_reason(server: Server, agent: Agent, tmp_path: Path):
    """A session's name with a NUL in it is none. A hook to which a busy server answers too late has spooled instead."""
    agent = agent._replace(environ=agent.environ | {"MNEMOLOG_SPOOL": str(tmp_path / "own")})

    async def refused() -> bool:
        await asyncio.to_thread(agent.hook, "UserPromptSubmit", prompt="hello", session_id="a\0b")
        return any((tmp_path / "own/rejected").glob("*.reason"))

    await wait_until(refused, PATIENCE_S)
    (reason,) = (tmp_path / "own/rejected").glob("*.reason")
    assert reason.read_text().startswith("422 ")
    assert json.loads(reason.with_suffix("").read_bytes())["data"] == {"prompt": "hello"}


async def test_a_server_that_never_answers_does_not_hold_the_hook(agent: Agent, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        mute = agent._replace(environ=agent.environ | {"MNEMOLOG_URL": url, "MNEMOLOG_SPOOL": str(tmp_path / "own")})
        done = await asyncio.to_thread(mute.hook, "SessionStart", source="startup")
    assert len(mute.spooled()) == 1
    assert done.stdout == b""


async def test_the_end_of_a_session_waits_behind_what_is_spooled(agent: Agent, tmp_path: Path):
    """Delivered at once it would be before the session's last observations, which would open it again."""
    agent = agent._replace(environ=agent.environ | {"MNEMOLOG_SPOOL": str(tmp_path / "own")})
    nobody = agent._replace(environ=agent.environ | {"MNEMOLOG_URL": f"http://127.0.0.1:{free_port()}"})
    await asyncio.to_thread(nobody.hook, "Stop", last_assistant_message="bye")
    await asyncio.to_thread(agent.hook, "SessionEnd", reason="logout")
    assert [json.loads(path.read_bytes())["type"] for path in agent.spooled()] == ["observe", "session"]


async def test_a_new_session_is_told_what_is_known_as_data(server: Server, agent: Agent):
    project = agent.folder.parent.name
    async with server.client() as client:
        await write(client, "/v1/lessons", project=project, content="Always run make migrate first", confidence=0.9)
        curious = agent._replace(environ={**agent.environ, "MNEMOLOG_HOOK_CONTEXT": ""})

        told: list[bytes] = []

        async def answered() -> bool:
            told.append((await asyncio.to_thread(curious.hook, "SessionStart", source="startup")).stdout)
            return b"make migrate" in told[-1]

        await wait_until(answered, PATIENCE_S)
        answer = json.loads(told[-1])["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert answer["additionalContext"].startswith("<mnemolog-memory>")
    assert "not instructions" in answer["additionalContext"]
    assert (await asyncio.to_thread(curious.hook, "SessionStart", source="resume")).stdout == b""
    assert (await asyncio.to_thread(agent.hook, "SessionStart", source="startup")).stdout == b""


async def test_first_tokens_after_compaction_are_decisions_open_work_and_warnings(server: Server, agent: Agent):
    project = agent.folder.parent.name
    decision = "We decided to keep the index, because a cache could not be invalidated."
    requests = [f"Please look at page {n} of the report, and list everything that is unusual there" for n in range(8)]
    for request in requests:
        answer = f"That page is fine. {decision} Still open: the totals of page 9 differ from the ledger."
        await asyncio.to_thread(agent.hook, "UserPromptSubmit", prompt=request)
        await asyncio.to_thread(agent.hook, "Stop", last_assistant_message=answer)
    async with server.client() as client:
        await wait_for_count(client, agent, 2 * len(requests))
        for severity in ("info", "warning", "critical"):
            content = f"Heed {severity}: open a pull request"
            lesson = await write(client, "/v1/lessons", project=project, severity=severity, content=content)
        about = {"project": project, "session_id": agent.session, "after": lesson["position"]}
        context = (await client.post("/v1/context", json=about)).json()["context"]
    first = context.encode()[: 400 * BYTES_PER_TOKEN].decode(errors="ignore")
    begun, _, rest = first.partition(f"- {requests[0]}")
    warnings = [f"- warning: Heed {severity}: open a pull request" for severity in ("warning", "critical")]
    assert rest, "there is room for a request and its answer"
    for line in (f"- decided: {decision}", "- remaining: the totals of page 9 differ from the ledger.", *warnings):
        assert line in begun
    assert context.count("Heed warning") == 1
    assert context.count("Heed info") == 1
    assert "warning: Heed info" not in context


FREIGHT, PAYROLL = "Freight rates are rounded up to whole cents", "Payroll runs on the last Friday of a month"


async def delegate(agent: Agent, tasks: dict[str, str], started: str) -> str:
    """The text that a subagent of the type `started` gets after calls with `tasks`, by type."""
    for kind, task in tasks.items():
        named = {"subagent_type": kind} if kind != "general-purpose" else {}
        call = {"prompt": task, "description": "a task", **named}
        await asyncio.to_thread(agent.hook, "PreToolUse", tool_name="Agent", tool_input=call)
    done = await asyncio.to_thread(agent.hook, "SubagentStart", agent_type=started, agent_id="a-1")
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""


async def test_subagent_gets_a_small_context_about_its_own_task_once(server: Server, agent: Agent):
    curious = agent._replace(environ={**agent.environ, "MNEMOLOG_HOOK_CONTEXT": ""})
    tasks = {"Explore": f"Check that {PAYROLL}", "general-purpose": f"Check that {FREIGHT}"}
    texts: dict[str, str] = {}
    async with server.client() as client:
        for content in (FREIGHT, PAYROLL):
            await write(client, "/v1/memories", project=agent.folder.parent.name, content=content)

        async def is_answered(kind: str) -> bool:
            texts[kind] = await delegate(curious, tasks, kind)
            return "About your query" in texts[kind]

        for kind in tasks:
            await wait_until(partial(is_answered, kind), PATIENCE_S)
    first = {kind: text.partition("## About your query\n")[2].partition("\n")[0] for kind, text in texts.items()}
    assert FREIGHT in first["general-purpose"]
    assert PAYROLL in first["Explore"]
    context = texts["Explore"].partition("<mnemolog-context")[2].partition("</mnemolog-context>")[0]
    assert estimated_tokens(context) <= 300


async def test_subagent_without_a_stored_task_gets_no_context(server: Server, agent: Agent):
    curious = agent._replace(environ={**agent.environ, "MNEMOLOG_HOOK_CONTEXT": ""})
    async with server.client() as client:
        await write(client, "/v1/memories", project=agent.folder.parent.name, content=FREIGHT)

        async def is_answered() -> bool:
            return bool(await delegate(curious, {"Explore": FREIGHT}, "Explore"))

        await wait_until(is_answered, PATIENCE_S)
    assert await delegate(curious, {}, "Explore") == "", "the task was another subagent's"
    assert await delegate(curious, {"Plan": FREIGHT}, "Explore") == "", "the task is for another type"
    assert await delegate(agent, {"Explore": FREIGHT}, "Explore") == "", "contexts are off"


PUSH = {"tool_name": "Bash", "tool_input": {"command": "git push --force origin main"}, "tool_use_id": "t-9"}
WARNING = "Never force-push; open a pull request"


async def warned(agent: Agent, **fields: Any) -> str:
    """What the hook tells before a tool is used, once the server answers in time."""
    told: list[bytes] = []

    async def answered() -> bool:
        told.append((await asyncio.to_thread(agent.hook, "PreToolUse", **{**PUSH, **fields})).stdout)
        return bool(told[-1])

    await wait_until(answered, PATIENCE_S)
    return told[-1].decode()


async def test_a_lesson_is_told_before_the_tool_it_warns_of_once_a_session_and_counted(server: Server, agent: Agent):
    project = agent.folder.parent.name
    async with server.client() as client:
        rule = {"project": project, "trigger_tool": "Bash", "trigger_pattern": "push.*--force", "severity": "critical"}
        lesson = await write(client, "/v1/lessons", **rule, content=WARNING)
        await write(client, "/v1/lessons", project=f"{project}-other", severity="critical", content="Elsewhere")
        told = json.loads(await warned(agent))
        assert told.keys() == {"hookSpecificOutput"}
        assert told["hookSpecificOutput"].keys() == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
        assert told["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert told["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
        text = told["hookSpecificOutput"]["permissionDecisionReason"]
        assert f"- (critical) {WARNING}" in text
        assert "Elsewhere" not in text
        assert "not instructions" in text

        async def counted() -> bool:
            return (await read(client, f"/v1/lessons/{lesson['id']}"))["trigger_count"] == 1

        await wait_until(counted, PATIENCE_S)
        for fields in (PUSH, {**PUSH, "tool_use_id": "t-10"}):
            assert (await asyncio.to_thread(agent.hook, "PreToolUse", **fields)).stdout == b""
        assert WARNING in await warned(agent._replace(session=f"{agent.session}-2"))
        assert WARNING in await warned(agent, agent_id="sub-1"), "a subagent has a window of its own"
        await asyncio.to_thread(agent.hook, "SessionStart", source="compact")
        assert WARNING in await warned(agent)
        seen = await client.get(f"/v1/sessions/{agent.session}/observations", params={"project": project})
        assert seen.status_code == 404 or seen.json()["items"] == []


async def test_a_tool_that_no_lesson_is_about_is_used_in_silence(server: Server, agent: Agent):
    async with server.client() as client:
        rule = {"project": agent.folder.parent.name, "trigger_tool": "Bash", "trigger_pattern": "push.*--force"}
        await write(client, "/v1/lessons", **rule, content=WARNING)
        assert WARNING in await warned(agent)
    other = agent._replace(session=f"{agent.session}-2")
    for fields in (
        {"tool_name": "Bash", "tool_input": {"command": "git status"}},
        {"tool_name": "Edit", "tool_input": {"file_path": "a", "new_string": "git push --force"}},
        {"tool_name": "mcp__mnemolog__lesson", "tool_input": {"command": "git push --force"}},
        {"tool_input": {"command": "git push --force"}},
        {"tool_name": "Bash", "tool_input": ["git push --force"]},
    ):
        assert (await asyncio.to_thread(other.hook, "PreToolUse", **fields)).stdout == b""
    quiet = other._replace(environ={**other.environ, "MNEMOLOG_HOOK_LESSONS": "0"})
    assert (await asyncio.to_thread(quiet.hook, "PreToolUse", **PUSH)).stdout == b""


async def test_without_a_server_that_answers_a_tool_is_not_held_up(agent: Agent, away: Agent, tmp_path: Path):
    own = {"MNEMOLOG_SPOOL": str(tmp_path / "own")}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = {**own, "MNEMOLOG_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        for environ in (
            own | {"MNEMOLOG_URL": away.environ["MNEMOLOG_URL"]},
            mute,
            own | {"MNEMOLOG_SECRET": "another"},
        ):
            one = agent._replace(environ={**agent.environ, **environ})
            done = await asyncio.to_thread(one.hook, "PreToolUse", **PUSH)
            assert (done.stdout, done.stderr) == (b"", b"")
    assert not (tmp_path / "own").exists(), "nothing is recorded before a tool is used"


EDIT = {"tool_name": "Edit", "tool_use_id": "t-20"}


POOL = "src/pool/core.py"
PATCH = {"tool_name": "apply_patch", "tool_input": {"command": f"*** Begin Patch\n*** Update File: {POOL}\n@@\n-a\n+b"}}


async def claimed(client: httpx.AsyncClient, agent: Agent, holder: str, *paths: str) -> dict[str, Any]:
    """The claim of an agent on files of the project that the agent works in."""
    made = await write(client, "/v1/actions", project=agent.folder.parent.name, title="Refactor", paths=paths)
    claim = await client.post(f"/v1/actions/{made['id']}/claim", headers={"X-Agent-Id": holder})
    return claim.raise_for_status().json()


async def test_edit_of_a_file_that_another_agent_has_claimed_is_stopped_once(server: Server, agent: Agent):
    edit = {**EDIT, "tool_input": {"old_string": "a", "file_path": str(agent.folder / "pool/core.py")}}
    async with server.client() as client:
        claim = await claimed(client, agent, "ada", "src/pool/**")
        line = f"src/pool/** – ada until {claim['expires_at'][11:16]} UTC: Refactor"
        for one, fields in ((agent, edit), (hosted(agent, "codex")._replace(session="another"), PATCH)):
            told = json.loads(await warned(one, **fields))["hookSpecificOutput"]
            assert told["permissionDecision"] == "deny"
            assert line in told["permissionDecisionReason"]
        assert (await asyncio.to_thread(agent.hook, "PreToolUse", **edit)).stdout == b"", "once per session"
        await claimed(client, agent, "bob", "src/**")
        assert "bob until " in await warned(agent, **edit), "another claim is new"


async def test_own_claims_other_files_and_other_tools_are_used_in_silence(server: Server, agent: Agent):
    async with server.client() as client:
        await claimed(client, agent, "claude-code", "src/own/**")
        await claimed(client, agent, "ada", "src/pool/**")
        await warned(agent._replace(session="another"), **EDIT, tool_input={"file_path": POOL})
    for tool, path in (("Edit", "src/own/core.py"), ("Edit", "src/other.py"), ("Read", POOL)):
        fields = {"tool_name": tool, "tool_input": {"file_path": path, "new_string": POOL}}
        assert (await asyncio.to_thread(agent.hook, "PreToolUse", **fields)).stdout == b""


async def test_lesson_helped_if_its_tool_then_succeeds(server: Server, agent: Agent):
    async with server.client() as client:
        await tool_succeeds(client, agent._replace(environ={**agent.environ, "AGENT_ID": "ada"}), "ada")


async def test_lesson_helped_the_program_of_the_hook_where_no_agent_is_named(cache_dir: Path, tmp_path: Path):
    with running(cache_dir, secret=None, embedder="none", partitions=2) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
            await tool_succeeds(
                client, agent_of(server, "shop", tmp_path)._replace(environ=keyless(server)), "claude-code"
            )


def keyless(server: Server) -> dict[str, str]:
    return TIDY | {"MNEMOLOG_URL": server.url, "MNEMOLOG_SPOOL": str(server.supervisor.settings.spool)}


async def tool_succeeds(client: httpx.AsyncClient, agent: Agent, name: str) -> None:
    """A tool with a lesson fails, and then succeeds twice: the agent of this name judges the lesson once."""
    where = {"project": agent.folder.parent.name}
    await write(client, "/v1/lessons", **where, content=WARNING, trigger_tool="Bash", severity="warning")
    assert WARNING in await warned(agent)
    await asyncio.to_thread(agent.hook, "PostToolUseFailure", **PUSH, error="rejected")

    async def verdicts() -> list[tuple[str, str]]:
        page = await read(client, "/v1/events", **where, type="feedback.given")
        return [(event["agent_id"], event["data"]["verdict"]) for event in page["events"]]

    for other in ({"tool_input": {"command": "ls"}}, {"tool_name": "Search"}):
        await asyncio.to_thread(agent.hook, "PostToolUse", **{**PUSH, **other}, tool_response={"stdout": "README.md"})
    assert await verdicts() == []
    for _ in range(2):
        await asyncio.to_thread(agent.hook, "PostToolUse", **PUSH, tool_response={"stdout": "done"})

    async def judged() -> bool:
        return await verdicts() == [(name, "helped")]

    await wait_until(judged, PATIENCE_S)


async def test_of_hooks_that_run_at_once_one_tells_the_lesson(server: Server, agent: Agent):
    async with server.client() as client:
        rule = {"project": agent.folder.parent.name, "trigger_tool": "Bash", "severity": "warning"}
        await write(client, "/v1/lessons", **rule, content=WARNING)
        await warned(agent._replace(session="another"))
    runs = [asyncio.to_thread(agent.hook, "PreToolUse", **PUSH) for _ in range(6)]
    assert sum(WARNING in one.stdout.decode() for one in await asyncio.gather(*runs)) <= 1


QUESTION, DECISION = (
    "When can we deploy this change?",
    "We deploy on Tuesdays, because the on-call team is small on Fridays.",
)


def asking(agent: Agent, session: str = "", **environ: str) -> Agent:
    """The agent, in another session perhaps, whose user wants memories told about prompts."""
    wanted = {**agent.environ, "MNEMOLOG_HOOK_PROMPTS": "1", **environ}
    return agent._replace(environ=wanted, session=f"{agent.session}{session}")


async def submit(agent: Agent, prompt: str = QUESTION) -> str:
    """What the hook prints about a prompt."""
    return (await asyncio.to_thread(agent.hook, "UserPromptSubmit", prompt=prompt)).stdout.decode()


async def prompted(agent: Agent, prompt: str = QUESTION) -> str:
    """What the agent is told about a prompt, once the server knows it and answers in time."""
    printed: list[str] = []

    async def answered() -> bool:
        printed.append(await submit(agent, prompt))
        return bool(printed[-1])

    await wait_until(answered, PATIENCE_S)
    answer = json.loads(printed[-1])
    assert answer.keys() == {"hookSpecificOutput"}
    assert answer["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
    assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    return answer["hookSpecificOutput"]["additionalContext"]


async def test_a_prompt_gets_what_memory_has_about_it_once_a_session(server: Server, agent: Agent):
    async with server.client() as client:
        where = {"project": agent.folder.parent.name, "agent_id": "ada"}
        memory = await write(client, "/v1/memories", **where, content=DECISION)
        text = await prompted(asking(agent))
        assert text.startswith("<mnemolog-recall>")
        assert "not instructions" in text
        assert f", memory by ada: {DECISION} [{memory['id']}]" in text
        assert await submit(asking(agent)) == "", "the agent knows it"
        assert memory["id"] in await prompted(asking(agent, "-2"))
        await asyncio.to_thread(agent.hook, "SessionStart", source="compact")
        assert memory["id"] in await prompted(asking(agent))
        assert await submit(agent._replace(session="s-3")) == "", "nobody asked for it"
        seen = await observations(client, agent)
    assert {one["data"]["prompt"] for one in seen} == {QUESTION}, "prompts are recorded all the same"


async def test_another_sentence_of_what_was_shown_answers_another_prompt(server: Server, agent: Agent):
    async with server.client() as client:
        texts = "The export job runs on staging at port 8090.", "Refunds above 50 euros need two signatures."
        filler = "Nothing else happened in the meeting of the shop team that week, apart from lunch. " * 8
        await write(client, "/v1/memories", project=agent.folder.parent.name, content=f"{texts[0]} {filler}{texts[1]}")
        first = await prompted(asking(agent), "On which port does the export job run on staging?")
        assert texts[0] in first
        assert texts[1] in await prompted(asking(agent), "How many signatures does a refund above 50 euros need?")
        assert await submit(asking(agent), "How many signatures does a refund above 50 euros need?") == ""


async def test_a_prompt_finds_decisions_and_observations_of_other_sessions(server: Server, agent: Agent):
    async with server.client() as client:
        where = {"project": agent.folder.parent.name, "session_id": "earlier"}
        decision = "We decided: do not deploy before Ana has signed off the checklist."
        await write(client, "/v1/observations", **where, kind="conversation", content=decision)
        count = "There were 37 double refunds in March."
        await write(client, "/v1/observations", **where, kind="conversation", content=count)
        assert "do not deploy before Ana has signed off" in await prompted(
            asking(agent), "may I deploy before the checklist?"
        )
        assert "37 double refunds" in await prompted(asking(agent, "-2"), "how many double refunds were there?")


@pytest.mark.parametrize("prompt", ["great, done for today", "thanks, see you tomorrow!", "super, danke, bis morgen"])
async def test_small_talk_gets_nothing_of_the_day(server: Server, agent: Agent, prompt: str):
    async with server.client() as client:
        await write(client, "/v1/memories", project=agent.folder.parent.name, content=DECISION)
        assert DECISION in await prompted(asking(agent, "-known"))
    assert await submit(asking(agent), prompt) == ""


async def test_a_lesson_told_about_a_prompt_is_still_told_before_the_tool_it_warns_of(server: Server, agent: Agent):
    """But not about a prompt after it was told before a tool."""
    async with server.client() as client:
        rule = {"trigger_tool": "Bash", "trigger_pattern": "push.*--force", "severity": "critical"}
        await write(client, "/v1/lessons", project=agent.folder.parent.name, content=WARNING, **rule)
        prompt = "Please force-push this, or open a pull request"
        assert WARNING in await prompted(asking(agent), prompt)
        assert WARNING in await warned(agent)
        assert WARNING in await warned(agent._replace(session="s-2"))
        assert await submit(asking(agent._replace(session="s-2")), prompt) == ""
        assert WARNING in await prompted(asking(agent._replace(session="s-3")), prompt)


async def test_a_prompt_that_nothing_known_is_about_gets_nothing(server: Server, agent: Agent):
    """Nor when it was submitted before: prompts are no answers to themselves."""
    async with server.client() as client:
        await write(client, "/v1/memories", project=agent.folder.parent.name, content=DECISION)
        assert DECISION in await prompted(asking(agent, "-known"))
        unknown = "Reverse a linked list of penguins in Haskell"
        assert [await submit(asking(agent), unknown) for _ in range(2)] == ["", ""]
        await wait_for_count(client, agent, 2)
        assert await submit(asking(agent), unknown) == ""
        assert await submit(asking(agent), "deploy?") == "", "too short"
    assert DECISION in await prompted(asking(agent))


async def test_what_is_told_about_a_prompt_fits_its_budget(server: Server, agent: Agent):
    async with server.client() as client:
        for name in ("shop", "till", "mail", "search", "stock"):
            tail = " ".join(f"{name}{number}" for number in range(40))  # else they would supersede each other
            content = f"When we can deploy this change to the {name}: {tail}"
            await write(client, "/v1/memories", project=agent.folder.parent.name, content=content)
        lines: list[int] = []

        async def several() -> bool:
            text = await prompted(asking(agent, f"-{len(lines)}"))
            assert len(text) <= recording.PROMPT_TOKENS * recording.CHARS_PER_TOKEN
            lines.append(text.count("\n- "))
            return lines[-1] > 1

        await wait_until(several, PATIENCE_S)
    assert lines[-1] < recording.PROMPT_RECALLED, "the budget holds back the last"


async def test_a_prompt_does_not_wait_for_a_server_that_is_silent_or_refuses(agent: Agent, tmp_path: Path):
    own = {"MNEMOLOG_SPOOL": str(tmp_path / "own")}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = asking(agent, **own, MNEMOLOG_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert await submit(mute) == ""
    assert len(mute.spooled()) == 1
    stranger = asking(agent, **own, MNEMOLOG_SECRET="another")
    told = [await submit(stranger)]
    while not told[-1] and len(told) < 20:  # a server that is busy refuses later than a hook waits
        told.append(await submit(stranger))
    assert json.loads(told[-1]).keys() == {"systemMessage"}
    assert await submit(stranger) == ""


def hosted(agent: Agent, host: str) -> Agent:
    """The agent in another host. Cursor runs its hooks elsewhere, and says in which folder it works."""
    command = [*HOOK[:-1], host]
    if host == "cursor":
        command = ["sh", "-c", f"cd / && exec {shlex.join(command)}"]
    return agent._replace(environ={**agent.environ, "CURSOR_PROJECT_DIR": str(agent.folder)}, command=command)


async def report(agent: Agent, *events: dict[str, Any]) -> list[str]:
    """What the hook prints about events, one after the other."""
    folder = str(agent.folder)
    common = {"session_id": agent.session, "conversation_id": agent.session, "cwd": folder, "workspace_roots": [folder]}
    sent = [json.dumps({**event, **common}).encode() for event in events]
    return [(await asyncio.to_thread(agent.send, payload)).stdout.decode() for payload in sent]


SHELL = {"tool_name": "Shell", "tool_input": {"command": "npm test"}}
GEMINI_SHELL = {"tool_name": "run_shell_command", "tool_input": {"command": "npm test"}}
SESSIONS = {
    "cursor": [
        cursor("sessionStart", is_background_agent=False, composer_mode="agent"),
        cursor("beforeSubmitPrompt", prompt="Why is the checkout slow?", attachments=[]),
        cursor("postToolUse", **SHELL, tool_use_id="t-1", tool_output='{"exitCode":0,"stdout":"3 passed"}'),
        cursor("postToolUse", **SHELL, tool_use_id="t-1", tool_output='{"exitCode":0,"stdout":"3 passed"}'),
        cursor("postToolUseFailure", **SHELL, tool_use_id="t-2", error_message="timed out", failure_type="timeout"),
        cursor("postToolUse", tool_name="MCP:recall", tool_input={"query": "x"}, tool_use_id="t-3", tool_output="{}"),
        cursor("afterAgentResponse", text="The index was missing."),
        cursor("stop", status="completed", loop_count=0),
        cursor("sessionEnd", reason="user_close"),
    ],
    "gemini-cli": [
        gemini("SessionStart", source="startup"),
        gemini("BeforeAgent", prompt="Why is the checkout slow?"),
        gemini("AfterTool", **GEMINI_SHELL, tool_response={"llmContent": "Output: 3 passed", "returnDisplay": "ok"}),
        gemini("AfterTool", **GEMINI_SHELL, tool_response={"llmContent": "", "error": {"message": "timed out"}}),
        gemini("AfterAgent", prompt="Why is the checkout slow?", prompt_response="The index was missing."),
        gemini("SessionEnd", reason="exit"),
    ],
    "codex": [
        codex("SessionStart", source="startup"),
        codex("UserPromptSubmit", prompt="Why is the checkout slow?"),
        codex(
            "PostToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_response="3 passed", tool_use_id="t-1"
        ),
        codex("Stop", stop_hook_active=False, last_assistant_message="The index was missing."),
    ],
}
SEEN = {
    "cursor": [("command_run", "Shell"), ("error", "Shell")],
    "gemini-cli": [("command_run", "run_shell_command"), ("error", "run_shell_command")],
    "codex": [("command_run", "Bash")],
}


@pytest.mark.parametrize("host", SESSIONS)
async def test_a_session_of_another_host_is_a_session_of_observations(server: Server, agent: Agent, host: str):
    """Codex does not say that a session ended: it is closed when it has been idle."""
    agent = hosted(agent, host)
    assert set(await report(agent, *SESSIONS[host])) == {""}
    async with server.client() as client:
        await wait_for_count(client, agent, 2 + len(SEEN[host]))
        seen = await observations(client, agent)

        async def known() -> bool:
            one = await session(client, agent)
            return (one["status"], one["agent_type"]) == ("active" if host == "codex" else "ended", host)

        await wait_until(known, PATIENCE_S)
    assert [(one["kind"], one["title"]) for one in seen] == [
        ("conversation", "prompt_submit"),
        *SEEN[host],
        ("conversation", "The index was missing."),
    ]


async def test_gemini_cli_is_told_about_a_prompt_once_until_it_compresses(server: Server, agent: Agent):
    agent = asking(hosted(agent, "gemini-cli"))
    prompt = gemini("BeforeAgent", prompt=QUESTION)
    told: list[str] = []

    async def answered() -> bool:
        told.extend(await report(agent, prompt))
        return DECISION in told[-1]

    async with server.client() as client:
        await write(client, "/v1/memories", project=agent.folder.parent.name, content=DECISION)
        await wait_until(answered, PATIENCE_S)
        assert json.loads(told[-1])["hookSpecificOutput"]["hookEventName"] == "BeforeAgent"
        assert await report(agent, prompt) == [""]
        assert await report(agent, gemini("PreCompress", trigger="auto")) == [""]
        await wait_until(answered, PATIENCE_S)


async def test_codex_is_told_a_lesson_before_the_tool_and_cursor_nothing_at_a_prompt(server: Server, agent: Agent):
    async with server.client() as client:
        rule = {"project": agent.folder.parent.name, "trigger_tool": "Bash", "trigger_pattern": "push.*--force"}
        await write(client, "/v1/lessons", **rule, content=WARNING)
        told: list[str] = []

        async def answered() -> bool:
            told.extend(await report(hosted(agent, "codex"), codex("PreToolUse", **PUSH)))
            return WARNING in told[-1]

        await wait_until(answered, PATIENCE_S)
        assert json.loads(told[-1])["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
        prompt = cursor("beforeSubmitPrompt", prompt="Please force-push this, or open a pull request")
        assert await report(asking(hosted(agent._replace(session="s-2"), "cursor")), prompt) == [""]


async def test_a_refusal_is_said_where_cursor_shows_it(agent: Agent, tmp_path: Path):
    """Its hooks cannot show their user a message; what they say on stderr is in its output channel."""
    stranger = hosted(agent, "cursor")
    own = {"MNEMOLOG_SECRET": "another", "MNEMOLOG_SPOOL": str(tmp_path / "own")}
    stranger = stranger._replace(environ={**stranger.environ, **own})
    done = await asyncio.to_thread(stranger.send, json.dumps(cursor("sessionStart")).encode())
    assert done.stdout == b""
    assert b"rejects this hook's key" in done.stderr


@pytest.mark.parametrize("raw", [b"", b"no json", b"[]", b'{"hook_event_name": "Stop"}', b'"text"', b"\xff\xfe"])
async def test_what_is_no_payload_is_no_event_and_no_failure(agent: Agent, tmp_path: Path, raw: bytes):
    agent = agent._replace(environ=agent.environ | {"MNEMOLOG_SPOOL": str(tmp_path / "own")})
    done = await asyncio.to_thread(agent.send, raw)
    assert done.stdout == b""
    assert not (tmp_path / "own").exists()


async def test_agents_that_agents_start_are_not_recorded(agent: Agent, tmp_path: Path):
    changes = {
        "AGENTMEMORY_SDK_CHILD": "1",
        "MNEMOLOG_SPOOL": str(tmp_path / "own"),
        "MNEMOLOG_URL": "http://127.0.0.1:1",
    }
    child = agent._replace(environ=agent.environ | changes)
    await asyncio.to_thread(child.hook, "UserPromptSubmit", prompt="summarise this")
    assert not (tmp_path / "own").exists()


async def test_files_wait_while_the_log_is_away(broken: Server, project: str, tmp_path: Path):
    agent = cut_off(agent_of(broken, project, tmp_path))
    valkey = broken.supervisor.valkey
    assert valkey is not None
    with frozen(valkey.pid):
        await asyncio.to_thread(agent.hook, "UserPromptSubmit", prompt="hello")
        with pytest.raises(AssertionError, match="still waiting"):
            await wait_until(lambda: not agent.spooled(), 2.0)
    await wait_until(lambda: not agent.spooled(), PATIENCE_S)
    async with broken.client() as client:
        await wait_for_count(client, agent, 1)
        assert len(await observations(client, agent)) == 1


async def test_what_is_installed_is_what_runs(server: Server, agent: Agent, tmp_path: Path):
    """The command string of the settings, through the shell, as the host runs it."""
    home = tmp_path / "home of ada"
    home.mkdir()
    environ = agent.environ | {"HOME": str(home), "MNEMOLOG_URL": server.url}
    mnemolog = [sys.executable, "-m", "api.cli.main"]

    def run(*args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*mnemolog, *args], env=environ, capture_output=True, text=True, timeout=120, cwd=ROOT)

    done = await asyncio.to_thread(run, "install", "claude-code", "--yes", "--prompts")
    assert done.returncode == 0, done.stderr
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    command: str = hooks["UserPromptSubmit"][0]["hooks"][0]["command"]
    del environ["MNEMOLOG_URL"]  # it is in the command
    installed = agent._replace(command=["sh", "-c", command], environ=environ)
    await asyncio.to_thread(installed.hook, "UserPromptSubmit", prompt="hello")
    async with server.client() as client:
        await wait_for_count(client, agent, 1)
        await write(client, "/v1/memories", project=agent.folder.parent.name, content=DECISION)
    assert DECISION in await prompted(installed)
    forbidden = {**environ, "MNEMOLOG_HOOK_PROMPTS": "0"}
    assert await submit(installed._replace(session="s-2", environ=forbidden)) == ""
    assert DECISION in await prompted(installed._replace(session="s-2"))
    configured = json.loads((home / ".claude.json").read_text())["mcpServers"]["mnemolog"]
    assert configured["args"][-1] == "mcp"  # the server requires a key, which the bridge finds
    assert shutil.which(configured["command"])
    assert "`recall`" in (home / ".claude/skills/mnemolog-memory/SKILL.md").read_text()
    removed = await asyncio.to_thread(run, "uninstall", "claude-code", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("host", "settings", "event", "prompt"),
    [
        ("cursor", ".cursor/hooks.json", "beforeSubmitPrompt", cursor("beforeSubmitPrompt", prompt="hello")),
        ("gemini-cli", ".gemini/settings.json", "BeforeAgent", gemini("BeforeAgent", prompt="hello")),
        ("codex", ".codex/hooks.json", "UserPromptSubmit", codex("UserPromptSubmit", prompt="hello")),
    ],
)
async def test_what_is_installed_for_another_host_is_what_runs(
    server: Server, agent: Agent, tmp_path: Path, host: str, settings: str, event: str, prompt: dict[str, Any]
):
    environ = agent.environ | {"HOME": str(tmp_path)}
    install = [sys.executable, "-m", "api.cli.main", "install", host, "--yes"]
    done = await asyncio.to_thread(subprocess.run, install, env=environ, capture_output=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads((tmp_path / settings).read_text())["hooks"][event]
    (handler,) = entry.get("hooks", [entry])
    installed = agent._replace(command=["sh", "-c", handler["command"]])
    assert await report(installed, prompt) == [""]
    async with server.client() as client:
        await wait_for_count(client, agent, 1)
        (seen,) = await observations(client, agent)
    assert seen["data"]["prompt"] == "hello"


def checkout(folder: Path, url: str) -> Path:
    """A repository with a remote."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text(f'[remote "origin"]\n\turl = {url}\n')
    return folder


async def test_a_session_is_recorded_in_the_project_of_the_remote(server: Server, agent: Agent, project: str):
    """A worktree's, too; the spool's files for a server that is away name the same project."""
    main = checkout(agent.folder / "backend", f"git@host:{project}/backend.git")
    worktree = agent.folder / "fix"
    worktree.mkdir()
    (main / ".git/worktrees/fix").mkdir(parents=True)
    (main / ".git/worktrees/fix/commondir").write_text("../..\n")
    (worktree / ".git").write_text(f"gitdir: {main}/.git/worktrees/fix\n")
    for number, folder in enumerate((main, worktree)):
        one = agent._replace(session=f"{agent.session}-{number}", folder=folder)
        done = await asyncio.to_thread(one.hook, "SessionStart", source="startup")
        assert (done.stdout, done.stderr) == (b"", b"")
    async with server.client() as client:

        async def recorded() -> bool:
            return len(await all_pages(client, "/v1/sessions", project=f"{project}/backend")) == 2

        await wait_until(recorded, PATIENCE_S)


async def test_a_checkout_keeps_the_project_that_it_had_before_and_its_context(
    server: Server, agent: Agent, project: str
):
    """Earlier releases named it after its folder. A new clone of the same name is another project."""
    old = checkout(agent.folder / project, f"git@host:acme/{project}.git")
    started = {"status": "started", "session_id": "s-old", "project": project, "cwd": str(old / "src")}
    async with server.client() as client:
        began = await write(client, "/v1/sessions", **started)
        told = await write(client, "/v1/memories", content="The build needs Java 21.", project=project)
        # both: the folder's project is known by its session, which is in another partition
        await read(client, f"/v1/memories/{told['id']}", after=f"{began['position']},{told['position']}")
        environ = {name: value for name, value in agent.environ.items() if name != "MNEMOLOG_HOOK_CONTEXT"}
        here = agent._replace(folder=old, environ=environ)
        done = await asyncio.to_thread(here.hook, "SessionStart", source="startup")
        assert b"The build needs Java 21." in done.stdout
        new = checkout(agent.folder / "elsewhere" / project, f"git@host:umbra/{project}.git")
        there = here._replace(folder=new, session="s-new")
        done = await asyncio.to_thread(there.hook, "SessionStart", source="startup")
        assert b"Java" not in done.stdout
        await asyncio.to_thread(here.hook, "UserPromptSubmit", prompt="Which Java?")

        async def recorded() -> bool:
            names = [await all_pages(client, "/v1/sessions", project=one) for one in (project, f"umbra/{project}")]
            return [len(name) for name in names] == [2, 1]

        await wait_until(recorded, PATIENCE_S)


async def test_two_folders_without_a_remote_that_share_a_project_are_told_once(
    server: Server, agent: Agent, project: str
):
    one, other = (agent._replace(folder=agent.folder / who / project, session=f"s-{who}") for who in ("a", "b"))
    for each in (one, other):
        (each.folder / ".git").mkdir(parents=True)
    done = await asyncio.to_thread(one.hook, "SessionStart", source="startup")
    assert b"MNEMOLOG_PROJECT" in done.stderr
    async with server.client() as client:

        async def recorded() -> bool:
            return len(await all_pages(client, "/v1/sessions", project=project)) == 1

        await wait_until(recorded, PATIENCE_S)
    told = [await asyncio.to_thread(other.hook, "SessionStart", source="startup") for _ in range(2)]
    message = json.loads(told[0].stdout)["systemMessage"]
    assert str(one.folder) in message
    assert "MNEMOLOG_PROJECT" in message
    assert [each.stdout for each in told[1:]] == [b""]
