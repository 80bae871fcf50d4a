"""`mnemolog admin mirror`: memories and lessons as files that a person edits, with a real server."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.platform.files import write_whole
from mnemolog_client import Mnemolog, NotFound
from mnemolog_client.mirror import Mirror
from tests.acceptance.running import SECRET, Server
from tests.acceptance.test_cli_documents import Cli

Sync = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def cli(server: Server, project: str) -> Cli:
    return Cli(server, project)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def client(server: Server) -> Iterator[Mnemolog]:
    with Mnemolog(server.url, SECRET, agent="ada") as opened:
        yield opened


@pytest.fixture
def sync(cli: Cli, folder: Path, client: Mnemolog, project: str) -> Sync:
    """A run of the command, after the client's writes are readable; returns its steps and the files they are about."""

    def sync(*options: str, code: int = 0) -> list[tuple[str, str]]:
        list(client.memories.list(project))
        report = cli.json("mirror", str(folder), "-p", project, "-a", "ada", "--yes", *options, code=code)
        return [(step["step"], step["file"]) for step in report["steps"]]

    return sync


def only(folder: Path, pattern: str = "*.md") -> Path:
    (path,) = folder.glob(pattern)
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_documents_become_files_and_edits_become_revisions(sync: Sync, folder: Path, client: Mnemolog, project: str):
    memory = client.memories.create("We deploy on Tuesdays.\n\nNever on Fridays.", project=project, tags=["deploy"])
    lesson = client.lessons.create("Sum first, round last.", project=project, title="Rounding")
    assert sorted(sync()) == [
        ("write", f"rounding-{lesson.id[4:10]}.md"),
        ("write", f"we-deploy-on-tuesdays-{memory.id[4:10]}.md"),
    ]
    assert sync() == []
    path, other = only(folder, "we-*"), only(folder, "rounding-*")
    assert path.read_text().startswith(f"---\nid: {memory.id}\nversion: 1\nkind: memory\n")
    edit(path, "Tuesdays.\n", "Mondays.\n")
    edit(path, "  - deploy\n", "  - deploy\n  - ops\naliases: [Deploys]\n")
    edit(other, "Sum first", "Add first")
    assert sync("--dry-run") == [("send", other.name), ("send", path.name)]
    assert sync() == [("send", other.name), ("send", path.name)]
    versions = client.memories.history(memory.id)
    assert [(version.content[:20], version.title, version.tags, version.agent_id) for version in versions] == [
        ("We deploy on Tuesday", "We deploy on Tuesdays.", ["deploy"], "ada"),
        ("We deploy on Mondays", "We deploy on Mondays.", ["deploy", "ops"], "ada"),
    ]
    assert client.lessons.get(lesson.id).content == "Add first, round last."
    assert f"id: {versions[1].id}\nversion: 2\n" in path.read_text()
    assert "\naliases: [Deploys]\n" in path.read_text()
    assert sync() == []


def test_what_changed_on_the_server_is_written_to_the_same_file(
    sync: Sync, folder: Path, client: Mnemolog, project: str
):
    memory = client.memories.create("We deploy on Tuesdays.", project=project)
    sync()
    path = only(folder).rename(folder / "deploys.md")
    client.memories.revise(client.memories.revise(memory.id, content="We deploy on Mondays.").id, tags=["x"])
    assert sync() == [("write", "deploys.md")]
    assert "\nversion: 3\nkind: memory\ntitle: We deploy on Mondays.\ntags:\n  - x\n" in path.read_text()
    assert path.read_text().endswith("\n---\nWe deploy on Mondays.\n")


def test_a_new_file_becomes_a_memory_once(sync: Sync, folder: Path, client: Mnemolog, project: str):
    (folder / "people").mkdir(parents=True)
    (folder / "people" / "Bob.md").write_bytes("\ufeff---\r\ntags: [a]\r\n---\r\nDrinks tea.\r\n".encode())
    (folder / "rule.md").write_text("---\nkind: lesson\n---\nMilk first.\n")
    (folder / ".hidden.md").write_text("no note")
    assert sync() == [("create", "rule.md"), ("create", "people/Bob.md")]
    (memory,) = client.memories.list(project)
    (lesson,) = client.lessons.list(project)
    assert (memory.title, memory.tags, memory.content, memory.agent_id) == ("Bob", ["a"], "Drinks tea.", "ada")
    assert f"id: {memory.id}\n" in (folder / "people" / "Bob.md").read_text()
    assert f"id: {lesson.id}\n" in (folder / "rule.md").read_text()
    assert sync() == []


