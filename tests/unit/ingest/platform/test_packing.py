import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import BusyLoadingError, ConnectionError, DataError, InvalidResponse, ResponseError, TimeoutError

from ingest.platform.redis_client import packed_by_hiredis

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
