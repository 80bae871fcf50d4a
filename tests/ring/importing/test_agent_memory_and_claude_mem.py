"""Observations, sessions and rules of agent-memory and claude-mem, as they are here after an import."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from factories import TENANT
from imported import documents, events

from api.dialects.agent_memory import claude_mem
from api.dialects.agent_memory import importer as agent_memory
from api.dialects.agent_memory.records import fields_of
from api.importing.mapping import ImportRow, Mapped
from api.importing.source import ImportRequest, Source
from ingest.errors import CommandRejected
from projections.documents.lessons import Lesson
from projections.documents.observations import Observation
from projections.documents.sessions import Session, Summary

AT = "2026-01-31T12:00:00.000Z"
LATER = "2026-01-31T13:00:00.000Z"
SEEN = {
    "id": 7, "session_id": "m1", "memory_session_id": "m1", "project": "mill", "title": "Wheel turns", "type": "gotcha",
    "subtitle": None, "narrative": "It squeaks.", "facts": '["oak"]', "concepts": '["wheel"]', "files_read": "[]",
    "files_modified": '["wheel.py"]', "prompt_number": 2, "created_at": AT,
}  # fmt: skip
SESSION = {"session_id": "m1", "project": "mill", "first_at": AT, "last_at": LATER, "observation_count": 1}
RULE = {
    "id": 3, "project_name": "mill", "title": "Oil", "rule": "Oil the wheel", "severity": "critical",
    "trigger_tool": "Bash", "trigger_pattern": "turn", "trigger_count": 2, "active": True, "created_at": AT,
}  # fmt: skip


def of_agent_memory(row: ImportRow) -> Mapped:
    return agent_memory.mapped(row, TENANT)


def test_an_observation_is_shown_as_agent_memory_shows_it():
    found = events("claude-mem", claude_mem.mapped, [ImportRow("observation", "7", SEEN)])
    (seen,) = documents(found, Observation)
    said = fields_of(seen)
    assert seen.content == "Wheel turns\nIt squeaks.\n- oak"
    assert (said.title, said.narrative, said.type, said.facts) == ("Wheel turns", "It squeaks.", "gotcha", ["oak"])
    assert (said.files_modified, said.prompt_number) == (["wheel.py"], 2)
    assert (seen.project, seen.session_id) == ("mill", "m1")


@pytest.mark.parametrize(
    ("changes", "title", "narrative", "kind"),
    [
        ({"type": "invented"}, "Wheel turns", "It squeaks.", "discovery"),
        ({"narrative": None, "text": "raw words"}, "Wheel turns", "raw words", "gotcha"),
        ({"narrative": "", "text": ""}, "Wheel turns", None, "gotcha"),
        ({"title": None}, "Untitled", "It squeaks.", "gotcha"),
    ],
)
def test_what_an_observation_lacks_is_made_up_for(
    changes: dict[str, Any], title: str, narrative: str | None, kind: str
):
    found = events("claude-mem", claude_mem.mapped, [ImportRow("observation", "7", {**SEEN, **changes})])
    said = fields_of(documents(found, Observation)[0])
    assert (said.title, said.narrative, said.type) == (title, narrative, kind)


def test_a_list_that_is_no_json_is_lost_and_said():
    mapped = claude_mem.mapped(ImportRow("observation", "7", {**SEEN, "facts": '{"a": 1}'}))
    assert list(mapped.lost) == ["facts: not a list"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"title": None, "narrative": None}, "title"),
        ({"created_at": "soon"}, "created_at"),
        ({"session_id": None}, "session_id"),
    ],
)
def test_a_broken_observation_is_refused_by_its_field(changes: dict[str, Any], field: str):
    with pytest.raises(CommandRejected) as refused:
        claude_mem.mapped(ImportRow("observation", "7", {**SEEN, **changes}))
    assert refused.value.field == field


def test_the_same_number_in_another_file_is_another_observation():
    one = events("claude-mem", claude_mem.mapped, [ImportRow("observation", "7", SEEN)])
    other = events("claude-mem", claude_mem.mapped, [ImportRow("observation", "7", {**SEEN, "created_at": LATER})])
    assert one[0].envelope.event_id != other[0].envelope.event_id


def test_a_session_of_claude_mem_is_summarised_and_over():
    summary = {**SESSION, "request": "oil it", "learned": "It squeaks", "files_edited": '["a.py"]', "created_at": LATER}
    rows = [
        ImportRow("session", "m1", {**SESSION, "user_prompt": "please\noil it"}),
        ImportRow("observation", "7", SEEN),
        ImportRow("summary", "1", summary),
        ImportRow("session end", "m1", SESSION),
    ]
    found = events("claude-mem", claude_mem.mapped, rows)
    (session,), (told,) = documents(found, Session), documents(found, Summary)
    assert (session.title, session.status, session.observation_count) == ("please oil it", "ended", 1)
    assert session.summarised == 1
    assert (told.title, told.narrative, told.files) == ("oil it", "Learned: It squeaks", ["a.py"])
    with pytest.raises(CommandRejected, match="goes on"):
        claude_mem.mapped(ImportRow("session end", "m1", {**SESSION, "status": "active"}))


def test_a_prompt_is_the_sessions_first():
    prompt = {**SESSION, "prompt_text": "oil the  wheel", "created_at": AT}
    (session,) = documents(events("claude-mem", claude_mem.mapped, [ImportRow("prompt", "1", prompt)]), Session)
    assert session.first_prompt == "oil the wheel"


def test_a_rule_keeps_its_trigger_and_lasts():
    (lesson,) = documents(events("agent-memory", of_agent_memory, [ImportRow("lesson", "3", RULE)]), Lesson)
    assert (lesson.content, lesson.title, lesson.severity) == ("Oil the wheel", "Oil", "critical")
    assert (lesson.trigger_tool, lesson.trigger_pattern, lesson.trigger_count) == ("Bash", "turn", 2)
    assert (lesson.active, lesson.reinforcements) == (True, 1)


def test_a_rule_that_is_off_stays_off():
    (lesson,) = documents(
        events("agent-memory", of_agent_memory, [ImportRow("lesson", "3", {**RULE, "active": False})]), Lesson
    )
    assert not lesson.active


@pytest.mark.parametrize(
    ("changes", "field"), [({"trigger_pattern": "("}, "trigger_pattern"), ({"severity": "fatal"}, "severity")]
)
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, Any], field: str):
    with pytest.raises(CommandRejected) as refused:
        events("agent-memory", of_agent_memory, [ImportRow("lesson", "3", {**RULE, **changes})])
    assert refused.value.field == field


@pytest.mark.parametrize(("status", "shown"), [("completed", "ended"), ("failed", "failed")])
def test_a_session_of_agent_memory_ends_as_it_ended_there(status: str, shown: str):
    known = {
        "session_id": "s1", "project_name": "mill", "project_path": "/home/ada/mill", "agent_type": "claude-code",
        "status": status, "started_at": AT, "completed_at": LATER, "summary": "All done.", "observation_count": 0,
    }  # fmt: skip
    rows = [ImportRow("session", "s1", known), ImportRow("session end", "s1", known)]
    found = events("agent-memory", of_agent_memory, rows)
    (session,), (told,) = documents(found, Session), documents(found, Summary)
    assert (session.status, session.cwd, session.agent_type) == (shown, "/home/ada/mill", "claude-code")
    assert told.narrative == "All done."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What claude-mem wrote, with a worktree that was merged."""
    shutil.unpack_archive(Path(__file__).with_name("files") / "claude-mem.zip", tmp_path)
    return tmp_path / "claude-mem.db"


