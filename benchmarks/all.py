"""Every figure of the table, from one command, with the raw limit of the same run beside it.

    python -m benchmarks.all [--only NAME...] [--quick] [--long] [--locomo PATH] [--agentwork PATH] [--beam PATH]

Each benchmark is a command of its own, and is run against a server of its own on a free port, with its data in a folder
that is deleted afterwards; nothing else should run on the machine. Results go to `--out FOLDER` as `results.json`, for
`python -m benchmarks.plot`; `--json` prints them instead of the table. `--quick` shows in minutes that all of it works:
its figures are not to be quoted. `--long` adds recall at ten times the documents. `make bench` runs it, with
`ARGS="..."`.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.corpus import SEED
from benchmarks.stack import Stack
from benchmarks.table import HEADS, cells, texts

ROOT = Path(__file__).parents[1]
URL, REDIS = "--url {url}", "--url {url} --redis-url {redis_url}"
QUIET: dict[str, str] = {}
ONE_WORKER = {"workers": "1"}
REBUILDING = {"embedder": "none", "log_level": "info"}
MEMEX = {"drop_in": "memex", "RATE_LIMIT_WRITES_PER_MINUTE": "999999", "RATE_LIMIT_SEARCHES_PER_MINUTE": "999999"}


class Benchmark(NamedTuple):
    """A command: its module, its options, and those of a quick run.

    `server` are the options that tell it of a server, which is set up by `settings`; without them it starts its own.
    """

    module: str
    options: str
    quick: str
    server: str = URL
    settings: dict[str, str] = QUIET


BENCHMARKS = {
    "meaning": Benchmark("meaning", "--rate 3000 --seconds 60", "--rate 3000 --seconds 5 --sample 100"),
    "backlog": Benchmark("backlog", "--events 100000", "--events 15000", settings=ONE_WORKER),
    "projection": Benchmark("projection", "--events 100000", "--events 15000", ""),
    "rebuild_rate": Benchmark(
        "rebuild_rate", "--events 500000", "--events 20000", REDIS + " --api-log {folder}/data/logs/api.log", REBUILDING
    ),
    "embedding": Benchmark("embedding", "", "--texts 200 --rounds 2", REDIS),
    "recall": Benchmark("recall", "", "--documents 5000 --questions 100 --seconds 4"),
    "recall_large": Benchmark(
        "recall", "--documents 1000000 --writes 0", "--documents 50000 --questions 50 --writes 0"
    ),
    "memex": Benchmark("memex", "--seconds 60", "--seconds 8", "--url {memex_url}", MEMEX),
    "ingest": Benchmark("ingest", "--events 20000 --rounds 5", "--events 4000 --rounds 2", REDIS),
    "footprint": Benchmark("footprint", "", "--documents 5000 --starts 2", ""),
    "locomo": Benchmark("relevance", "", "--conversations 1 --now"),
    "agentwork": Benchmark("relevance", "", "--conversations 1 --now"),
    "beam": Benchmark("relevance", "", "--conversations 1 --now"),
    "freshness": Benchmark("freshness", "--rate 300 --seconds 30", "--rate 300 --seconds 6"),
    "viewer": Benchmark("viewer", "", "--quick", ""),
}
DATA = ("locomo", "agentwork", "beam")


class Failed(Exception):
    """A benchmark ended with an error; its last words."""


def run(benchmark: Benchmark, options: list[str]) -> dict[str, Any]:
    """The figures of one benchmark, which is run as a process against a server of its own."""
    with _server(benchmark) as (more, environment):
        command = [sys.executable, "-m", f"benchmarks.{benchmark.module}", *options, *more, "--json"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise Failed((done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1])
    return json.loads(lines[-1])


@contextmanager
def _server(benchmark: Benchmark) -> Generator[tuple[list[str], dict[str, str]]]:
    if not benchmark.server:
        yield [], dict(os.environ)
        return
    with Stack(**benchmark.settings) as stack:
        yield benchmark.server.format(**vars(stack)).split(), stack.environment


def options_of(name: str, chosen: argparse.Namespace) -> list[str]:
    """What is said to a benchmark."""
    benchmark = BENCHMARKS[name]
    options = (benchmark.quick if chosen.quick else benchmark.options).split()
    return [*options, "--data", str(getattr(chosen, name).resolve())] if name in DATA else options


def names_of(chosen: argparse.Namespace) -> list[str]:
    """What is run: those asked for, else all that can be."""
    if chosen.only:
        return [name for name in BENCHMARKS if name in chosen.only]
    without = {name for name in DATA if getattr(chosen, name) is None}
    without |= set() if chosen.long else {"recall_large"}
    without |= {name for name, one in BENCHMARKS.items() if not (ROOT / f"benchmarks/{one.module}.py").exists()}
    return [name for name in BENCHMARKS if name not in without]


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def commit() -> str:
    """The commit that is measured; with a plus when files were changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"], cwd=ROOT, capture_output=True, text=True
    )
    return described.stdout.strip() or "unknown"


def show(console: Console, results: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(*HEADS)
    for cell in cells(results):
        table.add_row(*texts(cell), style="red" if cell.reached is not None and cell.reached < 1 else None)
    console.print(table)


def run_all(chosen: argparse.Namespace) -> dict[str, Any]:
    """The results of all that is chosen; those that are there are written down after each benchmark."""
    found: dict[str, Any] = {
        "taken": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "seed": SEED, "quick": chosen.quick,
        "machine": machine(), "results": {}, "failed": {},
    }  # fmt: skip
    console, names = Console(stderr=True), names_of(chosen)
    for number, name in enumerate(names, 1):
        with console.status(f"{number} of {len(names)}: {name}"):
            try:
                found["results"][name] = run(BENCHMARKS[name], options_of(name, chosen))
            except (Failed, RuntimeError) as error:
                found["failed"][name] = str(error)
                console.print(f"[red]{name} failed:[/] {error}")
        if chosen.out:
            chosen.out.mkdir(parents=True, exist_ok=True)
            (chosen.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def _ended(number: int, frame: object) -> None:
    """Leaves as after an error, so that what was started ends and its folders go."""
    sys.exit(1)


def main() -> int:
    """Run the benchmarks one after the other; 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="folder for results.json")
    for name in DATA:
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help="its data: see benchmarks.relevance")
    chosen = parser.parse_args()
    if missing := [name for name in chosen.only or () if name in DATA and getattr(chosen, name) is None]:
        parser.error(f"--only {missing[0]} needs --{missing[0]} PATH")
    signal.signal(signal.SIGTERM, _ended)
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        found = run_all(chosen)
    if chosen.json:
        print(json.dumps(found))
    else:
        show(Console(width=None if sys.stdout.isatty() else 150), found["results"])
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
