"""A document manifest tells two sets of documents apart, and nothing else does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from factories import learned, observed, remembered, started
from folding import folded, one_by_one
from msgspec.structs import replace

from ingest.errors import InvalidSetting
from projections.maintenance.backups import (
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
from projections.maintenance.differences import (
    NAMED,
    DocumentManifest,
    canonical,
    manifest_differences,
    manifest_of_store,
)
from projections.maintenance.room import target_of
from projections.nouns.observation import Observation
from projections.nouns.rows import Row
from projections.store.protocol import MemoryStore

HISTORY = [started(0), observed(1), observed(2, "it passes"), remembered(3, "tea, not coffee"), learned(4)]


def manifest(store: MemoryStore, partition: int = 0) -> DocumentManifest:
    """The manifest of a log of one partition."""
    return DocumentManifest({partition: manifest_of_store(store)})


def test_it_counts_documents_by_kind_and_members():
    counted = manifest_of_store(one_by_one(HISTORY))
    assert counted.summary.documents == {"lesson": 1, "mark": 2, "memory": 1, "observation": 2, "session": 1}
    assert counted.members == sum(map(len, one_by_one(HISTORY).listings.values())) > 0


def test_the_same_documents_have_the_same_manifest_however_they_came_and_are_read():
    store, other = manifest(one_by_one(HISTORY)), manifest(folded(HISTORY))
    assert (store, manifest_differences(store, other), store.summary) == (other, [], other.summary)
    reverse = one_by_one(HISTORY)
    reverse.documents = dict(reversed(reverse.documents.items()))
    reverse.listings = dict(reversed(reverse.listings.items()))
    assert manifest(reverse).summary == store.summary


def test_a_row_is_the_same_wherever_it_is_stored():
    row = next(document for document in one_by_one(HISTORY).documents.values() if isinstance(document, Row))
    assert canonical(row) == canonical(row.model_copy(update={"pk": "{p00}:g2:" + row.pk}))
    assert canonical(row) != canonical(row.model_copy(update={"tenant": "another"}))


def test_any_field_that_differs_is_told_by_the_id_of_its_document():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    seen = next(document for document in other.documents.values() if isinstance(document, Observation))
    other.documents[seen.id] = replace(seen, title="something else")
    (difference,) = manifest_differences(manifest(store), manifest(other))
    assert (difference.documents, difference.first_documents, difference.listings) == (1, [seen.id], 0)
    assert seen.id in str(difference)
    assert manifest(store).summary[0].documents_sha256 != manifest(other).summary[0].documents_sha256


def test_a_listing_that_lacks_a_member_is_told_by_its_name():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    listing = max(other.listings, key=lambda name: len(other.listings[name]))
    other.listings[listing].pop()
    (difference,) = manifest_differences(manifest(store), manifest(other))
    assert (difference.documents, difference.first_listings) == (0, [listing])
    assert manifest(store).summary[0].listings_sha256 != manifest(other).summary[0].listings_sha256


def test_a_listing_without_members_is_none():
    store, other = one_by_one(HISTORY), one_by_one(HISTORY)
    other.listings["memories:default\0another"] = set()
    assert manifest_differences(manifest(store), manifest(other)) == []


def test_a_comparison_names_the_first_ones_and_counts_all():
    store = one_by_one([observed(n) for n in range(1, NAMED + 6)])
    (difference,) = manifest_differences(manifest(store), manifest(MemoryStore()))
    assert difference.first_documents == sorted(store.documents)[:NAMED]
    assert difference.documents == len(store.documents) == NAMED + 6


def test_a_partition_that_one_of_them_lacks_differs():
    third, fourth = (manifest(one_by_one(HISTORY), partition) for partition in (3, 4))
    assert [difference.partition for difference in manifest_differences(third, fourth)] == [3, 4]
    empty = manifest(MemoryStore(), 4)
    assert manifest_differences(third, DocumentManifest({**third.partitions, **empty.partitions})) == []


def test_a_path_is_a_directory():
    assert str(target_of("/srv/backups")) == "/srv/backups"
    assert str(target_of("~/backups")) == str(Path.home() / "backups")


@pytest.mark.parametrize(
    ("setting", "token", "message"),
    [
        ("nowhere://bucket", "", "is not a directory or an fsspec URL"),
        ("hf://models/ada/memories", "t", "is not a backup location"),
        ("hf://datasets/memories", "t", "write OWNER/NAME"),
        ("hf://datasets/ada/memories", "", "need an HF_TOKEN"),
    ],
)
def test_what_is_no_place_is_refused(setting: str, token: str, message: str):
    with pytest.raises(InvalidSetting, match=message):
        target_of(setting, token)


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
    ("raw", "message"),
    [
        (b"{", "manifest.json cannot be read"),
        (b"\xff", "manifest.json cannot be read"),
        (msgspec.json.encode(msgspec.structs.replace(backup("b"), version=1)), "reads version 2, but it is version 1"),
        (msgspec.json.encode(backup("c")), "belongs to c"),
    ],
)
def test_what_is_no_manifest_of_the_backup_is_told(raw: bytes, message: str):
    with pytest.raises(DamagedBackup, match=f"backup b is damaged: .*{message}"):
        read_manifest("b", raw)


def test_a_manifest_comes_back_as_it_was():
    assert read_manifest("b", msgspec.json.encode(backup("b"))) == backup("b")
