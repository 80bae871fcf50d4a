"""Every Python example runs as its docstring says, against a real server; a stub stands for the model."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.running import SECRET, Server
from tests.clients.python.stub import Reply, Stub
from tests.ring.frameworks.test_frameworks import EXAMPLES
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
RUN = {"quickstart", "mcp_client", "agent_loop", "tool_calling_agent", "mcp_host"}
"""Those that are run as programs."""


def environment(server: Server) -> dict[str, str]:
    """With which an example finds the server, and the packages."""
    given = {"PYTHONPATH": os.pathsep.join(sys.path), "MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET}
    return {**os.environ, **given}


def run(server: Server, name: str, *arguments: str, **variables: str) -> str:
    """What an example prints; it must succeed."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    variables = {**environment(server), **variables}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def says(content: str) -> Reply:
    """A message of the model."""
    return Reply({"choices": [{"message": {"role": "assistant", "content": content}}]})


def calls(name: str, **arguments: Any) -> Reply:
    """A model that wants a tool called."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return Reply({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]})


def handed_back(stub: Stub) -> list[str]:
    """What the tools answered, as the model was told."""
    return [one["content"] for one in stub.received[-1].body["messages"] if one["role"] == "tool"]


def test_every_example_is_run():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == RUN | EXAMPLES.keys()


@pytest.mark.parametrize("name", sorted(RUN))
def test_an_example_without_a_server_says_how_to_start_one(name: str):
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MNEMOLOG_URL": f"http://127.0.0.1:{free_port()}",
    }
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"], env=variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Start a server with `mnemolog up`" in done.stderr


def test_the_quickstart_recalls_what_it_wrote(server: Server):
    assert "We release on Tuesdays" in run(server, "quickstart")


def test_the_mcp_client_recalls_what_it_remembered(server: Server):
    said = run(server, "mcp_client")
    assert "tools: " in said
    assert "staging database is reset" in said


def test_the_agent_loop_learns_from_its_first_session(server: Server, tmp_path: Path):
    first = run(server, "agent_loop", TMPDIR=str(tmp_path))
    assert "to do: ['Repair: tests']" in first
    assert "1 failed, 12 passed" in first.rsplit("observed:", 1)[1]
    second = run(server, "agent_loop", TMPDIR=str(tmp_path))
    assert "careful: Start the database before the tests." in second
    assert "The tests need the staging database." in second.split("python:")[0]


def test_the_tool_calling_agent_remembers_for_its_next_session(server: Server, stub: Stub):
    fact = "We deploy on Tuesdays."
    stub.answers.extend([calls("recall", query="when do we deploy?"), calls("remember", content=fact), says("Noted.")])
    variables = {"OPENAI_BASE_URL": f"{stub.url}/v1"}
    assert "answer: Noted." in run(server, "tool_calling_agent", **variables)
    assert handed_back(stub)[0] == "nothing is known"
    assert {one["function"]["name"] for one in stub.received[0].body["tools"]} == {"recall", "remember", "confirm"}
    stub.answers.extend([calls("recall", query="when do we deploy?"), calls("nonsense"), says("On Tuesdays.")])
    assert "answer: On Tuesdays." in run(server, "tool_calling_agent", "When do we deploy?", **variables)
    recalled, refused = handed_back(stub)
    assert fact in recalled
    assert refused.startswith("error: ")
    assert fact in stub.received[-1].body["messages"][0]["content"]


def test_the_mcp_host_offers_the_servers_tools_to_the_model(server: Server, stub: Stub):
    said = {"project": "mcp-host", "content": "The cluster is drained on Sundays."}
    stub.answers.extend(
        [
            calls("remember", **said),
            calls("recall", project="mcp-host", query="when is the cluster drained?"),
            says("Sundays."),
        ]
    )
    assert "answer: Sundays." in run(server, "mcp_host", OPENAI_BASE_URL=f"{stub.url}/v1")
    assert {"recall", "remember"} <= {one["function"]["name"] for one in stub.received[0].body["tools"]}
    assert "drained on Sundays" in handed_back(stub)[1]
