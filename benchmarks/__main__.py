"""Runs benchmarks and prints one table: each figure with its bar and the raw limit of the same run.

    python -m benchmarks NAME... [--quick] [--out FILE] [--data NAME=PATH] [--url URL] [OPTIONS]
    python -m benchmarks all [--quick] [--out FILE] [--data NAME=PATH]
    python -m benchmarks --list

`--list` shows each benchmark's question, bars and options (`--events 1000`). `all` runs those that need no data, or
whose data is given, and not the long ones. A benchmark that needs a server gets one of its own on a free port, with
its data in a temporary folder, unless `--url` names a running one. `--quick` only shows that everything works: do not
quote its figures. Nothing else should run on the machine. Several benchmarks run one after the other, each in its own
process.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import uvloop

from benchmarks.corpus import SEED
from benchmarks.figures import BENCHMARKS, Benchmark, Figures, table
from benchmarks.servers import Server, Stack, commit, machine

ROOT = Path(__file__).parents[1]
MODULES = (
    "serving", "claims", "projecting", "sizing", "relevance", "coding", "secrets", "search_engine", "fit_ranking",
    "fit_summaries", "peers.comparing",
)  # fmt: skip


def run_here(benchmark: Benchmark, common: argparse.Namespace, options: dict[str, Any]) -> Figures:
    """The figures of one benchmark."""
    chosen = (dict(benchmark.quick) if common.quick else {}) | options
    takes = benchmark.run.__annotations__

    def once(data: dict[str, Path]) -> Figures:
        given = chosen | ({"data": data} if "data" in takes else {})
        if "server" not in takes:
            return benchmark.run(**given)
        if common.url:
            server = Server(common.url, common.redis_url, os.environ.get("MNEMOLOG_SECRET"))
            return uvloop.run(benchmark.run(server=server, **given))
        with Stack(**benchmark.settings) as stack:
            return uvloop.run(benchmark.run(server=stack, **given))

    figures: Figures = {}
    for data in [{name: path} for name, path in common.data.items()] if benchmark.apart else [common.data]:
        figures |= once(data)
    return figures


def run_apart(name: str, words: Sequence[str]) -> Figures:
    """The same in a process of its own. Raises RuntimeError with the last line of what it wrote."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, "-m", "benchmarks", name, *words, "--out", out.name]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1])
        return json.loads(out.read())["results"][name]


def list_benchmarks() -> None:
    """Print what there is."""
    for name, it in BENCHMARKS.items():
        print(f"{name} ({it.run.__module__.replace('.', '/')}.py): {it.question}")
        for row in it.rows:
            print(f"    {row.figure}: {row.unit or 'number'}{', ' * bool(row.bar)}{row.bar}")
        options = [f"--{option.replace('_', '-')} {default!r}" for option, default in it.options.items()]
        print("   ", *["--data NAME=PATH"] * it.needs_data, *options)


def parse_options(names: Sequence[str], rest: Sequence[str]) -> dict[str, Any]:
    """The options that the chosen benchmarks take."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {' '.join(names)}", allow_abbrev=False)
    for option, default in {option: it for name in names for option, it in BENCHMARKS[name].options.items()}.items():
        flag, many = f"--{option.replace('_', '-')}", isinstance(default, tuple)
        first: Any = next(iter(cast("tuple[Any, ...]", default))) if many else default
        kind = cast("type[Any]", type(first))
        shape: Any = {"action": "store_true"} if first is False else {"type": kind, "nargs": "+" if many else None}
        parser.add_argument(flag, default=argparse.SUPPRESS, **shape)
    return vars(parser.parse_args(rest))


def words_of(options: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The options with these names as they are written on a command line."""
    words: list[str] = []
    for name in (name for name in names if name in options):
        value = options[name]
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        words += [f"--{name.replace('_', '-')}", *(str(it) for it in values if it is not True)]
    return words


def data_set(text: str) -> tuple[str, Path]:
    """A name and a path."""
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("it is not NAME=PATH")
    return name, Path(path).resolve()


def main() -> int:
    """Run the chosen benchmarks; 1 if one failed."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures, with machine and commit")
    parser.add_argument("--data", type=data_set, action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--url", default="", help="a running server")
    parser.add_argument("--redis-url", default="", help="its Redis, for benchmarks that read it")
    common, rest = parser.parse_known_args()
    for module in MODULES:
        import_module(f"benchmarks.{module}")
    names: list[str] = common.names
    common.data = dict(common.data)
    if common.list or not names:
        list_benchmarks()
        return 0
    if names == ["all"]:
        names = [name for name, it in BENCHMARKS.items() if not it.long and (common.data or not it.needs_data)]
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name}: see --list")
        if BENCHMARKS[name].needs_data and not common.data:
            parser.error(f"{name} needs --data NAME=PATH")
    options = parse_options(names, rest)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that servers stop and folders are deleted
    results, failed = dict[str, Figures](), dict[str, str]()
    run = {"taken": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "seed": SEED, "quick": common.quick}
    run |= {"machine": machine(), "results": results, "failed": failed}
    words = ["--quick"] * common.quick + (["--url", common.url, "--redis-url", common.redis_url] if common.url else [])
    words += [word for name, path in common.data.items() for word in ("--data", f"{name}={path}")]
    for name in names:
        print(f"{name}...", file=sys.stderr, flush=True)
        try:
            if len(names) == 1:
                results[name] = run_here(BENCHMARKS[name], common, options)
            else:
                results[name] = run_apart(name, [*words, *words_of(options, list(BENCHMARKS[name].options))])
        except RuntimeError as error:
            failed[name] = str(error)
            print(f"{name} failed: {error}", file=sys.stderr)
        if common.out:
            common.out.parent.mkdir(parents=True, exist_ok=True)
            common.out.write_text(json.dumps(run, indent=1) + "\n")
    print(table(results, BENCHMARKS, rest=len(names) == 1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