def test_a_run_that_was_killed_creates_nothing_twice(sync: Sync, folder: Path, client: Mnemolog, project: str):
    folder.mkdir()
    before = {
        folder / "tea.md": "Milk first.\n",
        folder / ".mnemolog-mirror.json": json.dumps({"project": project, "agent": "ada", "run": "r1", "files": {}}),
    }
    for _ in range(2):
        for path, text in before.items():
            path.write_text(text)
        assert sync() == [("create", "tea.md")]
    (memory,) = client.memories.list(project)
    assert f"id: {memory.id}\n" in (folder / "tea.md").read_text()
    assert sync() == []


def test_a_removed_file_deletes_its_memory_only_on_request(
    server: Server, sync: Sync, folder: Path, cli: Cli, client: Mnemolog, project: str
):
    client.memories.create("It stays.", project=project, title="stays")
    memory = client.memories.create("The vault is behind the painting.", project=project, title="vault")
    with Mnemolog(server.url, SECRET, agent="bob", position=client.position) as bob:
        newest = bob.memories.revise(memory.id, content="The vault is behind the mirror.", title="vault")
        client.advance(bob.position)
    sync()
    name = only(folder, "vault*").name
    only(folder, "vault*").unlink()
    assert sync() == [("missing", name)]
    report = cli.json("mirror", str(folder), "-p", project, "-a", "ada", "--delete")
    (step,) = report["steps"]
    assert (step["step"], step["file"]) == ("forget", name)
    assert [receipt["id"] for receipt in step["receipts"]] == [newest.id, memory.id]
    assert all(receipt["position"] and receipt["event_id"] for receipt in step["receipts"])
    for receipt in step["receipts"]:
        client.advance(receipt["position"])
    for version in (memory.id, newest.id):
        with pytest.raises(NotFound):
            client.memories.get(version)
    assert sync("--delete") == []


def test_a_memory_that_was_deleted_on_the_server_takes_its_file_along(
    sync: Sync, folder: Path, client: Mnemolog, project: str
):
    client.memories.create("It stays.", project=project, title="stays")
    plain, edited = (client.memories.create(f"{name} goes.", project=project, title=name) for name in ("Ann", "Ed"))
    sync()
    edit(only(folder, "ed-*"), "goes", "comes")
    for memory in (plain, edited):
        client.memories.delete(memory.id)
    assert sync(code=1) == [("remove", f"ann-{plain.id[4:10]}.md"), ("conflict", f"ed-{edited.id[4:10]}.md")]
    edit(only(folder, "ed-*"), f"id: {edited.id}\n", "")
    assert sync() == [("create", f"ed-{edited.id[4:10]}.md")]
    assert {memory.content for memory in client.memories.list(project)} == {"It stays.", "Ed comes."}


def test_a_conflict_leaves_the_file_and_ends_when_the_other_text_is_deleted(
    sync: Sync, folder: Path, cli: Cli, client: Mnemolog, project: str
):
    memory = client.memories.create("We deploy on Tuesdays.", project=project, title="deploys")
    sync()
    path = only(folder)
    edit(path, "Tuesdays", "Mondays")
    client.memories.revise(memory.id, content="We deploy on Fridays.", title="deploys")
    list(client.memories.list(project))
    printed = cli("mirror", str(folder), "-a", "ada", code=1)
    assert f"conflict {path.name}: changed here and on the server" in printed
    beside = path.with_name(f"{path.stem}.server.md")
    assert "Mondays" in path.read_text()
    assert "Fridays" in beside.read_text()
    assert sync(code=1) == [("conflict", path.name)]
    edit(path, "Mondays", "Mondays and Fridays")
    beside.unlink()
    assert sync() == [("send", path.name)]
    assert [version.content for version in client.memories.history(memory.id)] == [
        "We deploy on Tuesdays.", "We deploy on Fridays.", "We deploy on Mondays and Fridays.",
    ]  # fmt: skip
    assert sync() == []


