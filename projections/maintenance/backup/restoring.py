"""The files of a backup into an empty log: every entry at the position it had, so that all folds come out the same.

Until the last entry is there the log says that it is being restored, and no API or worker starts on it: what was
interrupted is begun again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from redis.exceptions import ResponseError

from ingest.errors import PartitionCountMismatch, UnreadableEvent
from ingest.events.envelope import decode
from ingest.events.routing import route_of
from ingest.ids import dedup_id, imported_dedup_id
from ingest.log.archive.state import forget_archive
from ingest.log.event_log import Entry
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
from ingest.log.position import START, Position
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import heard_of, restore_entries
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client
from projections.maintenance.backup.choosing import Checked
from projections.maintenance.backup.manifest import RECORDS, DamagedBackup, RestoreRefused, behind
from projections.maintenance.backup.points import Point
from projections.maintenance.backup.records import HashField, LogEntry, Member, Record, Text, Unreadable, read_records
from projections.maintenance.backup.state import count_forgotten
from projections.search.presence import replicas

RECORDS_PER_WRITE, BYTES_PER_WRITE = 500, 4 << 20

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many of how many records are restored."""


class Placed(NamedTuple):
    """An entry on its way to its place in a log."""

    partition: int
    position: Position
    entry: Entry
    record: LogEntry


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
    backup: Checked,
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
    reached: dict[int, Position] = {}
    done = left_out = 0
    records = read_records(backup.records)
    try:
        while batch := await asyncio.to_thread(_batch, records):
            left_out += await _put(redis, batch, reached, at)
            done += len(batch)
            progress(done, manifest.records)
    except Unreadable as error:
        raise DamagedBackup(manifest.name, f"{RECORDS}: {error}") from error
    except ResponseError as error:
        raise RestoreRefused(f"the log's server refused what was restored: {error}") from error
    if short := behind(manifest.heads, reached):
        raise DamagedBackup(manifest.name, f"partition {short[0]} does not end where the manifest says")
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


def _batch(records: Iterator[Record]) -> list[Placed | HashField | Text | Member]:
    """The next records, ready to be written; empty at the end."""
    found: list[Placed | HashField | Text | Member] = []
    size = 0
    for record in records:
        found.append(_placed(record) if isinstance(record, LogEntry) else record)
        size += len(record.payload if isinstance(record, LogEntry) else record.value)
        if len(found) >= RECORDS_PER_WRITE or size >= BYTES_PER_WRITE:
            break
    return found


def _placed(record: LogEntry) -> Placed:
    """An entry with the id that a repeat of it will be recognised by."""
    position = Position.parse(record.position)
    try:
        event = decode(record.payload, position)
    except UnreadableEvent:  # kept all the same: a later release may know it
        return Placed(record.partition, position, Entry("", record.payload), record)
    route, event_id = route_of(event.envelope, event.data), event.envelope.event_id
    known_by = (
        dedup_id(route, event_id)
        if event.envelope.recorded_at is None
        else imported_dedup_id(route, event_id, record.payload)
    )
    return Placed(record.partition, position, Entry(known_by, record.payload), record)


async def _put(
    redis: Client, batch: Sequence[Placed | HashField | Text | Member], reached: dict[int, Position], at: Point | None
) -> int:
    """Write what is wanted of a batch; notes what was read of each partition, and returns how much was not wanted."""
    entries = [one for one in batch if isinstance(one, Placed)]
    left_out = 0
    for partition, group in groupby(entries, key=itemgetter(0)):
        found = list(group)
        placed = [(one.position, one.entry) for one in found if at is None or at.takes(one.record)]
        left_out += len(found) - len(placed)
        window_ms = int(DEDUP_WINDOW.total_seconds() * 1000)
        if placed:
            await restore_entries(redis, PartitionKeys(partition), window_ms, DEDUP_IDS, placed)
        reached[partition] = found[-1].position
    others = [one for one in batch if not isinstance(one, Placed)]
    if others:
        async with redis.pipeline(transaction=False) as pipe:
            for one in others:
                if isinstance(one, HashField):
                    pipe.hset(one.key, one.field, one.value)
                elif isinstance(one, Member):
                    pipe.zadd(one.key, {one.value: 0})
                else:
                    pipe.set(one.key, one.value)
            await pipe.execute()
    return left_out
