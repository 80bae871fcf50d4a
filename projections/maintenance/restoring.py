"""A log's entries from a backup into an empty log, each at the position that it had.

Until the last entry is there the log is marked as being restored, and no API or worker starts on it. A restore that was
interrupted starts over.

A restore may stop at a point: at a token that a write answered, or at a time. A partition that a token does not name
stops at the time of the newest position that it does name. What was forgotten after the point stays forgotten:
tombstones and receipts are restored wherever they are in the log.

Verifying folds a backup's segments from zero, which says what the documents of a restore must be. Nothing is written.
Memory: the documents of one partition at a time (some 3 to 5 times the bytes of its entries), and some 250 bytes for
every document of all partitions.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from redis.exceptions import ResponseError

from ingest.errors import CommandRejected, MnemologError, PartitionCountMismatch, UnreadableEvent
from ingest.events.envelope import as_json_object, route_of
from ingest.events.subject import SubjectForgotten
from ingest.ids import dedup_id, imported_dedup_id
from ingest.log.archived import forget_archive
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
from ingest.log.position import START, Position, Token, stored_position
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import begin_window, heard_of, restore_entries
from ingest.nouns.registry import decode
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.settings import Settings
from projections.index.waiting import replicas
from projections.maintenance.backups import (
    Backup,
    BackupManifest,
    HashField,
    ListedBackup,
    LogState,
    Member,
    RestoreRefused,
    StoredKey,
    Target,
    Text,
    count_forgotten,
    opened,
)
from projections.maintenance.differences import (
    ENTRIES_PER_READ,
    DocumentManifest,
    PartitionManifest,
    Replay,
)
from projections.store.dead_letters import place_of

_LAST_SEQ = 10**9
"""After every event of a millisecond."""


class Point(NamedTuple):
    """A point in the history of a log: the last position of each partition that belongs to it, and how it was named."""

    limits: Mapping[int, Position]
    text: str

    def takes(self, partition: int, entry: Stored) -> bool:
        """Whether an entry is restored: it is not after the point, or it is a tombstone."""
        if entry.position <= self.limits[partition]:
            return True
        return as_json_object(entry.payload, entry.position).get("type") == SubjectForgotten.TYPE


def point_of(text: str, manifest: BackupManifest) -> Point:
    """The point that a token, or a time (ISO 8601 with a zone), names in a backup.

    Raises CommandRejected for what is neither; RestoreRefused when the backup does not reach so far.
    """
    try:
        when = msgspec.convert(text, datetime, strict=False)
    except msgspec.ValidationError:
        return _at_token(text, manifest)
    if when.tzinfo is None:
        raise CommandRejected(f"{text!r} has no time zone; write 2026-01-31T12:00:00Z", "at")
    if when > manifest.created_at:
        raise RestoreRefused(
            f"backup {manifest.name} was made at {manifest.created_at:%Y-%m-%dT%H:%M:%SZ} and does not reach {text}"
        )
    return Point(dict.fromkeys(range(manifest.partitions), Position(to_ms(when), _LAST_SEQ)), text)


def _at_token(text: str, manifest: BackupManifest) -> Point:
    try:
        token = Token.parse(text).check(manifest.partitions)
    except CommandRejected as error:
        raise CommandRejected(f"{text[:80]!r} is neither a time nor a token of this log: {error}", "at") from None
    for partition, position in token.items():
        head = stored_position(manifest.heads.get(partition))
        if position > head:
            raise RestoreRefused(
                f"backup {manifest.name} has partition {partition} up to {head} and does not reach {position}"
            )
    newest = Position(max(position.ms for position in token.values()), _LAST_SEQ)
    return Point({partition: token.get(partition, newest) for partition in range(manifest.partitions)}, text)


# one write is one script in Redis, which serves no other client during it
RECORDS_PER_WRITE, BYTES_PER_WRITE = 500, 4 << 20


class Window(NamedTuple):
    """The deduplication window: for how long, and how many, event ids are remembered in each partition."""

    ms: int = DEDUP_WINDOW // timedelta(milliseconds=1)
    ids: int = DEDUP_IDS

    @classmethod
    def of(cls, settings: Settings) -> "Window":
        """The window of a log with these settings."""
        return cls(1000 * settings.dedup_window, settings.dedup_ids)


Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many of how many records are restored."""


