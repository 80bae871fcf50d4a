"""Which keys a command names, and in which slot they are."""

from typing import Any

import pytest

from ingest.log.keys import PartitionKeys
from ingest.platform.cluster.routing import KeysInDifferentSlots, keys_of, slot_of, slot_of_all


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (("GET", "a"), ["a"]),
        (("HSET", "a", "field", "value"), ["a"]),
        (("MGET", "a", "b"), ["a", "b"]),
        (("UNLINK", b"a", b"b"), [b"a", b"b"]),
        (("WATCH", "a", "b"), ["a", "b"]),
        (("SUNIONSTORE", "to", "a", "b"), ["to", "a", "b"]),
        (("EVALSHA", "sha", 2, "a", "b", "not a key"), ["a", "b"]),
        (("EVALSHA", "sha", 0, "not a key"), []),
        (("XREAD", b"COUNT", b"1", b"STREAMS", "a", "0-0"), ["a"]),
        (("XREADGROUP", b"GROUP", "g", "c", b"STREAMS", "a", "b", ">", ">"), ["a", "b"]),
        (("XINFO GROUPS", "a"), ["a"]),
        (("MEMORY USAGE", "a", b"SAMPLES", 5), ["a"]),
        (("PING",), []),
        (("CONFIG GET", "append*"), []),
        (("SCRIPT LOAD", "return 1"), []),
        (("INFO", "memory"), []),
    ],
)
def test_the_keys_of_a_command(command: tuple[Any, ...], keys: list[Any]):
    assert list(keys_of(command)) == keys


def test_a_slot_is_that_of_the_hash_tag():
    """Values of the cluster specification and of `CLUSTER KEYSLOT`."""
    assert slot_of("123456789") == 12739
    assert slot_of("foo{bar}baz") == slot_of(b"bar") == 5061
    assert slot_of("foo{}{bar}") == slot_of("foo{}{bar}") != slot_of("bar")


def test_everything_of_a_partition_is_in_one_slot():
    keys = PartitionKeys(7)
    live = keys.of_generation(3)
    names = [keys.log, keys.dedup, keys.fence, live.dead, live.checkpoint, live.changes, live.doc("x"), live.row("y")]
    assert {slot_of(name) for name in names} == {slot_of("{p07}")}


def test_sixteen_partitions_are_in_sixteen_slots():
    assert len({slot_of(PartitionKeys(n).log) for n in range(16)}) == 16


def test_keys_of_several_slots_are_a_fault_that_names_them():
    assert slot_of_all(("MGET", "{a}1", "{a}2")) == slot_of("a")
    with pytest.raises(KeysInDifferentSlots, match=r"MGET 'a' 'b' names keys of 2 slots"):
        slot_of_all(("MGET", "a", "b"))
    with pytest.raises(KeysInDifferentSlots, match="PING names no key"):
        slot_of_all(("PING",))
