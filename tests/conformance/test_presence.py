"""Who is up, by the clock of the server: hosts whose clocks differ must not take each other for dead.

Left open: how long after its time somebody silent is dropped; only that nobody counts it meanwhile.
"""

import time

from waiting import wait_until

from ingest.log.keys import REPLICAS, WORKERS
from ingest.log.scripts import beat, heard_of
from ingest.platform.connections import Client
from projections.index.waiting import announce, replicas, sign_off

TTL_MS = 5_000
HOUR_MS = 3_600_000


def now_ms() -> int:
    return round(time.time() * 1000)


async def test_all_who_said_so_are_up_in_the_order_of_their_names(redis: Client):
    assert await beat(redis, WORKERS, "b", TTL_MS) == ["b"]
    assert await beat(redis, WORKERS, "c", TTL_MS) == ["b", "c"]
    assert await beat(redis, WORKERS, "a", TTL_MS) == ["a", "b", "c"]
    assert await beat(redis, WORKERS, "b", TTL_MS) == ["a", "b", "c"]
    assert sorted(await heard_of(redis, WORKERS, TTL_MS)) == ["a", "b", "c"]


async def test_who_was_silent_for_too_long_is_dropped(redis: Client):
    await redis.zadd(WORKERS, {"silent": now_ms() - TTL_MS - 2_000, "alive": now_ms()})
    assert await heard_of(redis, WORKERS, TTL_MS) == ["alive"]
    assert await beat(redis, WORKERS, "me", TTL_MS) == ["alive", "me"]
    assert await redis.zcard(WORKERS) == 2


async def test_silence_is_noticed(redis: Client):
    await beat(redis, WORKERS, "me", TTL_MS)

    async def gone() -> bool:
        return await heard_of(redis, WORKERS, 100) == []

    await wait_until(gone)


async def test_a_word_from_the_future_does_not_last_for_ever(redis: Client):
    """A release that wrote the time of its host, an hour ahead, or a failover to a node whose clock is behind."""
    await redis.zadd(WORKERS, {"ahead": now_ms() + HOUR_MS})
    assert await heard_of(redis, WORKERS, TTL_MS) == []
    assert await beat(redis, WORKERS, "me", TTL_MS) == ["me"]


async def test_nobody_is_up_where_nobody_said_so(redis: Client):
    assert await heard_of(redis, WORKERS, TTL_MS) == []


async def test_what_somebody_says_takes_the_place_of_what_it_said_before(redis: Client):
    await announce(redis, "a", "")
    await announce(redis, "ab", "01")
    await announce(redis, "a", "02")
    assert sorted(await replicas(redis)) == [("a", "02"), ("ab", "01")]
    await sign_off(redis, "a")
    assert await replicas(redis) == [("ab", "01")]
    assert await redis.zcard(REPLICAS) == 1
