"""Entries that a model judges results by, and whole documents."""

import pytest
from condensing import called, saw
from factories import NOW

from ingest.ids import DocumentId
from mcp_gateway.tools.documents import whole
from mcp_gateway.tools.reading import (
    answered,
    document_text,
    nothing,
    percent,
    recalled_text,
    stated,
)
from mcp_gateway.tools.recalled_document import RecalledDocument
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.session import Summary
from projections.queries.recall import RecallAnswer
from projections.search.question import Certainty


def test_a_probability_is_never_told_as_certainty():
    assert [percent(one) for one in (0.999, 1.0, 0.424, 0.0)] == ["99%", "99%", "42%", "0%"]


@pytest.mark.parametrize(
    ("least", "nearest", "narrowed", "told"),
    [
        (0.9, 0.5, False, "No result for `tea` has 90% confidence. Try other words, or a lower `min_confidence`."),
        (None, None, True, "Nothing recorded matches `tea` within these filters. Try other words or fewer filters."),
        (0.0, 0.1, False, "Nothing recorded matches `tea`. Try other words."),
    ],
)
def test_finding_nothing_is_explained(least: float | None, nearest: float | None, narrowed: bool, told: str):
    found = nothing("tea", least, nearest, [], narrowed=narrowed)
    assert recalled_text(found, []) == found.note == told


@pytest.mark.parametrize(
    ("certainty", "confidence", "statement"),
    [
        ("recorded", 0.96, "The subject is recorded (96% confidence)."),
        ("uncertain", 0.2, "The subject may be recorded (20% confidence)."),
        ("probably not recorded", 0.1, "Probably not recorded (10% confidence). Closest:"),
        (None, None, ""),
    ],
)
def test_an_answer_states_whether_the_subject_is_recorded(
    certainty: Certainty | None, confidence: float | None, statement: str
):
    answer = RecallAnswer(results=[], confidence=confidence, certainty=certainty, took_ms=1.0, lag={}, degraded=[])
    assert stated(answer) == statement


def test_what_an_answer_lacks_comes_first():
    recalled = answered([], ["words only"], whole=False, statement="The subject is recorded (96% confidence).")
    lines = recalled_text(recalled, ["obs_1 x"], "The subject is recorded (96% confidence).").splitlines()
    assert lines[:3] == ["Note: words only.", "The subject is recorded (96% confidence).", "<mnemolog-recall>"]


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
