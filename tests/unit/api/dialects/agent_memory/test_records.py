from typing import Any

import pytest
from factories import NOW, TENANT, learned, place, recorded
from msgspec.structs import replace

from api.dialects.agent_memory.records import (
    FIELD,
    MAX_NAME_CHARS,
    TYPES,
    UNKNOWN,
    ObservationFields,
    completing,
    fields_of,
    graver,
    kinds_of,
    name_of,
    nearest_type,
    observe,
    project_of,
)
from ingest.commands.decide import Caller, Observe, RecordLesson, ReinforceLesson, ReviseLesson, decide
from ingest.events.envelope import Recorded
from ingest.ids import DocumentId, EventId
from ingest.nouns.lesson import LessonRecorded
from ingest.nouns.observation import ObservationRecorded
from projections.nouns.document import searchable_text
from projections.nouns.lesson import Lesson, evolve
from projections.nouns.observation import Observation, observation
from projections.text.compression import VALID_TYPES

FULL = ObservationFields(
    title="Pool exhausted",
    subtitle="the cause of the 502s",
    type="bugfix",
    narrative="Every request opened a connection. It was never given back.",
    facts=["the pool has 20 places", "requests wait 30 s"],
    concepts=["problem-solution", "gotcha"],
    files_read=["src/pool.py"],
    files_modified=["src/server.py", "tests/test_server.py"],
    tool_name="Edit",
    prompt_number=7,
)


def document(command: Observe) -> Observation:
    """What a command becomes."""
    event = decide(command, Caller(TENANT), EventId("e1"), NOW).event
    assert isinstance(event.data, ObservationRecorded)
    return observation(Recorded(place(1), *event), event.data, DocumentId("ses_1"))


def seen(kind: str, content: str = "", **data: Any) -> Observation:
    """An observation that did not come from agent-memory."""
    said = ObservationRecorded(kind=kind, content=content, data=data)
    return observation(recorded(said, place(1)), said, DocumentId("ses_1"))


def lesson(**data: Any) -> Lesson:
    event = learned(1, "never force-push", **data)
    assert isinstance(event.data, LessonRecorded)
    known = evolve(None, event, event.data)
    assert known is not None
    return known


def rule(**fields: Any) -> RecordLesson:
    return RecordLesson(content="never force-push", **fields)


@pytest.mark.parametrize(
    "said",
    [
        FULL,
        ObservationFields(title="only a title"),
        ObservationFields(title="", narrative=""),
        ObservationFields(title="t", narrative="", type="gotcha"),
        *(ObservationFields(title="t", narrative="n", type=one) for one in TYPES),
    ],
)
def test_an_observation_comes_back_as_it_was_said(said: ObservationFields):
    assert fields_of(document(observe(said, "atlas", "s1"))) == said


def test_what_is_kept_is_what_the_docstring_says():
    command = observe(FULL, "atlas", "s1")
    assert (command.project, command.session_id, command.kind) == ("atlas", "s1", "bugfix")
    assert command.content == FULL.narrative
    assert list(command.data) == [FIELD]
    assert observe(ObservationFields(title="t", narrative="n"), "p", "s").data == {
        FIELD: {"title": "t", "type": "discovery"}
    }
    assert observe(ObservationFields(title="t"), "p", "s").data == {
        FIELD: {"title": "t", "type": "discovery", "narrative": None}
    }


def test_every_part_is_searched_once():
    text = searchable_text(document(observe(FULL, "atlas", "s1")))
    for part in (FULL.title, FULL.subtitle, FULL.narrative, *FULL.facts, *FULL.concepts, *FULL.files_modified):
        assert text.count(str(part)) == 1


@pytest.mark.parametrize("one", TYPES)
def test_the_type_is_the_documents_kind(one: str):
    """Which is what a search for the type looks for."""
    said = replace(FULL, type=one)
    assert document(observe(said, "atlas", "s1")).kind == one
    assert one in kinds_of(one)


def test_what_a_hook_saw_is_shown_with_the_nearest_type_and_its_files():
    edit = fields_of(seen("post_tool_use", tool_name="Edit", tool_input={"file_path": "src/a.py"}))
    assert (edit.type, edit.tool_name) == ("change", "Edit")
    assert (edit.files_read, edit.files_modified) == ([], ["src/a.py"])
    read = fields_of(seen("post_tool_use", tool_name="Read", tool_input={"file_path": "src/a.py"}))
    assert (read.type, read.files_read, read.files_modified) == ("discovery", ["src/a.py"], [])


