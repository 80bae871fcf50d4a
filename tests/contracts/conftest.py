"""Servers with every dialect's port, as the clients of four other systems find them: no secret.

The suites here are black boxes: they speak HTTP, WebSocket, MCP and stdio to the server and know nothing of its parts.
`@pytest.mark.covers("POST /agentmemory/observe")` says which endpoint a test is about; docs/compatibility.md is made
from that.

An MCP server that is a process: one JSON text a line, in and out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import uuid4

import pytest
from together import Together

from tests.acceptance.running import Doors, every_dialect

ROOT = Path(__file__).parents[2]
PATIENT_S = 60
MAIN = "from api.cli.main import main; main()"


class Called(NamedTuple):
    """What a tool answered."""

    failed: bool
    text: str
    structured: dict[str, Any] | None


class Stdio:
    """`mnemolog mcp` with a profile, seen from its two pipes."""

    def __init__(self, stdin: IO[str], stdout: IO[str]) -> None:
        self.stdin, self.stdout, self.number = stdin, stdout, 0

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self._line({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request; the whole answer."""
        self.number += 1
        self._line({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        answer = json.loads(self.stdout.readline())
        assert answer["id"] == self.number, answer
        return answer

    def hello(self, version: str = "2024-11-05") -> dict[str, Any]:
        """Open the session; what the server says of itself."""
        answer = self.ask(
            "initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "test", "version": "1"}
        )
        self.tell("notifications/initialized")
        return answer["result"]

    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools by name."""
        return {tool["name"]: tool for tool in self.ask("tools/list")["result"]["tools"]}

    def call(self, tool: str, **arguments: Any) -> Called:
        """Call a tool; its answer is exactly one text."""
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        (content,) = result["content"]
        assert content["type"] == "text"
        return Called(result.get("isError", False), content["text"], result.get("structuredContent"))

    def _line(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message) + "\n")
        self.stdin.flush()


@contextmanager
def bridge(profile: str, url: str) -> Generator[Stdio]:
    """The process for a profile, connected to the server at `url`; not yet initialized."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MNEMOLOG_")}
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "mcp", "--profile", profile],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**environment, "MNEMOLOG_URL": url, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    try:
        yield Stdio(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait(PATIENT_S) == 0
    finally:
        process.kill()
        process.wait(PATIENT_S)
        process.stdout.close()


PAGE, EXTENSION = "http://ui.example", "vscode-webview://1a2b"
"""Origins whose pages can call the configured server."""


@pytest.fixture(scope="session")
def doors(cache_dir: Path, together: Together) -> Doors:
    """The server of all suites; every test keeps to names of its own."""
    return together(every_dialect(cache_dir, secret=None, partitions=8))


@pytest.fixture(scope="session")
def configured(cache_dir: Path, together: Together) -> Doors:
    """A server without an embedder and with other settings than the default; tests may freeze its processes.

    Nothing is written to it that belongs to no project.
    """
    changes: dict[str, Any] = {
        "embedder": "none", "partitions": 2, "observations_per_session": 3,
        "allowed_origins": (PAGE, "http://other.example:8080", EXTENSION), "agentd_strict": True,
        "memex_mcp_hosts": ("memex.example",), "memex_writes_per_minute": 999_999, "memex_searches_per_minute": 999_999,
        "condense_every": 1,
    }  # fmt: skip
    return together(every_dialect(cache_dir, secret=None, **changes))


@pytest.fixture(scope="session")
def mcp(doors: Doors) -> Iterator[Stdio]:
    """agent-memory's MCP server, which is a process, initialized."""
    with bridge("agent-memory", doors.agentmemory) as server:
        server.hello()
        yield server


@pytest.fixture
def name() -> str:
    """A name that no other test knows: for sessions, projects, agents."""
    return f"n{uuid4().hex[:12]}"
