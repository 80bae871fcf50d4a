"""arq job: compare log, documents, listings and index of every partition, and repair what is safe to repair.

Documents and listings are read while the partition is written to, so a first look may be wrong: only what a repair's
own transaction confirms is counted. Memory: DOCUMENTS_PER_READ documents, and the ids of the partition's searchable
ones. One worker does it, some partitions at a time; the next run continues from the stored report. Running it again is
harmless; on a clean store it changes nothing but the report.

No repair changes a document; only the partition's runner does. Each is a transaction that reads the document again and
fails when it, or the live generation, changes before the repair is written: the runner writes a document with all that
follows from it in one transaction, so what is repaired follows from the current document.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args

import msgspec
import numpy as np
import zstandard
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import AlteredEntry, UnreadableEvent
from ingest.events.envelope import Recorded, route_of
from ingest.events.subject import SubjectForgotten
from ingest.ids import DocumentId, document_id, new_event_id
from ingest.kinds import MEMORY, OBSERVATION
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import CONSUMER_GROUP, MANIFEST, RECONCILE_LEASE, RECONCILED, PartitionKeys
from ingest.log.lease import lease
from ingest.log.position import ALTERED, START, Position
from ingest.log.redis_log import RedisLog
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from ingest.platform.connections import Client, Transaction
from projections.index.comparing import differences
from projections.index.replica import FeedGap, FeedPosition, live_generation, read_feed
from projections.index.snapshots import names_of, newest
from projections.nouns.document import Document, Searched, index_entry, key_of, listings, queue_read, searchable_text
from projections.nouns.document import decode as decode_document
from projections.nouns.fold import documents_of
from projections.nouns.forgetting import forgotten_ids
from projections.store.dead_letters import dead_letter, discarded_letter, letter_of, noted, queue_count, queue_letter
from projections.store.feed import FeedItem, Put, Remove, Vectors, entry_fields, read_entry
from projections.store.redis_store import RedisStore, scanned, why_rebuild
from projections.vectors.embedder import Embedder, Embedders, Urgency, changed_place

logger = logging.getLogger(__name__)

TRIES = 10
Needed = Callable[[Document | None], bool]
"""Whether the current document needs the repair."""
Queue = Callable[[Transaction, Document | None], object]
"""Queues the repair."""


class Repairs:
    """Repairs in one generation of a partition."""

    def __init__(self, redis: Client, keys: PartitionKeys, generation: int) -> None:
        self._redis, self._partition, self._generation = redis, keys, generation
        self._keys = keys.of_generation(generation)

    async def list_document(self, name: DocumentId, listing: str, member: str) -> bool:
        """Add a document to a listing that it belongs to; returns whether it was missing there."""
        return await self._repair(
            name,
            lambda document: (listing, member) in listings(document),
            lambda pipe, _: pipe.zadd(self._keys.listing(listing), {member: 0}),
        )

    async def unlist(self, name: DocumentId, listing: str, member: str) -> bool:
        """Remove a member from a listing that its document does not belong to; returns whether it was wrong there."""
        return await self._repair(
            name,
            lambda document: (listing, member) not in listings(document),
            lambda pipe, _: pipe.zrem(self._keys.listing(listing), member),
        )

    async def announce(self, name: DocumentId, *, missing: bool) -> bool:
        """Send the index a document, or its removal; returns whether that was needed.

        The feed entry covers no position of the log. It changes nothing in a replica that was right.
        """

        def announce(pipe: Transaction, document: Document | None) -> None:
            entry = index_entry(document)
            item: FeedItem = Put(entry) if entry is not None else Remove(name)
            pipe.xadd(self._keys.changes, entry_fields([item], None))

        return await self._repair(name, lambda document: (index_entry(document) is not None) == missing, announce)

    async def embed(self, name: DocumentId, at_ms: float) -> bool:
        """Queue a searchable document for its vector, at a new place, as if it had been reported at that time."""
        return await self._repair(
            name,
            lambda document: index_entry(document) is not None,
            lambda pipe, _: pipe.zadd(self._keys.embed_queue, {name: changed_place(Urgency.SAID, at_ms)}),
        )

    async def do_not_embed(self, name: DocumentId) -> bool:
        """Remove an id from the embedding queue that has nothing to embed; returns whether it was wrong there."""
        return await self._repair(
            name,
            lambda document: index_entry(document) is None,
            lambda pipe, _: pipe.zrem(self._keys.embed_queue, name),
        )

    async def park(self, entry: Stored, error: UnreadableEvent, now: datetime) -> bool:
        """Make an applied entry that was altered since a dead letter; returns whether it was not one, nor discarded."""
        partition = self._partition
        async with self._redis.pipeline(transaction=True) as pipe:
            # the runner, a redrive and a discard change these, and a switch the generation
            await pipe.watch(partition.generation, partition.discarded, self._keys.dead)
            if await live_generation(pipe, partition.partition) != self._generation:
                return False
            if await noted(self._redis, partition, entry.position) is not None:
                return False
            pipe.multi()
            queue_letter(pipe, self._keys, replace(letter_of(entry, error.code, str(error), 0, now), applied=True))
            queue_count(pipe, partition, "parked")
            try:
                await pipe.execute()
            except WatchError:  # the next run looks again
                return False
        return True

    async def _repair(self, name: DocumentId, needed: Needed, queue: Queue) -> bool:
        key = key_of(self._keys, name)
        for _ in range(TRIES):
            async with self._redis.pipeline(transaction=True) as pipe:
                # the runner writes the key, a switch the generation: either fails this transaction
                await pipe.watch(key, self._partition.generation)
                if await live_generation(pipe, self._partition.partition) != self._generation:
                    return False
                document = decode_document(name, await queue_read(pipe, self._keys, name))
                pipe.multi()
                if not needed(document):
                    return False
                queue(pipe, document)
                try:
                    await pipe.execute()
                    return True
                except WatchError:
                    continue
        return False  # it keeps changing; the next run looks again


Fault = Literal[
    "missing_from_listing",
    "stale_in_listing",
    "missing_from_index",
    "stale_in_index",
    "vector_missing",
    "stale_in_embed_queue",
    "pending_behind_checkpoint",
    "document_missing",
    "altered_entry",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
EXAMPLES = 20


class Findings(Struct, kw_only=True):
    """Of one partition: what was checked, and every fault by kind. All are repaired except missing documents and
    altered log entries.

    `not_compared` says why the index or the documents could not be compared, empty when they were. `first` has up to
    EXAMPLES of a kind.
    """

    partition: int
    documents: int = 0
    events_sampled: int = 0
    found: dict[Fault, int] = {}
    first: dict[Fault, list[str]] = {}
    not_compared: str = ""

    def note(self, kind: Fault, name: str) -> None:
        """Count a fault of a kind."""
        self.found[kind] = self.found.get(kind, 0) + 1
        examples = self.first.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(name)

    @property
    def advice(self) -> str:
        """What a person has to do; empty if nothing."""
        if self.found.get("altered_entry"):
            return "entries of the log were altered: replace its file with a copy, or restore a backup"
        if self.found.get("document_missing"):
            return f"documents are missing: `mnemolog admin rebuild --partition {self.partition}`"
        return ""


class ReconcileReport(Struct, kw_only=True):
    """A reconciliation: `next` is the partition to continue with, None when it is finished."""

    started_at: datetime
    finished_at: datetime | None = None
    next: int | None = 0
    partitions: list[Findings] = []

    @property
    def found(self) -> dict[Fault, int]:
        """All faults by kind, of all partitions checked."""
        return {kind: sum(findings.found.get(kind, 0) for findings in self.partitions) for kind in FAULTS}

    @property
    def advice(self) -> list[str]:
        """What a person has to do."""
        return [findings.advice for findings in self.partitions if findings.advice]


async def load_report(redis: Client) -> ReconcileReport | None:
    """The newest report; None before the first run."""
    raw = await redis.get(RECONCILED)
    return msgspec.json.decode(raw, type=ReconcileReport) if raw else None


async def save_report(redis: Client, report: ReconcileReport) -> None:
    """Store the report: a run that is interrupted continues with the partition that it had not finished."""
    await redis.set(RECONCILED, msgspec.json.encode(report))


class IndexedNames(NamedTuple):
    """Ids of documents that an index has, and of those that have vectors in it."""

    names: set[str]
    embedded: set[str]


class SnapshotNames(NamedTuple):
    """A snapshot's ids by partition, and its position in the feeds. About 100 bytes of memory a document."""

    at: dict[int, FeedPosition]
    by_partition: dict[int, IndexedNames]


