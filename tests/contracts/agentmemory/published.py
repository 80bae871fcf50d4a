"""agentmemory's published clients, installed once, and run as their users run them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
