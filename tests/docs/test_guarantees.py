"""docs/guarantees.md: every promise has its tests, and every test that it names is there.

What only `make nightly` runs is called so on the page: "(nightly)" after its name.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`( \(nightly\))?", PAGE)))


@cache
def functions(file: str) -> dict[str, bool]:
    """The names of a file's functions and methods, and whether each is only run nightly."""
    tree = ast.parse((ROOT / file).read_text())
    whole = any(isinstance(node, ast.Assign) and _marks_nightly([node.value]) for node in tree.body)
    return dict(_functions(tree, whole))


def _functions(parent: ast.Module | ast.ClassDef, nightly: bool) -> Iterator[tuple[str, bool]]:
    for node in parent.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, nightly or _marks_nightly(node.decorator_list)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, nightly or _marks_nightly(node.decorator_list))


def _marks_nightly(marks: Sequence[ast.expr]) -> bool:
    """Whether a mark stands there for all of a test's cases; those of single parameters are passed over."""
    listed = [elt for mark in marks for elt in (mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark])]
    return any(ast.unparse(one) == "pytest.mark.nightly" for one in listed)


def test_every_promise_names_a_test_that_holds_it():
    for promise, text in SECTIONS.items():
        assert re.search(r"^Tested by `tests/", text, re.MULTILINE), promise


def test_every_test_that_holds_a_promise_is_there():
    """And "(nightly)" stands after those that `make test` leaves out, and after no other."""
    missing = [f"{file}::{name}" for file, name, _ in NAMED if name not in functions(file)]
    assert missing == []
    assert [name for file, name, remark in NAMED if functions(file)[name] != bool(remark)] == []


def test_the_page_makes_promises():
    assert len(SECTIONS) >= 9
    assert len(NAMED) >= 30
