"""A lease on a job, so that only one worker runs it at a time."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from redis.exceptions import RedisError

from ingest.log.keys import JOB_LEASE_TTL
from ingest.log.scripts import release, renew
from ingest.platform.connections import Client, past_memory_limit
from ingest.platform.tasks import end

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.1


@asynccontextmanager
async def lease(
    redis: Client, key: str, who: str, ttl: timedelta = JOB_LEASE_TTL, *, wait_s: float = 0.0
) -> AsyncGenerator[bool]:
    """Whether `who` has the lease, which is renewed while the block runs; false if another held it for `wait_s`. A
    holder that stalls for longer than `ttl` loses it, and may run beside the next one: work under a lease must be
    harmless when it is done twice."""
    until = asyncio.get_running_loop().time() + wait_s
    while not await _set(redis, key, who, ttl):  # SET NX: of those that try at the same time, one gets it
        if asyncio.get_running_loop().time() >= until:
            yield False
            return
        await asyncio.sleep(LOOK_AGAIN_S)
    keeping = asyncio.create_task(_keep(redis, key, who, ttl), name=f"lease of {key}")
    try:
        yield True
    finally:
        await end(keeping)  # first: a renewal on its way would take the lease back
        try:
            await release(redis, key, who)
        except RedisError as error:
            logger.warning("%s could not be released and will expire: %s", key, error)


async def _keep(redis: Client, key: str, who: str, ttl: timedelta) -> None:
    while True:
        await asyncio.sleep(ttl.total_seconds() / 3)  # two renewals may fail before it runs out
        try:
            if not await renew(redis, key, who, ttl):
                logger.warning("%s was lost: another worker may run the same job", key)
                return
        except RedisError as error:  # there is time for two more
            logger.warning("%s could not be renewed: %s", key, error)


async def _set(redis: Client, key: str, who: str, ttl: timedelta) -> bool:
    async with past_memory_limit(redis) as pipe:  # a full server needs forgetting and trimming most
        pipe.set(key, who, nx=True, ex=ttl)
        return bool((await pipe.execute())[0])
