"""Memories and lessons as Markdown files: what a file says, its name, and what a mirror does."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog_client import Mnemolog, Unavailable
from mnemolog_client.answers import Lesson, Memory
from mnemolog_client.mirror import STATE, Mirror, refuse_incomplete
from mnemolog_client.notes import (
    Base,
    Note,
    State,
    Step,
    UnreadableNote,
    changes_of,
    file_names,
    next_step,
    note_of,
    read_note,
    write_note,
)

AT = datetime(2026, 11, 26, 19, 49, 5, 123456, UTC)
TEA = Note(id="mem_9e710a163bd7", version=2, title="Tea at four", tags=["tea"], created="2026-11-26T19:49:05Z",
           content="Tea at four.\n\nMilk first.")  # fmt: skip


def document(kind: type[Any], **fields: Any) -> Any:
    """An answer of the server; fields that are not named have any value."""
    usual: dict[Any, Any] = {str: "", int: 1, float: 1.0, bool: True, datetime: AT, datetime | None: None}
    usual |= {list[str]: [], dict[str, str]: {}}
    required = {field.name: usual[field.type] for field in msgspec.structs.fields(kind) if field.required}
    return kind(**required | fields)


def test_a_file_has_front_matter_as_obsidian_writes_it():
    assert write_note(TEA) == (
        "---\nid: mem_9e710a163bd7\nversion: 2\nkind: memory\ntitle: Tea at four\ntags:\n  - tea\n"
        "created: 2026-11-26T19:49:05Z\n---\nTea at four.\n\nMilk first.\n"
    )


def test_a_lesson_has_no_version():
    note = note_of(document(Lesson, id="lsn_1", title="Sum", content="Sum first.", tags=["x"]))
    assert (note.kind, note.version, note.created) == ("lesson", 0, "2026-11-26T19:49:05Z")
    assert "version" not in write_note(note)


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, st.lists(texts.filter(bool)), texts.filter(lambda text: text.strip("\n").strip() != ""))
def test_what_is_written_is_read_again(title: str, tags: list[str], content: str):
    note = note_of(document(Memory, id="mem_1", title=title, tags=tags, content=content))
    assert read_note(write_note(note), "stem").digest == note.digest


def test_line_ends_and_empty_lines_around_the_text_are_no_change():
    text = write_note(TEA).replace("\n", "\r\n")
    assert read_note(text + "\r\n\r\n", "x").digest == TEA.digest
    assert note_of(document(Memory, id="mem_1", title=TEA.title, tags=["tea"], content=f"\n{TEA.content}\r\n")).digest \
        == TEA.digest  # fmt: skip


def test_a_new_file_is_a_memory_with_the_title_of_its_name():
    note = read_note("Milk first.\n", "how to pour")
    assert (note.id, note.kind, note.title, note.content) == ("", "memory", "how to pour", "Milk first.")
    note = read_note("---\nkind: lesson\ntags: a, b\ntitle: Pouring\n---\nMilk first.", "x")
    assert (note.kind, note.title, note.tags) == ("lesson", "Pouring", ["a", "b"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\nid: mem_1\nno end", "front matter has no end"),
        ("---\nid: obs_1\n---\nx", "'obs_1' is not the id of a memory or a lesson"),
        ("---\nid: mem_1/../x\n---\nx", "is not the id"),
        ("---\nid: [mem_1]\n---\nx", "is not the id"),
        ("---\nkind: slot\n---\nx", "`kind` must be memory or lesson, not 'slot'"),
        ("---\ntitle: [a]\n---\nx", "`title` must be a text"),
        ("---\nid: mem_1\n---\n \n", "no text"),
        ("", "no text"),
    ],
)
def test_a_file_that_is_no_note_is_refused_with_the_reason(text: str, reason: str):
    with pytest.raises(UnreadableNote, match=reason.replace("[", r"\[")):
        read_note(text, "x")


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Tea at four", "tea-at-four-9e710a.md"),
        ("../../etc/passwd", "etc-passwd-9e710a.md"),
        ("C:\\x\0y", "c-x-y-9e710a.md"),
        ("...", "memory-9e710a.md"),
        ("Ärger mit 茶 🍵", "ärger-mit-茶-9e710a.md"),
        ("x" * 300, f"{'x' * 50}-9e710a.md"),
    ],
)
def test_the_name_of_a_file_is_readable_and_stays_in_the_folder(title: str, name: str):
    note = msgspec.structs.replace(TEA, title=title)
    assert file_names(note) == (name, name.replace("-9e710a.md", "-9e710a163bd7.md"))


def test_only_what_changed_is_sent():
    assert changes_of(msgspec.structs.replace(TEA, tags=[]), TEA) == {"tags": []}
    # without a title, a revised memory gets its first words, so one that is no such words is sent again
    assert changes_of(msgspec.structs.replace(TEA, content="Tea at five."), TEA) == {"content": "Tea at five."}
    stated = msgspec.structs.replace(TEA, title="When?")
    changed = msgspec.structs.replace(stated, content="Tea at five.")
    assert changes_of(changed, stated) == {"content": "Tea at five.", "title": "When?"}


def test_files_stay_when_a_part_of_the_cluster_is_away(tmp_path: Path):
    def listing(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, headers={"Mnemolog-Degraded": "left out: partitions 3"}, json={"items": [], "next": None}
        )

    (tmp_path / "tea.md").write_text(write_note(TEA))
    state = State("", "", "r1", {TEA.id: Base("tea.md", TEA.digest)})
    (tmp_path / STATE).write_bytes(msgspec.json.encode(state))
    with Mnemolog("http://x", "", transport=httpx.MockTransport(listing), on_degraded=refuse_incomplete) as client:
        mirror = Mirror(client, tmp_path, lambda path, content, mode: None)
        with pytest.raises(Unavailable, match=r"GET /v1/memories is incomplete \(left out: partitions 3"):
            list(mirror.run(delete=True))
    assert (tmp_path / "tea.md").exists()


class Folder:
    """A mirror as simply as possible: a text of each document on the server, in the folder and after the last run."""

    def __init__(self) -> None:
        self.server, self.files, self.base = dict[str, str](), dict[str, str](), dict[str, str]()
        self.beside = set[str]()

    def run(self, delete: bool) -> dict[str, Step]:
        steps = {
            name: next_step(self.base.get(name), self.files.get(name), self.server.get(name),
                            in_conflict=name in self.beside and name in self.files, delete=delete)
            for name in sorted({*self.server, *self.files, *self.base})
        }  # fmt: skip
        for name, step in steps.items():
            match step:
                case Step.WRITE:
                    self.files[name] = self.base[name] = self.server[name]
                case Step.SEND:
                    self.server[name] = self.base[name] = self.files[name]
                case Step.SAME:
                    self.base[name] = self.files[name]
                    self.beside.discard(name)
                case Step.REMOVE:
                    del self.files[name], self.base[name]
                case Step.FORGET:
                    del self.server[name], self.base[name]
                case Step.CONFLICT if name in self.server:
                    self.base[name] = self.server[name]
                    self.beside.add(name)
                case Step.DROP:
                    self.base.pop(name, None)
                case _:
                    pass
        return steps


@given(st.randoms(use_true_random=False))
def test_no_edit_is_lost_whatever_happens_between_runs(chance: random.Random):
    """An edit on either side is on both sides after a run, or in conflict; and another run changes nothing."""
    mirror = Folder()
    for number in range(20):
        edited, changed, removed = set[str](), set[str](), set[str]()
        for _ in range(chance.randrange(4)):
            name, side = chance.choice("abc"), chance.choice(["file", "server"])
            match chance.choice(["edit", "edit", "remove", "settle"]), side:
                case "edit", "file" if name in mirror.files:
                    mirror.files[name] = f"file {number} {chance.random()}"
                    edited.add(name)
                case "edit", "server":
                    mirror.server[name] = f"server {number} {chance.random()}"
                    changed.add(name)
                case "remove", "file":
                    mirror.files.pop(name, None)
                    edited.discard(name)
                    removed.add(name)
                case "remove", "server":
                    mirror.server.pop(name, None)
                    changed.discard(name)
                case _:
                    mirror.beside.discard(name)
        delete, before = chance.random() < 0.3, (dict(mirror.files), dict(mirror.server))
        steps = mirror.run(delete)
        for name, step in steps.items():
            file, document = before[0].get(name), before[1].get(name)
            if step in (Step.CONFLICT, Step.UNKNOWN):
                assert (mirror.files.get(name), mirror.server.get(name)) == (file, document)
            elif name in edited:
                assert mirror.server[name] == file
            elif name in changed and name not in edited:
                assert mirror.files[name] == document
            if step == Step.FORGET:
                assert delete
                assert file is None
            if step == Step.REMOVE:
                assert name not in edited
        again = mirror.run(delete=False).values()
        assert set(again) <= {Step.SAME, Step.CONFLICT, Step.UNKNOWN, Step.MISSING}
