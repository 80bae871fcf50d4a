"""A log into more partitions: every entry, at the position that it had, into an empty log on another server.

The new number is a multiple of the old one. So what was in one partition is in few, which have nothing else, in the
order it had: partition 7 of 16 becomes 7, 23, 39 and 55 of 64. Entries are copied as they are stored, and with them the
keys that are kept beside the log, API keys, and the cached vectors. Documents are made of the log again.

The old log is read only, but for a note that it moved: no API or worker starts on it, so nothing is written that the
new log would lack. The new one says until the end that it is not whole, and of which log, as it was then; what was
interrupted goes on where it was while that log has not changed, else it begins again.
"""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import MnemologError, ProjectionBehind
from ingest.events.envelope import SESSION_TYPES, as_json_object
from ingest.events.registry import EVENT_TYPES
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.log.event_log import EventLog, Growth, Moved, Stored, entry_at, pages
from ingest.log.keys import (
    ACCESS_KEYS,
    ACCESS_VERSION,
    EMBEDDER,
    EMBEDDINGS,
    GROWING,
    GROWN,
    LEASE_TTL,
    LLM_BUDGETS,
    MANIFEST,
    MOVED,
    RECEIPTS,
    RESTORING,
    WORKERS,
    PartitionKeys,
    access_row_pk,
    row_key,
)
from ingest.log.lag import wait_projected
from ingest.log.position import START, Position, Token, partition_of, project_route, session_route
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import heard_of, restore_entries
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client, info_of_nodes
from projections.dead_letters.records import discarded_places, place_of
from projections.forgetting.receipts import Receipt
from projections.maintenance.backing_up import HashField, Kept, Member, Text, kept_keys
from projections.maintenance.backups import LogState, measure
from projections.maintenance.differences import (
    DocumentManifest,
    ManifestDifference,
    differences,
    manifest_of,
    manifest_of_store,
    replay,
)
from projections.maintenance.restoring import (
    Routed,
    Window,
    batches,
    finish,
    make_room,
    put_kept,
    refuse_if_used,
    routed,
)
from projections.search.waiting import replicas
from projections.store.protocol import MemoryStore

ENTRIES_PER_READ = 500
KEYS_PER_READ = 500

Counts: TypeAlias = Counter[tuple[str, str]]
"""Events by tenant and type."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, and how much of how much is."""


class GrowRefused(MnemologError):
    """The log cannot be grown as it is, or as it was asked; the message says what to do. The old log is as before."""

    code = "grow_refused"


class CopyDiffers(MnemologError):
    """What is in the new log is not what the old one has. It is no log to start on."""

    code = "copy_differs"


class _Named(Struct):
    tenant: str
    type: str


_named = msgspec.msgpack.Decoder(_Named).decode


