"""Segments, manifests and stores of the archive: damage of any kind is found, with its place."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import ArchiveUnavailable
from ingest.log.event_log import Stored
from ingest.log.position import START, Position
from ingest.log.segments import (
    MAX_UNPACKED_BYTES,
    ArchiveManifest,
    Content,
    DamagedArchive,
    DamagedSegment,
    MissingFile,
    Sealed,
    appended,
    content_of,
    decode,
    encode,
    overlaid,
    pack,
    replaced,
    unpack,
    version_of,
)
from ingest.log.store import DirectoryStore, Store, UrlStore, store_of

PARTITION = 3
POSITIONS = st.builds(Position, st.integers(0, 10**13), st.integers(0, 10**5))
ENTRIES = st.lists(
    st.builds(Stored, POSITIONS, st.binary(max_size=40)), min_size=1, max_size=30, unique_by=lambda one: one.position
).map(sorted)


def sealed(data: bytes, entries: Sequence[Stored]) -> Sealed:
    """What a manifest says of a segment."""
    return Sealed(name="segment-1", content=content_of(data, entries), chain="")


def body(partition: int, entries: Sequence[Stored], version: int = 1) -> bytes:
    """A well-formed segment of entries that nobody checked."""
    rows = [(at.ms, at.seq, payload) for at, payload in entries]
    packed = msgspec.msgpack.encode(["mnemolog-segment", version, partition, rows])
    return zstandard.ZstdCompressor().compress(packed)


def trouble(data: bytes, said: Sealed, partition: int = PARTITION) -> str:
    """What is wrong with a segment that is damaged; it names partition and segment."""
    with pytest.raises(DamagedSegment) as fault:
        unpack(data, partition, said)
    assert (fault.value.partition, fault.value.name) == (partition, said.name)
    assert fault.value.trouble in str(fault.value)
    return fault.value.trouble


@given(entries=ENTRIES)
def test_what_was_packed_is_unpacked(entries: list[Stored]):
    data = pack(PARTITION, entries)
    assert unpack(data, PARTITION, sealed(data, entries)) == entries


@given(entries=ENTRIES)
def test_the_same_entries_are_the_same_bytes(entries: list[Stored]):
    """So a repeat of an interrupted seal writes the same file."""
    assert pack(PARTITION, entries) == pack(PARTITION, list(entries))


@given(entries=ENTRIES, place=st.integers(0), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found(entries: list[Stored], place: int, bit: int):
    data = pack(PARTITION, entries)
    altered = bytearray(data)
    altered[place % len(data)] ^= 1 << bit
    assert "SHA-256" in trouble(bytes(altered), sealed(data, entries))


@given(entries=ENTRIES, length=st.integers(0))
def test_a_segment_that_is_cut_or_longer_is_found(entries: list[Stored], length: int):
    data = pack(PARTITION, entries)
    for torn in (data[: length % len(data)], data + b"\0"):
        assert "bytes" in trouble(torn, sealed(data, entries))


@given(entries=ENTRIES, other=ENTRIES)
def test_another_segment_in_its_place_is_found(entries: list[Stored], other: list[Stored]):
    data, swapped = pack(PARTITION, entries), pack(PARTITION, other)
    if swapped != data:
        assert trouble(swapped, sealed(data, entries))


@given(data=st.binary(max_size=200))
def test_any_bytes_at_all_are_a_damaged_segment_even_if_their_hash_was_noted(data: bytes):
    """Never another error: who reads an archive can act on one class."""
    content = Content(first="1-0", last="2-0", entries=2, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    assert trouble(data, Sealed(name="segment-1", content=content, chain=""))


@given(packed=st.binary(max_size=200))
def test_anything_at_all_in_a_good_frame_is_a_damaged_segment(packed: bytes):
    data = zstandard.ZstdCompressor().compress(packed)
    content = Content(first="1-0", last="2-0", entries=2, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    assert trouble(data, Sealed(name="segment-1", content=content, chain=""))


@given(entries=ENTRIES)
def test_a_segment_of_another_partition_is_found(entries: list[Stored]):
    data = pack(PARTITION, entries)
    assert "partition 3" in trouble(data, sealed(data, entries), PARTITION + 1)


@given(entries=ENTRIES.filter(lambda entries: len(entries) > 2))
def test_entries_out_of_order_are_found_though_first_and_last_are_right(entries: list[Stored]):
    first, *middle, last = entries
    turned = [first, *middle[::-1], last] if len(middle) > 1 else [first, last, last]
    data = body(PARTITION, turned)
    assert "out of order" in trouble(data, sealed(data, turned))


def test_a_segment_that_holds_more_less_or_others_than_was_sealed_is_found():
    entries = [Stored(Position(n, 0), b"x") for n in range(1, 5)]
    for other in (entries[:-1], [*entries, Stored(Position(9, 0), b"x")], []):
        data = body(PARTITION, other)
        said = msgspec.structs.replace(content_of(data, entries), bytes=len(data))
        assert "entries" in trouble(data, Sealed(name="segment-1", content=said, chain=""))
    later = [Stored(Position(n + 1, 0), b"x") for n in range(1, 5)]
    data = body(PARTITION, later)
    assert "contains 2-0 to 5-0" in trouble(data, sealed(data, entries))


def test_a_segment_of_a_newer_release_is_found():
    entries = [Stored(Position(1, 0), b"x")]
    data = body(PARTITION, entries, version=2)
    assert "this release reads" in trouble(data, sealed(data, entries))


def test_a_small_file_that_unpacks_to_more_than_a_segment_can_hold_is_not_unpacked():
    data = zstandard.ZstdCompressor().compress(bytes(MAX_UNPACKED_BYTES + 1))
    assert len(data) < 10_000
    assert "declares" in trouble(data, sealed(data, [Stored(Position(1, 0), b"x")]))


def test_more_than_can_be_unpacked_is_not_packed():
    biggest = [Stored(Position(1, 0), bytes(MAX_UNPACKED_BYTES - 100))]
    data = pack(0, biggest)
    assert unpack(data, 0, sealed(data, biggest)) == biggest
    with pytest.raises(ValueError, match="could not be unpacked"):
        pack(0, [Stored(Position(1, 0), bytes(MAX_UNPACKED_BYTES))])


@given(entries=ENTRIES, data=st.data())
def test_stubs_take_the_place_of_what_was_erased_and_of_nothing_else(entries: list[Stored], data: st.DataObject):
    erased = data.draw(st.sets(st.sampled_from([entry.position for entry in entries])))
    found = overlaid(entries, {**dict.fromkeys(erased, b"stub"), Position(10**14, 0): b"elsewhere"})
    assert [one.position for one in found] == [entry.position for entry in entries]
    for before, after in zip(entries, found, strict=True):
        assert after.payload == (b"stub" if before.position in erased else before.payload)


EMPTY = ArchiveManifest(log="2026-01-31", archive="01A", partition=2)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def content(first: int, count: int, text: str = "") -> Content:
    """A segment of `count` entries, a millisecond each."""
    sha256 = hashlib.sha256(f"{first}{count}{text}".encode()).hexdigest()
    return Content(first=f"{first}-0", last=f"{first + count - 1}-0", entries=count, bytes=100 * count, sha256=sha256)


def made_of(sizes: list[int], manifest: ArchiveManifest = EMPTY) -> ArchiveManifest:
    """A manifest of segments of so many entries, with a gap of a millisecond between two."""
    for size in sizes:
        manifest = appended(manifest, content(manifest.sealed.ms + 2, size), "01W")
    return manifest


def expected(manifest: ArchiveManifest) -> ArchiveManifest:
    """What a reader knows of a manifest before it reads it."""
    return msgspec.structs.replace(manifest, segments=())


@given(sizes=SIZES)
def test_a_manifest_is_read_back(sizes: list[int]):
    manifest = made_of(sizes)
    assert decode(encode(manifest), expected(manifest), manifest.head) == manifest
    assert (manifest.version, len(manifest.segments)) == (len(sizes), len(sizes))
    assert manifest.sealed == manifest.segments[-1].last


def test_an_empty_archive_has_a_chain_of_its_own():
    assert EMPTY.sealed == START
    assert decode(encode(EMPTY), EMPTY, EMPTY.head) == EMPTY
    assert EMPTY.head != ArchiveManifest(log=EMPTY.log, archive="01B", partition=2).head


@given(sizes=SIZES)
def test_an_earlier_manifest_is_not_taken_for_the_newest(sizes: list[int]):
    """Put back under the newest one's name, its version tells; with the version altered, its chain."""
    manifest = made_of([*sizes, 1])
    older = made_of(sizes)
    with pytest.raises(DamagedArchive, match=f"version {older.version}"):
        decode(encode(older), expected(manifest), manifest.head)
    with pytest.raises(DamagedArchive, match="outdated"):
        decode(encode(msgspec.structs.replace(older, version=manifest.version)), expected(manifest), manifest.head)


