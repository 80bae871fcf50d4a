"""Reads leave out what is on a node that is away, where they may."""

import pytest
from redis.exceptions import ConnectionError, ResponseError

from ingest.platform.partial import (
    leave_out,
    leaving_out,
    left_out,
    left_out_message,
    made_of_parts,
    node_timeout_s,
    partial_reads,
    readable,
    whole_reads,
)

AWAY = ConnectionError("connection refused")


async def answered(value: int) -> int:
    return value


async def failing(error: Exception) -> int:
    raise error


def test_a_partition_that_cannot_be_read_fails_a_read_that_must_be_whole():
    assert node_timeout_s() is None
    with pytest.raises(ConnectionError):
        leave_out([1], range(3), AWAY)
    with pytest.raises(ConnectionError), leaving_out(1, range(3)):
        raise AWAY


def test_within_partial_reads_it_is_left_out_and_named():
    with partial_reads() as missing:
        assert node_timeout_s() is not None
        with leaving_out(1, range(3)):
            raise AWAY
        assert left_out() == missing == {1}
    assert left_out() == frozenset()
    assert left_out_message(missing) == "left out: partitions 1, on a node of the cluster that is away"


def test_a_read_of_which_nothing_is_left_fails():
    with partial_reads():
        with pytest.raises(ConnectionError):
            leave_out([0, 1], range(2), AWAY)
        leave_out([0], range(2), AWAY)
        with pytest.raises(ConnectionError):
            leave_out([1], range(2), AWAY)


def test_a_part_of_an_answer_may_lack_all_it_is_about_but_the_answer_not():
    with partial_reads() as missing, made_of_parts(range(3)):
        leave_out([0], [0], AWAY)
        leave_out([1], [0, 1], AWAY)
        assert missing == {0, 1}
        with pytest.raises(ConnectionError):
            leave_out([2], [2], AWAY)


def test_parts_of_an_answer_that_must_be_whole_lack_nothing():
    with made_of_parts(range(3)), pytest.raises(ConnectionError):
        leave_out([0], [0], AWAY)


def test_what_must_be_whole_leaves_nothing_out_within_reads_that_may():
    with partial_reads() as missing:
        with whole_reads():
            assert node_timeout_s() is None
            with pytest.raises(ConnectionError):
                leave_out([1], range(3), AWAY)
        assert missing == set()
        with leaving_out(1, range(3)):
            raise AWAY
    assert missing == {1}


def test_another_fault_than_a_node_that_is_away_is_raised():
    with partial_reads(), pytest.raises(ResponseError), leaving_out(1, range(3)):
        raise ResponseError("WRONGTYPE")


async def test_of_reads_at_the_same_time_those_that_can_be_read_are_returned():
    with partial_reads() as missing:
        assert await readable({0: answered(7), 1: failing(AWAY), 2: answered(9)}) == {0: 7, 2: 9}
    assert missing == {1}
    with pytest.raises(ConnectionError):
        await readable({0: answered(7), 1: failing(AWAY)})
    with partial_reads(), pytest.raises(ResponseError):
        await readable({0: answered(7), 1: failing(ResponseError("WRONGTYPE"))})
