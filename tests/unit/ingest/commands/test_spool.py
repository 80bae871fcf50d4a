"""The spool folder: oldest first, gone when done, kept with the reason when refused."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.commands import spool
from ingest.commands.decide import Observe, WriteCommand
from ingest.commands.parse import parse_batch, parse_json
from ingest.commands.spool import SETTLED_S, Spool
from ingest.errors import CommandRejected


def parse(content: bytes, name: str) -> Sequence[WriteCommand]:
    """One observation, or a list of commands."""
    if not content.startswith(b"["):
        return [parse_json(content, Observe)]
    found = parse_batch(content, "application/json")
    return [one for one in found if not isinstance(one, CommandRejected)]


def observation(text: str, **fields: str) -> bytes:
    named = "".join(f', "{name}": "{value}"' for name, value in fields.items())
    return f'{{"session_id": "s", "content": "{text}"{named}}}'.encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def one(folder: Path) -> Spool:
    folder.mkdir()
    return Spool(folder, parse)


def leave(folder: Path, name: str, content: bytes, *, age_s: float = 60) -> None:
    (folder / name).write_bytes(content)
    then = time.time() - age_s
    os.utime(folder / name, (then, then))


def texts(one: Spool, limit: int = 10) -> list[str]:
    return [command.content for file in one.take(limit) for command in file.commands if isinstance(command, Observe)]


def test_a_folder_that_is_not_there_holds_nothing(folder: Path):
    assert Spool(folder, parse).take(10) == []


def test_the_oldest_files_come_first_and_stay_until_they_are_done(one: Spool):
    for name in ("0003-1.json", "0001-9.json", "0002-1.json"):
        leave(one.folder, name, observation(name))
    assert texts(one, 2) == texts(one, 2) == ["0001-9.json", "0002-1.json"]
    one.done("0001-9.json")
    one.done("0001-9.json")  # another process may have been first
    assert texts(one) == ["0002-1.json", "0003-1.json"]


def test_unfinished_and_other_files_are_passed_over(one: Spool):
    for name in (".0001-1.json", "0002-1.json.reason", "notes.txt"):
        leave(one.folder, name, observation(name))
    (one.folder / "folder.json").mkdir()
    (one.folder / "link.json").symlink_to(one.folder / "notes.txt")
    assert one.take(10) == []


def test_a_command_keeps_its_own_event_id(one: Spool):
    leave(one.folder, "1.json", observation("a", event_id="mine"))
    assert one.take(1)[0].commands[0].event_id == "mine"


def test_without_one_the_event_id_is_the_same_at_every_look_and_differs_by_file_content_and_place(one: Spool):
    leave(one.folder, "1.json", observation("a"))
    leave(one.folder, "2.json", observation("a"))
    both = b'{"type": "observe", "session_id": "s", "content": "a"}'
    leave(one.folder, "3.json", b"[" + both + b"," + both + b"]")
    names = [command.event_id for file in one.take(10) for command in file.commands]
    assert names == [command.event_id for file in one.take(10) for command in file.commands]
    leave(one.folder, "1.json", observation("b"))
    names += [command.event_id for file in one.take(1) for command in file.commands]
    assert all(names)
    assert len(set(names)) == 5


def test_what_cannot_be_read_is_kept_with_the_reason(one: Spool):
    leave(one.folder, "1.json", b"no json")
    leave(one.folder, "2.json", observation("good"))
    assert texts(one) == ["good"]
    rejected = one.folder / "rejected"
    assert (rejected / "1.json").read_bytes() == b"no json"
    assert (rejected / "1.json.reason").read_text().startswith("not JSON")


def test_a_file_that_the_parser_breaks_on_holds_up_no_other(folder: Path):
    def fragile(content: bytes, name: str) -> Sequence[WriteCommand]:
        if name == "1.json":
            raise IndexError("a mistake in the parser")
        return parse(content, name)

    folder.mkdir()
    leave(folder, "1.json", observation("bad"))
    leave(folder, "2.json", observation("good"))
    assert texts(Spool(folder, fragile)) == ["good"]
    assert "IndexError" in (folder / "rejected/1.json.reason").read_text()


def test_a_file_that_disappears_while_it_is_looked_at_is_passed_over(folder: Path):
    folder.mkdir(exist_ok=True)
    (folder / "1.json").write_text("{")
    (entry,) = os.scandir(folder)

    def parse_and_delete(content: bytes, name: str) -> Sequence[WriteCommand]:
        (folder / name).unlink()
        raise CommandRejected("half a file", "")

    assert Spool(folder, parse_and_delete).take(5) == []
    assert not spool._is_own(entry)  # pyright: ignore[reportPrivateUsage]
    assert list(folder.iterdir()) == [], "nothing is left, and nothing is rejected"


def test_what_cannot_be_read_yet_is_left_for_a_while(one: Spool):
    """Not every client renames a file when it is whole."""
    leave(one.folder, "1.json", b'{"session_id": "s', age_s=0)
    assert one.take(10) == []
    assert (one.folder / "1.json").exists()
    leave(one.folder, "1.json", b'{"session_id": "s', age_s=SETTLED_S + 1)
    assert one.take(10) == []
    assert (one.folder / "rejected/1.json").exists()


def test_a_file_that_is_too_big_is_rejected_unread(one: Spool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spool, "MAX_FILE_BYTES", 10)
    leave(one.folder, "1.json", observation("too big"))
    assert one.take(10) == []
    assert "the limit is 10" in (one.folder / "rejected/1.json.reason").read_text()


def test_a_batch_is_bounded_in_bytes(one: Spool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spool, "BATCH_BYTES", 100)
    for place in range(4):
        leave(one.folder, f"{place}.json", observation("x" * 40))
    assert [file.name for file in one.take(10)] == ["0.json"]


def test_what_is_rejected_is_bounded_too(one: Spool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spool, "MAX_REJECTED", 2)
    for place in range(5):
        leave(one.folder, f"{place}.json", b"no json")
    assert one.take(10) == []
    assert len(list((one.folder / "rejected").iterdir())) == 4
    assert one.take(10) == []


def test_what_another_process_took_is_passed_over_and_not_rejected(one: Spool, monkeypatch: pytest.MonkeyPatch):
    one.reject("gone.json", "no")
    assert not (one.folder / "rejected/gone.json").exists()
    leave(one.folder, "2.json", observation("here"))

    def names(spool: Spool) -> list[str]:
        return ["1.json", "2.json"]

    monkeypatch.setattr(Spool, "_names", names)
    assert texts(one) == ["here"]


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root can write as somebody else")
def test_root_takes_what_users_left_but_nothing_from_a_folder_open_to_all(one: Spool):
    leave(one.folder, "1.json", observation("hers"))
    os.chown(one.folder / "1.json", 12345, 12345)
    assert texts(one) == ["hers"]
    one.folder.chmod(0o777)
    assert texts(one) == []
