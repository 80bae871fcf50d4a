"""Transactions and appends that go through although the server is at its `maxmemory`, and those that must not."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from redis.exceptions import ResponseError, WatchError

from ingest.errors import LogFull
from ingest.log.event_log import Entry
from ingest.log.keys import PartitionKeys
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect, past_memory_limit
from ingest.platform.redis_client import MOST_WORDS, portioned
from tests.support.valkey_servers import TcpValkey
from workers.runner import Attempts


@pytest.fixture
async def full(tmp_path: Path) -> AsyncGenerator[Client]:
    """A client of a server that uses more memory than it may."""
    server = TcpValkey(tmp_path)
    server.start()
    redis = connect(server.url, connections=4)
    try:
        await redis.set("a", "1")
        used = (await redis.info("memory"))["used_memory"]
        await cast(Any, redis).config_set("maxmemory", used - (1 << 16))
        yield redis
    finally:
        await redis.aclose()
        server.stop()


async def test_a_transaction_goes_past_the_limit_where_that_is_asked_for(full: Client):
    with pytest.raises(ResponseError):
        await full.set("b", "2")
    async with full.pipeline() as pipe:
        pipe.set("b", "2")
        with pytest.raises(ResponseError):
            await pipe.execute()
    async with past_memory_limit(full) as pipe:
        pipe.set("b", "2")
        pipe.hset("h", "f", "v")
        pipe.zadd("z", {str(n): 0 for n in range(2 * MOST_WORDS)})
        pipe.get("none")
        pipe.set("b", "3", nx=True)
        assert await pipe.execute() == [True, 1, 2 * MOST_WORDS, None, None]
    assert await full.get("b") == b"2"


async def test_a_watched_transaction_goes_past_the_limit_only_while_the_keys_hold_what_was_read(full: Client):
    for expected, there in (({"a": b"1", "none": None}, True), ({"a": b"2"}, False), ({"none": b""}, False)):
        async with full.pipeline() as pipe:
            await pipe.watch(*expected)
            pipe.exceed_memory_limit(expected)
            pipe.multi()
            pipe.set("b", "2")
            if there:
                assert await pipe.execute() == [True]
                await full.delete("b")
                continue
            with pytest.raises(WatchError):
                await pipe.execute()
            assert await full.get("b") is None


async def test_an_error_within_a_transaction_past_the_limit_is_raised(full: Client):
    async with past_memory_limit(full) as pipe:
        pipe.hset("a", "f", "v")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await pipe.execute()


async def test_forgetting_is_appended_past_the_limit_and_other_events_are_not(full: Client):
    log = RedisLog(full, 1)
    with pytest.raises(LogFull):
        await log.append({0: [Entry("id", b"event")]})
    first = await log.append_past_limit({0: [Entry("id", b"event")]})
    assert not first[0][0].duplicate
    assert (await log.append_past_limit({0: [Entry("id", b"event")]}))[0][0].duplicate


async def test_a_try_that_is_broken_off_is_counted_once(full: Client):
    attempts = Attempts(full, PartitionKeys(0))
    assert [await attempts.begin("1-0") for _ in range(7)] == [1] * 7
    attempts.end("1-0")
    assert await attempts.begin("1-0") == 2
    assert await Attempts(full, PartitionKeys(0)).begin("1-0") == 3, "a worker that died did not end its try"


def test_a_long_command_is_divided_with_its_first_words_repeated():
    parts = portioned(("ZADD", "z", *range(2 * MOST_WORDS + 2)))
    assert all(part[:2] == ("ZADD", "z") and len(part) <= MOST_WORDS and len(part) % 2 == 0 for part in parts)
    assert [word for part in parts for word in part[2:]] == list(range(2 * MOST_WORDS + 2))
    assert portioned(("XGROUP CREATE", "k")) == [("XGROUP", "CREATE", "k")]


async def test_a_log_is_opened_past_the_limit(full: Client):
    for _ in range(2):
        await RedisLog(full, 1).create_or_check()
