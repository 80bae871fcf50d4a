"""arq job: write a new index snapshot when the change feeds have grown, then trim them behind it."""

import asyncio
import logging
import shutil
from pathlib import Path

from redis.exceptions import ResponseError

from ingest.connections import Client
from ingest.ids import new_event_id
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import Position
from projections.index import snapshots
from projections.index.reading import FeedTrimmed, apply_entries, read_feed
from projections.index.replica import IndexReplica
from projections.index.snapshots import FeedPosition, Manifest, UnusableSnapshot

logger = logging.getLogger(__name__)

MAX_FEED_BYTES = 64 << 20
"""Feeds are also cut when they take this much memory together, however few entries that is."""


class SnapshotJob:
    """Writes snapshots into `folder`, working in `work` (a folder of this worker's own)."""

    def __init__(
        self, redis: Client, partitions: int, folder: Path, work: Path, model: str, dimensions: int, every: int
    ) -> None:
        self._redis, self._partitions = redis, partitions
        self._folder, self._work = folder, work
        self._model, self._dimensions, self._every = model, dimensions, every

    async def run(self, *, force: bool = False) -> Manifest | None:
        """Write a snapshot if the feeds have grown enough (or `force`); returns its manifest, else None.

        A crash at any point leaves the snapshots before it and the feeds as they were.
        """
        if not force and not await self._worthwhile():
            return None
        try:
            index, at = await self._start()
            for partition in range(self._partitions):
                at[partition] = await self._catch_up(index, partition, at[partition])
            manifest = await asyncio.to_thread(snapshots.save, index, at, self._folder, str(new_event_id()))
        except FeedTrimmed as error:
            logger.error("no snapshot can be written: %s", error)
            return None
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        for partition, position in at.items():
            await self._trim(partition, position)
        await asyncio.to_thread(snapshots.prune, self._folder)
        logger.info("snapshot %s: %d documents", manifest.name, manifest.documents)
        return manifest

    async def _worthwhile(self) -> bool:
        entries = size = 0
        for partition in range(self._partitions):
            changes = (await self._live(partition)).changes
            entries += int(await self._redis.xlen(changes))
            try:
                size += int(await self._redis.memory_usage(changes, samples=5) or 0)
            except ResponseError:  # some managed services forbid MEMORY; entries alone decide
                pass
        return entries >= self._every or size >= MAX_FEED_BYTES

    async def _start(self) -> tuple[IndexReplica, dict[int, FeedPosition]]:
        """The newest snapshot's index and positions, else an empty one at the beginning of every feed."""
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        found = await asyncio.to_thread(snapshots.newest, self._folder, self._model)
        if found is not None:
            try:
                return await asyncio.to_thread(snapshots.load, *found, self._work), at | found[1].partitions
            except UnusableSnapshot as error:
                logger.warning("%s", error)
        await asyncio.to_thread(shutil.rmtree, self._work, True)
        return await asyncio.to_thread(IndexReplica, self._work, self._dimensions, self._model), at

    async def _catch_up(self, index: IndexReplica, partition: int, at: FeedPosition) -> FeedPosition:
        """Read a partition's feed to its end."""
        live = (await self._live(partition)).generation
        if at.generation != live:
            await asyncio.to_thread(index.drop_partition, partition)
            at = FeedPosition(generation=live)
        while True:
            read = await read_feed(self._redis, partition, at, None)
            if not read.entries:
                return at
            switched = await asyncio.to_thread(apply_entries, index, partition, read.entries)
            at = read.then if switched is None else FeedPosition(generation=switched)

    async def _trim(self, partition: int, at: FeedPosition) -> None:
        """Remove what the snapshot covers, and leave a note for followers that had not read it."""
        feed = PartitionKeys(partition).of_generation(at.generation)
        last = Position.parse(at.feed)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.xtrim(feed.changes, minid=str(Position(last.ms, last.seq + 1)), approximate=False)
            pipe.set(feed.trimmed, str(last))
            await pipe.execute()

    async def _live(self, partition: int) -> GenerationKeys:
        keys = PartitionKeys(partition)
        return keys.of_generation(int(await self._redis.get(keys.generation) or 1))
