"""Positions are ordered; tokens say when a reader has caught up, and belong to one log; partitions never change."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import CommandRejected
from ingest.log.event_log import FIRST_MS, LogHistory
from ingest.log.position import START, Position, Token, partition_of, project_route, session_route
from ingest.log.shared_positions import SharedPositions, file_size

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


@pytest.mark.parametrize(
    ("route", "of_16", "of_7"),
    [
        (project_route("default", ""), 8, 6),
        (project_route("default", "atlas"), 3, 2),
        (project_route("acme", "atlas"), 3, 2),
        (session_route("default", "atlas", "s1"), 12, 3),
        (session_route("default", "atlas", "s2"), 6, 2),
        (session_route("default", "", "s1"), 4, 6),
        (session_route("default", "проект", "🚀"), 9, 4),
    ],
)
def test_a_route_keeps_its_partition_for_ever(route: str, of_16: int, of_7: int):
    assert (partition_of(route, 16), partition_of(route, 7)) == (of_16, of_7)


def test_the_parts_of_a_route_cannot_run_into_each_other():
    assert session_route("t", "ab", "c") != session_route("t", "a", "bc")
    assert project_route("ta", "b") != project_route("t", "ab")


def test_the_sessions_of_a_project_are_spread_over_the_partitions():
    used = {partition_of(session_route("default", "atlas", f"session-{n}"), 16) for n in range(200)}
    assert used == set(range(16))


def test_the_only_partition_takes_everything():
    assert {partition_of(project_route("default", f"p{n}"), 1) for n in range(20)} == {0}


PARTITIONS = 4
Tables = Callable[[int], SharedPositions]


@pytest.fixture
def table_of(tmp_path: Path) -> Tables:
    path = tmp_path / "positions"
    with path.open("wb") as file:
        file.truncate(file_size(3, PARTITIONS))

    def of(process: int) -> SharedPositions:
        with path.open("r+b") as file:
            return SharedPositions(file.fileno(), process, 3, PARTITIONS)

    return of


def test_a_process_knows_what_the_others_acknowledged(table_of: Tables):
    first, second, third = table_of(0), table_of(1), table_of(2)
    first.wrote("ada", Token({1: Position(1_795_302_929_874, 7)}))
    second.wrote("ada", Token({1: Position(1_795_302_929_874, 9), 3: Position(5, 0)}))

    assert third.after("ada") == {1: Position(1_795_302_929_874, 9), 3: Position(5, 0)}
    assert first.after("ada") == {1: Position(1_795_302_929_874, 9), 3: Position(5, 0)}
    assert third.after("bob") == {}


def test_what_a_process_wrote_itself_is_not_told_to_it(table_of: Tables):
    table = table_of(0)
    table.wrote("ada", Token({0: Position(1, 1)}))

    assert table.after("ada") == {}


def test_a_position_never_goes_back(table_of: Tables):
    first, second = table_of(0), table_of(1)
    first.wrote("ada", Token({0: Position(9, 0)}))
    first.wrote("ada", Token({0: Position(3, 5)}))

    assert second.after("ada") == {0: Position(9, 0)}


def test_a_process_that_starts_again_finds_what_it_wrote(table_of: Tables):
    table_of(0).wrote("ada", Token({2: Position(4, 4)}))

    assert table_of(1).after("ada") == {2: Position(4, 4)}


def position(number: int) -> str:
    return str(Position(FIRST_MS + number, 0))


def token(text: str) -> Token:
    """Such as `0:70,3:200`."""
    return Token({int(part.split(":")[0]): Position(FIRST_MS + int(part.split(":")[1]), 0) for part in text.split(",")})


def test_a_partition_that_there_is_not_is_refused():
    with pytest.raises(CommandRejected, match="there is no partition 4"):
        LogHistory(4).check(Token.parse("4:1-0"))


def test_a_position_from_before_the_log_began_is_of_another_log():
    history = LogHistory(2, datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(CommandRejected, match="1:1700000000000-0 is a position of another log") as fault:
        history.check(Token.parse("0:1767225600000-0,1:1700000000000-0"))
    assert fault.value.field == "after"
    for beginning in ("0-0", "0-1", "1-0", "999999999999-0"):
        assert history.check(Token.parse(f"0:1767225600000-0,1:{beginning}")), "that is a way to say the beginning"


def test_clocks_may_differ_by_some_seconds():
    history = LogHistory(2, datetime(2026, 1, 1, tzinfo=UTC))
    early = Token({0: Position(1767225600000 - 9_000, 0)})
    assert history.check(early) == early
