from datetime import UTC, datetime
from typing import Any

import pytest
from factories import NOW

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.work import (
    LESSON_CHARS,
    action_record,
    edge_records,
    lesson_hint,
    lesson_record,
    slot_record,
)
from api.hook_observations import UNKNOWN_PROJECT, hook_observation
from ingest.commands.decide import Observe, Remember
from ingest.ids import DocumentId
from projections.nouns.action import Action
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.session import Session
from projections.nouns.slot import Slot
from projections.queries.views import view
from projections.text.compression import compress

STAMP = "2026-01-31T12:00:00.000Z"


def memory(**fields: Any) -> dict[str, Any]:
    """A memory as a reader gets it."""
    defaults: dict[str, Any] = {"id": DocumentId("mem_1"), "content": "Ada drinks tea.", "title": "Ada drinks tea."}
    times: dict[str, Any] = {"updated_at": NOW, "occurred_at": NOW, "recorded_at": NOW}
    return view(Memory(event_id="e", tenant="t", position="1-0", **{**defaults, **times, **fields}))


def seen(command: Observe) -> dict[str, Any]:
    """What a command becomes, as a reader gets it."""
    short = compress(command.kind, command.content, command.data)
    return view(
        Observation(
            id=DocumentId("obs_1"),
            event_id="e",
            tenant="t",
            project=command.project,
            session_id=command.session_id,
            session=DocumentId("ses_1"),
            agent_id=command.agent_id,
            kind=short.type,
            content=command.content,
            data=command.data,
            metadata=command.metadata,
            title=short.title,
            subtitle=short.subtitle or "",
            narrative=short.narrative,
            files=short.files,
            occurred_at=NOW,
            recorded_at=NOW,
            position="1-0",
        )
    )


@pytest.mark.parametrize("kind", dialect.MEMORY_KINDS)
def test_a_memorys_kind_comes_back_as_it_was_saved(kind: dialect.MemoryKind):
    """It is also a tag, so that it is found by it."""
    said = Remember(content="x", **dialect.classified(kind))
    kept = memory(memory_type=said.memory_type, tags=said.tags, metadata=said.metadata, concepts=["tea"])
    assert dialect.memory_kind(kept) == kind
    assert said.tags == [kind]
    assert dialect.memory_record(kept)["concepts"] == ["tea"]


def test_what_is_no_kind_is_a_fact():
    assert [dialect.kind_of(one) for one in (" BUG ", "idea", "", None)] == ["bug", "fact", "fact", "fact"]
    assert dialect.memory_kind(memory(memory_type="procedural")) == "workflow"
    assert dialect.memory_kind(memory(tags=["x", "bug"])) == "bug"


def test_a_memory_has_every_field_that_clients_read():
    kept = memory(
        importance=7.0, version=2, parent_id="mem_0", session_id="s1", derived_from=["obs_9", "act_1"], project="shop"
    )
    assert dialect.memory_record(kept) == {
        "id": "mem_1",
        "createdAt": STAMP,
        "updatedAt": STAMP,
        "type": "fact",
        "title": "Ada drinks tea.",
        "content": "Ada drinks tea.",
        "concepts": [],
        "files": [],
        "sessionIds": ["s1"],
        "strength": 7,
        "version": 2,
        "supersedes": ["mem_0"],
        "sourceObservationIds": ["obs_9"],
        "isLatest": True,
        "parentId": "mem_0",
        "project": "shop",
    }


def test_a_memory_names_what_it_is_said_to_be_from_and_made_of_each_once():
    said = dialect.classified("bug", ["obs_2", " obs_1 ", "", "obs_2"])
    kept = memory(metadata=said["metadata"], derived_from=["obs_9", "obs_1"])
    assert dialect.memory_record(kept)["sourceObservationIds"] == ["obs_9", "obs_1", "obs_2"]


def test_a_version_names_all_before_it_the_newest_first():
    history = [memory(id=DocumentId(name), parent_id=parent) for name, parent in (("a", ""), ("b", "a"), ("c", "b"))]
    assert [version["supersedes"] for version in dialect.versions(history)] == [[], ["a"], ["b", "a"]]


def test_an_observation_of_a_tool_comes_back_with_what_went_in():
    data = {"tool_name": "Edit", "tool_input": {"file_path": "a.py"}, "tool_output": "ok"}
    record = dialect.observation_record(seen(hook_observation("s1", "shop", "post_tool_use", data, agent_id="ada")))
    assert record["hookType"] == "post_tool_use"
    assert record["raw"] == data
    assert (record["toolName"], record["toolInput"], record["toolOutput"]) == ("Edit", {"file_path": "a.py"}, "ok")
    assert (record["type"], record["title"], record["files"]) == ("file_edit", "Edit", ["a.py"])
    assert (record["sessionId"], record["timestamp"], record["agentId"]) == ("s1", STAMP, "ada")
    assert "userPrompt" not in record


