"""arq job: after a forgetting, delete what was made of the forgotten texts: vectors, index files, archive.

The log entries and documents are erased in the fold's own transaction, which also notes here what else must go. A note
is taken off only after everything was done, so that a crash at any point repeats the work.
"""

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from redis.exceptions import RedisError, ResponseError

from ingest.ids import new_event_id
from ingest.log.keys import JOB_LEASE_TTL, PURGE_LEASE, PartitionKeys, embedding
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client, past_memory_limit
from projections.embedding.embedder import cache_key_of
from projections.embedding.live import Embedders, models_of
from projections.maintenance.receipts import Probe, Removed
from projections.search import snapshots
from projections.search.embedded import search
from projections.search.presence import replicas
from projections.search.question import Filter, Question
from projections.search.snapshots import UnusableSnapshot
from workers.jobs.archive import ArchiveJob
from workers.jobs.rebuild import RebuildJob
from workers.jobs.snapshot import SnapshotJob
from workers.lease import lease

logger = logging.getLogger(__name__)

NOTES_AT_ONCE = 500
WAIT_FOR_REPLICAS_S = 30.0
WAIT_FOR_REWRITE_S = 60.0
WAIT_FOR_OTHER_S = 100.0
"""For the purge of another job, which may wait for both of the above."""


