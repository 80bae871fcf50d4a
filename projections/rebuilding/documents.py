"""Rebuilding documents: fill a generation of each partition from the log beside the live one, compare, switch, delete.

A generation is filled from its own checkpoint, so an interrupted rebuild resumes, and a generation that was live before
catches up on newer entries. One transaction makes it the live one, and only if the live checkpoint is at the same
position. Dead letters belong to the generation that could not apply them.
"""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace
from redis.exceptions import RedisError, ResponseError, WatchError

from ingest.errors import LeaseLost, UnreadableEvent, WrongRebuildState
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position, stored_position
from ingest.nouns.registry import decode
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, Transaction
from projections.index.replica import end_of_feed, live_generation
from projections.nouns.fold import Changes
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries, Difference, PartitionCanaries, ask, verdict
from projections.rebuilding.job import REPORT_EVERY_S, PartitionProgress, Strategy, partition_lease
from projections.rebuilding.rebuilds import Part, Rebuild, unread
from projections.store.dead_letters import (
    DeadLetter,
    dead_letter,
    letter_of,
    places_between,
    queue_count,
    queue_letter,
)
from projections.store.feed import Switched, entry_fields, read_entry
from projections.store.protocol import project
from projections.store.rebuild_store import RebuildStore

logger = logging.getLogger(__name__)

BATCH = 512
BYTES = 1 << 20
"""Of one batch, at most: a retirement of 12 kB names 500 documents, which are all read and written at once."""
DELETED_AT_ONCE = 500
FEED_END_TTL_S = 120
"""How long the last entry of a deleted generation's feed stays; it sends followers to the live generation."""


class Filled(NamedTuple):
    """How many entries were applied, and whether the generation was at the live one's position."""

    applied: int
    level: bool


async def fill(redis: Client, log: EventLog, partition: int, generation: int, slice_s: float, who: str = "") -> Filled:
    """Fill a generation once; see `fill_into`. `who` is the worker that holds the partition's lease on rebuilding."""
    return await fill_into(RebuildStore(redis, PartitionKeys(partition), generation, who), redis, log, slice_s)


async def fill_into(store: RebuildStore, redis: Client, log: EventLog, slice_s: float) -> Filled:
    """Apply what a generation lacks, for about `slice_s` seconds; it never gets ahead of the live documents.

    Readers are not affected. Raises LeaseLost when the store's worker has lost its lease, or the generation is live.
    """
    until = time.monotonic() + slice_s
    partition = store.partition
    keys = PartitionKeys(partition)
    live = keys.of_generation(await live_generation(redis, partition))
    position, applied = await store.checkpoint(), 0
    while time.monotonic() < until:
        goal = stored_position(await redis.get(live.checkpoint))
        if position >= goal:
            return Filled(applied, level=True)
        read = await log.read(partition, position, BATCH)
        entries = _bounded([entry for entry in read if entry.position <= goal])
        if entries:
            await _apply(redis, store, keys, live, entries)
        else:  # the live checkpoint is at an entry that is no longer in the log
            await store.save(Changes({}, {}), goal)
        position = entries[-1].position if entries else goal
        applied += len(entries)
    return Filled(applied, level=False)


def _bounded(entries: Sequence[Stored]) -> Sequence[Stored]:
    total = 0
    for n, entry in enumerate(entries):
        total += len(entry.payload)
        if n and total > BYTES:
            return entries[:n]
    return entries


async def switch(redis: Client, partition: int, before: int, after: int) -> bool:
    """Make generation `after` live instead of `before`; false when they are not at the same position.

    Raises WrongRebuildState when neither is live; does nothing when `after` is.
    """
    keys = PartitionKeys(partition)
    old, new = keys.of_generation(before), keys.of_generation(after)
    async with redis.pipeline(transaction=True) as pipe:
        # a save in either generation, or another switch, fails the transaction: both stay where they are compared
        await pipe.watch(old.checkpoint, new.checkpoint, keys.generation)
        generation, reached, filled = await pipe.mget(keys.generation, old.checkpoint, new.checkpoint)
        live = int(generation or 1)
        if live == after:
            return True
        if live != before:
            raise WrongRebuildState(f"partition {partition}: generation {live} is live, neither {before} nor {after}")
        # behind, the new one lacks writes; ahead, it would skip a forgetting that the live one has not carried out yet
        if reached != filled:
            return False
        feed = Position.parse(await end_of_feed(pipe, new))
        pipe.multi()
        pipe.set(keys.generation, str(after))
        # the old feed ends with the entry of the new one after which followers continue; they compare the documents
        pipe.xadd(old.changes, entry_fields([Switched(after, str(feed))], None))
        if feed > START:  # from when it was live before: trimmed, so that it does not look like a complete feed
            pipe.set(new.trimmed, str(feed))
            pipe.xtrim(new.changes, minid=str(Position(feed.ms, feed.seq + 1)), approximate=False)
        pipe.delete(new.embed_queue, new.embed_later)  # what is queued to be embedded stays queued
        pipe.execute_command("COPY", old.embed_queue, new.embed_queue)
        pipe.execute_command("COPY", old.embed_later, new.embed_later)
        try:
            await pipe.execute()
        except WatchError:
            return False
    logger.info("partition %d: generation %d is live", partition, after)
    return True


