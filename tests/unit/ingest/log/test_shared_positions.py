from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.log.position import Position, SharedPositions, Token, file_size

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
