"""Looking at an archive: what it holds, and whether every segment still is what was sealed."""

from collections.abc import Callable

from msgspec import Struct

from ingest.log.archive.archive import Archive
from ingest.log.archive.errors import DamagedArchive, MissingFile
from ingest.log.archive.state import load_archived
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client

TRIES = 5
"""How often a partition is looked at again because its archive changed meanwhile."""


class PartitionArchive(Struct, frozen=True, kw_only=True):
    """A partition's archive: its segments, their entries and bytes, and up to where it was sealed and trimmed."""

    partition: int
    segments: int
    entries: int
    bytes: int
    sealed: str
    trimmed: str
    waiting: int
    """Entries that are in the stream."""


async def look(redis: Client, archive: Archive, partition: int) -> PartitionArchive:
    """What a partition's archive holds, by its manifest; raises DamagedArchive or ArchiveUnavailable."""
    keys = PartitionKeys(partition)
    archived = await load_archived(redis, keys)
    contents = [one.content for one in (await archive.manifest(partition, archived)).segments]
    return PartitionArchive(
        partition=partition,
        segments=len(contents),
        entries=sum(one.entries for one in contents),
        bytes=sum(one.bytes for one in contents),
        sealed=str(archived.sealed),
        trimmed=str(archived.trimmed),
        waiting=int(await redis.xlen(keys.log)),
    )


async def verify(
    redis: Client, archive: Archive, partition: int, progress: Callable[[], None] = lambda: None
) -> list[DamagedArchive]:
    """What is damaged in a partition: its manifest, or any of its segments; nothing is changed.

    `progress` is called for each segment. What another process replaces meanwhile is looked at again, so that a
    file that is gone for good reason is no fault. Raises ArchiveUnavailable when the place cannot be reached.
    """
    keys = PartitionKeys(partition)
    faults: list[DamagedArchive] = []
    for _ in range(TRIES):
        before = await load_archived(redis, keys)
        try:
            manifest = await archive.manifest(partition, before)
        except DamagedArchive as error:
            faults = [error]
        except MissingFile:
            faults = [DamagedArchive(partition, before.file, "it is not there")]
        else:
            faults = [*await archive.faults(manifest, progress)]
        if not faults or await load_archived(redis, keys) == before:
            break
    return faults
