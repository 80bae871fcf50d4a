"""The index replica of a process: starts from the newest snapshot, follows every partition's feed, answers searches.

One thread owns the index; the event loop only hands it work. What a reader may rely on: a search that waited for a
position sees every document up to it.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from redis.exceptions import RedisError

from ingest.connections import Client
from ingest.errors import ProjectionBehind
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, Token
from ingest.tasks import end
from projections.index import snapshots
from projections.index.reading import FeedTrimmed, Read, apply_entries, read_feed
from projections.index.replica import IndexReplica
from projections.index.search import Filter, Hit, Question, search
from projections.index.snapshots import FeedPosition, UnusableSnapshot
from projections.lag import entries_behind

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

BLOCK_MS = 1000
COMMIT_EVERY_S = 2.0
RETRY_S = 1.0
LAG_EVERY_S = 0.5


class ReplicaService:
    """Keeps one IndexReplica up to date. `redis` needs one connection a partition for blocking reads."""

    def __init__(
        self, redis: Client, partitions: int, work: Path, snapshot_folder: Path, model: str, dimensions: int
    ) -> None:
        self._redis, self._partitions = redis, partitions
        self._work, self._snapshots = work, snapshot_folder
        self._model, self._dimensions = model, dimensions
        self._thread = ThreadPoolExecutor(1, "index")
        self._index: IndexReplica | None = None
        self._at: dict[int, FeedPosition] = {}
        self._changed = asyncio.Condition()
        self._caught_up: set[int] = set()
        self._committed_at = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self.trouble: str | None = None
        self.lag: dict[int, int] = {}
        """Log entries not projected yet, by partition that is behind, as of less than a second ago."""

    @property
    def ready(self) -> bool:
        """True once every partition has been read up to where its feed stood at the start."""
        return self.trouble is None and len(self._caught_up) == self._partitions

    @property
    def documents(self) -> int:
        """How many documents are indexed."""
        return 0 if self._index is None else len(self._index)

    @property
    def applied(self) -> dict[int, Position]:
        """The log position covered, by partition."""
        return {partition: at.position for partition, at in self._at.items()}

    @property
    def at(self) -> dict[int, FeedPosition]:
        """Where the replica stands in every feed."""
        return dict(self._at)

    def start(self) -> None:
        """Begin to load and follow."""
        self._tasks = [
            asyncio.create_task(self._run(), name="index-replica"),
            asyncio.create_task(self._keep_measuring_lag(), name="lag"),
        ]

    async def aclose(self) -> None:
        """Stop following; removes the working copy."""
        self._closing = True
        await end(*self._tasks)
        self._thread.shutdown(wait=True)
        self._index = None
        shutil.rmtree(self._work, ignore_errors=True)

    async def wait_for(self, token: Token, timeout_s: float) -> None:
        """Return once everything the token covers is searchable; raises ProjectionBehind after `timeout_s`."""
        token.check(self._partitions)
        if token.covered_by(self.applied):
            return
        started = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: token.covered_by(self.applied))
        except TimeoutError:
            waited = time.monotonic() - started
            raise ProjectionBehind(waited, await self.measure_lag()) from None

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once `ready`; raises ProjectionBehind after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.ready)
        except TimeoutError:
            raise ProjectionBehind(timeout_s, await self.measure_lag()) from None

    async def search(self, question: Question, allowed: Filter) -> list[Hit]:
        """Search the index as it stands. Raises ProjectionBehind before the first load is done."""
        if self._index is None:
            raise ProjectionBehind(0.0, await self.measure_lag())
        return await self.in_index_thread(search, self._index, question, allowed)

    async def measure_lag(self) -> dict[int, int]:
        """Log entries that are not projected yet, by partition that is behind; also refreshes `lag`."""
        self.lag = await entries_behind(self._redis, self._partitions)
        return self.lag

    async def in_index_thread(self, work: Callable[..., Result], *args: Any) -> Result:
        """Run something in the thread that owns the index."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    @property
    def index(self) -> IndexReplica:
        """The index; touch it in the index thread only."""
        if self._index is None:
            raise ProjectionBehind(0.0, {})
        return self._index

    async def _keep_measuring_lag(self) -> None:
        while True:
            try:
                await self.measure_lag()
            except (RedisError, OSError) as error:
                logger.debug("lag is not known: %s", error)
            await asyncio.sleep(LAG_EVERY_S)

    async def _run(self) -> None:
        while True:
            try:
                if self._index is None:
                    await self._load()
                self.trouble = None
                async with asyncio.TaskGroup() as followers:
                    for partition in range(self._partitions):
                        followers.create_task(self._follow(partition), name=f"feed-{partition}")
            except* FeedTrimmed as group:
                self._index, self.trouble = None, str(group.exceptions[0])
                logger.warning("index: loading again: %s", self.trouble)
            except* (RedisError, OSError) as group:  # nothing is lost: the followers go on where they stopped
                self.trouble = f"Redis is away: {group.exceptions[0]}"
                logger.warning("index: %s", self.trouble)
            except* Exception as group:
                self._index, self.trouble = None, f"the index failed: {group.exceptions[0]!r}"
                logger.exception("index: loading again after a fault")
            await asyncio.sleep(RETRY_S)

    async def _load(self) -> None:
        """Start from the newest usable snapshot, else empty."""
        self._caught_up.clear()
        found = await asyncio.to_thread(snapshots.newest, self._snapshots, self._model)
        self._at = {partition: FeedPosition() for partition in range(self._partitions)}
        if found is not None:
            path, manifest = found
            try:
                self._index = await self.in_index_thread(snapshots.load, path, manifest, self._work)
                self._at.update(manifest.partitions)
                return
            except UnusableSnapshot as error:
                logger.warning("index: %s", error)
        await asyncio.to_thread(shutil.rmtree, self._work, True)
        self._index = await self.in_index_thread(IndexReplica, self._work, self._dimensions, self._model)

    async def _follow(self, partition: int) -> None:
        """Follow a partition's feed, from one generation to the next."""
        live = int(await self._redis.get(PartitionKeys(partition).generation) or 1)
        if live != self._at[partition].generation:
            await self._start_generation(partition, live)
        goal = await self._newest_feed_id(partition)
        while not self._closing:
            generation = self._at[partition].generation
            block_ms = BLOCK_MS if await self._mark_caught_up(partition, goal) else None
            read = await read_feed(self._redis, partition, self._at[partition], block_ms)
            if read.entries:
                await self._apply(partition, read)
            elif block_ms is None:
                goal = START  # the end of the feed, though not the entry seen at the start: it was trimmed
            else:
                await self._commit_sometimes()
            if self._at[partition].generation != generation:
                goal = await self._newest_feed_id(partition)

    async def _mark_caught_up(self, partition: int, goal: Position) -> bool:
        if partition in self._caught_up:
            return True
        if Position.parse(self._at[partition].feed) < goal:
            return False
        self._caught_up.add(partition)
        await self._notify()
        return True

    async def _newest_feed_id(self, partition: int) -> Position:
        feed = PartitionKeys(partition).of_generation(self._at[partition].generation)
        rows = await self._redis.xrevrange(feed.changes, count=1)
        return Position.parse(rows[0][0]) if rows else START

    async def _apply(self, partition: int, read: Read) -> None:
        switched = await self.in_index_thread(apply_entries, self.index, partition, read.entries)
        if switched is not None:
            await self._start_generation(partition, switched)
            return
        self._at[partition] = read.then
        await self._notify()
        await self._commit_sometimes()

    async def _start_generation(self, partition: int, generation: int) -> None:
        """Go on with the feed of another generation, from its beginning; its documents replace the old ones."""
        self._caught_up.discard(partition)
        await self.in_index_thread(self.index.drop_partition, partition)
        self._at[partition] = FeedPosition(generation=generation)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _commit_sometimes(self) -> None:
        if time.monotonic() - self._committed_at > COMMIT_EVERY_S:
            self._committed_at = time.monotonic()
            await self.in_index_thread(self.index.commit)
