"""Counts what keeps a code base readable: lines, files, longest functions, repeated names, repeated lines, cycles.

    python tools/figures.py [--json] [--list duplicates|names|cycles|functions|files]

Lines are all lines of tracked Python files, blank ones and docstrings included. Product is everything in the five
packages and benchmarks; a byte-for-byte copy of another file counts once. Repeated lines: places in two files, or
twice in one, that share six or more consecutive statements of the same shape (names and literals do not matter).
A cycle is a group of modules of one package that import each other, imports inside functions included.
"""

import argparse
import ast
import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("ingest", "workers", "projections", "api", "mcp_gateway")
SAME_LINES = 6
TOO_COMMON = 8
"""A run of lines that stands in more places is how such code looks (a table of routes), not a copy."""


def names_of(*folders: str) -> list[str]:
    """Paths of the tracked files of these folders; of every file in them where the checkout has no git folder."""
    command = ["git", "ls-files", "--", *folders]
    if (ROOT / ".git").exists():
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    paths += [ROOT / folder for folder in folders if (ROOT / folder).is_file()]
    skipped = {"__pycache__", "node_modules"}
    return sorted(str(path.relative_to(ROOT)) for path in paths if not skipped & {*path.parts})


def tracked(*folders: str) -> list[Path]:
    """The tracked Python files below these folders, without links."""
    files = [ROOT / name for name in names_of(*folders) if name.endswith(".py")]
    return [file for file in files if not file.is_symlink()]


def lines(files: list[Path]) -> int:
    """All lines of these files."""
    return sum(len(file.read_text().splitlines()) for file in files)


def functions(files: list[Path]) -> list[tuple[int, str]]:
    """The length of every function, the longest first."""
    found = [
        ((node.end_lineno or 0) - node.lineno + 1, f"{_name(file)}:{node.lineno} {node.name}")
        for file in files
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted(found, reverse=True)


def class_names(files: list[Path]) -> dict[str, list[str]]:
    """The class names that two or more files define, with the files."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in files:
        for node in ast.walk(_tree(file)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(_name(file))
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def duplicates(files: list[Path]) -> list[tuple[str, str]]:
    """Pairs of places that share six or more lines of the same shape; one pair a run, not one a line."""
    windows: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for file in files:
        shaped = list(_shapes(file))
        for start in range(len(shaped) - SAME_LINES + 1):
            window = shaped[start : start + SAME_LINES]
            windows[tuple(shape for _, shape in window)].append((file, window[0][0]))
    pairs: dict[tuple[Path, Path], list[tuple[int, int]]] = defaultdict(list)
    for places in windows.values():
        if len(places) > TOO_COMMON:
            continue
        for (one, first), (other, second) in combinations(places, 2):
            if one != other or abs(first - second) > 2 * SAME_LINES:
                pairs[one, other].append((first, second))
    found: list[tuple[str, str]] = []
    for (one, other), starts in pairs.items():
        last: dict[int, int] = {}
        for first, second in sorted(starts):
            if not any(0 <= first - last.get(second - first + shift, -99) <= SAME_LINES for shift in range(-3, 4)):
                found.append((f"{_name(one)}:{first}", f"{_name(other)}:{second}"))
            last[second - first] = first
    return found


def cycles(files: list[Path]) -> list[list[str]]:
    """Groups of modules that import each other and lie in one package (folder)."""
    modules = {_module(file): file for file in files}
    uses = {module: set(_imported(file, modules)) - {module} for module, file in modules.items()}
    return [sorted(group) for group in _components(uses) if len(group) > 1]


def _components(uses: dict[str, set[str]]) -> Iterator[set[str]]:
    key_scope = {module: _reached(module, uses) for module in uses}
    seen: set[str] = set()
    for module in uses:
        group = {other for other in key_scope[module] if module in key_scope[other]} | {module}
        if not group & seen:
            yield group
        seen |= group


def _reached(module: str, uses: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [module]
    while todo:
        for other in uses[todo.pop()] - found:
            found.add(other)
            todo.append(other)
    return found


def _imported(file: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    yield inner
                elif node.module in modules:
                    yield node.module


def _shapes(file: Path) -> Iterator[tuple[int, str]]:
    """The statements of a file with their lines, each without its names and literals; no imports, no declarations."""
    tree = _tree(file)
    for node in sorted((one for one in ast.walk(tree) if isinstance(one, ast.stmt)), key=lambda one: one.lineno):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.AnnAssign) and not _is_docstring(node):
            yield node.lineno, _shape(node)


def _shape(node: ast.stmt) -> str:
    heads = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return f"{type(node).__name__}({','.join(_expression(head) for head in heads)})"


def _expression(node: ast.AST) -> str:
    inner = ",".join(
        _expression(child) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)
    )
    return f"{type(node).__name__}[{inner}]" if inner else type(node).__name__


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


_trees: dict[Path, ast.Module] = {}


def _tree(file: Path) -> ast.Module:
    return _trees.setdefault(file, ast.parse(file.read_text()))


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def _module(file: Path) -> str:
    return _name(file)[:-3].replace("/", ".").removesuffix(".__init__")


def figures() -> dict[str, Any]:
    """Every figure by its name."""
    product, tests = tracked(*PACKAGES, "benchmarks"), tracked("tests")
    packages = tracked(*PACKAGES)
    projections = tracked("projections")
    longest = functions(packages)[0]
    biggest = max((lines([file]), _name(file)) for file in packages)
    return {
        "product lines": lines(product),
        "product files": len(product),
        "projections lines": lines(projections),
        "projections files": len(projections),
        "longest function": longest[0],
        "longest file": biggest[0],
        "class names used twice": len(class_names(packages)),
        "repeated places": len(duplicates(packages)),
        "import cycles": sum(len(cycles(tracked(package))) for package in PACKAGES),
        "test lines": lines(tests),
        "test files": len(tests),
    }


def _list(what: str) -> Iterator[str]:
    packages = tracked(*PACKAGES)
    match what:
        case "duplicates":
            yield from (f"{one}  {other}" for one, other in duplicates(packages))
        case "names":
            yield from (f"{name}: {', '.join(places)}" for name, places in class_names(packages).items())
        case "cycles":
            yield from (" ".join(group) for package in PACKAGES for group in cycles(tracked(package)))
        case "functions":
            yield from (f"{length:4} {name}" for length, name in functions(packages)[:40])
        case _:
            counted = Counter({_name(file): lines([file]) for file in packages})
            yield from (f"{length:4} {name}" for name, length in counted.most_common(40))


def main() -> None:
    """Print the figures, or one list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument(
        "--list", choices=("duplicates", "names", "cycles", "functions", "files"), help="what is behind"
    )
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(_list(chosen.list)))
        return
    found = figures()
    print(
        json.dumps(found, indent=1)
        if chosen.json
        else "\n".join(f"{name:24}{value:8,}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()
