"""Transcripts and native commands, as events."""

from datetime import UTC, datetime
from typing import Any

import pytest
from imported import documents, events

from api.importing import claude_code, transcripts
from api.importing.claude_code import TranscriptLine
from api.importing.mapping import ImportRow, Mapped, Record
from ingest.errors import CommandRejected
from projections.documents.observations import Observation
from projections.documents.sessions import Session

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
BASE = {"sessionId": "cc-1", "cwd": "/home/ada/shop", "timestamp": "2026-01-31T12:00:00.000Z"}


def said(kind: str, content: Any, **more: Any) -> Record:
    return {**BASE, "type": kind, "uuid": f"u-{len(str(content))}", "message": {"content": content}, **more}


def called(name: str) -> Record:
    return said("assistant", [{"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}])


def answered(name: str, content: Any, **more: Any) -> Record:
    return said("user", [{"type": "tool_result", "tool_use_id": name, "content": content, **more}])


def rows(*entries: Record | None) -> list[tuple[int, ImportRow]]:
    return list(claude_code.rows(TranscriptLine(number, entry) for number, entry in enumerate(entries, 1)))


def taken(*entries: Record | None) -> list[ImportRow]:
    return [row for _, row in rows(*entries) if row.kind == "observation"]


def test_prompts_answers_and_tool_calls_are_observations_of_a_session():
    found = events("jsonl", claude_code.mapped, taken(
        said("user", "why is it red?"),
        said("assistant", [{"type": "text", "text": "I look."}]),
        called("t1"),
        answered("t1", [{"type": "text", "text": "2 failed"}, {"type": "image"}]),
    ))  # fmt: skip
    (session,), seen = documents(found, Session), documents(found, Observation)
    assert (session.project, session.session_id, session.cwd) == ("shop", "cc-1", "/home/ada/shop")
    assert (session.first_prompt, session.agent_type, session.status) == ("why is it red?", "claude-code", "active")
    assert [one.kind for one in seen] == ["conversation", "other", "command_run"]
    assert seen[1].content == "I look."
    assert seen[2].data == {"tool_name": "Bash", "tool_input": {"command": "t1"}, "tool_output": "2 failed\n[image]"}


def test_a_failed_call_is_an_error():
    found = events("jsonl", claude_code.mapped, taken(called("t1"), answered("t1", "boom", is_error=True)))
    (seen,) = documents(found, Observation)
    assert (seen.kind, seen.data["error"]) == ("error", "boom")


def test_lines_that_say_nothing_are_refused_with_why():
    why = [
        (row.name, str(row.value["reason"]))
        for _, row in rows(
            None, {"type": "progress", **BASE}, called("t1"), said("user", "hm", isMeta=True), called("t2")
        )
        if row.kind == "line"
    ]
    assert why == [
        ("line 1", "not a JSON object"),
        ("line 2", "no message: progress"),
        ("line 3", "part of a tool call, or without text"),
        ("line 4", "part of a tool call, or without text"),
        ("line 5", "part of a tool call, or without text"),
        ("t1", "a tool call without a result"),
        ("t2", "a tool call without a result"),
    ]
    with pytest.raises(CommandRejected, match="not a JSON object"):
        claude_code.mapped(rows(None)[0][1])


def test_a_long_text_of_a_tool_is_cut_and_that_is_said():
    (row,) = taken(called("t1"), answered("t1", "x" * 9_000))
    mapped = claude_code.mapped(row)
    assert list(mapped.lost) == ["texts of tool calls after 8,000 characters"]


def test_a_transcript_that_grew_gives_the_same_events_and_more():
    short = [said("user", "one"), called("t1"), answered("t1", "ok")]
    once = events("jsonl", claude_code.mapped, taken(*short))
    assert events("jsonl", claude_code.mapped, taken(*short, said("user", "three")))[: len(once)] == once


def test_a_turn_of_antigravity_is_the_observation_that_a_sync_makes():
    value = {"session_id": "antigravity_1", "project": "/shop", "prompt": "why?", "response": "so", "first": True}

    def mapped(row: ImportRow) -> Mapped:
        return transcripts.turn(row, AT)

    found = events("jsonl", mapped, [ImportRow("turn", "1", value)])
    (seen,), (session,) = documents(found, Observation), documents(found, Session)
    assert seen.event_id == transcripts.observed("antigravity_1", "/shop", "why?", "so").event_id
    assert (seen.agent_id, session.cwd) == ("antigravity", "/shop")


def command(name: str, **value: Any) -> Mapped:
    return transcripts.command(ImportRow("command", name, value), AT)


def test_a_command_happened_when_it_says_else_when_the_file_does():
    (step,) = command("line 1", type="observe", session_id="s", content="a").steps
    assert step.at == AT
    (step,) = command("line 1", type="observe", session_id="s", content="a", occurred_at="2026-01-01T00:00:00Z").steps
    assert step.at == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_command_is_known_by_its_own_name_else_by_its_line():
    named = {"type": "remember", "content": "tea", "event_id": "mine"}
    one, other = (
        events("jsonl", lambda row: transcripts.command(row, AT), [ImportRow("command", line, named)]) for line in "12"
    )
    assert one == other
    assert one[0].envelope.event_id == "mine"
    keys = {command(line, type="remember", content=text).steps[0].key for line in "12" for text in ("tea", "milk")}
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, None),
        ({"type": "dance"}, "type"),
        ({"type": "remember"}, "content"),
        ({"type": "observe", "content": "a", "occurred_at": "2026-01-01T00:00:00"}, "occurred_at"),
    ],
)
def test_a_line_that_is_no_command_is_refused(value: Record, field: str | None):
    with pytest.raises(CommandRejected) as refused:
        command("line 1", **value)
    assert refused.value.field == field
