"""Repairs of what follows from a document (listings, index entry, embedding queue), and the report of a run.

No repair changes a document; only the partition's runner does. Each is a transaction that reads the document again and
fails when it, or the live generation, changes before the repair is written: the runner writes a document with all that
follows from it in one transaction, so what is repaired follows from the current document.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import UnreadableEvent
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.keys import RECONCILED, PartitionKeys
from ingest.platform.connections import Client, Transaction
from projections.dead_letters.records import letter_of, noted, queue_count, queue_letter
from projections.documents.document import Document, decode, index_entry, key_of, listings, row_type
from projections.store.feed import FeedItem, Put, Remove, entry_fields
from projections.vectors.embedder import Urgency, changed_place

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
            lambda pipe, _: pipe.zadd(self._keys.embed_queue, {name: changed_place(Urgency.REPORTED, at_ms)}),
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
            if int(await pipe.get(partition.generation) or 1) != self._generation:
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
                if int(await pipe.get(self._partition.generation) or 1) != self._generation:
                    return False
                document = decode(name, await (pipe.hgetall(key) if row_type(name) else pipe.get(key)))
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

    `not_compared` says why the index could not be compared, empty when it was. `first` has up to EXAMPLES of a kind.
    """

    partition: int
    documents: int = 0
    events_sampled: int = 0
    found: dict[Fault, int] = {}
    first: dict[Fault, list[str]] = {}
    not_compared: str = ""

    def note(self, fault: Fault, name: str) -> None:
        """Count a fault of a kind."""
        self.found[fault] = self.found.get(fault, 0) + 1
        examples = self.first.setdefault(fault, [])
        if len(examples) < EXAMPLES:
            examples.append(name)

    @property
    def advice(self) -> str:
        """What a person has to do; empty if nothing."""
        if self.found.get("altered_entry"):
            return "entries of the log were altered: put its file back from a copy, or restore a backup"
        if self.found.get("document_missing"):
            return f"documents are missing: `mnemolog rebuild --partition {self.partition}`"
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
        return {fault: sum(findings.found.get(fault, 0) for findings in self.partitions) for fault in FAULTS}

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
