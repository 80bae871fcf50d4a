"""A segment gives back exactly what was sealed; whatever else its bytes are, it says that it is damaged, and where."""

import hashlib
from collections.abc import Sequence

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.log.archive.segments import (
    MAX_UNPACKED_BYTES,
    Content,
    DamagedSegment,
    Sealed,
    content_of,
    overlaid,
    pack,
    unpack,
)
from ingest.log.event_log import Stored
from ingest.log.position import Position

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
    assert "holds 2-0 to 5-0" in trouble(data, sealed(data, entries))


def test_a_segment_of_a_newer_release_is_found():
    entries = [Stored(Position(1, 0), b"x")]
    data = body(PARTITION, entries, version=2)
    assert "this release reads" in trouble(data, sealed(data, entries))


def test_a_small_file_that_unpacks_to_more_than_a_segment_can_hold_is_not_unpacked():
    data = zstandard.ZstdCompressor().compress(bytes(MAX_UNPACKED_BYTES + 1))
    assert len(data) < 10_000
    assert "claims" in trouble(data, sealed(data, [Stored(Position(1, 0), b"x")]))


def test_more_than_can_be_unpacked_is_not_packed():
    biggest = [Stored(Position(1, 0), bytes(MAX_UNPACKED_BYTES - 100))]
    data = pack(0, biggest)
    assert unpack(data, 0, sealed(data, biggest)) == biggest
    with pytest.raises(ValueError, match="could not be unpacked"):
        pack(0, [Stored(Position(1, 0), bytes(MAX_UNPACKED_BYTES))])


@given(entries=ENTRIES, data=st.data())
def test_stubs_take_the_place_of_what_was_erased_and_of_nothing_else(entries: list[Stored], data: st.DataObject):
    erased = data.draw(st.sets(st.sampled_from([one.position for one in entries])))
    found = overlaid(entries, {**dict.fromkeys(erased, b"stub"), Position(10**14, 0): b"elsewhere"})
    assert [one.position for one in found] == [one.position for one in entries]
    for before, after in zip(entries, found, strict=True):
        assert after.payload == (b"stub" if before.position in erased else before.payload)
