"""Entries that a model judges results by, and whole documents."""

from collections.abc import Callable

import pytest
from condensing import called, saw
from factories import NOW

from ingest.ids import DocumentId
from mcp_gateway.tools.documents import whole
from mcp_gateway.tools.reading import (
    RecalledDocument,
    answered,
    document_text,
    nothing,
    percent,
    recalled_text,
    shortened,
)
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.sessions import Summary
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


@pytest.mark.parametrize(
    ("repeats", "told"),
    [
        (["obs_2"], "1 near-duplicate, mem_1)"),
        (["obs_2", "obs_3"], "2 near-duplicates, mem_1)"),
        (["obs_2", "sum_3"], "1 near-duplicate, quoted in sum_3, mem_1)"),
        (["sum_3"], "memory, quoted in sum_3, mem_1)"),
    ],
)
def test_the_summary_that_quotes_a_result_is_named(result: Callable[..., RecallResult], repeats: list[str], told: str):
    assert told in recalled_text(answered([entry(result(repeats=repeats))], [], whole=True))


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


def test_a_tool_call_is_read_with_what_went_in_and_all_that_came_out():
    output = "line\n" * 2_000
    found = whole(called(1, "Read", {"file_path": "a.py"}, output))
    assert (found.kind, found.title, found.content) == ("observation", "Read `a.py`", "")
    assert found.details["data"]["tool_output"] == output
    assert list(found.details["files"]) == ["a.py"]


def test_what_was_said_is_not_repeated_by_the_details():
    asked = whole(saw(1, kind="prompt_submit", data={"prompt": "why is it slow?"}))
    assert (asked.content, asked.details) == ("why is it slow?", {})


def test_a_memory_is_read_without_what_goes_without_saying():
    memory = Memory(
        id=DocumentId("mem_1"), event_id="e", tenant="default", content="Ada drinks tea.", title="Ada drinks tea.",
        updated_at=NOW, occurred_at=NOW, recorded_at=NOW, position="1-0",
    )  # fmt: skip
    assert whole(memory).details == {}
    private = Memory(
        id=DocumentId("mem_2"), event_id="e", tenant="default", content="Ada drinks tea.", tags=["drinks"], version=2,
        superseded_by="mem_3", visibility="private", updated_at=NOW, occurred_at=NOW, recorded_at=NOW, position="1-0",
    )  # fmt: skip
    told = {"tags": ["drinks"], "version": 2, "superseded_by": "mem_3", "visibility": "private"}
    assert whole(private).details == told


def test_a_lesson_and_a_summary_are_read_with_what_they_say_beside_their_text():
    lesson = Lesson(
        id="lsn_1", tenant="default", content="Rebase first.", context="before a push", occurred_ms=1_769_860_800_000
    )
    found = whole(lesson)
    assert (found.title, found.details, found.occurred_at) == ("Rebase first.", {"context": "before a push"}, NOW)
    summary = Summary(
        id=DocumentId("sum_1"), tenant="default", session_id="s1", session=DocumentId("ses_1"), title="Login",
        narrative="Fixed it.", decisions=["keep cookies"], remaining=["tests"], occurred_at=NOW, recorded_at=NOW,
        position="1-0",
    )  # fmt: skip
    found = whole(summary)
    assert (found.content, found.details) == ("Fixed it.", {"decisions": ["keep cookies"], "remaining": ["tests"]})


def test_a_memory_that_ends_says_when(result: Callable[..., RecallResult]):
    short = entry(result(valid_until=NOW))
    assert short.valid_until == NOW
    assert f", valid until {NOW:%Y-%m-%d %H:%M} UTC, mem_1)" in recalled_text(answered([short], [], whole=False))
