"""Sessions of real programs with the plugin, a real server and a model that plays a script."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from waiting import wait_until

from projections.text.tokens import BYTES_PER_TOKEN
from tests.acceptance.asking import read, write
from tests.acceptance.running import SECRET, Server
from tests.ring.hosts.programs import CLAUDE, CODEX, NEEDS_PROGRAMS, PLUGIN, ROOT, Host
from tests.ring.hosts.scripted_model import ModelRequest, ScriptedModel, Turn

pytestmark = NEEDS_PROGRAMS
WARNING = "Run make migrate before make deploy, because the new code does not start with the old tables."
DEPLOY = Turn(calls=[("Bash", {"command": "make deploy", "description": "Deploy"})])
DONE = Turn("Done.")
DECISIONS = (
    "We decided to use an index on tenant and creation time, because a cache could not be invalidated.",
    "We decided on three retries with exponential backoff, because the provider blocks clients after five.",
)
OPEN_WORK = ("migration 0042 has to run on production.", "the sandbox credentials have to be rotated.")
WORK = [
    Turn(f"The user list reads from an index now. {DECISIONS[0]} Still open: {OPEN_WORK[0]}"),
    Turn(f"The payments client retries now. {DECISIONS[1]} Still open: {OPEN_WORK[1]}"),
]
SUMMARY = "The user asked for a fast list and for retries."
RAN = "(Bash completed with no output)"

Agent = Callable[..., Host]


@pytest.fixture
def workspace(tmp_path: Path, project: str) -> Path:
    """The folder of a project whose `make deploy` leaves a file."""
    folder = tmp_path / project
    folder.mkdir()
    (folder / "Makefile").write_text("deploy:\n\t@echo run >> deployed\n")
    return folder


def variables_of(server: Server, project: str) -> dict[str, str]:
    """The environment with which hooks reach the server."""
    spool = str(server.supervisor.settings.spool)
    return {"MNEMOLOG_URL": server.url, "MNEMOLOG_KEY": SECRET, "MNEMOLOG_PROJECT": project, "MNEMOLOG_SPOOL": spool}


@pytest.fixture
def agent(server: Server, tmp_path: Path, workspace: Path, project: str) -> Agent:
    """Claude Code with the plugin, for a model: `agent(model, MNEMOLOG_LESSONS="advise")`."""
    variables = variables_of(server, project)
    claude = Host(CLAUDE, tmp_path, workspace, **variables)
    claude.run("plugin", "marketplace", "add", ROOT)
    claude.run("plugin", "install", PLUGIN)

    def with_model(model: ScriptedModel, **more: str) -> Host:
        api = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
        return Host(CLAUDE, tmp_path, workspace, **variables, **api, **more)

    return with_model


def deployments(workspace: Path) -> int:
    """How often `make deploy` ran."""
    log = workspace / "deployed"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def run_session(agent: Agent, model: ScriptedModel, *words: str, **variables: str) -> None:
    """Run a session with one prompt to its end."""
    await asyncio.to_thread(agent(model, **variables).run, "-p", *words, "--allowedTools", "Bash,Agent")


async def warn(client: httpx.AsyncClient, project: str) -> None:
    """Store a lesson about `make deploy`, and return when it matches."""
    trigger = {"trigger_tool": "Bash", "trigger_pattern": "make deploy"}
    await write(client, "/v1/lessons", project=project, content=WARNING, severity="warning", **trigger)
    call = {"project": project, "tool_name": "Bash", "preview": "make deploy Deploy"}

    async def matches() -> bool:
        return bool((await read(client, "/v1/lessons/match", **call))["items"])

    await wait_until(matches)


async def test_command_with_a_warning_runs_only_when_the_model_repeats_it_after_reading_the_warning(
    server: Server, agent: Agent, workspace: Path, project: str
):
    async with server.client() as client:
        await warn(client, project)
    with ScriptedModel(DEPLOY, DEPLOY, DONE) as model:
        await run_session(agent, model, "Deploy it")
    first, second = [request.result for request in model.requests[1:]]
    assert f"- (warning) {WARNING}" in first
    assert "The call did not run." in first
    assert second == RAN
    assert deployments(workspace) == 1


async def test_command_with_a_warning_runs_at_once_if_lessons_only_advise(
    server: Server, agent: Agent, workspace: Path, project: str
):
    async with server.client() as client:
        await warn(client, project)
    with ScriptedModel(DEPLOY, DONE) as model:
        await run_session(agent, model, "Deploy it", MNEMOLOG_LESSONS="advise")
    request = model.requests[1]
    assert request.result == RAN
    assert f"- (warning) {WARNING}" in request.text
    assert deployments(workspace) == 1


async def work(server: Server, agent: Agent, model: ScriptedModel, project: str) -> None:
    """Run the session of WORK, with a lesson and a memory, and return when a context has its end."""
    async with server.client() as client:
        await warn(client, project)
        await write(client, "/v1/memories", project=project, content="Money is stored as integer cents.")
        await run_session(agent, model, "Make the user list fast")
        await run_session(agent, model, "Give the payments client retries", "--continue")

        async def is_recorded() -> bool:
            return OPEN_WORK[-1] in (await client.post("/v1/context", json={"project": project})).json()["context"]

        await wait_until(is_recorded)


def first_tokens(request: ModelRequest) -> str:
    """The first 400 tokens of the only context that the model reads."""
    assert request.text.count("<mnemolog-memory>") == 1
    context = request.text.partition("<mnemolog-memory>")[2].encode()
    return context[: 400 * BYTES_PER_TOKEN].decode(errors="ignore")


def assert_continues(request: ModelRequest) -> None:
    """The model reads its own decisions, open work and the warning after the summary of the compacted session."""
    assert SUMMARY in request.text
    assert "Give the payments client retries" not in request.text.partition("<mnemolog-memory>")[0]
    assert all(text in first_tokens(request) for text in (*DECISIONS, *OPEN_WORK, f"- warning: {WARNING}"))


async def test_after_compact_command_the_context_of_the_session_comes_with_the_next_prompt(
    server: Server, agent: Agent, project: str
):
    with ScriptedModel(*WORK, Turn(f"<summary>{SUMMARY}</summary>"), DONE) as model:
        await work(server, agent, model, project)
        await run_session(agent, model, "/compact", "--continue")
        await run_session(agent, model, "What is next?", "--continue")
    assert_continues(model.requests[-1])


async def test_after_automatic_compaction_the_context_of_the_session_comes_before_the_next_turn(
    server: Server, agent: Agent, project: str
):
    almost_full = Turn(calls=[("Bash", {"command": "true"})], window_tokens=190_000)
    with ScriptedModel(*WORK, almost_full, Turn(f"<summary>{SUMMARY}</summary>"), DONE) as model:
        await work(server, agent, model, project)
        await run_session(agent, model, "What is next?", "--continue", CLAUDE_CODE_AUTO_COMPACT_WINDOW="200000")
    assert_continues(model.requests[-1])


async def test_subagent_reads_memories_about_its_task_before_it_begins(server: Server, agent: Agent, project: str):
    task = "Find the retry limit of the payments client"
    limit = "The payments client has a retry limit of three, because the provider blocks clients after five."
    call = {"description": "Find a limit", "prompt": task, "subagent_type": "Explore", "run_in_background": False}
    async with server.client() as client:
        memory = await write(client, "/v1/memories", project=project, content=limit)
        about = {"project": project, "query": task, "after": memory["position"]}
        assert limit in (await client.post("/v1/context", json=about)).json()["context"]
    with ScriptedModel(Turn(calls=[("Agent", call)]), Turn("It is three."), DONE) as model:
        await run_session(agent, model, "What is the limit?")
    subagent, main = model.requests[1:]
    assert task in subagent.text
    assert limit in subagent.text.partition("## About your query\n")[2].partition("\n")[0]
    assert "About your query" not in main.text
    assert "It is three." in main.result


CODEX_CONFIG = """
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
"""


async def test_codex_runs_a_command_with_a_warning_only_when_the_model_repeats_it_after_reading_the_warning(
    server: Server, tmp_path: Path, workspace: Path, project: str
):
    codex = Host(CODEX, tmp_path, workspace, **variables_of(server, project))
    config = tmp_path / ".codex/config.toml"
    config.parent.mkdir()
    deploy = Turn(calls=[("exec_command", {"cmd": "make deploy"})])
    async with server.client() as client:
        await warn(client, project)
    with ScriptedModel(deploy, deploy, DONE) as model:
        config.write_text(CODEX_CONFIG.format(url=model.url))
        codex.run("plugin", "marketplace", "add", ROOT)
        codex.run("plugin", "add", PLUGIN)
        trust = ("--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust")
        await asyncio.to_thread(codex.run, "exec", "--skip-git-repo-check", *trust, "Deploy it")
    first, second = [request.result for request in model.requests[1:]]
    assert f"- (warning) {WARNING}" in first
    assert "The call did not run." in first
    assert "Process exited with code 0" in second
    assert deployments(workspace) == 1