class Restored(Struct, frozen=True, kw_only=True):
    """What a log was restored from. `at` is empty for a whole backup; `left_out` counts entries after it."""

    backup: str
    at: str
    restored_at: datetime
    left_out: int


async def is_empty(redis: Client, partitions: int) -> bool:
    """Whether a log is empty, apart from what an interrupted restore left."""
    return bool(await redis.hget(MANIFEST, RESTORING)) or await _has_nothing(redis, partitions)


async def _has_nothing(redis: Client, partitions: int) -> bool:
    log = RedisLog(redis, partitions)
    return all([await log.head(partition) == START for partition in range(partitions)])


async def restore(
    redis: Client,
    partitions: int,
    backup: Backup,
    progress: Progress = lambda done, of: None,
    at: Point | None = None,
    window: Window = Window(),
) -> int:
    """Put a backup into an empty log, or of its entries those up to a point; returns how many were left out.

    Raises PartitionCountMismatch, or RestoreRefused when the log is not empty or in use: nothing was written then.
    """
    manifest = backup.manifest
    if manifest.partitions != partitions:
        raise PartitionCountMismatch(manifest.partitions, partitions)
    await make_room(redis, partitions, manifest.name)
    try:
        left_out = await _restore(redis, backup, progress, at, window)
    except ResponseError as error:
        raise RestoreRefused(f"Redis refused a write of the restore: {error}") from error
    note = Restored(backup=manifest.name, at=at.text if at else "", restored_at=system_clock(), left_out=left_out)
    await redis.hset(MANIFEST, RESTORED, msgspec.json.encode(note))
    await finish(redis, partitions, manifest, window)
    return left_out


async def finish(redis: Client, partitions: int, state: LogState, window: Window) -> None:
    """Complete a log that was copied: processes may start on it. Event ids are remembered for a window from now."""
    await begin_window(redis, [PartitionKeys(partition) for partition in range(partitions)], window.ms)
    base = state.forgotten - await count_forgotten(redis, partitions)
    await redis.hset(MANIFEST, FORGOTTEN_BEFORE, str(base))
    await redis.hset(MANIFEST, "partitions", str(partitions))
    await redis.hset(MANIFEST, "created_at", state.log)
    # last: a process that starts before this sees an incomplete log and refuses
    await redis.hdel(MANIFEST, RESTORING)


async def refuse_if_used(redis: Client, partitions: int) -> None:
    """Raise PartitionCountMismatch, or RestoreRefused when the log is not empty or a process uses it."""
    recorded = int(await redis.hget(MANIFEST, "partitions") or partitions)
    if recorded != partitions:
        raise PartitionCountMismatch(recorded, partitions)
    await _refuse_content(redis, partitions, ignore=await redis.hget(MANIFEST, RESTORING) is not None)