def test_what_was_observed_natively_is_shown_as_compressed():
    said = fields_of(seen("decision", "We use Redis Streams. Because they are ordered."))
    assert (said.title, said.type) == ("We use Redis Streams.", "decision")
    assert said.narrative == "We use Redis Streams. Because they are ordered."
    assert (said.subtitle, said.tool_name, said.prompt_number) == (None, None, None)


@pytest.mark.parametrize("data", ["text", {"title": 1}, {}, {"title": "t", "type": "poem"}])
def test_data_of_that_name_that_is_not_ours_is_no_crash(data: Any):
    assert fields_of(seen("note", "some words", **{FIELD: data})).title == "some words"


def test_every_kind_is_found_by_exactly_the_type_it_is_shown_with():
    for kind in VALID_TYPES:
        assert [one for one in TYPES if kind in kinds_of(one)] == [nearest_type(kind)]


def test_a_type_nobody_knows_finds_only_its_like():
    assert kinds_of("file_edit") == ["file_edit"]
    assert kinds_of("nonsense") == ["nonsense"]


def test_a_new_rule_is_confirmed_so_that_it_does_not_fade():
    known = lesson(severity="warning", title="Force-push")
    stated = rule(severity="warning", title="Force-push")
    assert completing(known.id, known, stated) == [ReinforceLesson(lesson=known.id)]
    assert completing("lsn_1", None, stated) == [ReinforceLesson(lesson="lsn_1")]


def test_a_rule_stated_again_takes_what_is_new_and_the_graver_severity():
    known = lesson(severity="warning", title="Old", trigger_tool="Bash").model_copy(update={"reinforcements": 1})
    assert completing(known.id, known, rule(severity="info")) == []
    stated = rule(severity="critical", title="New", trigger_pattern="push -f", project="atlas")
    (revised,) = completing(known.id, known, stated)
    assert revised == ReviseLesson(
        lesson=known.id, project="atlas", title="New", severity="critical", trigger_pattern="push -f"
    )


def test_a_native_lesson_gets_a_severity_and_an_inactive_one_is_active_again():
    known = lesson().model_copy(update={"reinforcements": 1, "active": False})
    (revised,) = completing(known.id, known, rule(severity="info"))
    assert revised == ReviseLesson(lesson=known.id, severity="info", active=True)


def test_the_graver_severity():
    assert [graver("info", "critical"), graver("warning", ""), graver("", "")] == ["critical", "warning", ""]


@pytest.mark.parametrize(
    ("tool_name", "tool_input", "title"),
    [
        ("Edit", {"file_path": "/home/ada/shop/pool.py", "new_string": "x"}, "Edit: pool.py"),
        ("Edit", {"file_path": "C:\\shop\\pool.py"}, "Edit: pool.py"),
        ("Bash", {"command": "git   push\n--force"}, "Bash: git push --force"),
        ("Grep", {"path": "/home/ada", "pattern": "TODO"}, "Grep: TODO"),
        ("Bash", {"command": "x" * 100}, "Bash: " + "x" * 74),
        ("WebFetch", {"url": " ", "other": 1}, "WebFetch"),
        ("Bash", "ls", "Bash"),
    ],
)
def test_the_use_of_a_tool_is_titled_by_what_it_was_used_on(tool_name: str, tool_input: Any, title: str):
    assert fields_of(seen("", tool_name=tool_name, tool_input=tool_input)).title == title


def test_a_title_that_a_model_made_stays():
    observed = replace(seen("", tool_name="Bash", tool_input={"command": "ls"}), title="Lists the files")
    assert fields_of(observed).title == "Lists the files"


@pytest.mark.parametrize(
    ("folder", "project"),
    [
        ("/home/ada/shop", "shop"),
        ("/home/ada/shop/", "shop"),
        ("shop", "shop"),
        ("/", UNKNOWN),
        ("", UNKNOWN),
        (None, UNKNOWN),
        ("C:\\Users\\ada\\shop", "C:\\Users\\ada\\shop"),
        ("/home/ada/nul\0", "nul\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_project_is_the_last_part_of_the_folder(folder: str | None, project: str):
    assert project_of(folder) == project


def test_long_names_fit_and_stay_different():
    one, other = name_of("x" * 1000), name_of("x" * 1001)
    assert len(one) == len(other) == MAX_NAME_CHARS
    assert one != other
    assert name_of(one) == one
