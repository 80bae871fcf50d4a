"""arq job: write a new index snapshot when the change feeds have grown, then trim them behind it.

A compacting one is what erases for good: the snapshot holds nothing of removed documents, older ones are deleted, the
feeds that told of them are trimmed, and replicas are told to start again from it.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from redis.exceptions import ResponseError

from ingest.ids import new_event_id
from ingest.log.keys import JOB_LEASE_TTL, PURGED, SNAPSHOT_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.log.position import Position
from ingest.platform.connections import Client, past_memory_limit
from ingest.platform.tasks import end
from projections.search import snapshots
from projections.search.comparing import catch_up
from projections.search.reading import live_generation, trim_feed
from projections.search.replica import IndexReplica
from projections.search.snapshots import FeedPosition, SnapshotManifest, compacted, is_worthwhile
from projections.vectors.embedder import Embedder, Embedders
from projections.vectors.static import table_of

logger = logging.getLogger(__name__)

LINK_S = 0.2
"""Vectors join the graph for so long between two looks at what is more urgent."""
MIN_FEED_BYTES, MAX_FEED_BYTES = 8 << 20, 64 << 20
"""Feeds are also cut when they take this much memory together, however few entries that is: an entry of a batch tells
of hundreds of documents. A process that starts reads 8 MiB in about two seconds."""
FEED_BYTES_PER_DOCUMENT = 100
"""Between the two: a twentieth of what a snapshot takes, so that writing snapshots takes no more than following."""


class SnapshotJob:
    """Writes snapshots into `folder`, working in `work` (a folder of this worker's own)."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        folder: Path,
        work: Path,
        embedders: Embedders,
        every: int,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        """`pressed` says whether more urgent work waits: then new vectors join the graph of a later snapshot."""
        self._pressed = pressed
        self._redis, self._partitions = redis, partitions
        self._folder, self._work = folder, work
        self._embedders, self._every = embedders, every
        self._id = str(new_event_id())
        self._checked: dict[Path, str | None] = {}
        self._tasks: set[asyncio.Task[SnapshotManifest | None]] = set()
        self._one_at_a_time = asyncio.Lock()  # they work in the same folder

    async def run(self, force: bool = False, *, compact: bool = False) -> SnapshotManifest | None:
        """Write a snapshot if the feeds have grown enough (or `force`); returns its manifest, else None.

        With `compact` in any case, without what was removed, as the only one left; then PURGED names it. A crash at any
        point leaves the snapshots before it and the feeds as they were, or less of them: running again does the rest.

        Who is cancelled waits no more, and the snapshot is written all the same: making the index of a million
        documents takes longer than a job may. Until it is, there is none to write but by `force`.
        """
        if self._one_at_a_time.locked() and not force and not compact:
            return None
        task = asyncio.create_task(self._run(force=force, compact=compact), name="snapshot")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Leave what is being written."""
        await end(*self._tasks)

    def _ended(self, task: asyncio.Task[SnapshotManifest | None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("no snapshot was written: %r", error)

    async def _run(self, *, force: bool, compact: bool) -> SnapshotManifest | None:
        async with self._one_at_a_time:
            if not force and not compact and not await self._worthwhile():
                return None
            # of two that write at once the older would win, and the feeds be trimmed behind the newer
            async with lease(self._redis, SNAPSHOT_LEASE, self._id, JOB_LEASE_TTL) as mine:
                if mine:
                    if (trouble := await asyncio.to_thread(snapshots.unwritable, self._folder)) is not None:
                        logger.error("no snapshot can be written, and no feed be trimmed: %s", trouble)
                        return None
                    return await self._write(compact=compact)
                logger.info("another worker writes a snapshot")
                return None

    async def _write(self, *, compact: bool) -> SnapshotManifest | None:
        try:
            index, at = await self._start(await self._embedders.refresh())
            for partition in range(self._partitions):
                at[partition] = await catch_up(self._redis, index, partition, at[partition], asyncio.to_thread)
            if compact or is_worthwhile(index):
                index = await asyncio.to_thread(compacted, index, self._work / "compacted")
            while index.unlinked and not self._pressed():
                await asyncio.to_thread(index.link, LINK_S)
            manifest = await asyncio.to_thread(snapshots.save, index, at, self._folder, str(new_event_id()))
        finally:
            shutil.rmtree(self._work, ignore_errors=True)
        for partition, position in at.items():
            await trim_feed(self._redis, partition, position)
        await asyncio.to_thread(snapshots.prune, self._folder, 1 if compact else snapshots.KEPT)
        if compact:
            async with past_memory_limit(self._redis) as pipe:
                pipe.set(PURGED, manifest.name)
                await pipe.execute()
        logger.info("snapshot %s: %d documents%s", manifest.name, manifest.documents, ", compacted" * compact)
        return manifest

    async def _worthwhile(self) -> bool:
        """Whether the feeds have grown enough, or a replica that starts now would have to read all documents.

        Because another generation is live, or the feed was trimmed behind a snapshot that is gone or damaged.
        """
        entries = size = 0
        embedder = await self._embedders.refresh()
        newest = await asyncio.to_thread(self._newest, embedder.model, embedder.dimensions)
        at = {} if newest is None else newest.partitions
        most = FEED_BYTES_PER_DOCUMENT * (0 if newest is None else newest.documents)
        for partition in range(self._partitions):
            keys = PartitionKeys(partition)
            feed = keys.of_generation(await live_generation(self._redis, partition))
            changes, covered = feed.changes, at.get(partition, FeedPosition())
            trimmed = Position.parse(await self._redis.get(feed.trimmed) or b"0-0")
            if covered.generation != feed.generation or trimmed > Position.parse(covered.feed):
                logger.info("no usable snapshot covers partition %d as its feed is now", partition)
                return True
            entries += int(await self._redis.xlen(changes))
            try:
                size += int(await self._redis.memory_usage(changes, samples=5) or 0)
            except ResponseError:  # some managed services forbid MEMORY; entries alone decide
                pass
        return entries >= self._every or size >= min(MAX_FEED_BYTES, max(MIN_FEED_BYTES, most))

    def _newest(self, model: str, dimensions: int) -> SnapshotManifest | None:
        """The newest usable snapshot. Each is read whole once, to see that it is."""
        damaged: set[Path] = set()
        self._checked = {path: damage for path, damage in self._checked.items() if path.exists()}
        while (found := snapshots.newest(self._folder, model, dimensions, damaged, self._partitions)) is not None:
            path, manifest = found
            if path not in self._checked:
                self._checked[path] = snapshots.damage(path, manifest)
            if (damage := self._checked[path]) is None:
                return manifest
            logger.warning("%s", damage)
            damaged.add(path)
        return None

    async def _start(self, embedder: Embedder) -> tuple[IndexReplica, dict[int, FeedPosition]]:
        """The newest snapshot's index and positions, else an empty one at the beginning of every feed."""
        at = {partition: FeedPosition() for partition in range(self._partitions)}
        work, kind, table = self._work / "read", (embedder.model, embedder.dimensions), table_of(embedder)
        found = await asyncio.to_thread(
            snapshots.load_newest, self._folder, kind[0], work, kind[1], "", table, self._partitions
        )
        if found is not None:
            return found[0], at | found[1].partitions
        await asyncio.to_thread(shutil.rmtree, work, True)
        return await asyncio.to_thread(IndexReplica, work, embedder.dimensions, embedder.model, table), at
