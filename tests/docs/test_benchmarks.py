"""Every benchmark starts as its page and its own text say, from a checkout and with nothing set."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "benchmarks/README.md").read_text()
HELPERS = {"load", "wire"}
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem not in HELPERS)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_starts_by_the_command_that_is_written(name: str):
    written = f"python -m benchmarks.{name}"
    assert re.search(rf"^    {re.escape(written)}\b", PAGE, re.MULTILINE)
    command = [sys.executable, *written.split()[1:], "--help"]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"    {written}" in done.stdout
