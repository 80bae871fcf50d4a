"""What a lease on a job promises, against a real Valkey: one worker has it, keeps it, and gives up only its own."""

import asyncio
from datetime import timedelta

from ingest.log.keys import PURGE_LEASE, PartitionKeys
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client
from workers.lease import lease

TTL = timedelta(seconds=3)


async def test_a_lease_has_one_holder_at_a_time(redis: Client):
    async with lease(redis, PURGE_LEASE, "one", TTL) as one, lease(redis, PURGE_LEASE, "other", TTL) as other:
        assert (one, other) == (True, False)
    async with lease(redis, PURGE_LEASE, "other", TTL) as other:
        assert other
    assert await redis.get(PURGE_LEASE) is None


async def test_a_lease_is_renewed_while_it_is_held(redis: Client):
    async with lease(redis, PURGE_LEASE, "one", TTL):
        await asyncio.sleep(1.3 * TTL.total_seconds())
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