@pytest.fixture
def real(file: Path) -> Iterator[Source]:
    with closing(claude_mem.open_source(ImportRequest(str(file), TENANT))) as source:
        yield source


def test_a_file_of_claude_mem_is_imported_with_its_tool_calls_and_agents(real: Source):
    rows = [placed.row for placed in real.rows([])]
    seen = documents(events("claude-mem", real.mapped, [row for row in rows if row.kind != "session end"]), Observation)
    assert len(rows) == real.total() == 14
    assert Counter(one.kind for one in seen) == {
        "conversation": 2, "command_run": 2, "bugfix": 2, "security_alert": 2,
    }  # fmt: skip
    ran = next(one for one in seen if one.kind == "command_run")
    assert (ran.data["tool_input"], ran.agent_id) == ({"command": "oil --all"}, "agent-7")
    fixed = next(one for one in seen if one.kind == "bugfix")
    assert (fixed.content, fixed.title) == ("Wheel turns\nIt squeaked.\n- Oil helps\n- Oak swells", "Wheel turns")
    assert (fixed.facts, fixed.narrative, fixed.model) == (("Oil helps", "Oak swells"), "It squeaked.", "claude-mem")
    assert (fixed.agent_id, fixed.metadata["agent_type"]) == ("agent-7", "Explore")


def test_a_merged_worktree_is_in_the_project_that_it_was_merged_into(real: Source):
    found = events("claude-mem", real.mapped, [one.row for one in real.rows([]) if one.row.kind != "session end"])
    assert {event.envelope.project for event in found} == {"mill"}
    assert {session.summarised for session in documents(found, Session)} == {4}
    worktrees = [one.metadata.get("worktree") for one in documents(found, Observation) if one.kind == "bugfix"]
    assert sorted(filter(None, worktrees)) == ["mill/fix-wheel"]


def test_a_newer_schema_and_a_queue_are_reported(file: Path):
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO schema_versions (version, applied_at) VALUES (99, 'now')")
        database.execute(
            "INSERT INTO pending_messages (session_db_id, content_session_id, message_type, created_at_epoch)"
            " VALUES (1, 'content-1', 'observation', 1)"
        )
    with closing(claude_mem.open_source(ImportRequest(str(file), TENANT))) as source:
        version, queue = source.notes
    assert "version 99; the newest known version is 52" in version
    assert queue.startswith("1 tool calls in the queue")