def snapshot_names(folder: Path, model: str) -> SnapshotNames:
    """The ids in the newest snapshot of a model; empty without one, or while it is being replaced. Blocks."""
    snapshot = newest(folder, model)
    if snapshot is None:
        return SnapshotNames({}, {})
    path, manifest = snapshot
    by_partition: dict[int, IndexedNames] = {}
    try:
        ids = names_of(path)
        partitions, counts = np.load(path / "partition.npy"), np.load(path / "vector-count.npy")
    except (OSError, ValueError, msgspec.MsgspecError, zstandard.ZstdError):
        return SnapshotNames({}, {})
    for ordinal, name in enumerate(ids):
        if name:
            indexed = by_partition.setdefault(int(partitions[ordinal]), IndexedNames(set(), set()))
            indexed.names.add(name)
            if ordinal < len(counts) and counts[ordinal]:
                indexed.embedded.add(name)
    return SnapshotNames(dict(manifest.partitions), by_partition)


class IndexNames(Protocol):
    """What an index has of a partition, up to a position in its feed."""

    async def names(self, partition: int) -> SnapshotNames:
        """The ids of a partition at least, and their position in its feed. Raises FeedGap while the index is made."""
        ...

    def forget(self) -> None:
        """Read them again at the next call of `names`."""
        ...


