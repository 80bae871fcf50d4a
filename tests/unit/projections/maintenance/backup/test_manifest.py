"""Whether a backup is due and which ones have to go: decisions about plain values."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from projections.maintenance.backup.manifest import (
    BackupManifest,
    DamagedBackup,
    LogState,
    changed,
    due,
    name_of,
    newest_of,
    read_manifest,
    to_delete,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
EMPTY = LogState(log="a", heads={0: "0-0", 1: "0-0"}, forgotten=0)


def state(head: str = "5-0", forgotten: int = 0, log: str = "a") -> LogState:
    """A log of two partitions, one of which has something."""
    return LogState(log=log, heads={0: head, 1: "0-0"}, forgotten=forgotten)


def backup(name: str, head: str = "5-0", forgotten: int = 0, log: str = "a", age: timedelta = HOUR) -> BackupManifest:
    """The manifest of a backup."""
    return BackupManifest(
        log=log, heads={0: head, 1: "0-0"}, forgotten=forgotten, name=name, created_at=NOW - age, release="",
        partitions=2, events=1, records=1, bytes=1, sha256="",
    )  # fmt: skip


def test_a_log_has_changed_when_something_was_said_or_forgotten():
    assert not changed(EMPTY, None)
    assert changed(state(), None)
    assert not changed(state(), backup("b"))
    assert changed(state("6-0"), backup("b"))
    assert changed(state(forgotten=1), backup("b"))
    assert changed(state(), backup("b", log="another"))
    assert not changed(EMPTY, backup("b", log="another"))


def test_it_is_time_to_look_when_the_time_is_over():
    assert not due(state("6-0"), backup("b"), NOW - HOUR + timedelta(seconds=1), NOW, HOUR)
    assert due(state("6-0"), backup("b"), NOW - HOUR, NOW, HOUR)
    assert due(state(), backup("b"), None, NOW, HOUR)


def test_it_is_time_at_once_when_there_is_none_or_it_has_what_was_forgotten():
    assert due(state(), None, NOW, NOW, HOUR)
    assert not due(EMPTY, None, NOW, NOW, HOUR)
    assert due(state(forgotten=1), backup("b"), NOW, NOW, HOUR)
    assert not due(state(forgotten=1), backup("b", forgotten=2), NOW, NOW, HOUR)


def test_the_oldest_go_and_all_that_have_what_was_forgotten():
    minutes = [timedelta(minutes=n) for n in range(4)]
    newest, *older = [backup(f"b{n}", forgotten=3 if n < 3 else 2, age=age) for n, age in enumerate(minutes)]
    other = backup("other", log="another", age=2 * HOUR)
    assert to_delete(newest, [newest, *older, other], keep=9) == ["b3"]
    assert to_delete(newest, [*older, other, newest], keep=2) == ["b3", "b2"]
    assert newest_of("a", [other, *older, newest]) == newest
    assert newest_of("nobody's", [other, newest]) is None


def test_names_sort_by_time():
    names = [name_of(NOW + n * timedelta(milliseconds=1), f"{9 - n}" * 64) for n in range(3)]
    assert names == sorted(names)
    assert names[0] == "20260131T120000.000000Z-99999999"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "manifest.json cannot be read"),
        (b"\xff", "manifest.json cannot be read"),
        (msgspec.json.encode(msgspec.structs.replace(backup("b"), version=1)), "reads version 2, and it is 1"),
        (msgspec.json.encode(backup("c")), "that of c"),
    ],
)
def test_what_is_no_manifest_of_the_backup_is_told(raw: bytes, said: str):
    with pytest.raises(DamagedBackup, match=f"backup b is damaged: .*{said}"):
        read_manifest("b", raw)


def test_a_manifest_comes_back_as_it_was():
    assert read_manifest("b", msgspec.json.encode(backup("b"))) == backup("b")
