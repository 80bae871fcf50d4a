"""One memory under test: its processes, and its HTTP API as an adapter describes it. Needs only Python."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

STARTS_WITHIN_S, AGREES_WITHIN_S = 180, 30
"""Seconds for a start or an answer, and until all reads show a write, or none a deleted document."""


class Memory:
    """A memory with its data in an empty folder. Placeholders of its adapter are replaced in every request."""

    def __init__(self, adapter: Mapping[str, Any], folder: Path, url: str = "") -> None:
        """Without a URL, a free port of this machine is used."""
        self.adapter, self._log = adapter, folder / "server.log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            url = url or f"http://127.0.0.1:{free.getsockname()[1]}"
        self.values = {
            "url": url, "port": url.split(":")[-1], "folder": str(folder),
            "python": sys.executable, "kit": str(Path(__file__).parent),
        }  # fmt: skip
        self._process: Any = None

    def start(self) -> None:
        """Start it with the data in its folder; returns when it answers. Raises RuntimeError if it does not."""
        described = self.filled(self.adapter)
        environment = {**os.environ, **described.get("environment", {})}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(shlex.split(described["command"]), env=environment, stdout=log, stderr=log)
        eventually(lambda: self._process.poll() is not None or self._is_ready(), STARTS_WITHIN_S)
        if not self._is_ready():
            raise RuntimeError(f"the memory does not start: {self._log.read_text(errors='replace')[-500:]}")
        for name in described.get("setup", {}):
            self.values[name] = self.call("setup", name)

    def kill(self) -> None:
        """Send SIGKILL to all its processes, and wait until they have ended."""
        pids = [*_with_descendants(self._process.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def call(self, *operation: str, **values: str) -> Any:
        """Make a request that the adapter describes; returns what is at the operation's `answer` in the response.

        Raises OSError for a status of 300 or more and for a lost connection, KeyError for an operation that the adapter
        does not have.
        """
        described = self.filled(self.adapter, **values)
        for name in operation:
            described = described[name]
        method, path = described["request"].split(" ", 1)
        headers = {"Content-Type": "application/json", **described.get("headers", {})}
        body = json.dumps(described["body"]).encode() if "body" in described else None
        request = urllib.request.Request(self.values["url"] + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=STARTS_WITHIN_S) as response:
            answer = response.read()
        answer = json.loads(answer) if "answer" in described else answer.decode()
        for name in described.get("answer", "").split("."):
            answer = answer.get(name) if name else answer
        return answer

    def run(self, name: str, **values: str) -> None:
        """Run the adapter's command of this name. Raises RuntimeError if it fails, KeyError if there is none."""
        done = subprocess.run(shlex.split(self.filled(self.adapter, **values)[name]), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stdout[-200:]} {done.stderr[-300:]}")

    def filled(self, template: Any, **values: str) -> Any:
        """Return a template with its placeholders, such as `{text}`, replaced."""
        text = json.dumps(template)
        for name, value in {**self.values, **values}.items():
            text = text.replace(f"{{{name}}}", value)
        return json.loads(text)

    def _is_ready(self) -> bool:
        with suppress(OSError):
            self.call("ready")
            return True
        return False


def eventually(condition: Callable[[], bool], within_s: float = AGREES_WITHIN_S) -> bool:
    """Return whether a condition becomes true in time."""
    end = time.monotonic() + within_s
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return holds


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _with_descendants(int(child))
