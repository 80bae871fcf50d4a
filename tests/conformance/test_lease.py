"""What a lease on a job promises, against a real Valkey: one worker has it, keeps it, and gives up only its own."""

from datetime import timedelta
from typing import Any

from waiting import wait_until

from ingest.log.keys import PURGE_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client

TTL = timedelta(seconds=3)


async def test_a_lease_has_one_holder_at_a_time(redis: Client):
    async with lease(redis, PURGE_LEASE, "one", TTL) as item, lease(redis, PURGE_LEASE, "other", TTL) as other:
        assert (item, other) == (True, False)
    async with lease(redis, PURGE_LEASE, "other", TTL) as other:
        assert other
    assert await redis.get(PURGE_LEASE) is None


async def test_a_lease_is_renewed_while_it_is_held(redis: Client):
    """Again and again: the time that is left of it rises."""
    server: Any = redis
    async with lease(redis, PURGE_LEASE, "one", TTL):
        for _ in range(2):
            left: list[int] = [await server.pttl(PURGE_LEASE)]

            async def renewed(left: list[int] = left) -> bool:
                left.append(await server.pttl(PURGE_LEASE))
                return left[-1] > left[-2]

            await wait_until(renewed)
        assert await redis.get(PURGE_LEASE) == b"one"


async def test_the_lease_of_a_dead_worker_can_be_waited_for(redis: Client):
    await redis.set(PURGE_LEASE, "gone", ex=1)
    async with lease(redis, PURGE_LEASE, "one", TTL, wait_s=30) as mine:
        assert mine


async def test_a_lost_lease_is_not_released(redis: Client):
    async with lease(redis, PURGE_LEASE, "one", TTL):
        await redis.set(PURGE_LEASE, "other", ex=60)
    assert await redis.get(PURGE_LEASE) == b"other"


async def test_a_partition_is_leased_to_one_worker_until_it_gives_it_up(redis: Client):
    keys = PartitionKeys(0)
    fence = await acquire_lease(redis, keys, "one", 60_000)
    assert fence > 0
    assert await acquire_lease(redis, keys, "other", 60_000) == 0
    assert await redis.get(keys.lease) == b"one"
    await redis.delete(keys.lease)
    assert await acquire_lease(redis, keys, "other", 60_000) > fence
