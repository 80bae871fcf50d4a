"""A log's entries into an empty log, from a backup or from a smaller log, each at the position that it had.

Until the last entry is there the log is marked as being restored, and no API or worker starts on it. A restore that was
interrupted starts over; a growth resumes.

A restore may stop at a point: at a token that a write answered, or at a time. A partition that a token does not name
stops at the time of the newest position that it does name. What was forgotten after the point stays forgotten:
tombstones and receipts are restored wherever they are in the log.

Verifying folds a backup's segments from zero, which says what the documents of a restore must be. Nothing is written.
Memory: the documents of one partition at a time (some 3 to 5 times the bytes of its entries), and some 250 bytes for
every document of all partitions.
"""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import ResponseError

from ingest.errors import CommandRejected, MnemologError, PartitionCountMismatch, ProjectionBehind, UnreadableEvent
from ingest.events.envelope import SESSION_TYPES, as_json_object, decode, route_of
from ingest.events.registry import EVENT_TYPES
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import dedup_id, imported_dedup_id
from ingest.log.archive.archive import forget_archive
from ingest.log.event_log import Entry, EventLog, Growth, Moved, Stored, entry_at, pages
from ingest.log.keys import (
    ACCESS_KEYS,
    ACCESS_VERSION,
    DEDUP_IDS,
    DEDUP_WINDOW,
    EMBEDDER,
    EMBEDDINGS,
    FORGOTTEN_BEFORE,
    GROWING,
    GROWN,
    LEASE_TTL,
    LLM_BUDGETS,
    MANIFEST,
    MOVED,
    NUMBERS,
    RECEIPTS,
    RESTORED,
    RESTORING,
    WORKERS,
    PartitionKeys,
    access_row_pk,
    row_key,
)
from ingest.log.lag import wait_projected
from ingest.log.position import START, Position, Token, partition_of, project_route, session_route
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import begin_window, heard_of, restore_entries
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client, info_of_nodes
from ingest.platform.settings import Settings
from projections.dead_letters.records import discarded_places, place_of
from projections.forgetting.receipts import Receipt
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
    keys_beside_log,
    measure,
    opened,
)
from projections.maintenance.differences import (
    ENTRIES_PER_READ,
    DocumentManifest,
    ManifestDifference,
    PartitionManifest,
    Replay,
    manifest_differences,
    manifest_of,
    manifest_of_store,
    replay,
)
from projections.search.waiting import replicas
from projections.store.protocol import MemoryStore

_CLEARING = f"{GROWING}clearing"
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
        head = Position.parse(manifest.heads.get(partition, str(START)))
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
    """Mark an empty log as incomplete, and delete what an interrupted restore or growth left in it.

    Raises as `refuse_if_used`; the log is as before then.
    """
    await refuse_if_used(redis, partitions)
    had: bytes | None = await redis.hget(MANIFEST, RESTORING)
    # the mark first, the checks after it: a process that starts in between sees the mark, or is seen here; until all is
    # deleted a growth has another mark than its own, so that one that is interrupted here deletes again
    of_growth = any(name.startswith(GROWING) for name in (mark, (had or b"").decode()))
    await redis.hset(MANIFEST, RESTORING, _CLEARING if of_growth else mark)
    try:
        await _refuse_content(redis, partitions, ignore=had is not None)
    except MnemologError:
        if had is None:
            await redis.hdel(MANIFEST, RESTORING)
        else:
            await redis.hset(MANIFEST, RESTORING, had)
        raise
    if had is not None and had.startswith(GROWING.encode()):
        names = [name.decode() for name in await redis.smembers(ACCESS_KEYS)]  # what only a growth copies
        await redis.unlink(*[row_key(access_row_pk(name)) for name in names], ACCESS_KEYS, EMBEDDER)
    await clear(redis, partitions)
    await redis.hset(MANIFEST, RESTORING, mark)


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
                placed = await asyncio.to_thread(lambda: [(entry.position, routed(entry).entry) for entry in selected])  # noqa: B023
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


class Routed(NamedTuple):
    """An entry as it is appended to another log, with the id that identifies a repeat of it.

    `route` is None for an unreadable entry: it is copied all the same, since a later release may know it. `noted`: it
    was imported, and has no document that would identify a repeat.
    """

    route: str | None
    entry: Entry
    noted: bool = False


def routed(stored: Stored) -> Routed:
    """A stored entry with its routing key."""
    try:
        event = decode(stored.payload, stored.position)
    except UnreadableEvent:
        return Routed(None, Entry("", stored.payload))
    route, event_id = route_of(event.envelope, event.data), event.envelope.event_id
    if event.envelope.recorded_at is None:
        return Routed(route, Entry(dedup_id(route, event_id), stored.payload))
    entry = Entry(imported_dedup_id(route, event_id, stored.payload), stored.payload)
    return Routed(route, entry, isinstance(event.data, EventErased | SubjectForgotten))


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


