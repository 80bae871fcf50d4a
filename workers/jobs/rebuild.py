"""arq job: rebuild one partition's documents from the log, beside the live ones, and switch.

The next generation is filled from position zero. When it has caught up, one transaction makes it the live one, and only
if the live checkpoint stands at the same position. An interrupted rebuild goes on where it stopped.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from redis.exceptions import RedisError, WatchError

from ingest.connections import Client, Transaction
from ingest.errors import LeaseLost, UnreadableEvent
from ingest.events.envelope import decode
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import REBUILD_TTL, GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from projections.dead_letters import DeadLetter, queue_park
from projections.feed import Switched, entry_fields
from projections.fold import Changes
from projections.redis_store import RedisStore
from projections.store import project

logger = logging.getLogger(__name__)

BATCH = 512


async def rebuild(redis: Client, log: EventLog, partition: int, slice_s: float) -> int | None:
    """Rebuild a partition and switch to the result; returns the generation that was live before.

    Works for about `slice_s` seconds at most and returns None when there is more to do: call again. Readers go on
    meanwhile.
    """
    until = time.monotonic() + slice_s
    keys = PartitionKeys(partition)
    live = int(await redis.get(keys.generation) or 1)
    store = RedisStore(redis, keys, live + 1, fence=None)
    position = await store.checkpoint()
    while time.monotonic() < until:
        entries = await log.read(partition, position, BATCH)
        if entries:
            await _apply(store, keys, entries)
            position = entries[-1].position
        elif await _switch(redis, keys, live, position):
            logger.info("partition %d: generation %d is live", partition, live + 1)
            return live
        else:
            await asyncio.sleep(0.02)
    return None


async def claim(redis: Client, partition: int, who: str) -> bool:
    """Whether `who` may (go on to) rebuild a partition: two at a time would write over each other."""
    key = PartitionKeys(partition).rebuild
    if await redis.set(key, who, nx=True, ex=REBUILD_TTL):
        return True
    if (await redis.get(key) or b"").decode() != who:
        return False
    return bool(await redis.set(key, who, ex=REBUILD_TTL))


async def clean_up(redis: Client, partition: int, generation: int) -> int:
    """Delete a generation that is not live; returns how many keys went. Does nothing to the live one."""
    keys = PartitionKeys(partition)
    if int(await redis.get(keys.generation) or 1) == generation:
        return 0
    deleted = 0
    for pattern in keys.of_generation(generation).everything:
        async for key in redis.scan_iter(match=pattern, count=1000):
            deleted += int(await redis.unlink(key))
    return deleted


async def _apply(store: RedisStore, keys: PartitionKeys, entries: Sequence[Stored]) -> None:
    """Apply a batch; if any of it fails, each entry alone, and park what still does."""
    try:
        await _save(store, keys, entries)
    except (LeaseLost, RedisError, OSError):
        raise
    except Exception:
        for entry in entries:
            try:
                await _save(store, keys, [entry])
            except (LeaseLost, RedisError, OSError):
                raise
            except Exception as error:
                await _park(store, keys, entry, error)


async def _save(store: RedisStore, keys: PartitionKeys, entries: Sequence[Stored]) -> None:
    """Apply entries; one that was parked before and can be applied now is no dead letter any more."""
    readable = [entry for entry in entries if entry.payload]  # the live runner passes over the others, too
    changes = await project(store, [decode(entry.payload, entry.position) for entry in readable])

    def also(pipe: Transaction) -> None:
        pipe.hdel(keys.dead, *(str(entry.position) for entry in entries))

    await store.save_and(changes, entries[-1].position, also)


async def _park(store: RedisStore, keys: PartitionKeys, entry: Stored, error: Exception) -> None:
    code = error.code if isinstance(error, UnreadableEvent) else type(error).__name__
    letter = DeadLetter(position=str(entry.position), code=code, message=str(error)[:2000], attempts=1)
    await store.save_and(Changes({}, {}), entry.position, lambda pipe: queue_park(pipe, keys, letter))


async def _switch(redis: Client, keys: PartitionKeys, live: int, position: Position) -> bool:
    """Make the next generation live if both have applied the same.

    Nor may the live one be behind: a forgetting that it has not applied has not erased anything yet, and would be
    passed over.
    """
    old: GenerationKeys = keys.of_generation(live)
    async with redis.pipeline(transaction=True) as pipe:
        await pipe.watch(old.checkpoint, keys.generation)
        if int(await pipe.get(keys.generation) or 1) != live:
            raise LeaseLost(f"partition {keys.partition}: generation {live} is past")
        stored = await pipe.get(old.checkpoint)
        if (Position.parse(stored) if stored else START) != position:
            return False
        pipe.multi()
        pipe.set(keys.generation, str(live + 1))
        pipe.xadd(old.changes, entry_fields([Switched(live + 1)], None))
        try:
            await pipe.execute()
        except WatchError:
            return False
    return True
