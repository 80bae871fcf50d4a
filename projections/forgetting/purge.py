"""arq job: after a forgetting, delete what was made of the forgotten texts: vectors, index, archive.

The log entries and documents are erased in the fold's own transaction, which also notes here what else must go. A note
is taken off only after everything was done, so that a crash at any point repeats the work.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace
from redis.exceptions import ResponseError

from ingest.ids import new_event_id
from ingest.log.archive.sealing import ArchiveJob
from ingest.log.keys import JOB_LEASE_TTL, PURGE_LEASE, PartitionKeys, embedding
from ingest.log.lease import lease
from ingest.platform.connections import Client, past_memory_limit
from projections.embedding.live import models_of
from projections.forgetting.receipts import Probe, Removed
from projections.rebuilding.job import RebuildJob
from projections.vectors.embedder import Embedders, cache_key_of

logger = logging.getLogger(__name__)

NOTES_AT_ONCE = 500
WAIT_FOR_REWRITE_S = 60.0
WAIT_FOR_OTHER_S = 100.0
"""For the purge of another job, which may wait for both of the above."""


class Cleaned(NamedTuple):
    """An index that has nothing of what was removed: its name, and how many older ones went for it."""

    name: str
    older: int = 0


class PurgedIndex(Protocol):
    """What a purge asks of the index."""

    async def clean(self) -> Cleaned | None:
        """Have nothing left of what was removed, in the index and in the feeds; None where that cannot be done now."""
        ...

    async def await_readers(self, name: str) -> tuple[int, int]:
        """How many readers use the index of that name, or a newer one, and how many do not after some wait."""
        ...

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe:
        """Look for documents by id, and by searching for what they said."""
        ...


class Purge:
    """Deletes what forgetting left behind. One runs at a time, of all workers: see PURGE_LEASE."""

    def __init__(
        self,
        redis: Client,
        partitions: int,
        embedders: Embedders,
        index: PurgedIndex,
        rebuilds: RebuildJob,
        archive: ArchiveJob | None = None,
    ) -> None:
        self._archive = archive
        self._redis, self._partitions, self._embedders = redis, partitions, embedders
        self._index, self._rebuilds = index, rebuilds
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
        cleaned = await self._index.clean()
        removed = Removed(
            embedding_cache=cached,
            change_feeds=feeds,
            snapshot=cleaned.name if cleaned else "",
            older_snapshots=cleaned.older if cleaned else 0,
            append_only_file=await self._rewrite_log_file(),
        )
        if cleaned is None:
            return removed  # the notes stay: the next run tries again
        if self._archive is not None:
            removed = replace(removed, archive_segments=await self._archive.rewrite())
        for partition, members in notes.items():
            if members:
                await self._redis.srem(PartitionKeys(partition).purging, *members)
        reloaded, waiting = await self._await_replicas(cleaned.name)
        return replace(removed, replicas=reloaded, replicas_waiting=waiting)

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe:
        """Look for forgotten documents in the index: by id, and by searching for what they said."""
        return await self._index.probe(tenant, names, texts)

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
        return await rewrite_log_file(self._redis)

    async def _await_replicas(self, name: str) -> tuple[int, int]:
        return await self._index.await_readers(name)


async def rewrite_log_file(server: Client) -> str:
    """Ask a server to rewrite its append-only file, which has the bytes of what was deleted; says what it does."""
    try:
        persistence = await server.info("persistence")
        if not persistence.get("aof_enabled"):
            return "not used"
        until = asyncio.get_running_loop().time() + WAIT_FOR_REWRITE_S
        while persistence.get("aof_rewrite_in_progress") and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.2)  # that one may have begun before the entries were deleted
            persistence = await server.info("persistence")
        await server.bgrewriteaof()
    except ResponseError as error:  # managed services forbid it; one may be under way
        return f"not rewritten: {error}"
    return "being rewritten"
