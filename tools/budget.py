"""Checks the size and the words of the code base.

    python -m tools.budget [--ceilings FILE] [--json] [--lower]

The size is counted in tokens: how much a reader has to understand, in any layout. Pygments splits tracked Python,
C++, C, Lua, JavaScript and TypeScript files; comments, docstrings, punctuation and white space are not counted, nor are
links, generated and vendored files. FILE has the ceilings of each step of the plan, and `step` in `tools/budget.toml`
names the step whose ceilings apply. Without FILE, tokens are counted and not compared.

`tools/budget.toml` has the other ceilings: functions that are too complex or nested too deep, files that are too long,
retired words, and names of what was deleted. `--lower` lowers them to the current figures. Complexity is McCabe's, as
ruff counts it. Nesting counts the compound statements around a statement within its function.

Exits with 1 and prints each figure that is over its ceiling.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from pygments.lexers import get_lexer_for_filename  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Punctuation, String

from tools.figures import PACKAGES, ROOT, lines, names_of, tracked

BUDGET = ROOT / "tools" / "budget.toml"
TEXTS = ("README.md", "CONTRIBUTING.md", "docs", *PACKAGES)
"""Where text that users read is looked through: pages, docstrings, help, errors, and the viewer."""
Figures = Mapping[str, Mapping[str, float]]
"""A number for each name of each table."""
GROUPS = {"product": PACKAGES, **{name: (name,) for name in ("tests", "clients", "benchmarks", "tools")}}
"""The folders of each group whose tokens have a ceiling."""
COUNTED = (".py", ".cpp", ".h", ".hpp", ".c", ".lua", ".js", ".mjs", ".ts")
NOT_COUNTED = ("snowball/", "openapi.ts", "node_modules/", "generated/")
HISTORY = ("CHANGELOG.md", "docs/decisions/", "tools/budget.toml", "benchmarks/data/")
"""What may name what was deleted."""
_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    """Compare every figure with its ceiling; print what is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="every figure as one JSON object")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings of words and exceptions")
    parser.add_argument("--ceilings", type=Path, help="the ceilings of tokens")
    options = parser.parse_args()
    budget = tomllib.loads(BUDGET.read_text())
    figures = measure(budget)
    if options.ceilings:
        budget["tokens"] = tomllib.loads(options.ceilings.read_text())["after"][budget["step"]]
    else:
        budget["tokens"] = figures["tokens"]
    if options.json:
        print(json.dumps(figures, indent=1))
    if options.lower:
        BUDGET.write_text(lowered(BUDGET.read_text(), budget, figures))
        return
    over = list(excesses(budget, figures))
    for name, figure, ceiling in over:
        print(f"{name}: {figure:,} is over the budget of {ceiling:,}", file=sys.stderr)
    if not options.json:
        for name, figure in figures["tokens"].items():
            print(f"{figure:>8,} tokens of {budget['tokens'][name]:>8,}: {name}")
    sys.exit(bool(over))


def measure(budget: dict[str, Any]) -> Figures:
    """Every figure that has a ceiling, by the table and the name of the ceiling."""
    product = tracked(*PACKAGES)
    limits = budget["limits"]
    return {
        "tokens": {group: tokens_of(_counted(*folders)) for group, folders in GROUPS.items()},
        "complexity": complex_functions(limits["complexity"]),
        "nesting": nested_functions(product, limits["nesting"]),
        "length": {_name(file): count for file in product if (count := lines([file])) > limits["file"]},
        "identifiers": identifiers(tuple(budget["identifiers"])),
        "phrases": phrases(tuple(budget["phrases"])),
        "gone": gone(tuple(budget["gone"])),
    }


def excesses(budget: Figures, figures: Figures) -> Iterator[tuple[str, float, float]]:
    """The name, figure and ceiling of each budget that is not kept; what has no ceiling of its own may not occur."""
    for table, measured in figures.items():
        ceilings = budget.get(table, {})
        for name, figure in measured.items():
            if figure > (ceiling := ceilings.get(name, 0)):
                yield f"{table}: {name}", figure, ceiling


