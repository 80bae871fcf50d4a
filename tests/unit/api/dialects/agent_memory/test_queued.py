"""What hooks report, as commands."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import NOW

from api.dialects.agent_memory import sessions
from api.dialects.agent_memory.records import AGENT_TYPE
from api.dialects.agent_memory.sessions import PREVIEW_CHARS, SKIPPED, QueueItem, event_id, observe, spooled, started
from ingest.commands.decide import Caller, Observe, decide
from ingest.commands.spool import Spool
from ingest.errors import MalformedRequest
from ingest.ids import new_event_id

BODY = b'{"session_id":"s1","tool_name":"Bash","cwd":"/home/ada/shop"}'
NAME = "1700000000000-77.json"
AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def observed(**said: Any) -> Observe:
    return observe(QueueItem.model_validate({"session_id": "s1", **said}), b"{}", "shop", NAME)


def test_a_report_becomes_an_observation_of_the_tool():
    command = observed(tool_name="Bash", tool_input={"command": "ls"}, tool_response_preview="a.py")
    assert command == Observe(
        event_id=event_id(b"{}", NAME),
        project="shop",
        session_id="s1",
        occurred_at=AT,
        data={"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_output": "a.py"},
    )


def test_the_response_is_cut_and_its_absence_is_not_two_quotes():
    assert len(observed(tool_response_preview="x" * 5_000).data["tool_output"]) == PREVIEW_CHARS
    assert "tool_output" not in observed(tool_response_preview='""').data


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"session_id": ""},
        {"session_id": "nul\0nul", "tool_input": {"\0": "\0"}, "tool_name": "\0"},
        {"session_id": "x" * 100_000, "tool_name": "x" * 3_000_000},
        {"last_user_message": "why? " * 1_000_000},
        {"tool_input": {"n": 10**40}},
    ],
)
def test_nothing_that_can_be_read_is_refused(said: dict[str, Any]):
    decision = decide(observed(**said), Caller(), new_event_id(), NOW)
    assert decision.subject.startswith("obs_")


def test_a_session_begins_with_its_folder():
    command = started("s1", "shop", "/home/ada/shop")
    assert (command.status, command.cwd, command.agent_type) == ("started", "/home/ada/shop", AGENT_TYPE)


def test_a_spool_file_happened_when_its_name_says():
    body = json.dumps({"session_id": "s1", "tool_name": "Bash", "cwd": "/home/ada/shop"}).encode()
    (command,) = spooled(body, NAME)
    assert isinstance(command, Observe)
    assert (command.project, command.occurred_at) == ("shop", AT)
    (unnamed,) = spooled(body, "left.json")
    assert isinstance(unnamed, Observe)
    assert unnamed.occurred_at is None


def test_skipped_tools_are_not_spooled():
    assert len(SKIPPED) == 13
    assert spooled(b'{"session_id":"s","tool_name":"TodoWrite"}', "1-2.json") == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"tool_name":"Bash"}', b'{"session_id":"s","tool_input":[1]}'])
def test_what_is_no_report_says_so(content: bytes):
    with pytest.raises(MalformedRequest, match="no item of the queue"):
        spooled(content, NAME)


def test_what_is_kept_is_what_the_spool_takes(tmp_path: Path):
    folder = tmp_path / "spool"
    assert sessions.keep(folder, sessions.new_name(), BODY)
    assert sessions.keep(folder, sessions.new_name(), BODY)
    taken = Spool(folder, spooled).take(10)
    assert [len(file.commands) for file in taken] == [1, 1]
    assert len({command.event_id for file in taken for command in file.commands}) == 2


def test_the_folder_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_FILES", 1)
    assert sessions.keep(tmp_path, sessions.new_name(), BODY)
    assert not sessions.keep(tmp_path, sessions.new_name(), BODY)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_report_that_was_stored_and_kept_all_the_same_is_one_event(tmp_path: Path):
    name = sessions.new_name()
    stored = observe(QueueItem.model_validate_json(BODY), BODY, "shop", name)
    sessions.keep(tmp_path, name, BODY)
    (file,) = Spool(tmp_path, spooled).take(10)
    assert file.commands == [stored]