class NewestSnapshot:
    """The ids of the newest snapshot, read at the first call of `names`."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model
        self._names: SnapshotNames | None = None

    async def names(self, partition: int) -> SnapshotNames:
        """The ids of the snapshot that was the newest when they were read."""
        if self._names is None:
            self._names = await asyncio.to_thread(snapshot_names, self._folder, self._model)
        return self._names

    def forget(self) -> None:
        """Read them again at the next call of `names`: there may be a newer snapshot."""
        self._names = None


async def indexed_names(redis: Client, partition: int, snapshot: SnapshotNames, model: str) -> IndexedNames:
    """The ids that follow from the newest snapshot and the live generation's feed. Raises FeedGap."""
    live = await live_generation(redis, partition)
    at = snapshot.at.get(partition, FeedPosition())
    indexed = snapshot.by_partition.get(partition, IndexedNames(set(), set()))
    if at.generation != live:
        at, indexed = FeedPosition(generation=live), IndexedNames(set(), set())
    names, embedded = set(indexed.names), set(indexed.embedded)
    while (read := await read_feed(redis, partition, at, None)).entries:
        at = read.then
        for fields in read.entries:
            for item in read_entry(fields)[0]:
                match item:
                    case Put(entry=entry):
                        names.add(entry.id)
                    case Remove(id=name):
                        names.discard(name)
                        embedded.discard(name)
                    case Vectors(id=name, model=used) if used == model:
                        embedded.add(name)
                    case _:
                        pass
    return IndexedNames(names, embedded)


