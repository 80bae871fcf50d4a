"""Packing by hiredis, and reads that leave out what is on a node that is down."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import BusyLoadingError, ConnectionError, DataError, InvalidResponse, ResponseError, TimeoutError

from ingest.platform.partial import (
    leave_out,
    leaving_out,
    left_out,
    left_out_message,
    made_of_parts,
    partial_reads,
    readable,
    whole_reads,
)
from ingest.platform.redis_client import packed_by_hiredis
from ingest.platform.tasks import node_timeout_s

WORDS = st.one_of(st.text(max_size=30), st.binary(max_size=30), st.integers(), st.floats(allow_nan=False))
COMMANDS = st.tuples(st.sampled_from(["SET", "CONFIG GET", b"HSET"]), WORDS, WORDS)


def bytes_of(connection: Any, *commands: tuple[Any, ...]) -> bytes:
    return b"".join(connection.pack_commands(commands))


@given(st.lists(COMMANDS, min_size=1, max_size=4))
def test_the_bytes_are_those_of_redis_py(commands: list[tuple[Any, ...]]):
    ours, plain = packed_by_hiredis(Connection)(), Connection()
    try:
        expected = bytes_of(plain, *commands)
    except UnicodeEncodeError:  # a lone surrogate
        with pytest.raises(UnicodeEncodeError):
            bytes_of(ours, *commands)
        return

    assert bytes_of(ours, *commands) == expected
    assert b"".join(ours.pack_command(*commands[0])) == bytes_of(plain, commands[0])


@pytest.mark.parametrize("word", [None, True, [], {}])
def test_a_word_of_another_type_is_an_error_that_names_the_command(word: object):
    with pytest.raises(DataError, match="SET"):
        packed_by_hiredis(Connection)().pack_command("SET", "key", word)


@pytest.mark.parametrize("plain", [Connection, SSLConnection, UnixDomainSocketConnection])
def test_each_kind_of_connection_packs_by_hiredis(plain: type[Any]):
    packing = packed_by_hiredis(plain)

    assert issubclass(packing, plain)
    assert packing.pack_command is not plain.pack_command


async def connected(answers: bytes) -> Any:
    """A connection to a server that has sent these answers, and sends nothing more."""
    connection = packed_by_hiredis(Connection)(socket_timeout=0.01)
    stream = asyncio.StreamReader()
    connection._reader, connection._writer = stream, None
    connection._parser.on_connect(connection)
    connection._parser._reader.feed(answers)
    return connection


async def test_answers_that_have_come_are_read_in_their_order_then_waited_for():
    connection = await connected(b"+OK\r\n*2\r\n$1\r\na\r\n:7\r\n-ERR no\r\n$-1\r\n")

    assert await connection.read_response() == b"OK"
    assert await connection.read_response() == [b"a", 7]
    with pytest.raises(ResponseError, match="no"):
        await connection.read_response()
    assert await connection.read_response() is None
    assert await connection.read_response(timeout=0.01) is None
    with pytest.raises(TimeoutError):
        await connection.read_response(disconnect_on_error=False)


@pytest.mark.parametrize(
    ("answers", "error"), [(b"-LOADING\r\n", BusyLoadingError), (b"nonsense\r\n", InvalidResponse)]
)
async def test_a_connection_that_cannot_be_used_is_closed(answers: bytes, error: type[Exception]):
    connection = await connected(answers)

    with pytest.raises(error):
        await connection.read_response()
    with pytest.raises(ConnectionError):
        await connection.read_response()


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
    assert left_out_message(missing) == "left out: partitions 1, on an unreachable cluster node"


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
