"""Documents of every kind that recall finds, read whole."""

from condensing import called, saw
from factories import NOW

from ingest.ids import DocumentId
from mcp_gateway.tools.documents import whole
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.sessions import Summary


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