class Purge:
    """Deletes what forgetting left behind. One runs at a time, of all workers: see PURGE_LEASE."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        embedders: Embedders,
        snapshot: SnapshotJob,
        folder: Path,
        work: Path,
        rebuilds: RebuildJob,
        clock: Clock = system_clock,
        archive: ArchiveJob | None = None,
    ) -> None:
        self._archive = archive
        self._redis, self._partitions, self._embedders = redis, partitions, embedders
        self._rebuilds = rebuilds
        self._snapshot, self._folder, self._work, self._clock = snapshot, folder, work, clock
        self._id = str(new_event_id())

    async def wanted(self) -> bool:
        """Whether something was forgotten since the last purge."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition in range(self._partitions):
                pipe.sismember(PartitionKeys(partition).purge, b"")
                pipe.scard(PartitionKeys(partition).purging)
            return any(await pipe.execute())

    async def run_if_wanted(self, force: bool = False) -> bool:
        """Purge if something was forgotten since the last one, or `force` says so; whether it did."""
        if not force and not await self.wanted():
            return False
        await self.run()
        return True

    async def run(self) -> Removed:
        """Purge now; returns what went, and how many index replicas have reloaded.

        Without the name of a snapshot when there could be none, another purge took too long, or what a rebuild keeps
        could not be deleted: then the notes stay. They also stay when it raises what ArchiveJob.rewrite does.
        """
        async with lease(self._redis, PURGE_LEASE, self._id, JOB_LEASE_TTL, wait_s=WAIT_FOR_OTHER_S) as mine:
            return await self._purge() if mine else Removed()

    async def _purge(self) -> Removed:
        notes = await self._notes()
        if any(b"" in members for members in notes.values()) and not await self._rebuilds.forget_unread():
            return Removed()  # the notes stay: the next run tries again
        cached = await self._forget_vectors(notes)
        feeds = await self._feed_entries()
        older = len(list(self._folder.glob("[!.]*"))) if self._folder.exists() else 0
        manifest = await self._snapshot.run(force=True, compact=True)
        removed = Removed(
            embedding_cache=cached,
            change_feeds=feeds,
            snapshot=manifest.name if manifest else "",
            older_snapshots=older if manifest else 0,
            append_only_file=await self._rewrite_log_file(),
        )
        if manifest is None:
            return removed  # the notes stay: the next run tries again
        if self._archive is not None:
            removed = replace(removed, archive_segments=await self._archive.rewrite())
        for partition, members in notes.items():
            if members:
                await self._redis.srem(PartitionKeys(partition).purging, *members)
        reloaded, waiting = await self._await_replicas(manifest.name)
        return replace(removed, replicas=reloaded, replicas_waiting=waiting)

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe:
        """Look for forgotten documents in the newest snapshot: by id, and by searching for what they said."""
        found = await asyncio.to_thread(snapshots.newest, self._folder, (await self._embedders.refresh()).model)
        if found is None:
            return Probe(documents=len(names), queries=0, found=0)
        return await asyncio.to_thread(self._search, *found, tenant, names, texts)

    def _search(
        self, path: Path, manifest: snapshots.SnapshotManifest, tenant: str, names: Sequence[str], texts: Sequence[str]
    ) -> Probe:
        try:
            index = snapshots.load(path, manifest, self._work)
        except UnusableSnapshot as error:
            logger.warning("the probe found no snapshot to search: %s", error)
            return Probe(documents=len(names), queries=0, found=0)
        try:
            gone = set(names)
            found = gone & index.ordinal_of.keys()
            for text in texts:
                question = Question(text=text[:2000], vector=None, mode="lexical", now_ms=to_ms(self._clock()))
                hits = search(index, question, Filter(tenant=tenant, operator=True, as_of_ms=to_ms(self._clock())))
                found |= {hit.id for hit in hits} & gone
            return Probe(documents=len(gone), queries=len(texts), found=len(found))
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    async def _notes(self) -> dict[int, list[bytes]]:
        """The digests of forgotten texts, by partition; an empty one says only that something was forgotten.

        They are put aside, with those of a purge that did not end: the same text may be forgotten again any moment.
        """
        notes: dict[int, list[bytes]] = {}
        for partition in range(self._partitions):
            keys = PartitionKeys(partition)
            async with past_memory_limit(self._redis) as pipe:
                pipe.sunionstore(keys.purging, keys.purging, keys.purge)
                pipe.delete(keys.purge)
                pipe.smembers(keys.purging)
                *_, members = await pipe.execute()
            notes[partition] = sorted(members)
        return notes

    async def _forget_vectors(self, notes: dict[int, list[bytes]]) -> int:
        models = await models_of(self._redis, self._embedders.current)
        digests = [digest for members in notes.values() for digest in members if digest]
        keys = [embedding(cache_key_of(model, digest)) for digest in digests for model in models]
        gone = 0
        for start in range(0, len(keys), NOTES_AT_ONCE):
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys[start : start + NOTES_AT_ONCE]:
                    pipe.unlink(key)
                gone += sum(await pipe.execute())
        return gone

    async def _feed_entries(self) -> int:
        count = 0
        for partition in range(self._partitions):
            keys = PartitionKeys(partition)
            live = keys.of_generation(int(await self._redis.get(keys.generation) or 1))
            count += int(await self._redis.xlen(live.changes))
        return count

    async def _rewrite_log_file(self) -> str:
        """Ask the server to rewrite its append-only file, which still has the bytes of deleted entries."""
        try:
            persistence = await self._redis.info("persistence")
            if not persistence.get("aof_enabled"):
                return "not used"
            until = asyncio.get_running_loop().time() + WAIT_FOR_REWRITE_S
            while persistence.get("aof_rewrite_in_progress") and asyncio.get_running_loop().time() < until:
                await asyncio.sleep(0.2)  # that one may have begun before the entries were deleted
                persistence = await self._redis.info("persistence")
            await self._redis.bgrewriteaof()
        except ResponseError as error:  # managed services forbid it; one may be under way
            return f"not rewritten: {error}"
        return "being rewritten"

    async def _await_replicas(self, snapshot: str) -> tuple[int, int]:
        """Wait until every live replica has started from this snapshot or a newer one."""
        deadline = asyncio.get_running_loop().time() + WAIT_FOR_REPLICAS_S
        while True:
            try:
                live = await replicas(self._redis)
            except RedisError:
                live = []
            reloaded = sum(name >= snapshot for _, name in live)
            if reloaded == len(live) or asyncio.get_running_loop().time() > deadline:
                return reloaded, len(live) - reloaded
            await asyncio.sleep(0.2)