KEYS_PER_READ = 500

Counts: TypeAlias = Counter[tuple[str, str]]
"""Events by tenant and type."""
GrowProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, and how much of how much is."""


class GrowRefused(MnemologError):
    """The log cannot be grown as it is, or as it was asked; the message says what to do. The old log is as before."""

    code = "grow_refused"


class CopyDiffers(MnemologError):
    """The new log does not have the entries of the old one. Do not start on it."""

    code = "copy_differs"


class _TenantAndType(Struct):
    tenant: str
    type: str


class Growing:
    """One growth of a log (`log`, on the server `source`) into the empty log of `partitions` on the server `target`.

    The new number is a multiple of the old one. So what was in one partition is in few, which have nothing else, in the
    order it had: partition 7 of 16 becomes 7, 23, 39 and 55 of 64. Entries are copied as they are stored, and with them
    the keys that are stored beside the log, API keys, and the cached vectors. Documents are made of the log again.

    The old log is read only, except for a note that it moved: no API or worker starts on it, so nothing is written that
    the new log would lack. Until the end the new one says that it is incomplete, and of which log, in which state; what
    was interrupted resumes where it was while that log has not changed, and else begins again.
    """

    def __init__(
        self,
        source: Client,
        log: EventLog,
        target: Client,
        partitions: int,
        progress: GrowProgress = lambda what, done, of: None,
        clock: Clock = system_clock,
        window: Window = Window(),
    ) -> None:
        """`window`: the new log's. Raises GrowRefused where the number is not a multiple of the log's own."""
        if partitions <= log.partitions or partitions % log.partitions:
            examples = ", ".join(str(log.partitions * by) for by in (2, 4, 8))
            raise GrowRefused(
                f"a log with {log.partitions} partitions can only grow to a multiple of that: "
                f"MNEMOLOG_PARTITIONS={examples}, "
                f"... but not {partitions}"
            )
        self._source, self._old = source, log
        self._target, self._new = target, RedisLog(target, partitions)
        self._progress, self._clock, self._window = progress, clock, window
        self._state = LogState(log="", heads={}, forgotten=0)

    async def begin(self, *, projected: bool = True) -> None:
        """Have nothing start on either log until `finish`, and check whether the log can be grown.

        `projected`: the documents of the old log must be level with it, as for `compare_documents`. Raises GrowRefused,
        RestoreRefused or PartitionCountMismatch for a new log that is not empty or not of this size, or where a process
        uses either; the old log is as before then.
        """
        await refuse_if_used(self._target, self._new.partitions)
        had = await self._source.hget(MANIFEST, MOVED)
        note = Moved(self._new.partitions, self._clock())
        # the note first, the check after it: a process that starts in between reads the note, or is seen
        await self._source.hset(MANIFEST, MOVED, msgspec.json.encode(note))
        try:
            await self._check_source(projected)
            state = hashlib.sha256(msgspec.json.encode([self._state, self._new.partitions])).hexdigest()
            if await self._target.hget(MANIFEST, RESTORING) != (mark := f"{GROWING}{state}").encode():
                await make_room(self._target, self._new.partitions, mark)
        except MnemologError:
            if had is None:
                await self._source.hdel(MANIFEST, MOVED)
            raise

    async def copy(self) -> int:
        """Copy every entry that is not there yet; returns how many there were to copy."""
        total = done = copied = 0
        for keys in map(PartitionKeys, range(self._old.partitions)):  # without those that are in an archive
            total += int(await self._source.xlen(keys.log)) + int(await self._source.zcard(keys.erased))
        for partition in range(self._old.partitions):
            heads = {part: await self._new.head(part) for part in self._parts(partition)}
            async for page in self._read(partition, min(heads.values())):
                for batch in batches(page):
                    for part, entries in (await asyncio.to_thread(self._placed, partition, batch)).items():
                        missing = [(position, entry) for position, entry in entries if position > heads[part]]
                        await self._append(part, missing)
                        copied += len(missing)
                    done += len(batch)
                    self._progress("events", done, max(done, total))
        return copied

    async def compare(self) -> Counts:
        """Read both logs and compare them, entry by entry; returns how many there are by tenant and type.

        Raises CopyDiffers.
        """
        counts: Counts = Counter()
        for partition in range(self._old.partitions):
            after = START
            async for page in self._read(partition):
                until = page[-1].position
                copies = [
                    entry
                    for part in self._parts(partition)
                    async for entries in pages(self._new, part, until, after, ENTRIES_PER_READ)
                    for entry in entries
                ]
                if sorted(copies) != page:
                    raise CopyDiffers(f"partition {partition}: the entries from after {after} to {until} differ")
                for entry in page:
                    try:
                        event = msgspec.msgpack.decode(entry.payload, type=_TenantAndType)
                    except msgspec.MsgspecError:
                        event = _TenantAndType("", "unreadable")
                    counts[event.tenant, event.type] += 1
                after = until
                self._progress("compared", counts.total(), counts.total())
            if any([await self._new.read(part, after, 1) for part in self._parts(partition)]):
                raise CopyDiffers(f"partition {partition}: the new log has more entries after {after} than the old one")
        return counts

    async def compare_documents(self) -> list[ManifestDifference]:
        """Where the documents of the old log differ from a replay of the new one, by old partition."""
        differing: list[ManifestDifference] = []
        for partition in range(self._old.partitions):
            live = await manifest_of(self._source, [partition])
            replayed, discarded = MemoryStore(), await discarded_places(self._source, PartitionKeys(partition))
            for part in self._parts(partition):  # each from its own entries
                store = (await replay(self._new, part, without=discarded)).store
                replayed.documents.update(store.documents)
                for listing, members in store.listings.items():
                    replayed.listings.setdefault(listing, set()).update(members)
            differing += manifest_differences(live, DocumentManifest({partition: manifest_of_store(replayed)}))
            self._progress("partitions replayed", partition + 1, self._old.partitions)
        return differing

    async def copy_keys(self) -> None:
        """Copy what is stored beside the log: receipts, numbers, API keys, and what is cached for a time."""
        growth = await self._growth()
        async for records in keys_beside_log(self._source, self._old.partitions):
            await put_keys(self._target, [copy for record in records for copy in await self._kept(record, growth)])
        for name in await self._source.smembers(ACCESS_KEYS):
            row = row_key(access_row_pk(name.decode()))
            if fields := await self._source.hgetall(row):
                await self._target.hset(row, mapping=fields)
            await self._target.sadd(ACCESS_KEYS, name)
        for key in (ACCESS_VERSION, EMBEDDER):
            if (value := await self._source.get(key)) is not None:
                await self._target.set(key, value)
        for partition in range(self._old.partitions):
            # what the next purge deletes for forgotten texts: their cached vectors are copied like the others; keys of
            # both servers, because a purge takes those of all partitions together
            keys = PartitionKeys(partition)
            if notes := {*await self._source.smembers(keys.purge), *await self._source.smembers(keys.purging)}:
                await self._target.sadd(keys.purge, *notes)
        await self._copy_caches()

    async def _copy_caches(self) -> None:
        copied = 0
        for pattern in (EMBEDDINGS, LLM_BUDGETS):
            names: list[str] = []
            async for name in self._source.scan_iter(match=pattern, count=1000):
                names.append(name.decode())
                if len(names) == KEYS_PER_READ:
                    copied = await self._copy_values(names, copied)
                    names = []
            copied = await self._copy_values(names, copied)

    async def finish(self) -> None:
        """Let the new log be the log.

        Raises GrowRefused when the old log was written to since; or when the new server's clock is behind its
        newest event: new positions would look like old ones.
        """
        if await measure(self._source, self._old) != self._state:
            raise GrowRefused(
                "the old log was written to while it was copied; stop its writers, and run `mnemolog grow` again"
            )
        growth = await self._growth()
        newest = Position.parse(growth.newest)
        nodes = await info_of_nodes(self._target, "server")
        if newest.ms >= min(int(info["server_time_usec"]) for info in nodes) // 1000:
            raise GrowRefused(
                f"the new server's clock is behind {newest.recorded_at:%Y-%m-%d %H:%M:%S} UTC, the time of the "
                "old log's newest event; correct the clock, and run this command again"
            )
        await self._target.hset(MANIFEST, GROWN, msgspec.json.encode([*self._old.history.growths, growth]))
        await finish(self._target, self._new.partitions, self._state, self._window)

    async def _check_source(self, projected: bool) -> None:
        if await heard_of(self._source, WORKERS, LEASE_TTL // timedelta(milliseconds=1)):
            raise GrowRefused("a worker is using the old log; stop it first")
        if await replicas(self._source):
            raise GrowRefused("an API process is using the old log; stop it first")
        self._state = await measure(self._source, self._old)
        if self._state.empty:
            raise GrowRefused("the old log is empty; create a new log with the number of partitions that you want")
        heads = {partition: Position.parse(head) for partition, head in self._state.heads.items()}
        try:
            await wait_projected(self._source, Token(heads if projected else {}), 0)
        except ProjectionBehind as behind:
            raise GrowRefused(
                f"{sum(behind.lag.values())} events of the old log are pending, so documents cannot "
                "be compared; "
                "run a worker on it for a moment, or use --no-documents"
            ) from None

    def _read(self, partition: int, after: Position = START) -> AsyncGenerator[list[Stored]]:
        head = Position.parse(self._state.heads[partition])
        return pages(self._old, partition, head, after, ENTRIES_PER_READ)

    def _parts(self, partition: int) -> range:
        """The partitions of the new log that have what was in one of the old log."""
        return range(partition, self._new.partitions, self._old.partitions)

    def _placed(self, partition: int, entries: Sequence[Stored]) -> dict[int, list[tuple[Position, Routed]]]:
        placed: dict[int, list[tuple[Position, Routed]]] = defaultdict(list)
        for stored in entries:
            entry = routed(stored)
            placed[self._part(partition, stored, entry.route)].append((stored.position, entry))
        return placed

    def _part(self, partition: int, stored: Stored, route: str | None) -> int:
        """The new partition of an entry; bytes that no release can read stay in the one of the same number."""
        route = _route_of_unreadable(stored) if route is None else route
        part = partition if route is None else partition_of(route, self._new.partitions)
        if part not in self._parts(partition):
            raise GrowRefused(f"the event at {partition}:{stored.position} is in the wrong partition")
        return part

    async def _append(self, part: int, entries: Sequence[tuple[Position, Routed]]) -> None:
        if not entries:
            return
        keys = PartitionKeys(part)
        if noted := [bytes.fromhex(copy.entry.dedup_id) for _, copy in entries if copy.noted]:
            await self._target.sadd(keys.imported, *noted)  # first: what is in the log already is not copied again
        await restore_entries(self._target, keys, self._window.ids, [(at, copy.entry) for at, copy in entries])

    async def _growth(self) -> Growth:
        copied = [str(await self._new.head(part)) for part in range(self._new.partitions)]
        return Growth(self._old.partitions, str(max(map(Position.parse, self._state.heads.values()))), copied)

    async def _kept(self, record: StoredKey, growth: Growth) -> list[StoredKey]:
        """What a key beside the old log is in the new one."""
        match record:
            case HashField(key=key) if key == RECEIPTS:
                receipt = msgspec.json.decode(record.value, type=Receipt)
                if receipt.until:
                    receipt = replace(receipt, until=str(growth.spread(Token.parse(receipt.until))))
                return [replace(record, value=msgspec.json.encode(receipt))]
            case HashField(key=key):
                return [] if key == MANIFEST else [record]
            case Text(key=key):
                partition = next(n for n in range(self._old.partitions) if PartitionKeys(n).enriched == key)
                return [replace(record, key=PartitionKeys(part).enriched) for part in self._parts(partition)]
            case Member(key=key):
                partition = next(n for n in range(self._old.partitions) if PartitionKeys(n).discarded == key)
                stored = await entry_at(self._old, partition, place_of(record.value))
                if stored is None:
                    return []
                part = self._part(partition, stored, routed(stored).route)
                return [replace(record, key=PartitionKeys(part).discarded)]

    async def _copy_values(self, names: Sequence[str], copied: int) -> int:
        """Copy strings, with the time that they have left; returns how many are copied by now."""
        if not names:
            return copied
        async with self._source.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.get(name)
                pipe.execute_command("PTTL", name)
            answers = await pipe.execute()
        async with self._target.pipeline(transaction=False) as pipe:
            for name, value, left_ms in zip(names, answers[::2], answers[1::2], strict=True):
                if value is not None and left_ms > 0:
                    pipe.set(name, value, ex=timedelta(milliseconds=left_ms))
            await pipe.execute()
        self._progress("cached values", copied + len(names), copied + len(names))
        return copied + len(names)


async def take_back(source: Client) -> bool:
    """Let processes start on an old log again; false where it did not move."""
    return bool(await source.hdel(MANIFEST, MOVED))


def _route_of_unreadable(stored: Stored) -> str | None:
    """The routing key of an event that this release cannot read all of; None for bytes that are not an event.

    Raises GrowRefused for a type that it does not know: where such an event belongs, only a later release can tell.
    """
    event = as_json_object(stored.payload, stored.position)
    if "unreadable" in event:
        return None
    if (kind := event["type"]) not in EVENT_TYPES:
        raise GrowRefused(
            f"event {stored.position} is a {kind!r}, which this release does not support; use a newer release"
        )
    if kind == EventErased.TYPE:
        kind = event["data"].get("was")
    tenant, project, session = event["tenant"], event["project"], event["session_id"]
    if kind in SESSION_TYPES or (kind == SubjectForgotten.TYPE and session):
        return session_route(tenant, project, session)
    return project_route(tenant, project)
