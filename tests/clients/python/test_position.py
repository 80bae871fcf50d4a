"""Positions join, the newest of each partition counting."""

import pytest

from mnemolog_client import Position


def test_the_newest_position_of_each_partition_counts_whatever_the_order():
    position = Position("3:17-10")
    for one in ("1:5-0,3:17-9", "3:9-99", ""):
        position.include(one)
    assert str(position) == "1:5-0,3:17-10"


def test_including_ten_thousand_positions_keeps_one_a_partition():
    position = Position()
    for ms in range(10_000):
        position.include(f"{ms % 4}:{ms}-0")
    assert str(position) == "0:9996-0,1:9997-0,2:9998-0,3:9999-0"


@pytest.mark.parametrize("text", ["nonsense", "1:2", "1:2-x", "x:2-3"])
def test_what_is_no_position_is_refused_and_includes_nothing(text: str):
    position = Position("1:1-0")
    with pytest.raises(ValueError, match="is not a position"):
        position.include(f"1:9-0,{text}")
    assert str(position) == "1:1-0"
