"""The data exports of ChatGPT and Claude, as sessions and memories."""

import json
import os
import struct
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZIP_STORED, ZipFile

import pytest
from factories import TENANT
from imported import documents, events

from api.importing.chats import open_chatgpt, open_claude
from api.importing.source import ImportRequest, Source, Unusable
from ingest.errors import CommandRejected
from ingest.events.envelope import Event
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Session

FILES = Path(__file__).with_name("files")
(CHATGPT,) = json.loads((FILES / "chatgpt" / "conversations.json").read_text())
(CLAUDE,) = json.loads((FILES / "claude" / "conversations.json").read_text())


def zipped(folder: Path, **files: Any) -> Path:
    """An export; names end in `.json` but for one dot."""
    path = folder / "export.zip"
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name.replace('__', '/')}.json", json.dumps(content))
        archive.writestr("chat.html", "<html>")
    return path


def chatgpt(path: Path) -> Source:
    return open_chatgpt(ImportRequest(str(path), TENANT))


def claude(path: Path) -> Source:
    return open_claude(ImportRequest(str(path), TENANT))


def imported(source: Source) -> tuple[list[Event], dict[str, str], dict[str, list[str]]]:
    """The events of an export, why rows are skipped, and what is lost of others."""
    made, skipped, lost = list[Event](), dict[str, str](), dict[str, list[str]]()
    for placed in source.rows([]):
        try:
            mapped = source.mapped(placed.row)
        except CommandRejected as error:
            skipped[placed.row.name] = str(error)
            continue
        made += events(source.system, lambda row: mapped, [placed.row])  # noqa: B023
        if mapped.lost:
            lost[placed.row.name] = list(mapped.lost)
    return made, skipped, lost


def test_chatgpt_shows_the_branch_of_the_current_node(tmp_path: Path):
    source = chatgpt(zipped(tmp_path, conversations=[CHATGPT]))
    made, skipped, lost = imported(source)
    (session,) = documents(made, Session)
    assert (session.title, session.project, session.session_id, session.status) == (
        "Wheel",
        "chatgpt",
        "chat-1",
        "ended",
    )
    seen = sorted(documents(made, Observation), key=lambda one: one.position)
    assert [one.data.get("prompt") or one.data.get("tool_input") or one.data.get("tool_output") or one.content
            for one in seen] == [
        "[image: file-abc]\nWhat is it?\nout loud\n[file: wheel.png]", "print(1)", "1", "A wheel",
    ]  # fmt: skip
    hidden, branch = "hidden in the conversation", "on another branch: edited or regenerated"
    assert skipped == {"system": hidden, "thought": "the model's reasoning", "hidden": hidden, "old": branch}
    assert lost == {"asked": ["images and other files: only their names are imported"]}
    assert source.total() == len(list(source.rows([]))) == 11
    assert source.notes == ["left out, 1 of the files in the export: chat.html"]


def test_custom_instructions_of_many_conversations_are_one_memory(tmp_path: Path):
    both = [CHATGPT, {**CHATGPT, "conversation_id": "chat-2"}]
    made, _, _ = imported(chatgpt(zipped(tmp_path, **{"conversations-000": both})))
    stated = [event for event in made if event.envelope.type == "memory.recorded"]
    assert len(stated) == 2
    assert len({event.envelope.event_id for event in stated}) == 1


def test_without_a_current_node_the_last_leaf_counts(tmp_path: Path):
    tree = {name: each for name, each in CHATGPT["mapping"].items() if name != "hidden"}
    without = {name: value for name, value in CHATGPT.items() if name != "current_node"}
    _, skipped, _ = imported(chatgpt(zipped(tmp_path, conversations=[{**without, "mapping": tree}])))
    assert set(skipped) == {"system", "thought", "old"}


def test_a_circle_of_nodes_ends_nothing(tmp_path: Path):
    tree = {
        "new": {**CHATGPT["mapping"]["new"], "parent": "asked"},
        "asked": CHATGPT["mapping"]["asked"] | {"parent": "new"},
    }
    made, _, _ = imported(
        chatgpt(zipped(tmp_path, conversations=[{**CHATGPT, "mapping": tree, "current_node": "new"}]))
    )
    assert len(documents(made, Observation)) == 2


def test_claude_keeps_tool_calls_and_pasted_text_and_names_files(tmp_path: Path):
    made, skipped, lost = imported(claude(zipped(tmp_path, conversations=[CLAUDE])))
    (session,) = documents(made, Session)
    assert (session.title, session.project, session.status) == ("Plan", "claude", "ended")
    asked, called, answered, older = sorted(documents(made, Observation), key=lambda one: one.position)
    assert asked.data["prompt"] == "Read this\n[file: paste.txt]\nfive spokes\n[file: photo.jpg]"
    assert called.data == {"tool_name": "web_search", "tool_input": {"query": "wheel"}, "tool_output": "round"}
    assert (answered.content, older.data["prompt"]) == ("It is round", "in the old format")
    assert skipped == {}
    files = ["images and other files: only their names are imported"]
    assert lost == {"m1": files, "m2": ["the model's reasoning", "parts of another type: hologram"]}