@given(sizes=SIZES, data=st.data())
def test_any_field_of_any_segment_that_is_altered_is_noticed(sizes: list[int], data: st.DataObject):
    manifest = made_of(sizes)
    raw: dict[str, Any] = json.loads(encode(manifest))
    segment = data.draw(st.sampled_from(raw["segments"]))
    field = data.draw(st.sampled_from(["first", "last", "entries", "sha256"]))
    segment["content"][field] = segment["content"][field] + 1 if field == "entries" else f"1{segment['content'][field]}"
    with pytest.raises(DamagedArchive):
        decode(json.dumps(raw).encode(), expected(manifest), manifest.head)


@given(sizes=SIZES.filter(lambda sizes: len(sizes) > 1), data=st.data())
def test_a_segment_that_is_left_out_doubled_or_moved_is_noticed(sizes: list[int], data: st.DataObject):
    manifest = made_of(sizes)
    segments = list(manifest.segments)
    place = data.draw(st.integers(0, len(segments) - 2))
    left_out = segments[:place] + segments[place + 1 :]
    doubled = [*segments[: place + 1], *segments[place:]]
    moved = [*segments[:place], segments[place + 1], segments[place], *segments[place + 2 :]]
    for other in (left_out, doubled, moved, segments[:-1], []):
        altered = msgspec.structs.replace(manifest, segments=tuple(other))
        with pytest.raises(DamagedArchive):
            decode(encode(altered), expected(manifest), manifest.head)


