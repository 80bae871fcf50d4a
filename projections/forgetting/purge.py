"""arq job: after a forgetting, delete what was made of the forgotten texts: vectors, index, archive.

The log entries and documents are erased in the fold's own transaction, which also notes here what else must go. A note
is taken off only after everything was done, so that a crash at any point repeats the work.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace
from redis.exceptions import RedisError, ResponseError

from ingest.ids import new_event_id
from ingest.log.keys import PURGE_LEASE, PartitionKeys, embedding
from ingest.log.lease import lease
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client, past_memory_limit
from projections.embedding.live import models_of
from projections.index import snapshots
from projections.index.embedded import search
from projections.index.replica import live_generation
from projections.index.snapshots import SnapshotJob
from projections.index.waiting import replicas
from projections.rebuilding.job import RebuildJob
from projections.search.question import Filter, Question
from projections.store.receipts import Probe, Removed
from projections.vectors.embedder import Embedders, cache_key_of

if TYPE_CHECKING:
    from ingest.log.archive.sealing import ArchiveJob

logger = logging.getLogger(__name__)

NOTES_AT_ONCE = 500
WAIT_FOR_REWRITE_S = 60.0
WAIT_FOR_OTHER_S = 100.0
"""For the purge of another job, which may wait for both of the above."""


class Cleaned(NamedTuple):
    """An index that has nothing of what was removed: its name, and how many older ones went for it."""

    name: str
    older: int = 0


class IndexPurge(Protocol):
    """Deletes what was removed from an index: snapshots, or (see `engine_purge`) a search engine."""

    async def clean(self) -> Cleaned | None: ...

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe: ...

    async def await_readers(self, name: str) -> tuple[int, int]: ...


@dataclass
class Purge:
    """Deletes what forgetting left behind. One runs at a time, of all workers: see PURGE_LEASE."""

    _redis: Client
    _partitions: int
    _embedders: Embedders
    index: IndexPurge
    _rebuilds: RebuildJob
    archive: "ArchiveJob | None" = None

    def __post_init__(self) -> None:
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
        # two at once would each take off notes that the other still works on, and write two snapshots
        async with lease(self._redis, PURGE_LEASE, self._id, wait_s=WAIT_FOR_OTHER_S) as mine:
            return await self._purge() if mine else Removed()

    async def _purge(self) -> Removed:
        notes = await self._notes()
        if any(b"" in members for members in notes.values()) and not await self._rebuilds.forget_unread():
            return Removed()  # the notes stay: the next run tries again
        cached = await self._forget_vectors(notes)
        feeds = await self._feed_entries()  # counted before `clean` trims them
        cleaned = await self.index.clean()
        removed = Removed(
            embedding_cache=cached,
            change_feeds=feeds,
            snapshot=cleaned.name if cleaned else "",
            older_snapshots=cleaned.older if cleaned else 0,
            # after everything that deletes: the file has the bytes of what went until it is rewritten
            append_only_file=await rewrite_log_file(self._redis),
        )
        if cleaned is None:
            return removed  # the notes stay: the next run tries again
        if self.archive is not None:
            removed = replace(removed, archive_segments=await self.archive.rewrite())
        # last, so that a crash at any point above repeats the work; only those read: others may have been added since
        for partition, members in notes.items():
            if members:
                await self._redis.srem(PartitionKeys(partition).purging, *members)
        reloaded, waiting = await self.index.await_readers(cleaned.name)
        return replace(removed, replicas=reloaded, replicas_waiting=waiting)

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
            live = PartitionKeys(partition).of_generation(await live_generation(self._redis, partition))
            count += int(await self._redis.xlen(live.changes))
        return count


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


WAIT_FOR_REPLICAS_S = 30.0


@dataclass
class SnapshotPurge:
    """Purges the snapshots in `folder`."""

    _redis: Client
    _embedders: Embedders
    _snapshot: SnapshotJob
    _folder: Path
    _clock: Clock = system_clock

    async def clean(self) -> Cleaned | None:
        """Write a compacted snapshot, delete the older ones and trim the feeds; None where none could be written."""
        older = len(list(self._folder.glob("[!.]*"))) if self._folder.exists() else 0
        # the new snapshot is complete before older ones go and feeds are trimmed: replicas can start at any moment
        manifest = await self._snapshot.run(force=True, compact=True)
        return None if manifest is None else Cleaned(manifest.name, older)

    async def probe(self, tenant: str, names: Sequence[str], texts: Sequence[str]) -> Probe:
        """Look for forgotten documents in the newest snapshot: by id, and by searching for what they said."""
        model = (await self._embedders.refresh()).model
        return await asyncio.to_thread(self._search, model, tenant, set(names), texts)

    def _search(self, model: str, tenant: str, names: set[str], texts: Sequence[str]) -> Probe:
        newest = snapshots.load_newest(self._folder, model)
        if newest is None:
            return Probe(documents=len(names), queries=0, found=0)
        index, now_ms = newest[0], to_ms(self._clock())
        hits = names & index.ordinal_of.keys()
        for text in texts:
            question = Question(text=text[:2000], vector=None, mode="lexical", now_ms=now_ms)
            results = search(index, question, Filter(tenant=tenant, now_ms=now_ms, operator=True, as_of_ms=now_ms))
            hits |= {hit.id for hit in results} & names
        return Probe(documents=len(names), queries=len(texts), found=len(hits))

    async def await_readers(self, name: str) -> tuple[int, int]:
        """Wait until every live replica has started from this snapshot or a newer one; how many have, and have not."""
        deadline = asyncio.get_running_loop().time() + WAIT_FOR_REPLICAS_S
        while True:
            try:
                live = await replicas(self._redis)
            except RedisError:  # some may not have reloaded
                live = [("", "")]
            # snapshot names ascend with time, so a newer one contains the deletion, too
            reloaded = sum(snapshot >= name for _, snapshot in live)
            if reloaded == len(live) or asyncio.get_running_loop().time() > deadline:
                return reloaded, len(live) - reloaded
            await asyncio.sleep(0.2)
