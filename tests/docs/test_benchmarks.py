"""Every benchmark starts as its page and its own text say, from a checkout and with nothing set."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "benchmarks/README.md").read_text()
HELPERS = {"corpus", "driving", "hello", "ranking_pools", "stack", "table", "wire"}
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem not in HELPERS)
# One process for all of them, so that what they share is imported once.
HELP_OF_ALL = """
import contextlib, runpy, sys
for path in sys.argv[1:]:
    sys.argv = [path, "--help"]
    with contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
        print("no help:", path, file=sys.stderr)
"""


def test_every_benchmark_starts_by_the_command_that_is_written():
    command = [sys.executable, "-c", HELP_OF_ALL, *(f"benchmarks/{name}.py" for name in NAMES)]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    for name in NAMES:
        assert re.search(rf"^    python -m benchmarks\.{name}\b", PAGE, re.MULTILINE), name
        assert f"    python -m benchmarks.{name}" in done.stdout