@given(raw=st.binary(max_size=100))
def test_any_bytes_at_all_are_a_damaged_archive(raw: bytes):
    with pytest.raises(DamagedArchive, match="partition 2"):
        decode(raw, EMPTY, EMPTY.head)


@given(sizes=SIZES, cut=st.integers(0))
def test_a_torn_manifest_is_damaged(sizes: list[int], cut: int):
    manifest = made_of(sizes)
    raw = encode(manifest)
    with pytest.raises(DamagedArchive):
        decode(raw[: cut % len(raw)], expected(manifest), manifest.head)


@pytest.mark.parametrize("other", [{"log": "2025"}, {"archive": "01B"}, {"partition": 1}])
def test_the_manifest_of_another_log_or_partition_is_refused(other: dict[str, Any]):
    manifest = made_of([3])
    with pytest.raises(DamagedArchive, match="it belongs to"):
        decode(encode(manifest), msgspec.structs.replace(expected(manifest), **other), manifest.head)


def test_a_manifest_of_a_newer_release_is_refused():
    newer = msgspec.structs.replace(EMPTY, format_version=2)
    with pytest.raises(DamagedArchive, match="this release reads version 1"):
        decode(encode(newer), EMPTY, EMPTY.head)


@given(sizes=SIZES, data=st.data())
def test_replacing_segments_makes_the_chain_behind_them_anew(sizes: list[int], data: st.DataObject):
    manifest = made_of(sizes)
    names = data.draw(st.sets(st.sampled_from([segment.name for segment in manifest.segments]), min_size=1))
    contents = {
        segment.name: content(segment.first.ms, segment.content.entries, "rewritten")
        for segment in manifest.segments
        if segment.name in names
    }
    newer = replaced(manifest, contents, "01X")
    assert decode(encode(newer), expected(newer), newer.head) == newer
    assert newer.head != manifest.head
    assert newer.sealed == manifest.sealed
    first = min(place for place, one in enumerate(manifest.segments) if one.name in names)
    assert newer.segments[:first] == manifest.segments[:first]
    for old, new in zip(manifest.segments[first:], newer.segments[first:], strict=True):
        assert new.chain != old.chain
        assert (new.name == old.name) == (old.name not in names)