def test_a_failed_tools_output_is_its_error_and_a_prompt_is_the_users():
    failed = hook_observation("s1", "", "post_tool_failure", {"tool_name": "Bash", "error": "exit 2"})
    assert failed.project == UNKNOWN_PROJECT
    assert dialect.observation_record(seen(failed))["toolOutput"] == "exit 2"
    asked = dialect.observation_record(seen(hook_observation("s1", "p", "prompt_submit", {"prompt": "why?"})))
    assert (asked["userPrompt"], asked["type"]) == ("why?", "conversation")
    assert "toolName" not in asked


def test_a_kind_that_a_caller_states_counts_if_there_is_such_a_kind():
    data = {"tool_name": "agent_error", "tool_input": "x", "tool_output": "x"}
    stated = dialect.observation_record(seen(hook_observation("s1", "p", "post_tool_use", data, kind="error")))
    assert (stated["type"], stated["hookType"], stated["title"]) == ("error", "post_tool_use", "agent_error")
    assert hook_observation("s1", "p", "post_tool_use", data, kind="whatever").kind == "post_tool_use"


def test_an_observation_made_otherwise_has_its_text_as_raw():
    record = dialect.observation_record(seen(Observe(session_id="s1", kind="decision", content="We chose tea.")))
    assert (record["hookType"], record["type"], record["raw"]) == ("decision", "decision", {"content": "We chose tea."})


def test_a_memory_of_json_text_shows_no_json_as_a_fact():
    found = dialect.found_record(memory(content='{"filePath": "a.py", "note": "The limit is 5."}'))
    assert found["facts"] == ["a.py\nThe limit is 5."]
    assert dialect.found_record(memory(content="Port: 3111"))["facts"] == ["Port: 3111"]


@pytest.mark.parametrize(
    ("form", "has", "lacks"),
    [
        ("full", {"narrative", "content", "concepts", "files", "observation"}, set[str]()),
        ("compact", set[str](), {"narrative", "content", "observation"}),
        ("narrative", {"narrative"}, {"content", "observation"}),
    ],
)
def test_a_result_has_flat_fields_in_every_form(form: dialect.Format, has: set[str], lacks: set[str]):
    item = dialect.search_result(memory(session_id="s1"), 0.5, form)
    assert item.keys() >= {"obsId", "sessionId", "title", "type", "score", "combinedScore", "timestamp"} | has
    assert not item.keys() & lacks
    assert (item["obsId"], item["type"], item["score"]) == ("mem_1", "decision", 0.5)
    assert dialect.search_result(memory(), 0.5, form)["sessionId"] == dialect.NO_SESSION


def test_results_are_packed_up_to_the_first_that_does_not_fit():
    items = [{"a": "x" * 8}, {"a": "x" * 80}, {"a": "x"}]
    assert dialect.packed(items, None) == (items, 39, False)
    assert dialect.packed(items, 10) == (items[:1], 6, True)
    assert dialect.packed([], 1) == ([], 0, False)


def test_a_session_that_ended_is_completed():
    known = view(Session(id="ses_1", session_id="s1", project="p", status="ended", started_ms=1000, ended_ms=2000))
    record = dialect.session_record(known, commits=["abc"])
    assert (record["status"], record["endedAt"]) == ("completed", "1970-01-01T00:00:02.000Z")
    assert record["commitShas"] == ["abc"]
    assert "summary" not in record
    assert dialect.session_record({**known, "title": "Tea"})["summary"] == "Tea"


def test_a_lesson_tells_what_is_left_of_its_confidence():
    learned = view(Lesson(id="lsn_1", content="x" * 300, confidence=0.8, reinforcements=1, origin="reflection"))
    record = lesson_record(learned, 0.12345, 0.5)
    assert (record["confidence"], record["score"], record["source"]) == (0.123, 0.5, "consolidation")
    assert "lastReinforcedAt" in record
    assert len(lesson_hint(learned, 0.5, 0.1)["content"]) == LESSON_CHARS + 1


def test_a_slot_nobody_wrote_has_no_times():
    record = slot_record(view(Slot(id="slot_1", label="notes", content="abc")))
    assert (record["size"], record["sizeLimit"], record["createdAt"]) == (3, 2000, None)


def test_an_action_is_blocked_while_it_waits():
    from projections.nouns.action import work_item

    first = Action(id="act_1", title="A")
    second = Action(id="act_2", title="B", edges="requires\x1eact_1", priority=2.0)
    items = {one.id: work_item(one, 0) for one in (first, second)}
    assert action_record(view(second), items)["status"] == "blocked"
    assert action_record(view(second), {"act_2": items["act_2"]})["status"] == "pending"
    assert action_record(view(second), items)["priority"] == 2
    (edge,) = edge_records(view(second))
    assert (edge["type"], edge["sourceActionId"], edge["targetActionId"]) == ("requires", "act_2", "act_1")


def test_times_are_utc_to_the_millisecond():
    assert dialect.iso(datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)) == "2026-01-31T12:00:00.123Z"