async def _refuse_content(redis: Client, partitions: int, *, ignore: bool) -> None:
    """Raise RestoreRefused where the log has anything, unless what is there is to be ignored, or a process uses it."""
    if not ignore and not await _has_nothing(redis, partitions):
        raise RestoreRefused("the log is not empty; a backup can only be restored into an empty log")
    if await heard_of(redis, WORKERS, LEASE_TTL // timedelta(milliseconds=1)) or await replicas(redis):
        raise RestoreRefused("a worker or an API process is using the log; stop all of them first")


async def make_room(redis: Client, partitions: int, mark: str) -> None:
    """Mark an empty log as incomplete, and delete what an interrupted restore left in it.

    Raises as `refuse_if_used`; the log is as before then.
    """
    await refuse_if_used(redis, partitions)
    had: bytes | None = await redis.hget(MANIFEST, RESTORING)
    # the mark first, the checks after it: a process that starts in between sees the mark, or is seen here
    await redis.hset(MANIFEST, RESTORING, mark)
    try:
        await _refuse_content(redis, partitions, ignore=had is not None)
    except MnemologError:
        if had is None:
            await redis.hdel(MANIFEST, RESTORING)
        else:
            await redis.hset(MANIFEST, RESTORING, had)
        raise
    await clear(redis, partitions)


async def clear(redis: Client, partitions: int) -> None:
    """Delete what an interrupted restore left, and begin a new archive: all is in the streams again."""
    await redis.hdel(MANIFEST, RESTORED)
    left = [RECEIPTS, *[key async for key in redis.scan_iter(match=NUMBERS, count=1000)]]
    for partition in range(partitions):
        keys = PartitionKeys(partition)
        left += [keys.log, keys.dedup, keys.dedup_previous, keys.appended, keys.enriched, keys.discarded, keys.imported]
        left += [keys.purge, keys.purging]
    await redis.unlink(*left)
    await forget_archive(redis, partitions)


async def _restore(redis: Client, backup: Backup, progress: Progress, at: Point | None, window: Window) -> int:
    done = left_out = 0
    source = backup.kept()
    while records := await asyncio.to_thread(next, source, None):
        for start in range(0, len(records), RECORDS_PER_WRITE):
            await put_keys(redis, records[start : start + RECORDS_PER_WRITE])
        done += len(records)
        progress(done, backup.manifest.records)
    for chain in backup.index.partitions:
        segments = backup.entries(chain)
        while entries := await asyncio.to_thread(next, segments, None):
            for batch in batches(entries):
                selected = [entry for entry in batch if at is None or at.takes(chain.partition, entry)]
                placed = await asyncio.to_thread(lambda: [(entry.position, entry_of(entry)) for entry in selected])  # noqa: B023
                if placed:
                    await restore_entries(redis, PartitionKeys(chain.partition), window.ids, placed)
                left_out += len(batch) - len(selected)
                done += len(batch)
                progress(done, backup.manifest.records)
    return left_out


def batches(entries: Sequence[Stored]) -> Iterator[list[Stored]]:
    """The entries, as many at a time as are written together."""
    batch: list[Stored] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.payload)
        if len(batch) >= RECORDS_PER_WRITE or size >= BYTES_PER_WRITE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def entry_of(stored: Stored) -> Entry:
    """A stored entry as it is appended to another log, with the id that identifies a repeat of it.

    An unreadable entry has none: it is copied all the same, since a later release may know it.
    """
    try:
        event = decode(stored.payload, stored.position)
    except UnreadableEvent:
        return Entry("", stored.payload)
    route, event_id = route_of(event.envelope, event.data), event.envelope.event_id
    if event.envelope.recorded_at is None:
        return Entry(dedup_id(route, event_id), stored.payload)
    return Entry(imported_dedup_id(route, event_id, stored.payload), stored.payload)


async def put_keys(redis: Client, records: Sequence[StoredKey]) -> None:
    """Write keys that are stored beside the log."""
    async with redis.pipeline(transaction=False) as pipe:
        for record in records:
            match record:
                case HashField(key, field, value):
                    pipe.hset(key, field, value)
                case Member(key, value):
                    pipe.zadd(key, {value: 0})
                case Text(key, value):
                    pipe.set(key, value)
        await pipe.execute()


class Verified(NamedTuple):
    """A backup whose segments were all read: its manifest, that of its documents, and what could not be applied."""

    manifest: BackupManifest
    documents: DocumentManifest
    parked: dict[int, list[Position]]


async def verify(target: Target, backup: ListedBackup, work: Path, at: Point | None = None) -> Verified:
    """Read and replay a backup, up to a point if one is given.

    Raises DamagedBackup, which names the first file that is not what was written.
    """
    whole = await asyncio.to_thread(opened, target, backup, work)
    discarded: dict[str, set[Position]] = {}
    source = whole.kept()
    while records := await asyncio.to_thread(next, source, None):
        for record in records:
            if isinstance(record, Member):
                discarded.setdefault(record.key, set()).add(place_of(record.value))
    documents: dict[int, PartitionManifest] = {}
    parked: dict[int, list[Position]] = {}
    for chain in whole.index.partitions:
        partition = chain.partition
        replay = Replay(discarded.get(PartitionKeys(partition).discarded, ()))
        segments = whole.entries(chain)
        while entries := await asyncio.to_thread(next, segments, None):
            selected = [entry for entry in entries if at is None or at.takes(partition, entry)]
            for start in range(0, len(selected), ENTRIES_PER_READ):
                await replay.apply(selected[start : start + ENTRIES_PER_READ])
        documents[partition] = replay.manifest
        if replay.parked:
            parked[partition] = replay.parked
    return Verified(whole.manifest, DocumentManifest(documents), parked)
