"""Positions are ordered values, and a token says when a reader has caught up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import CommandRejected
from ingest.log.position import START, Position, Token

positions = st.builds(Position, st.integers(0, 10**14 - 1), st.integers(0, 10**6 - 1))
tokens = st.dictionaries(st.integers(0, 1023), positions, min_size=1).map(lambda found: Token.of(found.items()))


def test_positions_are_ordered_as_numbers_not_as_text():
    """17-9 comes before 17-10, although its text does not."""
    assert Position.parse("17-9") < Position.parse("17-10") < Position.parse("18-0")
    assert str(Position.parse("17-9")) > str(Position.parse("17-10"))


def test_every_position_comes_after_the_start():
    assert START < Position(0, 1) < Position(1, 0)


@given(positions)
def test_a_position_is_read_back_from_its_text(position: Position):
    assert Position.parse(str(position)) == Position.parse(str(position).encode()) == position


@given(positions, positions)
def test_the_sort_key_sorts_as_positions_do(one: Position, other: Position):
    assert (one.sort_key < other.sort_key) == (one < other)


@pytest.mark.parametrize(
    "text",
    ["", "17", "17-", "-9", "a-b", "17-9-1", "17:9", "1.5-0", b"\xff-1", "17--9", "1_7-9", " 17-9", "17-9\n", "+17-9"],
)
def test_text_of_another_shape_is_no_position(text: str | bytes):
    with pytest.raises(ValueError):  # noqa: PT011 (the type is the contract)
        Position.parse(text)


def test_a_position_tells_when_it_was_recorded():
    assert Position.parse("1769860800123-4").recorded_at.isoformat() == "2026-01-31T12:00:00.123000+00:00"


@given(tokens)
def test_a_token_is_read_back_from_its_text(token: Token):
    assert Token.parse(str(token)) == token


def test_a_token_lists_its_partitions_in_order():
    assert str(Token.of([(10, Position(5, 0)), (2, Position(17, 9))])) == "2:17-9,10:5-0"


def test_a_token_keeps_the_newest_position_of_a_partition():
    token = Token.of([(3, Position(17, 10)), (3, Position(17, 9))])
    token.include(3, Position(16, 99))
    assert token == {3: Position(17, 10)}


def test_a_token_that_takes_in_another_covers_what_either_covers():
    token, other = Token.parse("0:17-9,1:5-0"), Token.parse("0:17-10,1:4-9,2:1-0")
    token.include_all(other)
    assert token == Token.parse("0:17-10,1:5-0,2:1-0")
    assert other == Token.parse("0:17-10,1:4-9,2:1-0"), "the other stays as it was"


@given(tokens, tokens)
def test_a_token_that_takes_in_another_is_the_token_of_both(one: Token, other: Token):
    both = Token.of([*one.items(), *other.items()])
    one.include_all(other)
    assert one == both


def test_a_token_that_names_a_partition_twice_means_the_newer_position():
    assert Token.parse("3:17-9,3:17-10,3:17-2") == {3: Position(17, 10)}


def test_a_token_is_covered_when_every_partition_it_names_is():
    token = Token.parse("0:17-9,1:5-0")
    assert token.covered_by({0: Position(17, 9), 1: Position(6, 0), 2: START})
    assert token.covered_by({0: Position(17, 10), 1: Position(5, 0)})
    assert not token.covered_by({0: Position(17, 8), 1: Position(9, 0)})
    assert not token.covered_by({0: Position(18, 0)}), "a partition nothing was applied of"


def test_no_position_asked_for_is_always_covered():
    assert Token().covered_by({})


@pytest.mark.parametrize("text", ["", "x", "17-9", "0:", ":17-9", "0:17-9,", "0:17", "one:17-9", "-1:17-9", "0:17--9"])
def test_what_is_no_token_is_rejected_as_the_field_after(text: str):
    with pytest.raises(CommandRejected) as fault:
        Token.parse(text)
    assert fault.value.field == "after"


def test_the_rejection_of_a_long_token_does_not_repeat_all_of_it():
    with pytest.raises(CommandRejected) as fault:
        Token.parse("x" * 100_000)
    assert len(fault.value.message) < 300
