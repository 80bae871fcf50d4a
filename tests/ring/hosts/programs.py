"""The programs of coding agents, as `make host-tests` installs them."""

import os
import subprocess
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = Path(__file__).with_name("node_modules")
CLAUDE, CODEX = "@anthropic-ai/claude-code/cli-wrapper.cjs", "@openai/codex/bin/codex.js"
GEMINI = "@google/gemini-cli/bundle/gemini.js"
PLUGIN = "mnemolog@mnemolog"
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"}
NEEDS_PROGRAMS = [
    pytest.mark.skipif(not (PACKAGES / ".installed").exists(), reason="`make host-tests` has not run, or failed"),
    pytest.mark.timeout(180),
]


class Printed(NamedTuple):
    """What a program printed."""

    stdout: str
    stderr: str


class Host:
    """A program in a home folder of its own; `folder` is where it works."""

    def __init__(self, program: str, home: Path, folder: Path | None = None, **variables: str) -> None:
        self._command, self._folder = ("node", str(PACKAGES / program)), folder or home
        self._environ = {"HOME": str(home), "PATH": os.environ["PATH"], **QUIET, **variables}

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start it, with pipes."""
        options: Any = {"cwd": self._folder, "env": self._environ, "stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
        return subprocess.Popen([*self._command, *map(str, words)], text=True, **options)

    def run(self, *words: str | Path) -> Printed:
        """What it prints; it must succeed."""
        with self.start(*words) as process:
            printed = Printed(*process.communicate(timeout=90))
        assert process.returncode == 0, printed
        return printed
