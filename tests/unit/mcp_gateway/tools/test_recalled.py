"""Entries that a model judges results by, and whole documents."""

from collections.abc import Callable

import pytest
from factories import NOW

from mcp_gateway.tools.reading import (
    RecalledDocument,
    answered,
    document_text,
    nothing,
    percent,
    recalled_text,
    shortened,
)
from projections.queries.recall import RecallResult


def entry(found: RecallResult) -> RecalledDocument:
    return shortened(found, project_known=True, session_known=False)


@pytest.mark.parametrize(
    ("title", "content", "told"),
    [
        ("Tea", "Ada drinks it.", ("Tea", "Ada drinks it.")),
        ("Ada drinks tea.", "Ada drinks tea.", ("Ada drinks tea.", "")),
        ("Ada drinks tea.", "Ada drinks tea. With milk.", ("Ada drinks tea.", "With milk.")),
        ("Ada drinks te", "Ada drinks tea. With milk.", ("Ada drinks tea. With milk.", "")),
        ("Report", "## Report It works.", ("Report", "It works.")),
        ("", "Ada drinks tea.", ("Ada drinks tea.", "")),
    ],
)
def test_a_snippet_does_not_repeat_the_title(
    result: Callable[..., RecallResult], title: str, content: str, told: tuple[str, str]
):
    short = entry(result(title=title, content=content))
    assert (short.title, short.snippet) == told


def test_a_probability_is_never_told_as_certainty():
    assert [percent(one) for one in (0.999, 1.0, 0.424, 0.0)] == ["99%", "99%", "42%", "0%"]


@pytest.mark.parametrize(
    ("least", "nearest", "narrowed", "told"),
    [
        (None, 0.1, False, "the closest match has 10% confidence. Try other words, or `min_confidence` 0"),
        (0.9, 0.5, False, "answers `tea` with 90% confidence: the closest has 50%. Try other words, or a lower"),
        (None, None, True, "matches `tea` within these filters. Try other words or fewer filters."),
        (0.0, None, False, "matches `tea`. Try other words."),
    ],
)
def test_finding_nothing_is_explained(least: float | None, nearest: float | None, narrowed: bool, told: str):
    found = nothing("tea", least, nearest, [], narrowed=narrowed)
    assert told in recalled_text(found)
    assert recalled_text(found) == found.note


def test_what_an_answer_lacks_comes_first(result: Callable[..., RecallResult]):
    assert recalled_text(answered([entry(result())], ["words only"], whole=False)).startswith("Note: words only.\n<")


def test_details_of_a_whole_document_are_named_lines():
    one = RecalledDocument(
        id="obs_1",
        kind="observation",
        title="Read `a.py`",
        details={"files": ["a.py", "b.py"], "data": {"tool_output": "one\ntwo", "exit": 2, "input": {"path": "a.py"}}},
        occurred_at=NOW,
    )
    assert document_text(one).splitlines()[2:-1] == [
        "# Read `a.py`",
        "2026-01-31, observation, obs_1",
        "",
        "files: a.py, b.py",
        "tool_output:",
        "  one",
        "  two",
        "exit: 2",
        "path: a.py",
    ]


def test_a_title_that_only_begins_the_content_is_not_told_beside_it():
    one = RecalledDocument(id="mem_1", kind="memory", title="Ada dri", content="Ada drinks tea.", occurred_at=NOW)
    assert document_text(one).splitlines()[2:-1] == ["# Memory", "2026-01-31, memory, mem_1", "", "Ada drinks tea."]