def test_claude_shows_the_branch_of_the_current_leaf(tmp_path: Path):
    first, second, third = CLAUDE["chat_messages"]
    tree = [first, {**second, "parent_message_uuid": "m1"}, {**third, "parent_message_uuid": "m1"}]
    talk = {**CLAUDE, "chat_messages": tree, "current_leaf_message_uuid": "m3"}
    _, skipped, _ = imported(claude(zipped(tmp_path, conversations=[talk])))
    assert skipped == {"m2": "on another branch: edited or regenerated"}


def test_what_claude_remembers_and_its_projects_are_memories(tmp_path: Path):
    remembered, (project,) = (
        json.loads((FILES / "claude" / f"{name}.json").read_text()) for name in ("memories", "projects")
    )
    path = zipped(tmp_path, conversations=[CLAUDE], memories=remembered, projects__p1=project)
    for source in (claude(path), claude(FILES / "claude")):
        made, _, _ = imported(source)
        assert {memory.content: (memory.title, memory.tags[0]) for memory in documents(made, Memory)} == {
            "Ada builds wheels.": ("What Claude remembers", "claude-memory"),
            "Be exact": ("Mill: instructions", "project"),
            "Oak only.": ("What Claude remembers of Mill", "claude-memory"), "Spokes: 8": ("Mill: spec.md", "project"),
        }  # fmt: skip


def test_importing_again_makes_the_same_events_and_a_longer_conversation_only_adds(tmp_path: Path):
    once, _, _ = imported(claude(zipped(tmp_path, conversations=[CLAUDE])))
    more = {"uuid": "m4", "sender": "human", "text": "And now?", "created_at": "2025-06-02T10:00:00Z"}
    longer = {**CLAUDE, "chat_messages": [*CLAUDE["chat_messages"], more], "updated_at": "2025-06-02T10:00:00Z"}
    (tmp_path / "conversations.json").write_text(json.dumps([longer]))
    again, _, _ = imported(claude(tmp_path / "conversations.json"))
    known = {event.envelope.event_id for event in once}
    prompt, end = [event for event in again if event.envelope.event_id not in known]
    assert prompt.data.data == {"prompt": "And now?"}  # type: ignore[union-attr]
    (session,) = documents([*once, prompt, end], Session)
    assert session.status == "ended"


def test_an_entry_that_is_no_conversation_is_skipped_with_a_reason(tmp_path: Path):
    _, skipped, _ = imported(chatgpt(zipped(tmp_path, conversations=[CHATGPT, "text", {"title": "empty"}])))
    assert skipped["number 1"] == skipped["number 2"] == "has no time"


@pytest.mark.parametrize("content", [b"PK\x03\x04 torn", b"[]", b'[{"uuid": "x"}]', b"hello"])
def test_another_file_is_no_export(tmp_path: Path, content: bytes):
    (tmp_path / "export.zip").write_bytes(content)
    for opened in (chatgpt, claude):
        with pytest.raises(Unusable):
            opened(tmp_path / "export.zip")


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_LZMA])
def test_a_damaged_archive_is_refused(tmp_path: Path, compression: int):
    path = tmp_path / "export.zip"
    with ZipFile(path, "w", compression) as archive:
        archive.writestr("conversations.json", json.dumps([CLAUDE]))
    content = bytearray(path.read_bytes())
    end = content.index(b"PK\x01\x02")
    content[70:end] = b"\xff" * (end - 70)
    content[end + 20 : end + 28] = struct.pack("<II", len(content), len(content))  # more than there is
    path.write_bytes(content)
    with pytest.raises(Unusable, match=r"cannot be read as a zip archive: ."):
        claude(path)


def test_a_file_whose_name_is_not_utf_8_is_left_out(tmp_path: Path):
    (tmp_path / "conversations.json").write_text(json.dumps([CLAUDE]))
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.png")).touch()
    except OSError:
        pytest.skip("the file system has names in UTF-8 only")
    assert claude(tmp_path).notes == ["left out, 1 of the files in the export: caf\ufffd.png"]


def test_a_document_that_is_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("api.importing.source.MAX_DOCUMENT_BYTES", 100)
    with pytest.raises(Unusable, match="which is the limit"):
        chatgpt(zipped(tmp_path, conversations=[CHATGPT]))
    monkeypatch.undo()
    monkeypatch.setattr("api.importing.source.MAX_UNPACKED_BYTES", 100)
    with pytest.raises(Unusable, match="export it in parts"):
        chatgpt(zipped(tmp_path, conversations=[CHATGPT]))