def lowered(text: str, budget: Figures, figures: Figures) -> str:
    """The file's text with the ceilings of words and exceptions at what was measured; those at zero leave the lists of
    exceptions and stay in those of words."""
    for table in ("complexity", "nesting", "length", "identifiers", "phrases"):
        for name, ceiling in budget.get(table, {}).items():
            figure = figures[table].get(name, 0)
            line = re.compile(rf"^{re.escape(_key(name))} = {ceiling}\n", re.MULTILINE)
            lower = min(figure, ceiling)
            keep = lower or table in ("identifiers", "phrases")
            text = line.sub(lambda _, kept=f"{_key(name)} = {lower}\n" if keep else "": kept, text, count=1)
    return text


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else json.dumps(name)


def _counted(*folders: str) -> list[Path]:
    names = [name for name in names_of(*folders) if name.endswith(COUNTED)]
    return [ROOT / name for name in names if not any(part in name for part in NOT_COUNTED)]


def tokens_of(files: list[Path]) -> int:
    """Return the sum of the files' tokens, counted in as many processes as there are cores: Pygments is slow."""
    with ProcessPoolExecutor() as processes:
        return sum(processes.map(tokens, files, chunksize=8))


def tokens(file: Path) -> int:
    """Return how many tokens of a file are neither comment, docstring, punctuation nor white space; none of a link."""
    if file.is_symlink():
        return 0
    split = get_lexer_for_filename(file.name).get_tokens(file.read_text("utf-8"))
    ignored = (Comment, Punctuation, String.Doc)
    return sum(1 for kind, text in split if text.strip() and not any(kind in group for group in ignored))


def complex_functions(most: int) -> dict[str, float]:
    """The McCabe complexity of each function above `most`, by file and name."""
    command = [
        sys.executable, "-m", "ruff", "check", "--quiet", "--output-format", "json", "--select", "C901", "--config",
        f"lint.mccabe.max-complexity={most}", *PACKAGES,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    functions: dict[str, float] = {}
    for issue in json.loads(done.stdout or "[]"):
        if match := re.match(r"`(\w+)` is too complex \((\d+)", issue["message"]):
            functions[f"{_name(Path(issue['filename']))} {match[1]}"] = int(match[2])
    return functions


def nested_functions(files: list[Path], most: int) -> dict[str, float]:
    """How deep the statements of each function are nested that go deeper than `most`, by file and name."""
    return {
        f"{_name(file)} {node.name}": deep
        for file in files
        for node in ast.walk(_tree(file))
        if isinstance(node, _FUNCTION) and (deep := max((_depth(child) for child in node.body), default=0)) > most
    }


def _depth(node: ast.AST) -> int:
    if isinstance(node, (*_FUNCTION, ast.ClassDef)):
        return 0
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        children.remove(node.orelse[0])  # an elif is on the level of its if
        return max(1 + max((_depth(child) for child in children), default=0), _depth(node.orelse[0]))
    inner = max((_depth(child) for child in children), default=0)
    return inner + isinstance(node, _COMPOUND)


def identifiers(words: tuple[str, ...]) -> dict[str, float]:
    """How often each word is a whole identifier in the product."""
    counted: Counter[str] = Counter()
    for file in tracked(*PACKAGES):
        tokens = tokenize.generate_tokens(io.StringIO(file.read_text()).readline)
        counted.update(token.string for token in tokens if token.type == tokenize.NAME)
    return {word: counted[word] for word in words}


def phrases(patterns: tuple[str, ...]) -> dict[str, float]:
    """How often each pattern occurs, in any case, in pages, docstrings, strings of the product and the viewer."""
    text = "\n".join(_texts())
    return {pattern: len(re.findall(pattern, text, re.IGNORECASE)) for pattern in patterns}


def gone(names: tuple[str, ...]) -> dict[str, float]:
    """How often each name of what was deleted is still a word of the tree, besides its history and this list."""
    word = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    counted: Counter[str] = Counter()
    for name in names_of("."):
        if name.endswith((*COUNTED, ".md", ".toml", ".yaml", ".yml")) and not name.startswith(HISTORY):
            counted.update(word.findall((ROOT / name).read_text("utf-8")))
    return {name: counted[name] for name in names}


@cache
def _texts() -> tuple[str, ...]:
    files = [ROOT / name for name in names_of(*TEXTS) if not name.startswith("docs/decisions/")]
    read = [file.read_text() for file in files if file.suffix in (".md", ".js", ".html")]
    for file in tracked(*PACKAGES):
        nodes = ast.walk(_tree(file))
        read += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return tuple(" ".join(text.split()) for text in read)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)


if __name__ == "__main__":
    main()
