"""The budget: what is over a ceiling is named, ceilings of words and exceptions only fall."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import budget

CEILINGS: budget.Figures = {
    "limits": {"complexity": 10, "nesting": 4, "file": 800},
    "tokens": {"product": 100},
    "complexity": {"ingest/a.py run": 12},
    "nesting": {},
    "length": {},
    "identifiers": {"found": 3},
    "phrases": {r"\banew\b": 1},
    "gone": {"Vanished": 0},
}
WITHIN: dict[str, Mapping[str, float]] = {
    "tokens": {"product": 100},
    "complexity": {"ingest/a.py run": 12},
    "nesting": {},
    "length": {},
    "identifiers": {"found": 3},
    "phrases": {r"\banew\b": 1},
    "gone": {"Vanished": 0},
}


def test_figures_at_their_ceilings_are_within_the_budget():
    assert list(budget.excesses(CEILINGS, WITHIN)) == []


@pytest.mark.parametrize(
    ("table", "name", "figure"),
    [
        ("tokens", "product", 101),
        ("complexity", "ingest/a.py run", 13),
        ("complexity", "ingest/b.py step", 11),
        ("nesting", "ingest/b.py step", 5),
        ("length", "ingest/b.py", 801),
        ("identifiers", "found", 4),
        ("phrases", r"\banew\b", 2),
        ("gone", "Vanished", 1),
    ],
)
def test_more_than_the_ceiling_is_over_the_budget(table: str, name: str, figure: float):
    figures = WITHIN | {table: {name: figure}}
    assert [(over, actual) for over, actual, _ in budget.excesses(CEILINGS, figures)] == [(f"{table}: {name}", figure)]


def test_ceilings_of_words_and_exceptions_fall_to_the_figures_and_never_rise():
    text = '[complexity]\n"ingest/a.py run" = 12\n\n[identifiers]\nfound = 3\n\n[phrases]\n"\\\\banew\\\\b" = 1\n'
    figures = WITHIN | {"complexity": {}, "identifiers": {"found": 2}, "phrases": {r"\banew\b": 5}}
    lowered = '[complexity]\n\n[identifiers]\nfound = 2\n\n[phrases]\n"\\\\banew\\\\b" = 1\n'
    assert budget.lowered(text, CEILINGS, figures) == lowered


def test_nesting_counts_compound_statements_and_an_elif_is_on_the_level_of_its_if(tmp_path: Path):
    flat = "def flat(x):\n    if x == 1:\n        x = 2\n    elif x == 2:\n        x = 3\n"
    deep = "def deep(x):\n    for a in x:\n        if a:\n            while a:\n                a -= 1\n"
    file = budget.ROOT / "tools" / "budget.py"
    assert budget.nested_functions([file], 4) == {}
    written = tmp_path / "code.py"
    written.write_text(flat + "\n\n" + deep)
    names = {name.split()[-1]: depth for name, depth in budget.nested_functions([written], 1).items()}
    assert names == {"deep": 3}


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.py", '"""A module."""\n\n# why\n\n\ndef f(x):\n    """Return x."""\n    return x\n', 5),
        ("a.cpp", "// why\nint one() {\n\n  return 1; /* one */\n}\n", 4),
        ("a.lua", "-- why\nreturn one\n", 2),
        ("a.ts", "// why\nconst one = 1;\n", 4),
    ],
)
def test_comments_docstrings_and_white_space_are_no_tokens(tmp_path: Path, name: str, text: str, count: int):
    file = tmp_path / name
    file.write_text(text)
    assert budget.tokens(file) == count


def test_a_link_has_no_tokens(tmp_path: Path):
    (tmp_path / "a.py").write_text("one = 1\n")
    (tmp_path / "b.py").symlink_to("a.py")
    assert budget.tokens(tmp_path / "b.py") == 0


def test_names_of_deleted_things_are_counted_as_whole_words_in_the_tree():
    part = "nested_func" + "t"
    counted = budget.gone(("nested_functions", part))
    assert counted["nested_functions"] > 1, "in the tool and here"
    assert counted[part] == 0