DOCUMENTS_PER_READ = 200
MEMBERS_PER_READ = 500
SAMPLES = 20
"""Random positions in the log whose next event is checked in a run."""
PENDING_PER_READ = 100
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Between attempts to read the snapshot up to which a feed was trimmed: a worker is just putting it in place."""


class Searchable(NamedTuple):
    """Ids of documents that belong in the index, and of those that have a text to embed."""

    names: set[str]
    with_text: set[str]


class PartitionCheck:
    """Checks one partition's live generation."""

    def __init__(
        self, redis: Client, log: EventLog, partition: int, model: str, dimensions: int, snapshot: IndexNames
    ) -> None:
        self._redis, self._log, self._newest = redis, log, snapshot
        self._model, self._dimensions = model, dimensions
        self._partition = PartitionKeys(partition)

    async def run(self, now_ms: int) -> Findings:
        """Run every check; repairs what is safe to repair."""
        generation = await live_generation(self._redis, self._partition.partition)
        self._store = RedisStore(self._redis, self._partition, generation, None)
        self._keys = self._store.keys
        self._repairs = Repairs(self._redis, self._partition, generation)
        findings = Findings(partition=self._partition.partition, found={}, first={})
        if due := await why_rebuild(self._redis, self._keys):  # by other rules, sound documents look damaged
            findings.not_compared = due
            return findings
        searchable = await self._documents(findings)
        await self._listings(findings)
        await self._index(findings, searchable, now_ms)
        await self._embed_queue(findings)
        checkpoint = await self._store.checkpoint()
        await self._pending(findings, checkpoint)
        await self._entries(findings, checkpoint, now_ms)
        await self._sample(findings, checkpoint, random.Random(now_ms))
        return findings

    async def _documents(self, findings: Findings) -> Searchable:
        """Each document is in every listing that it should be in; returns the ids of the searchable ones."""
        searchable = Searchable(set(), set())
        async for names in scanned(self._redis, self._keys, DOCUMENTS_PER_READ):
            documents = await self._store.load(names)
            findings.documents += len(documents)
            for name, document in documents.items():
                if isinstance(document, Searched):
                    searchable.names.add(name)
                    if searchable_text(document).strip():
                        searchable.with_text.add(name)
            members = [(name, *pair) for name, document in documents.items() for pair in listings(document)]
            async with self._redis.pipeline(transaction=False) as pipe:
                for _, listing, member in members:
                    pipe.zmscore(self._keys.listing(listing), [member])
                scores = await pipe.execute() if members else []
            for (name, listing, member), score in zip(members, scores, strict=True):
                if score[0] is None and await self._repairs.list_document(name, listing, member):
                    findings.note("missing_from_listing", f"{name} in {listing!r}")
        return searchable

    async def _listings(self, findings: Findings) -> None:
        """No listing has a document that is missing, or that belongs elsewhere by now."""
        prefix = self._keys.listing("")
        async for key in self._redis.scan_iter(match=f"{prefix}*", count=1000):
            start, listing = 0, key.decode().removeprefix(prefix)
            while page := await self._members(key.decode(), start):
                start += len(page)
                names = {DocumentId(member.rpartition("|")[2]) for member in page}
                documents = await self._store.load(names)
                for member in page:
                    name = DocumentId(member.rpartition("|")[2])
                    belongs = (listing, member) in listings(documents.get(name))
                    if not belongs and await self._repairs.unlist(name, listing, member):
                        findings.note("stale_in_listing", f"{member!r} in {listing!r}")
                        start -= 1

    async def _members(self, key: str, start: int) -> list[str]:
        stored: list[bytes] = await self._redis.zrange(key, start, start + MEMBERS_PER_READ - 1)
        return [member.decode() for member in stored]

    async def _index(self, findings: Findings, searchable: Searchable, now_ms: int) -> None:
        """The index of a replica that starts now has the searchable documents, with their vectors, and nothing else."""
        waiting = {raw.decode() for raw in await self._redis.zrange(self._keys.embed_queue, 0, -1)}
        try:
            indexed = await self._indexed()
        except FeedGap as error:
            findings.not_compared = str(error)
            return
        expected, actual = dict.fromkeys(searchable.names, True), dict.fromkeys(indexed.names, True)
        for name, missing, _ in sorted(differences(expected, actual)):
            if await self._repairs.announce(DocumentId(name), missing=bool(missing)):
                findings.note("missing_from_index" if missing else "stale_in_index", name)
        # a document that is embedded during this check was queued before, or has its vectors in the feed that was read;
        # while some are deferred, those cannot be distinguished from missing ones
        if self._dimensions and not await self._redis.exists(self._keys.embed_later):
            for name in sorted(searchable.with_text - indexed.embedded - waiting):
                if await self._repairs.embed(DocumentId(name), now_ms):
                    findings.note("vector_missing", name)

    async def _indexed(self) -> IndexedNames:
        """The ids in the index by the newest snapshot and the feed; reads a snapshot again that is just being written.

        Raises FeedGap where feed and snapshots do not meet for longer than it takes to put one in place.
        """
        partition, pauses = self._partition.partition, iter(PAUSES_S)
        while True:
            try:
                return await indexed_names(self._redis, partition, await self._newest.names(partition), self._model)
            except FeedGap:
                if (pause_s := next(pauses, None)) is None:
                    raise
            self._newest.forget()
            await asyncio.sleep(pause_s)

    async def _embed_queue(self, findings: Findings) -> None:
        start = 0
        while page := await self._members(self._keys.embed_queue, start):
            start += len(page)
            documents = await self._store.load([DocumentId(name) for name in page])
            for name in page:
                gone = index_entry(documents.get(DocumentId(name))) is None
                if gone and await self._repairs.do_not_embed(DocumentId(name)):
                    findings.note("stale_in_embed_queue", name)
                    start -= 1

    async def _pending(self, findings: Findings, checkpoint: Position) -> None:
        """Applied entries are acknowledged: otherwise they count as lag forever."""
        groups: list[dict[str, Any]] = []
        if await self._redis.xlen(self._partition.log):
            groups = await self._redis.xinfo_groups(self._partition.log)
        if CONSUMER_GROUP.encode() not in [group["name"] for group in groups] or checkpoint == START:
            return
        while rows := await self._redis.xpending_range(
            self._partition.log, CONSUMER_GROUP, min="-", max=str(checkpoint), count=PENDING_PER_READ
        ):
            entries: list[str] = [row["message_id"].decode() for row in rows]
            # they are applied, whichever consumer has them; acknowledging an entry twice changes nothing
            await self._redis.xack(self._partition.log, CONSUMER_GROUP, *entries)
            for entry in entries:
                findings.note("pending_behind_checkpoint", entry)

    async def _entries(self, findings: Findings, checkpoint: Position, now_ms: int) -> None:
        """Applied entries of the stream match their checksums; the runner checks later ones, `unpack` archived ones."""
        stream, partition = RedisLog(self._redis, self._log.partitions), self._partition.partition
        async for page in pages(stream, partition, checkpoint, limit=DOCUMENTS_PER_READ):
            for entry in page:
                if entry.payload.startswith(ALTERED):
                    error = AlteredEntry(str(entry.position))
                    if await self._repairs.park(entry, error, from_ms(now_ms)):
                        findings.note("altered_entry", str(entry.position))

    async def _sample(self, findings: Findings, checkpoint: Position, chance: random.Random) -> None:
        """Events at random positions have left a document, a tombstone or a mark, or are dead letters."""
        first = await self._log.read(self._partition.partition, START, 1)
        if not first or first[0].position > checkpoint:
            return
        seen: set[Position] = set()
        for _ in range(SAMPLES):
            after = Position(chance.randint(first[0].position.ms - 1, checkpoint.ms), 0)
            for entry in await self._log.read(self._partition.partition, after, 1):
                position = entry.position
                if position > checkpoint or position in seen or not entry.payload:
                    continue
                seen.add(position)
                try:
                    event = decode(entry.payload, position)
                except UnreadableEvent:
                    continue  # it is a dead letter, or will be
                findings.events_sampled += 1
                if (
                    (leaves := _leaves(event))
                    and not await self._store.load(leaves)
                    and await dead_letter(self._redis, self._keys, position) is None
                    and await discarded_letter(self._redis, self._partition, position) is None
                ):
                    findings.note("document_missing", f"{event.envelope.type} at {position}")


