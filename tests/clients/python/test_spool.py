"""What waits in a folder: in order, within its bounds, whole again after a crash."""

import resource
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mnemolog_client import EmitterFull, SpoolInUse
from mnemolog_client.spool import SMALLEST_SEGMENT_BYTES, InMemory, Spool, Waiting

MANY = 1 << 30


def spool(folder: Path, *, max_events: int = MANY, max_bytes: int = MANY, fsync: bool = False) -> Spool:
    """A spool with bounds that do not matter, unless given."""
    return Spool(folder, max_events, max_bytes, fsync=fsync)


@pytest.fixture(params=["memory", "spool", "spool with fsync"])
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Waiting]:
    """Either queue, with room for four events and 100 bytes."""
    made: Waiting
    if request.param == "memory":
        made = InMemory(4, 100)
    else:
        made = spool(tmp_path, max_events=4, max_bytes=100, fsync=request.param == "spool with fsync")
    yield made
    made.close()


def fill(waiting: Waiting, *lines: bytes) -> None:
    for line in lines:
        waiting.append(line)


def test_what_waits_leaves_in_the_order_it_came(waiting: Waiting):
    fill(waiting, b"1", b"2", b"3")
    assert waiting.first(2, MANY) == waiting.first(2, MANY) == [b"1", b"2"]
    waiting.drop([b"1", b"2"])
    fill(waiting, b"4")
    assert (waiting.first(10, MANY), waiting.count) == ([b"3", b"4"], 2)
    waiting.drop([b"3", b"4"])
    assert (waiting.first(10, MANY), waiting.count) == ([], 0)
    fill(waiting, b"5")
    assert waiting.first(10, MANY) == [b"5"]


def test_one_more_than_the_limit_is_refused_and_not_taken(waiting: Waiting):
    fill(waiting, b"1", b"2", b"3", b"4")
    with pytest.raises(EmitterFull, match="4 events wait"):
        waiting.append(b"5")
    waiting.drop([b"1"])
    waiting.append(b"5")
    assert waiting.first(10, MANY) == [b"2", b"3", b"4", b"5"]


def test_more_bytes_than_the_limit_are_refused_and_not_taken(waiting: Waiting):
    fill(waiting, b"x" * 60)
    with pytest.raises(EmitterFull, match="the limit is 100"):
        waiting.append(b"y" * 60)
    assert waiting.count == 1
    waiting.drop(waiting.first(1, MANY))
    waiting.append(b"y" * 60)


def test_a_batch_has_about_as_many_bytes_as_asked_for_and_one_line_at_least(waiting: Waiting):
    fill(waiting, b"x" * 20, b"y" * 20, b"z" * 20)
    assert waiting.first(3, 45) == [b"x" * 20, b"y" * 20]
    assert waiting.first(3, 5) == [b"x" * 20]


def test_a_spool_that_is_opened_again_goes_on_where_it_was(tmp_path: Path):
    first = spool(tmp_path)
    fill(first, b"1", b"2", b"3")
    first.drop([b"1"])
    first.close()
    second = spool(tmp_path)
    assert second.count == 2
    fill(second, b"4")
    second.drop([b"2"])
    second.close()
    third = spool(tmp_path)
    taken: list[bytes] = []
    while lines := third.first(10, MANY):
        taken += lines
        third.drop(lines)
    third.close()
    assert taken == [b"3", b"4"]
    assert list(tmp_path.glob("*.ndjson")) == []


def test_a_crash_before_the_cursor_was_written_repeats_and_loses_nothing(tmp_path: Path):
    first = spool(tmp_path)
    fill(first, b"1", b"2", b"3")
    first.drop([b"1"])
    older = (tmp_path / "cursor").read_bytes()
    first.drop([b"2"])
    first.close()
    (tmp_path / "cursor").write_bytes(older)
    second = spool(tmp_path)
    assert second.first(10, MANY) == [b"2", b"3"]
    second.close()


def test_a_cursor_of_an_older_segment_is_not_taken_for_a_newer_one(tmp_path: Path):
    """The noted segment was deleted; what came then has another number, and nothing of it is passed over."""
    first = spool(tmp_path)
    fill(first, b"1", b"2")
    first.drop([b"1"])
    first.drop([b"2"])
    first.close()
    second = spool(tmp_path)
    fill(second, b"3", b"4")
    second.close()
    third = spool(tmp_path)
    assert third.first(10, MANY) == [b"3", b"4"]
    third.close()


def test_half_a_line_whose_append_never_returned_is_passed_over(tmp_path: Path):
    first = spool(tmp_path)
    fill(first, b"1", b"2")
    first.close()
    (segment,) = tmp_path.glob("*.ndjson")
    with segment.open("ab") as file:
        file.write(b'{"half')
    second = spool(tmp_path)
    fill(second, b"3")
    assert (second.count, second.first(10, MANY)) == (3, [b"1", b"2"])
    second.drop([b"1", b"2"])
    assert second.first(10, MANY) == [b"3"]
    second.close()


def test_segments_are_deleted_as_they_are_acknowledged(tmp_path: Path):
    line = b"x" * 1023
    opened = spool(tmp_path, max_bytes=4 * SMALLEST_SEGMENT_BYTES)
    for _ in range(256):
        opened.append(line)
    with pytest.raises(EmitterFull):
        opened.append(line)
    assert len(list(tmp_path.glob("*.ndjson"))) == 4
    while lines := opened.first(10, MANY):
        opened.drop(lines)
        kept = sum(path.stat().st_size for path in tmp_path.glob("*.ndjson"))
        assert kept <= opened.count * 1024 + SMALLEST_SEGMENT_BYTES
    assert list(tmp_path.glob("*.ndjson")) == []
    opened.close()


def test_a_folder_has_one_spool_at_a_time(tmp_path: Path):
    first = spool(tmp_path)
    with pytest.raises(SpoolInUse, match=str(tmp_path)):
        spool(tmp_path)
    first.close()
    spool(tmp_path).close()


def test_a_line_that_the_disk_has_no_room_for_is_not_taken_by_halves(tmp_path: Path):
    opened = spool(tmp_path)
    fill(opened, b"1")
    with files_up_to(1_000), pytest.raises(OSError, match="too large"):
        opened.append(b"x" * 2_000)
    fill(opened, b"2")
    assert (opened.count, opened.first(10, MANY)) == (2, [b"1", b"2"])
    opened.close()


def test_what_was_refused_is_kept_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mnemolog_client.spool.REJECTED_BYTES", 10)
    opened = spool(tmp_path)
    assert opened.keep_rejected(b"12345")
    assert not opened.keep_rejected(b"678901")
    opened.close()
    assert (tmp_path / "rejected").read_bytes() == b"12345\n"


@contextmanager
def files_up_to(size: int) -> Generator[None]:
    """No file of this process grows beyond `size` bytes meanwhile, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