def test_a_file_that_cannot_be_read_or_is_refused_is_an_error_of_its_own(
    server: Server, sync: Sync, folder: Path, tmp_path: Path, client: Mnemolog, project: str
):
    private = client.memories.create("Ada's.", project=project, visibility="shared", shared_with=["ada"], title="mine")
    with Mnemolog(server.url, SECRET, agent="bob", position=client.position) as bob:
        bob.memories.create("Bob's.", project=project, visibility="shared", shared_with=["ada"], title="his")
        client.advance(bob.position)
    sync()
    mine, his = only(folder, "mine*"), only(folder, "his*")
    his.write_text(his.read_text().replace("Bob's.", "Not Bob's."))
    (folder / "broken.md").write_text("---\nid: mem_1\n")
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "other.md").write_text("---\nid: mem_0000\n---\nOf another server.")
    (tmp_path / "secret.md").write_text("not for the server")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "copy.md").write_text(mine.read_text())
    mine.unlink()
    (folder / "x.md").write_text((folder / "copy.md").read_text())
    steps = {name: step for step, name in sync("--delete", code=1)}
    assert steps == dict.fromkeys(("broken.md", "latin.md", "link.md", "x.md", his.name), "error") | {
        "other.md": "unknown"
    }
    assert client.memories.get(private.id).content == "Ada's."
    assert {memory.title for memory in client.memories.list(project)} == {"mine", "his"}


def test_a_title_leads_to_no_file_outside_of_the_folder(
    sync: Sync, folder: Path, tmp_path: Path, client: Mnemolog, project: str
):
    client.memories.create("x", project=project, title="../../escaped")
    sync()
    state = folder / ".mnemolog-mirror.json"
    state.write_text(state.read_text().replace('"escaped-', '"../escaped-'))
    only(folder).unlink()
    (memory,) = client.memories.list(project)
    client.memories.revise(memory.id, content="y")
    sync()
    assert [path.parent for path in tmp_path.rglob("*.md")] == [folder]


def test_a_secret_that_the_server_removed_leaves_the_file_too(sync: Sync, folder: Path, client: Mnemolog, project: str):
    folder.mkdir()
    (folder / "key.md").write_text("The key is ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dE3fG6.\n")
    assert sync() == [("create", "key.md")]
    assert "ghp_" not in (folder / "key.md").read_text()
    assert sync() == []


def test_a_folder_stays_with_its_project_agent_and_server(
    sync: Sync, folder: Path, cli: Cli, client: Mnemolog, project: str
):
    client.memories.create("x", project=project)
    sync()
    assert f"is a mirror of project '{project}'" in cli("mirror", str(folder), "-p", "other", "-a", "ada", code=2)
    assert "as agent 'ada'" in cli("mirror", str(folder), code=2)
    state = folder / ".mnemolog-mirror.json"
    state.write_text(state.read_text().replace("mem_", "mem_f"))
    assert "is it the right server?" in cli("mirror", str(folder), "-a", "ada", code=2)
    state.write_text("<<<<<<< HEAD")
    assert "is damaged" in cli("mirror", str(folder), "-a", "ada", code=2)
    state.unlink()
    os.mkfifo(state)
    assert "not a regular file" in cli("mirror", str(folder), "-a", "ada", code=1)
    state.unlink()
    assert sync() == []
    assert "is not a folder" in cli("mirror", str(only(folder)), code=2)


@pytest.fixture
def mirror(client: Mnemolog, folder: Path, project: str) -> Mirror:
    """A mirror that is run more than once, as a program does."""
    return Mirror(client, folder, write_whole, project)


def steps_of(mirror: Mirror) -> list[tuple[str, str]]:
    return [(done.step, done.file) for done in mirror.run()]


def test_a_second_run_of_the_same_object_keeps_the_file_of_a_revised_memory(
    mirror: Mirror, folder: Path, client: Mnemolog, project: str
):
    memory = client.memories.create("Tea at four.", project=project, title="tea")
    steps_of(mirror)
    path = only(folder).rename(folder / "mine.md")
    client.memories.revise(memory.id, content="Tea at five.", title="tea")
    assert steps_of(mirror) == [("write", "mine.md")]
    assert "Tea at five." in path.read_text()


