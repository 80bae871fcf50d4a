"""Following the change feeds: applies the feed of every partition to one index, in that index's thread.

If a feed lacks something that the index lacks, the partition is compared with its documents (see `comparing`) while its
feed is still followed. Comparisons run one at a time, those that reads wait for first.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from ingest.errors import reason_of
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from ingest.platform.tracing import batch
from projections.index.comparing import Comparison, begin, compare
from projections.index.loading import Loaded
from projections.index.replica import (
    FeedGap,
    FeedPosition,
    InThread,
    Read,
    apply_entries,
    apply_steps,
    end_of_feed,
    live_generation,
    read_feed,
)
from projections.search.question import facet
from projections.store.feed import Switched, Vectors, contexts_of
from projections.vectors.vectors import MOST_UNLINKED, UNLINKED

logger = logging.getLogger(__name__)

BLOCK_MS = 1000
LINK_S, LINK_AGAIN_S = 0.01, 0.1
"""Turns of linking vectors, which a search waits for, and how often to look for more."""
MANY_PER_S, RATE_OVER_S = 500, 0.5
"""New vectors. At 3,000 a second, linking took the time that projecting needs; at 500 it takes 6 % of a core."""
COMPARE_AGAIN_S, FOLLOW_AGAIN_S = 2.0, 1.0
"""After a comparison failed, and after the node of a partition did not answer."""


class Superseded(Exception):
    """Another comparison of the partition has begun, or the partition is no longer followed."""


class Followers:
    """Follows the feeds for one loaded index. `changed` is awaited after its positions have moved.

    `in_background` runs low-priority work in the index thread, after all work of `in_thread`.
    `wait_for_own_writes` collects the partitions that are complete and read up to where their feed stood at the start.
    """

    def __init__(
        self,
        redis: Client,
        live: Loaded,
        wait_for_own_writes: set[int],
        in_thread: InThread,
        in_background: InThread,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._redis, self._live, self._caught_up = redis, live, wait_for_own_writes
        self._in_thread, self._in_background, self._changed = in_thread, in_background, changed
        self._comparison_added = asyncio.Event()
        self._reached: set[int] = set()
        self.stopped = False
        """Read in the index thread: no step of an old comparison may change an index that was replaced."""
        self.away: dict[int, str] = {}
        """The partitions whose server does not answer, with the error: newer writes there are unknown."""

    async def follow(self, partition: int) -> None:
        """Follow a partition's feed from one generation to the next; resumes when its server is back."""
        while not self.stopped:
            try:
                await self._follow(partition)
            except (RedisError, OSError) as error:  # nothing is lost: it resumes where it stopped
                if not self.away:  # once, not for each of the server's partitions
                    logger.warning("index: the server of partition %d is not responding: %s", partition, error)
                self.away[partition] = reason_of(error)
                self._caught_up.discard(partition)
                self._reached.discard(partition)
                await self._changed()
                await asyncio.sleep(FOLLOW_AGAIN_S)

    async def _follow(self, partition: int) -> None:
        at = self._live.at
        generation = await live_generation(self._redis, partition)
        if generation != at[partition].generation:
            reason = f"generation {generation} is live, but the index has generation {at[partition].generation}"
            await self._begin_comparison(partition, reason)
        goal = await self._newest_feed_id(partition)
        block_ms: int | None = None  # the first read shows whether the feed can be followed from here
        while not self.stopped:
            generation = at[partition].generation
            try:
                read = await read_feed(self._redis, partition, at[partition], block_ms)
            except FeedGap as error:
                await self._begin_comparison(partition, str(error))
                goal, block_ms = await self._newest_feed_id(partition), None
                continue
            if read.entries:
                await self._apply(partition, read)
            elif block_ms is None:
                goal = START  # the end of the feed, though not the entry seen at the start: it was trimmed
            if at[partition].generation != generation:
                goal = await self._newest_feed_id(partition)
            block_ms = BLOCK_MS if await self._mark_reached(partition, goal) else None

    async def compare(self) -> None:
        """Run the outstanding comparisons, forever. One that fails starts over."""
        while True:
            self._comparison_added.clear()
            comparisons = self._live.comparisons
            partition = min(
                comparisons,
                key=lambda number: (number in self.away, comparisons[number].complete),
                default=None,
            )
            if partition is None:
                await self._comparison_added.wait()
                continue
            comparison = comparisons[partition] = comparisons.pop(partition)  # last: one that fails holds up no other
            generation = self._live.at[partition].generation
            in_thread = partial(self._in_background, self._if_current, partition, comparison)
            try:
                await compare(self._redis, self._live.index, partition, generation, comparison, in_thread)
                if comparisons.get(partition) is comparison:
                    del comparisons[partition]
                    if partition in self._reached:
                        self._caught_up.add(partition)
                    await self._changed()
            except Superseded:
                continue
            except (RedisError, OSError) as error:
                logger.debug("index: partition %d cannot be compared for now: %s", partition, error)
                await asyncio.sleep(COMPARE_AGAIN_S)
            except Exception as error:  # readers keep the index as it is
                logger.exception("index: partition %d could not be compared with its documents", partition)
                comparison.why = f"{error!r}; {comparison.why.rpartition('; ')[2]}"
                await asyncio.sleep(COMPARE_AGAIN_S)

    async def link(self) -> None:
        """Link vectors into the graph once enough wait, when neither searches nor changes need the thread.

        While many arrive, more may wait: projecting needs the processor first.
        """
        put, looked_at, many_come = self._live.index.to_link, time.monotonic(), False
        while not self.stopped:
            now = time.monotonic()
            if now - looked_at > RATE_OVER_S:
                many_come = self._live.index.to_link - put > MANY_PER_S * (now - looked_at)
                put, looked_at = self._live.index.to_link, now
            if self._live.index.unlinked > (MOST_UNLINKED if many_come else UNLINKED):
                await self._in_background(self._live.index.link, LINK_S)
            else:
                await asyncio.sleep(LINK_AGAIN_S)

    def _if_current(self, partition: int, comparison: Comparison, work: Callable[..., Any], *args: Any) -> Any:
        """Run one step of a comparison, in the index thread; raises Superseded if it is not the current one."""
        if self.stopped or self._live.comparisons.get(partition) is not comparison:
            raise Superseded
        return work(*args)

    async def _begin_comparison(self, partition: int, reason: str) -> None:
        """Continue after the end of the live feed and compare the documents; until then reads cannot rely on the
        partition."""
        logger.warning("index: comparing partition %d with its documents: %s", partition, reason)
        at, comparison = await begin(self._redis, partition, reason)
        comparison.base = bool(await self._in_thread(self._live.index.facets.of, facet("partition", str(partition))))
        self._caught_up.discard(partition)
        self._reached.discard(partition)
        self._live.comparisons[partition] = comparison
        self._live.at[partition] = at
        self._comparison_added.set()
        await self._changed()

    async def _mark_reached(self, partition: int, goal: Position) -> bool:
        if partition in self._reached:
            return True
        if Position.parse(self._live.at[partition].feed) < goal:
            return False
        self._reached.add(partition)
        self.away.pop(partition, None)
        if partition not in self._live.comparisons or self._live.comparisons[partition].complete:
            self._caught_up.add(partition)
        await self._changed()
        return True

    async def _newest_feed_id(self, partition: int) -> Position:
        feed = PartitionKeys(partition).of_generation(self._live.at[partition].generation)
        return Position.parse(await end_of_feed(self._redis, feed))

    async def _apply(self, partition: int, read: Read) -> None:
        attributes = {"mnemolog.partition": partition, "mnemolog.feed_entries": len(read.entries)}
        contexts = contexts_of(read.entries) if partition in self._reached else []  # catching up belongs to no trace
        with batch("index", contexts, attributes):
            switched = await self._apply_entries(partition, read)
        if switched is None:
            self._live.at[partition] = read.then
            await self._changed()
            return
        # both generations covered the same position, so reads continue; the documents may differ, so they are compared
        reason = f"generation {switched.generation} became live"
        if not switched.feed:
            await self._begin_comparison(partition, reason)
            return
        earlier = self._live.comparisons.get(partition)
        complete, base = (True, True) if earlier is None else (earlier.complete, earlier.base)
        self._live.comparisons[partition] = Comparison(reason, read.then.position, complete=complete, base=base)
        covers = read.then.covers
        self._live.at[partition] = FeedPosition(generation=switched.generation, feed=switched.feed, covers=covers)
        self._comparison_added.set()

    async def _apply_entries(self, partition: int, read: Read) -> Switched | None:
        comparison = self._live.comparisons.get(partition)
        changed = None if comparison is None else comparison.changed
        steps, switched = await self._in_thread(apply_entries, self._live.index, partition, read.entries, changed)
        while steps:
            in_thread = self._in_background if isinstance(steps[0][0], Vectors) else self._in_thread
            switched = await in_thread(apply_steps, self._live.index, partition, steps, changed)
        return switched
