"""The commands on documents, as a person types them: what they print, what they change, how they exit."""

import json
from typing import Any

import pytest
from waiting import wait_until

from tests.acceptance.running import Server
from tests.support.commands import run


class Cli:
    """The command line of somebody who works on one project."""

    def __init__(self, server: Server, project: str, key: str = "") -> None:
        self.project = project
        self.variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": key or server.secret, "COLUMNS": "120"}

    def __call__(self, *arguments: str, code: int = 0, text: str = "") -> str:
        """What a command prints for people; it must exit with `code`."""
        done = run(self.variables, *arguments, text=text)
        assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def json(self, *arguments: str, code: int = 0, text: str = "") -> Any:
        """What it prints for scripts: one JSON document and nothing else."""
        done = run(self.variables, *arguments, "--json", text=text)
        assert (done.returncode, done.stderr) == (code, ""), f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    async def seen(self, *arguments: str) -> Any:
        """The answer of a reading command as soon as it exits 0: what was just written is projected by then."""
        found: list[Any] = []

        def answers() -> bool:
            done = run(self.variables, *arguments, "--json")
            found[:] = [json.loads(done.stdout)]
            return done.returncode == 0

        await wait_until(answers)
        return found[0]


@pytest.fixture
def cli(server: Server, project: str) -> Cli:
    return Cli(server, project)


async def test_a_session_is_shown_with_its_turns_and_an_observation_with_its_input_and_output(cli: Cli):
    data = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_output": "14 passed"}
    seen = cli.json("observe", "", "-p", cli.project, "-s", "night-shift", "--data", json.dumps(data))
    sessions = await cli.seen("sessions", "--project", cli.project)
    assert [one["id"] for one in sessions["items"]] == ["night-shift"]
    session = cli.json("sessions", "show", "night-shift", "-p", cli.project)
    assert [one["id"] for one in session["turns"]["items"]] == [seen["id"]]
    assert session["summary"] is None
    told = cli("sessions", "show", "night-shift", "-p", cli.project)
    assert "make test" in told
    assert seen["id"] in told
    observation = cli("show", seen["id"])
    told_input, told_output = observation.index("\ninput"), observation.index("\noutput")
    assert told_input < observation.index("make test", told_input) < told_output < observation.rindex("14 passed")
    assert "night-shift" in cli("show", "night-shift", "-p", cli.project)
    assert "no session" in cli("show", f"{cli.project}-nobody", code=1)


async def test_a_context_is_printed_as_an_agent_gets_it(cli: Cli):
    kept = cli.json("remember", "money is kept in integer cents", "-p", cli.project)
    found = run(cli.variables, "recall", "money?", "-p", cli.project, "--after", kept["position"], "--json")
    assert found.returncode == 0, found.stderr
    told = run(cli.variables, "context", "-p", cli.project, "--tokens", "500")
    assert told.stdout.startswith(f'<mnemolog-context project="{cli.project}">\n')
    assert "integer cents" in told.stdout
    assert "of 500 tokens" in told.stderr
    assert cli.json("context", "-p", cli.project, "--tokens", "500")["context"] == told.stdout.rstrip("\n")