async def entries_of(redis: Client, partition: int) -> int:
    """How many entries the log of a partition has, erased and archived ones included; one round trip."""
    keys = PartitionKeys(partition)
    async with redis.pipeline(transaction=False) as pipe:
        pipe.xinfo_stream(keys.log)
        pipe.zcard(keys.erased)
        stream, erased = await pipe.execute(raise_on_error=False)
    if isinstance(stream, ResponseError):  # nothing was ever appended
        return 0
    if isinstance(stream, Exception):
        raise stream
    return max(int(stream.get("entries-added") or 0), int(stream["length"]) + int(erased))


async def clean_up(redis: Client, partition: int, generation: int) -> int:
    """Delete a generation that is not live; returns how many keys were deleted. Does nothing to the live one.

    The last entry of its feed, that another generation is live, stays for FEED_END_TTL_S: a follower may not have read
    it yet.
    """
    keys = PartitionKeys(partition)
    if await live_generation(redis, partition) == generation:
        return 0
    past = keys.of_generation(generation)
    feed_end = await _end_feed(redis, past)
    deleted, keys_to_delete = 0, list[bytes]()
    for pattern in past.everything:
        async for key in redis.scan_iter(match=pattern, count=1000):
            if key.decode() not in feed_end:
                keys_to_delete.append(key)
            if len(keys_to_delete) == DELETED_AT_ONCE:
                deleted += int(await redis.unlink(*keys_to_delete))
                keys_to_delete.clear()
    return deleted + (int(await redis.unlink(*keys_to_delete)) if keys_to_delete else 0)


async def _end_feed(redis: Client, past: GenerationKeys) -> set[str]:
    """Trim a feed to its `Switched` entry, which expires; returns the keys that stay for it."""
    rows = await redis.xrevrange(past.changes, count=2)
    if not rows or not any(isinstance(item, Switched) for item in read_entry(rows[0][1])[0]):
        return set()
    async with redis.pipeline(transaction=True) as pipe:
        if len(rows) > 1:
            pipe.set(past.trimmed, rows[1][0])
        pipe.xtrim(past.changes, minid=rows[0][0].decode(), approximate=False)
        # replicas that still follow this feed read its last entry, which names the new generation, before it is gone
        pipe.expire(past.changes, FEED_END_TTL_S)
        pipe.expire(past.trimmed, FEED_END_TTL_S)
        await pipe.execute()
    return {past.changes, past.trimmed}


async def _apply(
    redis: Client, store: RebuildStore, keys: PartitionKeys, live: GenerationKeys, entries: Sequence[Stored]
) -> None:
    """Apply a batch except what is discarded; if any of it fails, each entry alone, and park those that still fail."""
    first, last = entries[0].position, entries[-1].position
    dead = await places_between(redis, live.dead, first, last)
    discarded = await places_between(redis, keys.discarded, first, last)
    remaining = [entry for entry in entries if entry.position not in discarded]
    try:
        await _save(store, keys, remaining, last, dead)
    except (LeaseLost, RedisError, OSError):
        raise
    except Exception:  # whatever a fold raises
        for entry in remaining:
            try:
                await _save(store, keys, [entry], entry.position, dead)
            except (LeaseLost, RedisError, OSError):
                raise
            except Exception as error:
                await _park(store, keys, entry, error, await dead_letter(redis, live, entry.position))
        await store.save(Changes({}, {}), last)  # the last entries may be discarded ones


async def _save(
    store: RebuildStore, keys: PartitionKeys, entries: Sequence[Stored], up_to: Position, dead: Collection[Position]
) -> None:
    """Apply entries; counts those that are dead letters of the live generation but not of this one."""
    readable = [entry for entry in entries if entry.payload]  # the live runner skips the others too
    events = [decode(entry.payload, entry.position) for entry in readable]
    changes = await project(store, events)
    revived = sum(entry.position in dead for entry in entries)

    def also(pipe: Transaction) -> None:
        if revived:
            queue_count(pipe, keys, "rebuilt", revived)

    await store.save_and(changes, up_to, also)


