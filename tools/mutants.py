"""Breaks a line that a promise depends on, and checks that the tests notice: one mutant after the other.

    python tools/mutants.py [--only WORD] [--random COUNT [--seed NUMBER]]

`tools/mutants.toml` has for each mutant the text that is replaced, wherever it is in the packages, and the names of the
tests of `make test` that must fail, wherever they are in tests/: code and tests may move. The change is made in a copy
of the tracked files, so the checkout stays as it is. Ends with 1 where a mutant survives, where its text is not there
exactly once or a test has another name (MOVED), and where a test fails without any mutant.

With `--random`, breaks COUNT lines of CORE that the seed selects (a comparison, `and` and `or`, `not`, `break` and
`continue`, the body of an exception handler), and runs all tests of TESTS on each. It prints the survivors for a person
to read, and ends with 0: some changes make no difference.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("ingest", "projections", "workers", "api", "mcp_gateway")
CORE = (
    "ingest/commands", "ingest/events", "ingest/log", "ingest/nouns", "projections/dead_letters",
    "projections/forgetting", "projections/index", "projections/nouns", "projections/operations", "projections/queries",
    "projections/rebuilding", "projections/search", "projections/store", "projections/text", "workers",
)  # fmt: skip
TESTS = ("tests/unit", "tests/fundamentals", "tests/conformance", "tests/ring/archive")
SECONDS_A_TEST = 60
"""A test that a mutant holds up for longer fails."""
OTHER: dict[type[ast.AST], Any] = {
    ast.And: ast.Or, ast.Or: ast.And, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
"""What each operator and statement is replaced by."""


class Mutant(NamedTuple):
    """A line that is broken on purpose; `tests` are names of test functions."""

    name: str
    old: str
    new: str
    tests: str


def main() -> None:
    """Try every mutant; print a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="mutants whose name has this word")
    parser.add_argument("--random", type=int, default=0, help="how many random mutants to try instead")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    mutants = [Mutant(**row) for row in tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())["mutant"]]
    chosen = [mutant for mutant in mutants if options.only in mutant.name]
    with tempfile.TemporaryDirectory(prefix="mnemo-mutants-") as folder:
        copy = Path(folder) / "copy"
        _copy(copy)
        if options.random:
            _try_random(copy, options.random, options.seed)
            return
        tests = {name for mutant in chosen for name in mutant.tests.split()}
        files = {name: _holding(_source_files(copy, ["tests"]), f"def {name}(") for name in tests}
        code, failed = _run(copy, files, sorted(name for name in tests if files[name]))
        if code != 0:
            sys.exit(f"the tests fail without a mutant: {failed or f'pytest ended with {code}'}")
        survivors = [mutant for mutant in chosen if not _caught(mutant, copy, files)]
    print(f"{len(survivors)} of {len(chosen)} survived" if survivors else f"caught: {len(chosen)} of {len(chosen)}")
    sys.exit(bool(survivors))


def _try_random(copy: Path, count: int, seed: int) -> None:
    paths = [path for path in sorted(_source_files(copy, CORE)) if path.suffix == ".py"]
    places = [(path, n) for path in paths for n, node in enumerate(_nodes(path)[1]) if _break(node)]
    for path, n in random.Random(seed).sample(places, count):
        original = path.read_text()
        tree, nodes = _nodes(path)
        change = _break(nodes[n])
        path.write_text(ast.unparse(tree))
        code, failed = _pytest(copy, ["--numprocesses=2", "--dist=worksteal", *TESTS])
        path.write_text(original)
        line = getattr(nodes[n], "lineno", 0)
        print(f"{'caught   ' if code else 'SURVIVED '} {path.relative_to(copy)}:{line} {change}: {failed}", flush=True)


def _nodes(path: Path) -> tuple[ast.Module, list[ast.AST]]:
    tree = ast.parse(path.read_text())
    return tree, list(ast.walk(tree))


def _break(node: Any) -> str:
    """Break a node in place, and return what was done; "" where there is nothing to break."""
    match node:
        case ast.BoolOp(op=op) | ast.Compare(ops=[op]) if type(op) in OTHER:
            other = OTHER[type(op)]()
            node.op, node.ops = other, [other]
            return f"{type(op).__name__} became {type(other).__name__}"
        case ast.Break() | ast.Continue():
            node.__class__ = OTHER[type(node)]
            return f"became {type(node).__name__}"
        case ast.UnaryOp(op=ast.Not()):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
            return "lost its not"
        case ast.ExceptHandler():
            node.body = [ast.Pass()]
            return "handles nothing"
        case _:
            return ""


def _copy(copy: Path) -> None:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)


def _caught(mutant: Mutant, copy: Path, files: dict[str, list[Path]]) -> bool:
    places = _holding(_source_files(copy, PACKAGES), mutant.old)
    count = sum(path.read_text().count(mutant.old) for path in places)
    missing = [name for name in mutant.tests.split() if not files[name]]
    if count != 1 or missing:
        print(f"MOVED     {mutant.name}: its text is there {count} times; missing tests: {missing}", flush=True)
        return False
    original = places[0].read_text()
    places[0].write_text(original.replace(mutant.old, mutant.new))
    try:
        code, failed = _run(copy, files, mutant.tests.split())
    finally:
        places[0].write_text(original)
    caught = code == 1 and bool(failed)  # any other code: the tests could not be run
    print(f"{'caught   ' if caught else 'SURVIVED '} {mutant.name}: {failed or mutant.tests}", flush=True)
    return caught


def _run(copy: Path, files: dict[str, list[Path]], tests: Collection[str]) -> tuple[int, str]:
    """The exit code of pytest, and the first test that fails; nothing where all pass."""
    paths = sorted({str(path.relative_to(copy)) for name in tests for path in files[name]})
    if not paths:
        return 0, ""
    return _pytest(copy, ["-k", " or ".join(tests), *paths])


def _pytest(copy: Path, arguments: Iterable[str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-qx", "-m", "not nightly", "-p", "no:cacheprovider"]
    command += [f"--timeout={SECONDS_A_TEST}", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(copy)}  # also of the processes that tests start
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return done.returncode, "".join(failed[:1])


def _source_files(copy: Path, folders: Iterable[str]) -> list[Path]:
    return [path for folder in folders for path in (copy / folder).rglob("*") if path.suffix in (".py", ".lua")]


def _holding(paths: Iterable[Path], text: str) -> list[Path]:
    return [path for path in paths if text in path.read_text()]


if __name__ == "__main__":
    main()
