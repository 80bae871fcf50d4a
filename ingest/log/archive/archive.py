"""The archive of one log: its manifests and segments in a store, each checked against its record in Redis.

Redis is the authority: a manifest that Redis does not name was never committed, or has been replaced. Each incarnation
of a log has its own folder, `ID/pNN/`. A change writes new files beside the old ones and counts when Redis names it;
files of an earlier version are deleted then, so a reader may find one gone: it asks Redis again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from ingest.ids import new_event_id
from ingest.log.archived import Archived, load_archived
from ingest.log.event_log import Stored
from ingest.log.keys import ARCHIVE_ID, MANIFEST, PartitionKeys
from ingest.log.segments import (
    ArchiveManifest,
    DamagedArchive,
    DamagedSegment,
    MissingFile,
    Sealed,
    decode,
    encode,
    unpack,
    version_of,
)
from ingest.log.store import Store
from ingest.platform.connections import Client

CACHED_BYTES = 64 << 20
"""Size of unpacked segments that a process caches: at least one segment, about ten with typical events."""
UNPACKED_AT_ONCE = 4
"""Segments that are read and unpacked concurrently; limits memory besides the cache."""


class Identity(NamedTuple):
    """Which archive it is: when the log was created, and the name of this life of it, which is its folder."""

    log: str
    archive: str


class Archive:
    """Reads and writes the files of one log's archive. What counts as the archive, the caller asks Redis."""

    def __init__(self, redis: Client, store: Store) -> None:
        self._redis, self._store = redis, store
        self._identity: Identity | None = None
        self._manifests: dict[int, ArchiveManifest] = {}
        self._cache: OrderedDict[tuple[int, str], list[Stored]] = OrderedDict()
        self._sizes: dict[tuple[int, str], int] = {}
        # an unpacked segment takes many times its size on disk; readers wait here instead of filling memory
        self._unpacking = asyncio.Semaphore(UNPACKED_AT_ONCE)

    def __str__(self) -> str:
        return str(self._store)

    async def identity(self) -> Identity:
        """Which archive this is; a log without one gets its name now."""
        if self._identity is None:
            # HSETNX: of several processes that begin an archive, one names it
            await self._redis.hsetnx(MANIFEST, ARCHIVE_ID, str(new_event_id()))
            log, archive = await self._redis.hmget(MANIFEST, ["created_at", ARCHIVE_ID])
            self._identity = Identity((log or b"").decode(), archive.decode())
        return self._identity

    async def manifest(self, partition: int, archived: Archived) -> ArchiveManifest:
        """The manifest that Redis names; raises DamagedArchive for another one, ArchiveUnavailable without it, and
        MissingFile, which may mean that there is a newer one."""
        current = self._manifests.get(partition)
        if current is not None and archived.version and current.name == archived.file:
            return current
        identity = await self.identity()
        manifest = ArchiveManifest(
            log=identity.log, archive=identity.archive, partition=partition, version=archived.version
        )
        if archived.version:
            raw = await asyncio.to_thread(self._store.read, f"{await self._folder(partition)}/{archived.file}")
            manifest = await asyncio.to_thread(decode, raw, manifest, archived.chain)
        self._manifests[partition] = manifest
        # what was in a segment that a newer manifest lacks may have been forgotten
        names = {segment.name for segment in manifest.segments}
        for key in [key for key in self._cache if key[0] == partition and key[1] not in names]:
            del self._cache[key]
            del self._sizes[key]
        return manifest

    async def entries(self, partition: int, sealed: Sealed) -> list[Stored]:
        """The entries of a segment, oldest first; not to be changed. From memory if it was read a while ago."""
        key = (partition, sealed.name)
        if (unpacked := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return unpacked
        unpacked = self._cache[key] = await self.entries_from_store(partition, sealed)
        self._sizes[key] = sum(len(entry.payload) for entry in unpacked)
        while len(self._cache) > 1 and sum(self._sizes.values()) > CACHED_BYTES:
            oldest, _ = self._cache.popitem(last=False)
            del self._sizes[oldest]
        return unpacked

    async def entries_from_store(self, partition: int, sealed: Sealed) -> list[Stored]:
        """The entries of a segment as the store has it now; raises DamagedSegment, or MissingFile without it."""
        path = f"{await self._folder(partition)}/{sealed.name}"
        async with self._unpacking:
            return await asyncio.to_thread(lambda: unpack(self._store.read(path), partition, sealed))

    async def write(self, partition: int, name: str, data: bytes) -> None:
        """Keep a segment's bytes; they count when a manifest that Redis names has them."""
        await asyncio.to_thread(self._store.write, f"{await self._folder(partition)}/{name}", data)

    async def write_manifest(self, manifest: ArchiveManifest) -> None:
        """Keep a manifest; it counts when Redis names it."""
        await self.write(manifest.partition, manifest.name, await asyncio.to_thread(encode, manifest))

    async def delete(self, partition: int, names: Sequence[str]) -> None:
        """Delete files of a partition."""
        folder = await self._folder(partition)
        await asyncio.to_thread(self._store.delete, [f"{folder}/{name}" for name in names])

    async def sweep(self, manifest: ArchiveManifest) -> bool:
        """Delete files of no version or of earlier ones; whether there are none of later versions."""
        used = {manifest.name, *(segment.name for segment in manifest.segments)}
        names = await asyncio.to_thread(self._store.names, await self._folder(manifest.partition))
        strays = [name for name in names if name not in used]
        # a later version was never committed: its writer was killed, or is at work under a lease that this one lost.
        # its files can be deleted once the version has moved past it, when it cannot be committed any more
        later = [name for name in strays if (version_of(name) or 0) > manifest.version]
        await self.delete(manifest.partition, [name for name in strays if name not in later])
        return not later

    async def others(self) -> list[str]:
        """Folders of other logs, and of earlier lives of this one, in the same place."""
        own = (await self.identity()).archive
        names = await asyncio.to_thread(self._store.names, "")
        return [name for name in names if name != own]

    async def faults(
        self, manifest: ArchiveManifest, progress: Callable[[], None] = lambda: None
    ) -> list[DamagedSegment]:
        """Every segment of a manifest that is not what was sealed. All of them are read from the store."""
        damaged: list[DamagedSegment] = []
        for sealed in manifest.segments:
            try:
                await self.entries_from_store(manifest.partition, sealed)
            except DamagedSegment as error:
                damaged.append(error)
            except MissingFile:
                damaged.append(DamagedSegment(manifest.partition, sealed.name, "it does not exist"))
            progress()
        return damaged

    async def _folder(self, partition: int) -> str:
        return f"{(await self.identity()).archive}/p{partition:02d}"


TRIES = 5
"""How often a read of a partition is repeated because its archive changed in between."""


class PartitionArchive(Struct, frozen=True, kw_only=True):
    """A partition's archive: its segments, their entries and bytes, and up to where it was sealed and trimmed."""

    partition: int
    segments: int
    entries: int
    bytes: int
    sealed: str
    trimmed: str
    waiting: int
    """Entries in the stream."""


async def look(redis: Client, archive: Archive, partition: int) -> PartitionArchive:
    """What a partition's archive holds, by its manifest; raises DamagedArchive or ArchiveUnavailable."""
    keys = PartitionKeys(partition)
    archived = await load_archived(redis, keys)
    contents = [segment.content for segment in (await archive.manifest(partition, archived)).segments]
    return PartitionArchive(
        partition=partition,
        segments=len(contents),
        entries=sum(content.entries for content in contents),
        bytes=sum(content.bytes for content in contents),
        sealed=str(archived.sealed),
        trimmed=str(archived.trimmed),
        waiting=int(await redis.xlen(keys.log)),
    )


async def verify(
    redis: Client, archive: Archive, partition: int, progress: Callable[[], None] = lambda: None
) -> list[DamagedArchive]:
    """What is damaged in a partition: its manifest, or any of its segments; nothing is changed. `progress` is called
    for each segment. Raises ArchiveUnavailable when the store cannot be reached."""
    keys = PartitionKeys(partition)
    faults: list[DamagedArchive] = []
    for _ in range(TRIES):
        before = await load_archived(redis, keys)
        try:
            manifest = await archive.manifest(partition, before)
        except DamagedArchive as error:
            faults = [error]
        except MissingFile:
            faults = [DamagedArchive(partition, before.file, "it does not exist")]
        else:
            faults = [*await archive.faults(manifest, progress)]
        # a file may be gone because another process replaced it: that is no fault
        if not faults or await load_archived(redis, keys) == before:
            break
    return faults