async def _park(
    store: RebuildStore, keys: PartitionKeys, entry: Stored, error: Exception, live: DeadLetter | None
) -> None:
    """Park an event in this generation; one that is also parked in the live generation is counted already."""
    code = error.code if isinstance(error, UnreadableEvent) else type(error).__name__
    letter = letter_of(entry, code, str(error), 1, system_clock())
    if live is not None:
        letter = replace(letter, attempts=live.attempts + 1, parked_at=live.parked_at or letter.parked_at)

    def also(pipe: Transaction) -> None:
        queue_letter(pipe, store.keys, letter)
        if live is None:
            queue_count(pipe, keys, "parked")

    await store.save_and(Changes({}, {}), entry.position, also)


LEVEL_WITHIN_S = 15.0
"""For comparing or switching a partition: while writes continue, both must be at the same position at one moment."""


@dataclass
class DocumentRebuild(Strategy):
    """One worker's part in rebuilding documents; `who` is the holder of its leases on partitions."""

    _redis: Client
    _log: EventLog
    _id: str

    def __post_init__(self) -> None:
        self._filling: RebuildStore | None = None
        """The store of the partition that is being filled, with its cached documents."""

    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Apply what the generation lacks of the log."""
        store = self._filling
        if store is None or (store.partition, store.generation) != (part.partition, part.generation):
            store = RebuildStore(self._redis, PartitionKeys(part.partition), part.generation, self._id)
        self._filling = store if rebuild.state == "running" else None
        applied, level = await fill_into(store, self._redis, self._log, REPORT_EVERY_S)
        total = await entries_of(self._redis, part.partition)

        def step(current: Rebuild, now: datetime) -> Rebuild:
            return steps.progressed(current, part.partition, applied, total, level=level, now=now)

        return PartitionProgress(step, level)

    async def compare(self, rebuild: Rebuild) -> Canaries | None:
        """Compare the canaries of every partition in both generations."""
        answers: list[PartitionCanaries] = []
        for part in rebuild.parts:
            if (answer := await self._ask(part)) is None:  # tried again: the other worker ends, or its lease does
                return None
            answers.append(answer)
        differing = [difference for answer in answers for difference in answer.differing]
        due = next((answer.rebuild_due for answer in answers if answer.rebuild_due), "")
        return verdict(sum(answer.canaries for answer in answers), differing, due)

    async def _ask(self, part: Part) -> PartitionCanaries | None:
        """A partition's canaries; None while another worker has the partition."""
        async with partition_lease(self._redis, part.partition, self._id, LEVEL_WITHIN_S) as mine:
            if not mine:
                return None
            until = time.monotonic() + LEVEL_WITHIN_S
            while time.monotonic() < until:
                if await self._level(part.partition, part.generation):
                    answer = await ask(self._redis, self._log, part.partition, part.before, part.generation)
                    if answer is not None:
                        return answer
        text = f"the two generations did not reach the same position within {LEVEL_WITHIN_S:.0f} s: too many writes"
        return PartitionCanaries(
            1, [Difference(partition=part.partition, what="position", name="checkpoint", said=text)]
        )

    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Switch every partition, each in one transaction, once its generation has caught up."""
        for part in rebuild.parts:
            before, after = (part.generation, part.before) if back else (part.before, part.generation)
            if not await self._switch_partition(part.partition, before, after):
                logger.warning("rebuild %s: partition %d has not caught up yet", rebuild.id, part.partition)
                return False
        return True

    async def _switch_partition(self, partition: int, before: int, after: int) -> bool:
        """Bring a generation level and switch to it; false when it did not become level in time."""
        async with partition_lease(self._redis, partition, self._id, LEVEL_WITHIN_S) as mine:
            until = time.monotonic() + LEVEL_WITHIN_S
            if mine and await live_generation(self._redis, partition) == after:
                return True
            while mine and time.monotonic() < until:
                if await self._level(partition, after) and await switch(self._redis, partition, before, after):
                    return True
        return False

    async def discard(self, rebuild: Rebuild | None) -> bool:
        """Free the cached documents unless partitions are being filled; delete the generations that are not read."""
        if rebuild is None or rebuild.state != "running":
            self._filling = None
        for partition, generation in () if rebuild is None else unread(rebuild):
            async with partition_lease(self._redis, partition, self._id, LEVEL_WITHIN_S) as mine:
                if not mine:  # another worker deletes it, or does not know yet that there is nothing to fill
                    return False
                await clean_up(self._redis, partition, generation)
        return True

    async def _level(self, partition: int, generation: int) -> bool:
        return (await fill(self._redis, self._log, partition, generation, REPORT_EVERY_S, self._id)).level
