"""Every benchmark is on the page of benchmarks, and starts from a checkout with nothing set."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "benchmarks/README.md").read_text()


def test_the_page_has_every_benchmark_that_the_runner_lists_with_its_question():
    command = [sys.executable, "-m", "benchmarks", "--list"]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    listed = re.findall(r"^(\w+) \(benchmarks/[\w/]+\.py\): (.+)$", done.stdout, re.MULTILINE)
    assert listed
    assert re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE, re.MULTILINE) == listed


def test_every_benchmark_that_another_page_names_is_there():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, env={}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for name in re.findall(r"python -m benchmarks ([a-z_]+)", path.read_text()):
            assert name == "all" or re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE), (path, name)
