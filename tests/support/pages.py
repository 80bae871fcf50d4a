"""The code blocks of the documentation: what each is, how it is run, and how its output is compared.

A block is run because of its language, or says by a comment on the line before it what else it is:

    <!-- not run: REASON -->             it is not run, and why
    <!-- in the background -->           it starts a server, which runs until the page ends
    <!-- output -->                      what the block before it prints; `…` and `...` stand for anything
    <!-- answer: METHOD PATH STATUS -->  an answer, as the server's OpenAPI document describes it
    <!-- written: FILE, FILE -->         what `mnemolog install` writes there; tests/docs/test_hosts.py compares it
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "clients/python/README.md",
    ROOT / "skills/mnemolog/SKILL.md",
]  # fmt: skip
WITHOUT_SERVER = {"not run", "written"}
"""Kinds of blocks that no server is needed for."""
FENCE = re.compile(
    r"^(?: *<!-- (?P<mark>.*) -->\n)?(?P<indent> *)```(?P<language>\S*).*\n(?P<text>(?:.*\n)*?)(?P=indent)```$",
    re.MULTILINE,
)
SETTING = re.compile(r"[A-Z_]+=\S*")
ANYTHING = re.compile(r"…|\.\.\.")
TIMEOUT_S = 120


class Block(NamedTuple):
    """A code block, and what the line before it says of it."""

    page: str
    line: int
    language: str
    mark: str
    text: str

    @property
    def kind(self) -> str:
        """How it is checked; empty where nothing would, and nothing says why not."""
        marked, _, reason = self.mark.partition(":")
        if marked in ("not run", "answer", "written"):
            return marked if reason.strip() else ""
        if self.mark in ("output", "in the background"):
            return self.mark
        if self.language == "json" and '"mcpServers"' in self.text:
            return "mcp servers"
        if self.language == "sh" and all(SETTING.fullmatch(line) for line in self.text.splitlines()):
            return "settings"
        return self.language if self.language in ("sh", "python") else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(text: str, page: str = "") -> Iterator[Block]:
    """The code blocks of a page's text, in their order."""
    for result in FENCE.finditer(text):
        code = re.sub(rf"^{result['indent']}", "", result["text"], flags=re.MULTILINE)
        line = text[: result.start("indent")].count("\n") + 1
        yield Block(page, line, result["language"], result["mark"] or "", code)


class Shell:
    """Runs blocks one after the other, in one folder, for the server at a URL; variables go on to the next block."""

    def __init__(self, folder: Path, url: str, environment: Mapping[str, str], standing_for: Mapping[str, str]) -> None:
        self.url = url
        self._folder = folder
        place = httpx.URL(url).netloc.decode()
        self._replaced = {"127.0.0.1:3111": place, "localhost:3111": place, **standing_for}
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("MNEMO", "REDIS_URL", "XDG_"))
            },
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HOME": str(folder),
            "MNEMOLOG_URL": url,
            "COLUMNS": "120",
            **environment,
        }

    def text(self, block: Block) -> str:
        """The block with what stands in it for this server."""
        text = block.text
        for written, meant in self._replaced.items():
            text = text.replace(written, meant)
        return text

    def run(self, block: Block) -> str:
        """What a block prints; it must succeed, and what it started ends with it."""
        if block.language == "python":
            command = [sys.executable, "-W", "error", "-c", self.text(block)]
        else:
            state = self._folder / ".variables"
            state.touch()
            script = f"set -euo pipefail; set -a; . {state}\n{self.text(block)}\nexport -p > {state}"
            command = ["bash", "-c", script]
        running = subprocess.Popen(
            command, cwd=self._folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            printed, _ = running.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # a server among it would go on with the server of these tests
            running.communicate()
            raise
        assert running.returncode == 0, f"{block} ended with {running.returncode}:\n{printed}"
        return printed

    def start(self, block: Block) -> subprocess.Popen[bytes]:
        """A block that goes on running; what it prints is in the file `output` of the folder."""
        with (self._folder / "output").open("wb") as output:
            return subprocess.Popen(
                ["bash", "-c", f"exec {self.text(block)}"], cwd=self._folder, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip


def matches(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed. Spaces and ends of lines may differ; `…` and `...` stand for anything."""
    parts = [re.escape("".join(part.split())) for part in ANYTHING.split(shown)]
    return re.fullmatch(".*?".join(parts), "".join(printed.split()), re.DOTALL) is not None


def answer_schema(document: Mapping[str, Any], block: Block) -> dict[str, Any]:
    """The schema of the answer that a block shows, closed: a field that it does not name does not fit."""
    method, path, status = block.mark.removeprefix("answer:").split()
    (media,) = document["paths"][path][method.lower()]["responses"][status]["content"].values()
    return _closed({**media["schema"], "components": document["components"]})


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(property_) for property_ in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(property_) for name, property_ in cast("dict[str, Any]", schema).items()}
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
