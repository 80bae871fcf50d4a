"""Entries of the change feed, as they are written and read."""

import msgspec

from ingest.log.position import Position
from projections.store.feed import Remove, Vectors, contexts_of, entry_fields, read_entry

HERE = Position(7, 1)


def stored(fields: dict[str, bytes]) -> dict[bytes, bytes]:
    """The fields of an entry as the server gives them back."""
    return {name.encode(): value for name, value in fields.items()}


def test_an_entry_says_what_changed_and_what_it_covers():
    assert read_entry(stored(entry_fields([Remove("mem_1")], HERE))) == ([Remove("mem_1")], HERE)
    assert read_entry(stored(entry_fields([], None))) == ([], None)


def test_vectors_of_tokens_in_an_older_entry_are_ignored():
    older = msgspec.msgpack.encode([[3, "mem_1", "m", 1, b"ab", b"tokens"]])
    assert read_entry({b"p": b"", b"c": older}) == ([Vectors("mem_1", "m", 1, b"ab")], None)


def test_the_traces_of_an_entry_are_beside_what_it_says():
    plain, traced = entry_fields([Remove("a")], HERE), entry_fields([Remove("a")], HERE, ["00-1", "00-2"])
    assert set(plain) == {"p", "c"}
    assert traced == {**plain, "t": b"00-1 00-2"}
    assert read_entry(stored(traced)) == read_entry(stored(plain))
    assert contexts_of([stored(plain), stored(traced), stored(entry_fields([], HERE, ["00-3"]))]) == [
        "00-1", "00-2", "00-3",
    ]  # fmt: skip