def _leaves(event: Recorded) -> set[DocumentId]:
    """Documents, marks and tombstones of which an event has left one; empty where it may leave nothing.

    A tombstone leaves nothing of what later events may make again (a lesson, a commit, a whole session).
    """
    route = route_of(event.envelope, event.data)
    match event.data:
        case ObservationRecorded():
            return {document_id(OBSERVATION, route, event.envelope.event_id)}
        case MemoryRecorded():
            return {document_id(MEMORY, route, event.envelope.event_id)}
        case SubjectForgotten() if not any(
            name.partition("_")[0] in (OBSERVATION, MEMORY) for name in forgotten_ids(event.data)
        ):
            return set()
        case _:
            return documents_of([event])


EVERY = timedelta(days=1)
SLICE_S = 30.0
"""A run that takes longer leaves the other partitions to the next one, a minute later."""


@dataclass
class ReconcileJob:
    """Reconciles a log with its projections. `index_of` lists what the index of an embedder has."""

    _redis: Client
    _log: EventLog
    _index_of: Callable[[Embedder], IndexNames]
    _embedders: Embedders
    _clock: Clock = system_clock
    _slice_s: float = SLICE_S

    def __post_init__(self) -> None:
        self._id = str(new_event_id())

    async def run(self, force: bool = False) -> ReconcileReport | None:
        """Continue a run that is not over; otherwise begin one, a day after the last or with `force`.

        Returns the report so far; None when there was nothing to do, or another worker does it.
        """
        async with lease(self._redis, RECONCILE_LEASE, self._id) as mine:
            if not mine:
                return None
            report = await load_report(self._redis)
            if report is None or report.next is None:
                now = self._clock()
                # the first run is a day after the log was created
                created = (await self._redis.hget(MANIFEST, "created_at") or b"1970-01-01T00:00Z").decode()
                if not force and now - (report.started_at if report else datetime.fromisoformat(created)) < EVERY:
                    return None
                report = ReconcileReport(started_at=now, partitions=[])
            until = time.monotonic() + self._slice_s
            embedder = await self._embedders.refresh()
            index = self._index_of(embedder)
            for partition in range(report.next or 0, self._log.partitions):
                check = PartitionCheck(self._redis, self._log, partition, embedder.model, embedder.dimensions, index)
                findings = await check.run(to_ms(self._clock()))
                report.partitions.append(findings)
                report.next = partition + 1 if partition + 1 < self._log.partitions else None
                if report.next is None:
                    report.finished_at = self._clock()
                await save_report(self._redis, report)
                if findings.found:
                    logger.warning("reconcile: partition %d: %s %s", partition, findings.found, findings.advice)
                if time.monotonic() > until:
                    break
            return report
