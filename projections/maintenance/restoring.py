"""The files of a backup into an empty log: every entry at the position it had, so that all folds come out the same.

Until the last entry is there the log says that it is being restored, and no API or worker starts on it: what was
interrupted is begun again.

A restore may stop at a point: at a token that a write answered, or at a time. A partition that a token does not name
stops at the time of the newest position that it does name. What was forgotten behind the point stays forgotten:
tombstones are restored wherever they stand, and receipts are, too.

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
from ingest.events.envelope import as_json_object, decode, route_of
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import dedup_id, imported_dedup_id
from ingest.log.archive.archive import forget_archive
from ingest.log.event_log import Entry, Stored
from ingest.log.keys import (
    ACCESS_KEYS,
    DEDUP_IDS,
    DEDUP_WINDOW,
    EMBEDDER,
    FORGOTTEN_BEFORE,
    GROWING,
    GROWN,
    LEASE_TTL,
    MANIFEST,
    NUMBERS,
    RECEIPTS,
    RESTORED,
    RESTORING,
    WORKERS,
    PartitionKeys,
    access_row_pk,
    row_key,
)
from ingest.log.position import START, Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import begin_window, heard_of, restore_entries
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import Client
from ingest.platform.settings import Settings
from projections.dead_letters.records import place_of
from projections.maintenance.backing_up import Backup, HashField, Kept, Member, Text, opened
from projections.maintenance.backups import (
    BackupManifest,
    ListedBackup,
    LogState,
    RestoreRefused,
    Target,
    count_forgotten,
)
from projections.maintenance.differences import ENTRIES_PER_READ, DocumentManifest, PartitionManifest, Replay
from projections.search.waiting import replicas

_CLEARING = f"{GROWING}clearing"
_LAST_SEQ = 10**9
"""Behind every event of a millisecond."""


class Point(NamedTuple):
    """A place in the history of a log: the last position of each partition that belongs to it, and how it was named."""

    limits: Mapping[int, Position]
    said: str

    def takes(self, partition: int, entry: Stored) -> bool:
        """Whether an entry is restored: it is not behind the point, or it is a tombstone."""
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
        head = Position.parse(manifest.heads.get(partition, str(START)))
        if position > head:
            raise RestoreRefused(
                f"backup {manifest.name} has partition {partition} up to {head} and does not reach {position}"
            )
    newest = Position(max(position.ms for position in token.values()), _LAST_SEQ)
    return Point({partition: token.get(partition, newest) for partition in range(manifest.partitions)}, text)


RECORDS_PER_WRITE, BYTES_PER_WRITE = 500, 4 << 20


class Window(NamedTuple):
    """For how long, and how many, ids of events are remembered in each partition."""

    ms: int = DEDUP_WINDOW // timedelta(milliseconds=1)
    ids: int = DEDUP_IDS

    @classmethod
    def of(cls, settings: Settings) -> "Window":
        """The window of a log with these settings."""
        return cls(1000 * settings.dedup_window, settings.dedup_ids)


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
        raise RestoreRefused(f"the log's server refused what was restored: {error}") from error
    note = Restored(backup=manifest.name, at=at.said if at else "", restored_at=system_clock(), left_out=left_out)
    await redis.hset(MANIFEST, RESTORED, msgspec.json.encode(note))
    await finish(redis, partitions, manifest, window)
    return left_out


async def finish(redis: Client, partitions: int, state: LogState, window: Window) -> None:
    """Let a log that all of another life of it is in be that log; from now on processes may start on it.

    Ids of events are remembered for a window from now.
    """
    await begin_window(redis, [PartitionKeys(partition) for partition in range(partitions)], window.ms)
    base = state.forgotten - await count_forgotten(redis, partitions)
    await redis.hset(MANIFEST, FORGOTTEN_BEFORE, str(base))
    await redis.hset(MANIFEST, "partitions", str(partitions))
    await redis.hset(MANIFEST, "created_at", state.log)
    await redis.hdel(MANIFEST, RESTORING)


async def refuse_if_used(redis: Client, partitions: int) -> None:
    """Raise PartitionCountMismatch, or RestoreRefused when the log is not empty or a process uses it."""
    recorded = int(await redis.hget(MANIFEST, "partitions") or partitions)
    if recorded != partitions:
        raise PartitionCountMismatch(recorded, partitions)
    if not await is_empty(redis, partitions):
        raise _not_empty()
    await _refuse_processes(redis)


def _not_empty() -> RestoreRefused:
    return RestoreRefused("the log is not empty; a backup is restored into an empty one")


async def _refuse_processes(redis: Client) -> None:
    if await heard_of(redis, WORKERS, LEASE_TTL // timedelta(milliseconds=1)) or await replicas(redis):
        raise RestoreRefused("a worker or an API process uses the log; stop all of them first")


async def make_room(redis: Client, partitions: int, mark: str) -> None:
    """Mark an empty log as one that is not whole, and delete what an interrupted restore or growth left in it.

    Raises as `refuse_if_used`; the log is as before then. The mark comes first: who starts meanwhile sees it, or is
    seen. Until all is deleted it is another one, so that who was interrupted deletes again.
    """
    await refuse_if_used(redis, partitions)
    had: bytes | None = await redis.hget(MANIFEST, RESTORING)
    of_growth = any(name.startswith(GROWING) for name in (mark, (had or b"").decode()))
    await redis.hset(MANIFEST, RESTORING, _CLEARING if of_growth else mark)
    try:
        if had is None and not await _has_nothing(redis, partitions):
            raise _not_empty()
        await _refuse_processes(redis)
    except MnemologError:
        if had is None:
            await redis.hdel(MANIFEST, RESTORING)
        else:
            await redis.hset(MANIFEST, RESTORING, had)
        raise
    if had is not None and had.startswith(GROWING.encode()):
        await _clear_grown(redis)
    await clear(redis, partitions)
    await redis.hset(MANIFEST, RESTORING, mark)


async def _clear_grown(redis: Client) -> None:
    """Delete what only a growth copies."""
    names = [name.decode() for name in await redis.smembers(ACCESS_KEYS)]
    await redis.unlink(*[row_key(access_row_pk(name)) for name in names], ACCESS_KEYS, EMBEDDER)


async def clear(redis: Client, partitions: int) -> None:
    """Delete what an interrupted restore or growth left, and begin a new archive: all is in the streams again."""
    await redis.hdel(MANIFEST, GROWN, RESTORED)
    left = [RECEIPTS, *[key async for key in redis.scan_iter(match=NUMBERS, count=1000)]]
    for partition in range(partitions):
        keys = PartitionKeys(partition)
        left += [keys.log, keys.dedup, keys.dedup_previous, keys.appended, keys.enriched, keys.discarded, keys.imported]
        left += [keys.purge, keys.purging]
    await redis.unlink(*left)
    await forget_archive(redis, partitions)


async def _restore(redis: Client, backup: Backup, progress: Progress, at: Point | None, window: Window) -> int:
    """Write the kept keys, then the log; returns how many entries were left out."""
    done = left_out = 0
    source = backup.kept()
    while kept := await asyncio.to_thread(next, source, None):
        for start in range(0, len(kept), RECORDS_PER_WRITE):
            await put_kept(redis, kept[start : start + RECORDS_PER_WRITE])
        done += len(kept)
        progress(done, backup.manifest.records)
    for chain in backup.index.partitions:
        segments = backup.entries(chain)
        while entries := await asyncio.to_thread(next, segments, None):
            for batch in batches(entries):
                wanted = [one for one in batch if at is None or at.takes(chain.partition, one)]
                placed = await asyncio.to_thread(lambda: [(one.position, routed(one).entry) for one in wanted])  # noqa: B023
                if placed:
                    await restore_entries(redis, PartitionKeys(chain.partition), window.ids, placed)
                left_out += len(batch) - len(wanted)
                done += len(batch)
                progress(done, backup.manifest.records)
    return left_out


def batches(entries: Sequence[Stored]) -> Iterator[list[Stored]]:
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


class Routed(NamedTuple):
    """An entry as it is appended to another log, with the id that a repeat of it will be recognised by.

    `route` is None for what cannot be read: it is kept all the same, since a later release may know it. `noted`: it was
    imported, and no document tells that it is there.
    """

    route: str | None
    entry: Entry
    noted: bool = False


def routed(stored: Stored) -> Routed:
    """A stored entry, with where it belongs."""
    try:
        event = decode(stored.payload, stored.position)
    except UnreadableEvent:
        return Routed(None, Entry("", stored.payload))
    route, event_id = route_of(event.envelope, event.data), event.envelope.event_id
    if event.envelope.recorded_at is None:
        return Routed(route, Entry(dedup_id(route, event_id), stored.payload))
    entry = Entry(imported_dedup_id(route, event_id, stored.payload), stored.payload)
    return Routed(route, entry, isinstance(event.data, EventErased | SubjectForgotten))


async def put_kept(redis: Client, kept: Sequence[Kept]) -> None:
    """Write kept keys."""
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


class Verified(NamedTuple):
    """A backup whose every segment was read: what it is, the manifest of its documents, what could not be applied."""

    manifest: BackupManifest
    documents: DocumentManifest
    parked: dict[int, list[Position]]


async def verify(target: Target, one: ListedBackup, work: Path, at: Point | None = None) -> Verified:
    """Read and replay a backup, up to a point if one is given.

    Raises DamagedBackup, which names the first file that is not what was written.
    """
    backup = await asyncio.to_thread(opened, target, one, work)
    discarded: dict[str, set[Position]] = {}
    source = backup.kept()
    while kept := await asyncio.to_thread(next, source, None):
        for record in kept:
            if isinstance(record, Member):
                discarded.setdefault(record.key, set()).add(place_of(record.value))
    documents: dict[int, PartitionManifest] = {}
    parked: dict[int, list[Position]] = {}
    for chain in backup.index.partitions:
        partition = chain.partition
        replay = Replay(discarded.get(PartitionKeys(partition).discarded, ()))
        segments = backup.entries(chain)
        while entries := await asyncio.to_thread(next, segments, None):
            wanted = [entry for entry in entries if at is None or at.takes(partition, entry)]
            for start in range(0, len(wanted), ENTRIES_PER_READ):
                await replay.apply(wanted[start : start + ENTRIES_PER_READ])
        documents[partition] = replay.manifest
        if replay.parked:
            parked[partition] = replay.parked
    return Verified(backup.manifest, DocumentManifest(documents), parked)
