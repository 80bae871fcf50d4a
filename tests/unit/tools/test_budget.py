"""The budget: what is over a ceiling is named, ceilings of words and exceptions only fall."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import budget

CEILINGS: budget.Figures = {
    "limits": {"complexity": 10, "nesting": 4, "file": 800},
    "lines": {"ingest": 100},
    "files": {"ingest": 2},
    "share": {"private functions used once": 11.0},
    "complexity": {"ingest/a.py run": 12},
    "nesting": {},
    "length": {},
    "identifiers": {"found": 3},
    "phrases": {r"\banew\b": 1},
}
WITHIN: dict[str, Mapping[str, float]] = {
    "lines": {"ingest": 100},
    "files": {"ingest": 2},
    "share": {"private functions used once": 11.0},
    "complexity": {"ingest/a.py run": 12},
    "nesting": {},
    "length": {},
    "identifiers": {"found": 3},
    "phrases": {r"\banew\b": 1},
}


def test_figures_at_their_ceilings_are_within_the_budget():
    assert list(budget.excesses(CEILINGS, WITHIN)) == []


@pytest.mark.parametrize(
    ("table", "name", "figure"),
    [
        ("lines", "ingest", 101),
        ("files", "ingest", 3),
        ("share", "private functions used once", 11.1),
        ("complexity", "ingest/a.py run", 13),
        ("complexity", "ingest/b.py step", 11),
        ("nesting", "ingest/b.py step", 5),
        ("length", "ingest/b.py", 801),
        ("identifiers", "found", 4),
        ("phrases", r"\banew\b", 2),
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
