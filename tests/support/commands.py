"""Commands of `mnemolog`, as a person starts them, and what they answered."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from api.cli.main import main

ROOT = Path(__file__).parents[2]
PROCESSES = ("up", "api", "worker")
"""Commands that run until they are stopped: each in a process of its own."""
PATIENT_S = 60.0


def environment(**variables: str) -> dict[str, str]:
    """This process's environment with no settings of mnemolog's but these, and no project of the folder."""
    fields = {name: value for name, value in os.environ.items() if name != "REDIS_URL" and not name.startswith("MNEMO")}
    return {**fields, "MNEMOLOG_PROJECT": "", **variables}


def command_line(*arguments: str) -> list[str]:
    """`mnemolog` with these arguments, from this source tree."""
    return [sys.executable, "-m", "api.cli.main", *arguments]


def run(variables: Mapping[str, str], *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end; within this process where it can be, which saves a second of imports."""
    if arguments[0] not in PROCESSES:
        with ThreadPoolExecutor(1) as thread:  # the test may have an event loop of its own
            return thread.submit(_run_here, environment(**variables), arguments, text).result()
    return subprocess.run(
        command_line(*arguments), env=environment(**variables), cwd=ROOT, input=text, capture_output=True, text=True,
        timeout=PATIENT_S, check=False,
    )  # fmt: skip


def _run_here(variables: Mapping[str, str], arguments: tuple[str, ...], text: str) -> subprocess.CompletedProcess[str]:
    stdin, stdout, stderr = (
        io.TextIOWrapper(io.BytesIO(start), encoding="utf-8") for start in (text.encode(), b"", b"")
    )
    code: object = 0
    with (
        patch.dict(os.environ, variables, clear=True),
        patch.object(sys, "argv", ["mnemolog", *arguments]),
        patch.object(sys, "stdin", stdin),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    written = [_written(stream) for stream in (stdout, stderr)]
    return subprocess.CompletedProcess(arguments, code if isinstance(code, int) else 1, *written)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