def test_what_is_sealed_already_is_not_sealed_again():
    manifest = made_of([3])
    with pytest.raises(ValueError, match="already sealed"):
        appended(manifest, content(manifest.sealed.ms, 2), "01W")


@given(sizes=SIZES, at=st.integers(0, 100))
def test_the_segments_behind_a_position_are_those_that_a_search_finds(sizes: list[int], at: int):
    manifest, position = made_of(sizes), Position(at, 0)
    assert list(manifest.behind(position)) == [segment for segment in manifest.segments if segment.last > position]
    if manifest.segments[0].first <= position <= manifest.sealed:
        found = manifest.holding(position)
        assert found == next(segment for segment in manifest.segments if segment.last >= position)


def test_files_tell_the_version_they_were_written_for():
    manifest = made_of([3, 4])
    assert version_of(manifest.name) == 2
    assert [version_of(segment.name) for segment in manifest.segments] == [1, 2]
    assert [version_of(name) for name in (".writing-segment-1-a", "notes.txt", "segment-x-1", "")] == [None] * 4


class StoreConformance:
    """Each place subclasses this and gives the fixture `store`."""

    def test_what_was_written_is_read(self, store: Store):
        store.write("01A/p00/one", b"\x00 bytes \xff")
        assert store.read("01A/p00/one") == b"\x00 bytes \xff"

    def test_a_later_write_takes_the_place_of_an_earlier_one(self, store: Store):
        store.write("01A/one", b"longer at first")
        store.write("01A/one", b"short")
        assert store.read("01A/one") == b"short"

    def test_a_file_that_is_not_there_is_missing(self, store: Store):
        store.write("01A/one", b"1")
        for path in ("01A/two", "01B/one"):
            with pytest.raises(MissingFile, match=path):
                store.read(path)

    def test_names_are_those_of_one_folder(self, store: Store):
        for path in ("01A/p00/two", "01A/p00/one", "01A/p01/three", "01B/p00/four"):
            store.write(path, b"1")
        assert store.names("01A/p00") == ["one", "two"]
        assert store.names("01A") == ["p00", "p01"]
        assert store.names("") == ["01A", "01B"]
        assert store.names("01C") == []

    def test_a_new_file_is_listed_at_once(self, store: Store):
        """Listings are not from memory: another process may have written."""
        store.write("01A/one", b"1")
        assert store.names("01A") == ["one"]
        store.write("01A/two", b"2")
        assert store.names("01A") == ["one", "two"]

    def test_deleted_files_are_gone_and_one_that_is_not_there_is_no_error(self, store: Store):
        store.write("01A/one", b"1")
        store.write("01A/two", b"2")
        store.delete(["01A/one", "01A/never"])
        store.delete(["01A/one"])
        store.delete([])
        assert store.names("01A") == ["two"]


class TestDirectoryStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return DirectoryStore(tmp_path / "deep" / "archive")

    def test_files_are_for_their_owner_alone(self, store: Store, tmp_path: Path):
        store.write("01A/p00/one", b"1")
        path = tmp_path / "deep/archive/01A/p00/one"
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0

    def test_a_write_that_is_killed_leaves_the_file_as_it_was(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """What it left beside is listed, so that it can be deleted."""
        store.write("01A/one", b"first")

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", killed)
            with pytest.raises(KeyboardInterrupt):
                store.write("01A/one", b"second")
        assert store.read("01A/one") == b"first"
        assert store.names("01A") == [".writing-one", "one"]

    def test_a_place_that_is_no_folder_is_unavailable(self, tmp_path: Path):
        (tmp_path / "file").write_text("no folder")
        with pytest.raises(ArchiveUnavailable, match="cannot be written"):
            DirectoryStore(tmp_path / "file").write("01A/one", b"1")


class TestUrlStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return UrlStore(f"memory://{tmp_path}/")


def test_a_setting_names_a_directory_or_a_url(tmp_path: Path):
    assert str(store_of(str(tmp_path))) == str(tmp_path)
    assert str(store_of(f"file://{tmp_path}")) == str(tmp_path)
    assert str(store_of("~/archive")) == str(Path("~/archive").expanduser())
    assert str(store_of("memory://somewhere/")) == "memory://somewhere"