def outdated(client: Mnemolog, project: str, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, lists are as they are now, without one memory."""
    listed = [memory for memory in client.memories.list(project, latest=True) if memory.id != without]

    def list_before(*_: Any, **__: Any) -> Any:
        return iter(listed)

    monkeypatch.setattr(client.memories, "list", list_before)


def test_a_memory_that_is_revised_while_the_list_is_read_is_not_taken_for_deleted(
    mirror: Mirror, folder: Path, client: Mnemolog, project: str, monkeypatch: pytest.MonkeyPatch
):
    client.memories.create("It stays.", project=project, title="stays")
    memory = client.memories.create("Tea at four.", project=project, title="tea")
    steps_of(mirror)
    outdated(client, project, memory.id, monkeypatch)
    client.memories.revise(memory.id, content="Tea at five.", title="tea")
    path = only(folder, "tea-*")
    assert steps_of(mirror) == [("write", path.name)]
    assert "Tea at five." in path.read_text()


def test_a_change_by_another_agent_during_the_run_is_a_conflict(
    mirror: Mirror, folder: Path, client: Mnemolog, project: str, monkeypatch: pytest.MonkeyPatch
):
    memory = client.memories.create("Tea at four.", project=project, title="tea")
    steps_of(mirror)
    edit(only(folder), "four", "three")
    outdated(client, project, "", monkeypatch)
    client.memories.revise(memory.id, content="Tea at five.", title="tea")
    assert [step for step, _ in steps_of(mirror)] == ["conflict"]
    assert [version.content for version in client.memories.history(memory.id)] == ["Tea at four.", "Tea at five."]


def test_a_file_with_the_id_of_another_project_does_not_join_the_mirror(
    sync: Sync, folder: Path, client: Mnemolog, project: str
):
    client.memories.create("It stays.", project=project, title="stays")
    other = client.memories.create("Of another project.", project=f"{project}-b", title="other")
    sync()
    for content in ("Of another project.", "Edited."):
        (folder / "other.md").write_text(f"---\nid: {other.id}\ntitle: other\n---\n{content}\n")
        assert sync(code=1) == [("unknown", "other.md")]
    assert client.memories.get(other.id).content == "Of another project."
    assert not (folder / "other.server.md").exists()


def test_a_note_of_the_users_own_beside_a_file_stays(sync: Sync, folder: Path, client: Mnemolog, project: str):
    memory = client.memories.create("The mail server is postfix.", project=project, title="mail")
    sync()
    path = only(folder).rename(folder / "mail.md")
    own = folder / "mail.server.md"
    own.write_text("The server of the mail is in the cellar.")
    assert sync() == [("create", own.name)]
    edit(path, "postfix", "exim")
    client.memories.revise(memory.id, content="The mail server is dovecot.", title="mail")
    assert sync(code=1) == [("error", path.name)]
    assert "in the cellar" in own.read_text()
    assert "exim" in path.read_text()


def test_a_new_file_that_is_edited_during_the_run_becomes_one_memory(
    mirror: Mirror, folder: Path, client: Mnemolog, project: str, monkeypatch: pytest.MonkeyPatch
):
    folder.mkdir()
    path = folder / "tea.md"
    path.write_text("Tea at four.\n")
    create = client.memories.create

    def edited_before(*arguments: Any, **fields: Any) -> Any:
        path.write_text("Tea at four, coffee at three.\n")
        return create(*arguments, **fields)

    monkeypatch.setattr(client.memories, "create", edited_before)
    assert steps_of(mirror) == [("create", "tea.md")]
    assert steps_of(mirror) == [("send", "tea.md")]
    (memory,) = client.memories.list(project, latest=True)
    assert memory.content == "Tea at four, coffee at three."


def test_a_folder_with_other_files_becomes_a_mirror_only_with_yes(
    cli: Cli, sync: Sync, folder: Path, client: Mnemolog, project: str
):
    client.memories.create("We deploy on Tuesdays.", project=project)
    folder.mkdir()
    (folder / "hosts").touch()
    assert f"{folder} already has files, such as hosts" in cli("mirror", str(folder), "-p", project, code=2)
    assert [path.name for path in folder.iterdir()] == ["hosts"]
    assert [step for step, _ in sync()] == ["write"]
    assert cli("mirror", str(folder), "-a", "ada", "-p", project)


def test_files_have_no_control_characters_and_documents_keep_theirs(
    sync: Sync, folder: Path, client: Mnemolog, project: str
):
    sent = "Tea \x1b[31mat\x1b[0m five\u202e."
    memory = client.memories.create(sent, project=project, tags=["a\x1b[2Jb"])
    assert [step for step, _ in sync()] == ["write"]
    assert only(folder).read_text().endswith("---\nTea at five.\n")
    assert "  - ab\n" in only(folder).read_text()
    assert sync() == []
    assert client.memories.get(memory.id).content == sent