class Growing:
    """One growth of a log (`log`, on the server `source`) into the empty log of `partitions` on the server `target`."""

    def __init__(
        self,
        source: Client,
        log: EventLog,
        target: Client,
        partitions: int,
        progress: Progress = lambda what, done, of: None,
        clock: Clock = system_clock,
        window: Window = Window(),
    ) -> None:
        """`window`: the new log's. Raises GrowRefused where the number is no multiple of the log's own."""
        if partitions <= log.partitions or partitions % log.partitions:
            examples = ", ".join(str(log.partitions * by) for by in (2, 4, 8))
            raise GrowRefused(
                f"a log of {log.partitions} partitions grows into a multiple of that: MNEMOLOG_PARTITIONS={examples}, "
                f"... and not {partitions}"
            )
        self._source, self._old = source, log
        self._target, self._new = target, RedisLog(target, partitions)
        self._progress, self._clock, self._window = progress, clock, window
        self._state = LogState(log="", heads={}, forgotten=0)

    async def begin(self, *, projected: bool = True) -> None:
        """Have nothing start on either log until `finish`, and look whether the growth can be.

        `projected`: the documents of the old log must be level with it, as for `compare_documents`. Raises GrowRefused,
        RestoreRefused or PartitionCountMismatch for a new log that is not empty or not of this size, or where a process
        uses either; the old log is as before then.
        """
        await refuse_if_used(self._target, self._new.partitions)
        had = await self._source.hget(MANIFEST, MOVED)
        note = Moved(self._new.partitions, self._clock())
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
        total = sum(await asyncio.gather(*(self._size(partition) for partition in range(self._old.partitions))))
        done = copied = 0
        for partition in range(self._old.partitions):
            there = {part: await self._new.head(part) for part in self._parts(partition)}
            async for page in self._read(partition, min(there.values())):
                for batch in batches(page):
                    placed = await asyncio.to_thread(self._placed, partition, batch)
                    for part, entries in placed.items():
                        missing = [(at, one) for at, one in entries if at > there[part]]
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
                if await self._merged(partition, after, until) != page:
                    raise CopyDiffers(f"partition {partition}: what is there behind {after}, up to {until}, differs")
                counts.update(map(_tenant_and_type, page))
                after = until
                self._progress("compared", counts.total(), counts.total())
            if any([await self._new.read(part, after, 1) for part in self._parts(partition)]):
                raise CopyDiffers(f"partition {partition}: behind {after} the new log has more than the old one")
        return counts

    async def compare_documents(self) -> list[ManifestDifference]:
        """Where the documents of the old log are not what the new one makes of its entries, by old partition."""
        found: list[ManifestDifference] = []
        for partition in range(self._old.partitions):
            live = await manifest_of(self._source, [partition])
            made = manifest_of_store(await self._replayed(partition))
            found += differences(live, DocumentManifest({partition: made}))
            self._progress("partitions replayed", partition + 1, self._old.partitions)
        return found

    async def copy_keys(self) -> None:
        """Copy what is kept beside the log, API keys, and what is cached for a time."""
        growth = await self._growth()
        async for kept in kept_keys(self._source, self._old.partitions):
            await put_kept(self._target, [one for each in kept for one in await self._kept(each, growth)])
        await self._copy_access()
        await self._copy_purges()
        if (embedder := await self._source.get(EMBEDDER)) is not None:
            await self._target.set(EMBEDDER, embedder)
        copied = 0
        for pattern in (EMBEDDINGS, LLM_BUDGETS):
            async for names in _keys(self._source, pattern):
                await self._copy_values(names)
                copied += len(names)
                self._progress("cached values", copied, copied)

    async def finish(self) -> None:
        """Let the new log be the log.

        Raises GrowRefused when the old one was written to meanwhile; or when the new server's clock is behind its
        newest event: new positions would be taken for old ones.
        """
        if await measure(self._source, self._old) != self._state:
            raise GrowRefused("the old log was written to meanwhile; stop what writes to it, and grow it again")
        if self._newest.ms >= await _clocks_ms(self._target):
            raise GrowRefused(
                f"the new server's clock is behind {self._newest.recorded_at:%Y-%m-%d %H:%M:%S} UTC, the time of the "
                "old log's newest event; set it, and run this again"
            )
        growths = [*self._old.history.growths, await self._growth()]
        await self._target.hset(MANIFEST, GROWN, msgspec.json.encode(growths))
        await finish(self._target, self._new.partitions, self._state, self._window)

    # the old log

    async def _check_source(self, projected: bool) -> None:
        if await heard_of(self._source, WORKERS, LEASE_TTL // timedelta(milliseconds=1)):
            raise GrowRefused("a worker uses the old log; stop it first")
        if await replicas(self._source):
            raise GrowRefused("an API process uses the old log; stop it first")
        self._state = await measure(self._source, self._old)
        if self._state.empty:
            raise GrowRefused("the old log is empty; begin another one with the number of partitions you want")
        heads = {partition: Position.parse(head) for partition, head in self._state.heads.items()}
        try:
            await wait_projected(self._source, Token(heads if projected else {}), 0)
        except ProjectionBehind as behind:
            raise GrowRefused(
                f"{sum(behind.lag.values())} events of the old log are not projected, so documents cannot be compared; "
                "run a worker on it for a moment, or grow it with --no-documents"
            ) from None

    def _read(self, partition: int, after: Position = START) -> AsyncGenerator[list[Stored]]:
        head = Position.parse(self._state.heads[partition])
        return pages(self._old, partition, head, after, ENTRIES_PER_READ)

    async def _size(self, partition: int) -> int:
        """Entries of a partition, without those that are in an archive."""
        keys = PartitionKeys(partition)
        return int(await self._source.xlen(keys.log)) + int(await self._source.zcard(keys.erased))

    # the new log

    def _parts(self, partition: int) -> range:
        return range(partition, self._new.partitions, self._old.partitions)

    def _placed(self, partition: int, entries: Sequence[Stored]) -> dict[int, list[tuple[Position, Routed]]]:
        """Entries of an old partition by the new one that they belong to."""
        placed: dict[int, list[tuple[Position, Routed]]] = defaultdict(list)
        for stored in entries:
            one = routed(stored)
            placed[self._part(partition, stored, one.route)].append((stored.position, one))
        return placed

    def _part(self, partition: int, stored: Stored, route: str | None) -> int:
        """The new partition of an entry; bytes that no release can read stay in the one of the same number."""
        route = _route_of_unreadable(stored) if route is None else route
        part = partition if route is None else partition_of(route, self._new.partitions)
        if part not in self._parts(partition):
            raise GrowRefused(
                f"the event at {partition}:{stored.position} is in a partition that it does not belong to"
            )
        return part

    async def _append(self, part: int, entries: Sequence[tuple[Position, Routed]]) -> None:
        if not entries:
            return
        keys = PartitionKeys(part)
        if noted := [bytes.fromhex(one.entry.dedup_id) for _, one in entries if one.noted]:
            await self._target.sadd(keys.imported, *noted)  # first: what is in the log already is not copied again
        await restore_entries(self._target, keys, self._window.ids, [(at, one.entry) for at, one in entries])

    async def _merged(self, partition: int, after: Position, until: Position) -> list[Stored]:
        """What the new log has of an old partition behind one position and up to another."""
        found: list[Stored] = []
        for part in self._parts(partition):
            async for page in pages(self._new, part, until, after, ENTRIES_PER_READ):
                found += page
        return sorted(found)

    async def _replayed(self, partition: int) -> MemoryStore:
        """The documents and listings that all parts of an old partition make, each from its own entries."""
        together = MemoryStore()
        discarded = await discarded_places(self._source, PartitionKeys(partition))
        for part in self._parts(partition):
            store = (await replay(self._new, part, without=discarded)).store
            together.documents.update(store.documents)
            for listing, members in store.listings.items():
                together.listings.setdefault(listing, set()).update(members)
        return together

    async def _growth(self) -> Growth:
        copied = [str(await self._new.head(part)) for part in range(self._new.partitions)]
        return Growth(self._old.partitions, str(self._newest), copied)

    @property
    def _newest(self) -> Position:
        return max(map(Position.parse, self._state.heads.values()))

    # what is kept beside it

    async def _kept(self, one: Kept, growth: Growth) -> list[Kept]:
        """What a kept key of the old log is in the new one."""
        match one:
            case HashField(key=key) if key == RECEIPTS:
                receipt = msgspec.json.decode(one.value, type=Receipt)
                until = str(growth.spread(Token.parse(receipt.until))) if receipt.until else ""
                return [replace(one, value=msgspec.json.encode(replace(receipt, until=until)))]
            case HashField(key=key):
                return [] if key == MANIFEST else [one]
            case Text(key=key):
                partition = next(n for n in range(self._old.partitions) if PartitionKeys(n).enriched == key)
                return [replace(one, key=PartitionKeys(part).enriched) for part in self._parts(partition)]
            case Member(key=key):
                partition = next(n for n in range(self._old.partitions) if PartitionKeys(n).discarded == key)
                stored = await entry_at(self._old, partition, place_of(one.value))
                if stored is None:
                    return []
                part = self._part(partition, stored, routed(stored).route)
                return [replace(one, key=PartitionKeys(part).discarded)]

    async def _copy_access(self) -> None:
        """API keys, as they are: who has one goes on using it."""
        for name in await self._source.smembers(ACCESS_KEYS):
            row = row_key(access_row_pk(name.decode()))
            if fields := await self._source.hgetall(row):
                await self._target.hset(row, mapping=fields)
            await self._target.sadd(ACCESS_KEYS, name)
        if (version := await self._source.get(ACCESS_VERSION)) is not None:
            await self._target.set(ACCESS_VERSION, version)

    async def _copy_purges(self) -> None:
        """What the next purge is to delete of forgotten texts: their cached vectors are copied like others."""
        for partition in range(self._old.partitions):
            keys = PartitionKeys(partition)  # of both servers: a purge takes those of all partitions together
            if notes := {*await self._source.smembers(keys.purge), *await self._source.smembers(keys.purging)}:
                await self._target.sadd(keys.purge, *notes)

    async def _copy_values(self, names: Sequence[str]) -> None:
        """Copy strings, with the time that they have left."""
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


async def take_back(source: Client) -> bool:
    """Let processes start on an old log again; false where it did not move."""
    return bool(await source.hdel(MANIFEST, MOVED))


async def _clocks_ms(redis: Client) -> int:
    """The earliest time of the clocks of a server's nodes, in ms since the epoch."""
    return min(int(info["server_time_usec"]) for info in await info_of_nodes(redis, "server")) // 1000


async def _keys(redis: Client, pattern: str) -> AsyncGenerator[list[str]]:
    """Names of keys, some at a time."""
    found: list[str] = []
    async for name in redis.scan_iter(match=pattern, count=1000):
        found.append(name.decode())
        if len(found) >= KEYS_PER_READ:
            yield found
            found = []
    if found:
        yield found


def _route_of_unreadable(stored: Stored) -> str | None:
    """The routing key of an event that this release cannot read all of; None for what is no event.

    Raises GrowRefused for a type that it does not know: where such an event belongs, only a later release can tell.
    """
    event = as_json_object(stored.payload, stored.position)
    if "unreadable" in event:
        return None
    if (kind := event["type"]) not in EVENT_TYPES:
        raise GrowRefused(f"event {stored.position} is a {kind!r}, which this release does not know; use a later one")
    if kind == EventErased.TYPE:
        kind = event["data"].get("was")
    tenant, project, session = event["tenant"], event["project"], event["session_id"]
    if kind in SESSION_TYPES or (kind == SubjectForgotten.TYPE and session):
        return session_route(tenant, project, session)
    return project_route(tenant, project)


def _tenant_and_type(stored: Stored) -> tuple[str, str]:
    try:
        named = _named(stored.payload)
    except msgspec.MsgspecError:
        return "", "unreadable"
    return named.tenant, named.type
