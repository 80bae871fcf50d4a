"""The archive of one log: its manifests and segments in a store, each checked against what Redis says of it.

Each life of a log has a folder of its own, `ID/pNN/`. A change writes new files beside the old ones and counts when
Redis names it; files of an earlier version are deleted then, so a reader may find one gone: it asks Redis again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ingest.ids import new_event_id
from ingest.log.archive.errors import DamagedSegment, MissingFile
from ingest.log.archive.manifest import Manifest, Sealed, decode, encode, version_of
from ingest.log.archive.segments import unpack
from ingest.log.archive.state import Archived
from ingest.log.archive.store import Store
from ingest.log.event_log import Stored
from ingest.log.keys import ARCHIVE_ID, MANIFEST
from ingest.platform.connections import Client

CACHED_BYTES = 64 << 20
"""Payloads of unpacked segments that a process keeps: at least one segment, some ten of usual events."""
UNPACKED_AT_ONCE = 4
"""Segments that are read and unpacked at the same time; bounds what is in memory beside the cache."""


class Identity(NamedTuple):
    """Which archive it is: when the log was created, and the name of this life of it, which is its folder."""

    log: str
    archive: str


class Archive:
    """Reads and writes the files of one log's archive. What counts as the archive, the caller asks Redis."""

    def __init__(self, redis: Client, store: Store) -> None:
        self._redis, self._store = redis, store
        self._identity: Identity | None = None
        self._manifests: dict[int, Manifest] = {}
        self._cache: OrderedDict[tuple[int, str], list[Stored]] = OrderedDict()
        self._sizes: dict[tuple[int, str], int] = {}
        self._unpacking = asyncio.Semaphore(UNPACKED_AT_ONCE)

    def __str__(self) -> str:
        return str(self._store)

    async def identity(self) -> Identity:
        """Which archive this is; a log without one gets its name now."""
        if self._identity is None:
            await self._redis.hsetnx(MANIFEST, ARCHIVE_ID, str(new_event_id()))
            log, archive = await self._redis.hmget(MANIFEST, ["created_at", ARCHIVE_ID])
            self._identity = Identity((log or b"").decode(), archive.decode())
        return self._identity

    async def manifest(self, partition: int, archived: Archived) -> Manifest:
        """The manifest that Redis names; raises DamagedArchive for another one, ArchiveUnavailable without it.

        MissingFile may mean that there is a newer one by now.
        """
        known = self._manifests.get(partition)
        if known is not None and archived.version and known.name == archived.file:
            return known
        identity = await self.identity()
        found = Manifest(log=identity.log, archive=identity.archive, partition=partition, version=archived.version)
        if archived.version:
            raw = await asyncio.to_thread(self._store.read, f"{await self._folder(partition)}/{archived.file}")
            found = await asyncio.to_thread(decode, raw, found, archived.chain)
        self._manifests[partition] = found
        self._drop_others(partition, {one.name for one in found.segments})
        return found

    async def entries(self, partition: int, sealed: Sealed) -> list[Stored]:
        """The entries of a segment, oldest first; not to be changed. From memory if it was read a while ago."""
        key = (partition, sealed.name)
        if (found := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return found
        found = await self.entries_from_store(partition, sealed)
        self._keep(key, found)
        return found

    async def entries_from_store(self, partition: int, sealed: Sealed) -> list[Stored]:
        """The entries of a segment as the store has it now; raises DamagedSegment, or MissingFile without it."""
        path = f"{await self._folder(partition)}/{sealed.name}"
        async with self._unpacking:
            return await asyncio.to_thread(lambda: unpack(self._store.read(path), partition, sealed))

    async def write(self, partition: int, name: str, data: bytes) -> None:
        """Keep a segment's bytes; they count when a manifest that Redis names has them."""
        await asyncio.to_thread(self._store.write, f"{await self._folder(partition)}/{name}", data)

    async def write_manifest(self, manifest: Manifest) -> None:
        """Keep a manifest; it counts when Redis names it."""
        await self.write(manifest.partition, manifest.name, await asyncio.to_thread(encode, manifest))

    async def delete(self, partition: int, names: Sequence[str]) -> None:
        """Delete files of a partition."""
        folder = await self._folder(partition)
        await asyncio.to_thread(self._store.delete, [f"{folder}/{name}" for name in names])

    async def sweep(self, manifest: Manifest) -> bool:
        """Delete what belongs to no version or to earlier ones; whether nothing of later ones is there.

        A later one was never committed: its writer was killed, or is at it and holds a lease that this one lost. Its
        files can be deleted once the version has moved past it, for then it cannot be committed any more.
        """
        used = {manifest.name, *(one.name for one in manifest.segments)}
        names = await asyncio.to_thread(self._store.names, await self._folder(manifest.partition))
        strays = [name for name in names if name not in used]
        later = [name for name in strays if (version_of(name) or 0) > manifest.version]
        await self.delete(manifest.partition, [name for name in strays if name not in later])
        return not later

    async def others(self) -> list[str]:
        """Folders of other logs, and of earlier lives of this one, in the same place."""
        own = (await self.identity()).archive
        names = await asyncio.to_thread(self._store.names, "")
        return [name for name in names if name != own]

    async def faults(self, manifest: Manifest, progress: Callable[[], None] = lambda: None) -> list[DamagedSegment]:
        """Every segment of a manifest that is not what was sealed. All of them are read from the store."""
        found: list[DamagedSegment] = []
        for sealed in manifest.segments:
            try:
                await self.entries_from_store(manifest.partition, sealed)
            except DamagedSegment as error:
                found.append(error)
            except MissingFile:
                found.append(DamagedSegment(manifest.partition, sealed.name, "it is not there"))
            progress()
        return found

    async def _folder(self, partition: int) -> str:
        return f"{(await self.identity()).archive}/p{partition:02d}"

    def _keep(self, key: tuple[int, str], entries: list[Stored]) -> None:
        self._cache[key] = entries
        self._sizes[key] = sum(len(entry.payload) for entry in entries)
        while len(self._cache) > 1 and sum(self._sizes.values()) > CACHED_BYTES:
            oldest, _ = self._cache.popitem(last=False)
            del self._sizes[oldest]

    def _drop_others(self, partition: int, names: set[str]) -> None:
        """Forget segments that a newer manifest has no more: what they held may have been forgotten."""
        for key in [key for key in self._cache if key[0] == partition and key[1] not in names]:
            del self._cache[key]
            del self._sizes[key]
