"""Sessions of the real Claude Code with the plugin, a real server and a model that plays a script."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.asking import read, write
from tests.acceptance.running import SECRET, Server
from tests.ring.hosts.programs import CLAUDE, NEEDS_PROGRAMS, PLUGIN, ROOT, Host
from tests.ring.hosts.scripted_model import ScriptedModel, Turn

pytestmark = NEEDS_PROGRAMS
WARNING = "Run make migrate before make deploy, because the new code does not start with the old tables."
DEPLOY = Turn(calls=[("Bash", {"command": "make deploy", "description": "Deploy"})])
DONE = Turn("Done.")
RAN = "(Bash completed with no output)"

Agent = Callable[..., Host]


@pytest.fixture
def workspace(tmp_path: Path, project: str) -> Path:
    """The folder of a project whose `make deploy` leaves a file."""
    folder = tmp_path / project
    folder.mkdir()
    (folder / "Makefile").write_text("deploy:\n\t@echo run >> deployed\n")
    return folder


@pytest.fixture
def agent(server: Server, tmp_path: Path, workspace: Path, project: str) -> Agent:
    """Claude Code with the plugin, for a model: `agent(model, MNEMOLOG_LESSONS="advise")`."""
    variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_KEY": SECRET, "MNEMOLOG_PROJECT": project}
    variables["MNEMOLOG_SPOOL"] = str(server.supervisor.settings.spool)
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
