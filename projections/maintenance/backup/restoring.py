"""The files of a backup into an empty log: every entry at the position it had, so that all folds come out the same.

Until the last entry is there the log says that it is being restored, and no API or worker starts on it: what was
interrupted is begun again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec
from msgspec import Struct
from redis.exceptions import ResponseError

from ingest.errors import PartitionCountMismatch, UnreadableEvent
from ingest.events.envelope import decode, route_of
from ingest.ids import dedup_id, imported_dedup_id
from ingest.log.archive.archive import forget_archive
from ingest.log.event_log import Entry, Stored
from ingest.log.keys import (
    DEDUP_IDS,
    DEDUP_WINDOW,
    FORGOTTEN_BEFORE,
    LEASE_TTL,
    MANIFEST,
    NUMBERS,
    RECEIPTS,
    RESTORED,
    RESTORING,
    WORKERS,
    PartitionKeys,
)
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import heard_of, restore_entries
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client
from projections.maintenance.backup.contents import Backup, HashField, Kept, Member, Text
from projections.maintenance.backup.manifest import RestoreRefused
from projections.maintenance.backup.points import Point
from projections.maintenance.backup.state import count_forgotten
from projections.search.presence import replicas

RECORDS_PER_WRITE, BYTES_PER_WRITE = 500, 4 << 20
_WINDOW_MS = DEDUP_WINDOW // timedelta(milliseconds=1)

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many of how many records are restored."""


class Restored(Struct, frozen=True, kw_only=True):
    """What a log was restored from. `at` is empty for a whole backup; `left_out` counts entries behind it."""

    backup: str
    at: str
    restored_at: datetime
    left_out: int


async def is_empty(redis: Client, partitions: int) -> bool:
    """Whether a log has nothing, or nothing but what an interrupted restore left."""
    if await redis.hget(MANIFEST, RESTORING):
        return True
    log = RedisLog(redis, partitions)
    return all([await log.head(partition) == START for partition in range(partitions)])


async def restore(
    redis: Client,
    partitions: int,
    backup: Backup,
    progress: Progress = lambda done, of: None,
    at: Point | None = None,
) -> int:
    """Put a backup into an empty log, or of its entries those up to a point; returns how many were left out.

    Raises PartitionCountMismatch, or RestoreRefused when the log is not empty or in use: nothing was written then.
    """
    manifest = backup.manifest
    if manifest.partitions != partitions:
        raise PartitionCountMismatch(manifest.partitions, partitions)
    await refuse_if_used(redis, partitions)
    await redis.hset(MANIFEST, RESTORING, manifest.name)
    await _clear(redis, partitions)
    try:
        left_out = await _restore(redis, backup, progress, at)
    except ResponseError as error:
        raise RestoreRefused(f"the log's server refused what was restored: {error}") from error
    base = manifest.forgotten - await count_forgotten(redis, partitions)
    await redis.hset(MANIFEST, FORGOTTEN_BEFORE, str(base))
    await redis.hset(MANIFEST, "partitions", str(partitions))
    await redis.hset(MANIFEST, "created_at", manifest.log)
    note = Restored(backup=manifest.name, at=at.said if at else "", restored_at=system_clock(), left_out=left_out)
    await redis.hset(MANIFEST, RESTORED, msgspec.json.encode(note))
    await redis.hdel(MANIFEST, RESTORING)
    return left_out


async def refuse_if_used(redis: Client, partitions: int) -> None:
    """Raise PartitionCountMismatch, or RestoreRefused when the log is not empty or a process uses it."""
    recorded = int(await redis.hget(MANIFEST, "partitions") or partitions)
    if recorded != partitions:
        raise PartitionCountMismatch(recorded, partitions)
    if not await is_empty(redis, partitions):
        raise RestoreRefused("the log is not empty; a backup is restored into an empty one")
    if await heard_of(redis, WORKERS, LEASE_TTL // timedelta(milliseconds=1)) or await replicas(redis):
        raise RestoreRefused("a worker or an API process uses the log; stop all of them first")


async def _clear(redis: Client, partitions: int) -> None:
    """Delete what an interrupted restore left, and begin a new archive: everything is in the streams again."""
    left = [RECEIPTS, *[key async for key in redis.scan_iter(match=NUMBERS, count=1000)]]
    for partition in range(partitions):
        keys = PartitionKeys(partition)
        left += [keys.log, keys.dedup, keys.dedup_previous, keys.enriched, keys.discarded]
    await redis.unlink(*left)
    await forget_archive(redis, partitions)


async def _restore(redis: Client, backup: Backup, progress: Progress, at: Point | None) -> int:
    """Write the kept keys, then the log; returns how many entries were left out."""
    done = left_out = 0
    source = backup.kept()
    while kept := await asyncio.to_thread(next, source, None):
        for start in range(0, len(kept), RECORDS_PER_WRITE):
            await _put_kept(redis, kept[start : start + RECORDS_PER_WRITE])
        done += len(kept)
        progress(done, backup.manifest.records)
    for chain in backup.index.partitions:
        segments = backup.entries(chain)
        while entries := await asyncio.to_thread(next, segments, None):
            for batch in _batches(entries):
                wanted = [one for one in batch if at is None or at.takes(chain.partition, one)]
                placed = await asyncio.to_thread(lambda: [(one.position, _entry(one)) for one in wanted])  # noqa: B023
                if placed:
                    await restore_entries(redis, PartitionKeys(chain.partition), _WINDOW_MS, DEDUP_IDS, placed)
                left_out += len(batch) - len(wanted)
                done += len(batch)
                progress(done, backup.manifest.records)
    return left_out


def _batches(entries: Sequence[Stored]) -> Iterator[list[Stored]]:
    """The entries, as many at a time as are written together."""
    found: list[Stored] = []
    size = 0
    for one in entries:
        found.append(one)
        size += len(one.payload)
        if len(found) >= RECORDS_PER_WRITE or size >= BYTES_PER_WRITE:
            yield found
            found, size = [], 0
    if found:
        yield found


def _entry(stored: Stored) -> Entry:
    """An entry with the id that a repeat of it will be recognised by."""
    try:
        event = decode(stored.payload, stored.position)
    except UnreadableEvent:  # kept all the same: a later release may know it
        return Entry("", stored.payload)
    route, event_id = route_of(event.envelope, event.data), event.envelope.event_id
    known_by = (
        dedup_id(route, event_id)
        if event.envelope.recorded_at is None
        else imported_dedup_id(route, event_id, stored.payload)
    )
    return Entry(known_by, stored.payload)


async def _put_kept(redis: Client, kept: Sequence[Kept]) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for one in kept:
            match one:
                case HashField():
                    pipe.hset(one.key, one.field, one.value)
                case Member():
                    pipe.zadd(one.key, {one.value: 0})
                case Text():
                    pipe.set(one.key, one.value)
        await pipe.execute()
