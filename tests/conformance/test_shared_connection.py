"""The connection that all callers share: whose answer is whose, and what becomes of askers when it is lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from servers import Server
from waiting import wait_until

from ingest.platform.connections import Client, ask, ask_apart, connect


@pytest.fixture
async def client(valkey: Server) -> AsyncIterator[Client]:
    client = connect(valkey.url, connections=4)
    yield client
    await client.flushall()
    await client.aclose()


async def _cut(client: Client) -> None:
    """Have the server close every other connection."""
    await cast(Any, client).execute_command("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")


async def test_everybody_gets_the_answers_to_what_he_asked(client: Client):
    async def one(number: int) -> None:
        key = f"key-{number}"
        assert await ask(client, [("SET", key, number), ("GET", key), ("APPEND", key, "!")]) == [
            b"OK",
            str(number).encode(),
            len(str(number)) + 1,
        ]

    await asyncio.gather(*map(one, range(200)))


async def test_an_error_stands_in_the_place_of_its_answer(client: Client):
    done, refused, after = await ask(client, [("SET", "a", "x"), ("INCR", "a"), ("GET", "a")])

    assert (done, after) == (b"OK", b"x")
    assert isinstance(refused, ResponseError)


async def test_a_transaction_is_answered_as_its_commands(client: Client):
    assert await ask(client, [("SET", "a", 1), ("INCR", "a")], at_once=True) == [b"OK", 2]


async def test_asking_nothing_is_answered_at_once(client: Client):
    assert await ask(client, []) == []


async def test_groups_are_answered_in_turn_and_each_keeps_its_order(client: Client):
    """Big ones go over several connections."""
    big = "x" * 10_000
    groups = [[("RPUSH", f"list-{group}", f"{n}{big}") for n in range(5)] for group in range(12)]

    assert await ask_apart(client, groups) == [1, 2, 3, 4, 5] * 12
    for group in range(12):
        (members,) = await ask(client, [("LRANGE", f"list-{group}", 0, -1)])
        assert [member[:1] for member in members] == [b"0", b"1", b"2", b"3", b"4"]


async def test_what_was_asked_on_a_lost_connection_is_asked_once_more(client: Client):
    await ask(client, [("PING",)])
    await _cut(client)

    assert await ask(client, [("SET", "a", 1), ("GET", "a")]) == [b"OK", b"1"]


async def test_a_client_that_repeats_nothing_is_told_that_the_connection_was_lost(valkey: Server, client: Client):
    careful = connect(valkey.url, repeat=False)
    waiting = asyncio.create_task(ask(careful, [("BLPOP", "nothing", 0)]))
    await wait_until(lambda: _is_blocked(client))
    await _cut(client)

    with pytest.raises(ConnectionError):
        await waiting
    assert await ask(careful, [("PING",)]) == [b"PONG"]
    await careful.aclose()


async def test_askers_of_a_server_that_does_not_answer_are_told_so(valkey: Server):
    """The connection is given up for all who wait, and the next one who asks has a new one."""
    client = connect(valkey.url, read_timeout_s=0.3, repeat=False)
    query = [asyncio.create_task(ask(client, [("BLPOP", "nothing", 0)])), asyncio.create_task(ask(client, [("PING",)]))]

    for item in query:
        with pytest.raises(TimeoutError):
            await item
    assert await ask(client, [("PING",)]) == [b"PONG"]
    await client.aclose()


async def test_an_asker_that_goes_away_leaves_the_others_their_answers(client: Client):
    await ask(client, [("SET", "a", 1)])
    gone = asyncio.create_task(ask(client, [("GET", "a"), ("GET", "a")]))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(ask(client, [("INCR", "a")]))
    gone.cancel()

    assert await waiting == [2]


async def test_the_url_says_which_database_it_is(valkey: Server):
    other = connect(f"{valkey.url}?db=1")
    await ask(other, [("SET", "where", "one")])
    async with cast(Any, other).pipeline() as pipe:
        pipe.get("where")
        assert await pipe.execute() == [b"one"]
    await other.flushall()
    await other.aclose()


async def _is_blocked(client: Client) -> bool:
    return int((await client.info("clients"))["blocked_clients"]) > 0
