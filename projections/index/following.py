"""Following the change feeds: applies every partition's to one index, in that index's thread."""

import time
from collections.abc import Awaitable, Callable

from ingest.connections import Client
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from projections.index.loading import Loaded
from projections.index.reading import InThread, Read, apply_entries, live_generation, read_feed
from projections.index.snapshots import FeedPosition

BLOCK_MS = 1000
COMMIT_EVERY_S = 2.0


class Followers:
    """What follows the feeds for one loaded index. `changed` is awaited when its positions have moved.

    `caught_up` gathers the partitions that have been read up to where their feed stood at first.
    """

    def __init__(
        self,
        redis: Client,
        live: Loaded,
        caught_up: set[int],
        in_thread: InThread,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._redis, self._live, self._caught_up = redis, live, caught_up
        self._in_thread, self._changed = in_thread, changed
        self._committed_at = time.monotonic()
        self.stopped = False

    async def follow(self, partition: int) -> None:
        """Follow a partition's feed, from one generation to the next. Raises Unfollowable."""
        at = self._live.at
        generation = await live_generation(self._redis, partition)
        if generation != at[partition].generation:
            await self._start_generation(partition, generation)
        goal = await self._newest_feed_id(partition)
        while not self.stopped:
            generation = at[partition].generation
            block_ms = BLOCK_MS if await self._mark_caught_up(partition, goal) else None
            read = await read_feed(self._redis, partition, at[partition], block_ms)
            if read.entries:
                await self._apply(partition, read)
            elif block_ms is None:
                goal = START  # the end of the feed, though not the entry seen at the start: it was trimmed
            else:
                await self._commit_sometimes()
            if at[partition].generation != generation:
                goal = await self._newest_feed_id(partition)

    async def _mark_caught_up(self, partition: int, goal: Position) -> bool:
        if partition in self._caught_up:
            return True
        if Position.parse(self._live.at[partition].feed) < goal:
            return False
        self._caught_up.add(partition)
        await self._changed()
        return True

    async def _newest_feed_id(self, partition: int) -> Position:
        feed = PartitionKeys(partition).of_generation(self._live.at[partition].generation)
        rows = await self._redis.xrevrange(feed.changes, count=1)
        return Position.parse(rows[0][0]) if rows else START

    async def _apply(self, partition: int, read: Read) -> None:
        switched = await self._in_thread(apply_entries, self._live.index, partition, read.entries)
        if switched is not None:
            await self._start_generation(partition, switched)
            return
        self._live.at[partition] = read.then
        await self._changed()
        await self._commit_sometimes()

    async def _start_generation(self, partition: int, generation: int) -> None:
        """Go on with the feed of another generation, from its beginning; its documents replace the old ones."""
        self._caught_up.discard(partition)
        await self._in_thread(self._live.index.drop_partition, partition)
        self._live.at[partition] = FeedPosition(generation=generation)

    async def _commit_sometimes(self) -> None:
        if time.monotonic() - self._committed_at > COMMIT_EVERY_S:
            self._committed_at = time.monotonic()
            await self._in_thread(self._live.index.commit)
