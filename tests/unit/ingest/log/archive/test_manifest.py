"""A manifest chains its segments: whatever is changed in it, left out or put back, the chain ends otherwise."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.log.archive.segments import (
    ArchiveManifest,
    Content,
    DamagedArchive,
    appended,
    decode,
    encode,
    replaced,
    version_of,
)
from ingest.log.position import START, Position

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
    with pytest.raises(DamagedArchive, match="earlier one"):
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
    with pytest.raises(DamagedArchive, match="it is that of"):
        decode(encode(manifest), msgspec.structs.replace(expected(manifest), **other), manifest.head)


def test_a_manifest_of_a_newer_release_is_refused():
    newer = msgspec.structs.replace(EMPTY, format_version=2)
    with pytest.raises(DamagedArchive, match="this release reads version 1"):
        decode(encode(newer), EMPTY, EMPTY.head)


@given(sizes=SIZES, data=st.data())
def test_replacing_segments_makes_the_chain_behind_them_anew(sizes: list[int], data: st.DataObject):
    manifest = made_of(sizes)
    names = data.draw(st.sets(st.sampled_from([one.name for one in manifest.segments]), min_size=1))
    contents = {
        one.name: content(one.first.ms, one.content.entries, "rewritten")
        for one in manifest.segments
        if one.name in names
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
    with pytest.raises(ValueError, match="sealed already"):
        appended(manifest, content(manifest.sealed.ms, 2), "01W")


@given(sizes=SIZES, at=st.integers(0, 100))
def test_the_segments_behind_a_position_are_those_that_a_search_finds(sizes: list[int], at: int):
    manifest, position = made_of(sizes), Position(at, 0)
    assert list(manifest.behind(position)) == [one for one in manifest.segments if one.last > position]
    if manifest.segments[0].first <= position <= manifest.sealed:
        found = manifest.holding(position)
        assert found == next(one for one in manifest.segments if one.last >= position)


def test_files_tell_the_version_they_were_written_for():
    manifest = made_of([3, 4])
    assert version_of(manifest.name) == 2
    assert [version_of(one.name) for one in manifest.segments] == [1, 2]
    assert [version_of(name) for name in (".writing-segment-1-a", "notes.txt", "segment-x-1", "")] == [None] * 4
