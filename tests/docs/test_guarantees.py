"""docs/guarantees.md: every promise has its tests, and every test that it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def functions(file: str) -> frozenset[str]:
    """The names of a file's functions and methods."""
    found = ast.walk(ast.parse((ROOT / file).read_text()))
    return frozenset(one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("promise", SECTIONS)
def test_every_promise_names_a_test_that_holds_it(promise: str):
    assert re.search(r"^Held by `tests/", SECTIONS[promise], re.MULTILINE), promise


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_holds_a_promise_is_there(file: str, name: str):
    assert name in functions(file)


def test_the_page_makes_promises():
    assert len(SECTIONS) >= 9
    assert len(NAMED) >= 30
