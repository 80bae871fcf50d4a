"""StateStore on Redis: one generation of one partition. Everything that a batch changes goes into one MULTI.

Also: which documents a generation has, and where the searchable ones are in the log.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Any, NamedTuple

from redis.exceptions import WatchError

from ingest.errors import LeaseLost
from ingest.events.envelope import encode as encode_event
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.keys import CONSUMER_GROUP, GenerationKeys, PartitionKeys
from ingest.log.position import Position, stored_position
from ingest.log.redis_log import stub_member
from ingest.log.scripts import bound_embed_queues, members_of_parts
from ingest.platform.connections import Client, Transaction
from projections.nouns.document import (
    SEARCHED_LETTERS,
    Document,
    Searched,
    decode,
    encode,
    key_of,
    listings,
    row_type,
    searchable_text,
)
from projections.nouns.fold import VERSION, Changes, DocumentChange, rebuild_due
from projections.nouns.lesson import Lesson
from projections.nouns.rows import Row, part_of, queue_row, whole_of
from projections.nouns.session import Summary
from projections.store.feed import entry_fields, feed_items, to_embed
from projections.vectors.embedder import chunk, text_digest

Also = Callable[[Transaction], Awaitable[None] | None]
"""Queues more commands in the transaction that saves."""


async def why_rebuild(redis: Client, keys: GenerationKeys) -> str:
    """Return why the documents of a generation need a rebuild; empty if there are none, or this release made them."""
    checkpoint, folded_by = await redis.mget(keys.checkpoint, keys.folded_by)
    return rebuild_due(folded_by) if checkpoint else ""


@dataclass
class RedisStore:
    """The documents of one partition as one worker may write them: `fence` is the token of its lease.

    Without a fence (a rebuild) saving checks that the generation is not live, and that `rebuilder`, if one is named,
    still has the partition's lease on rebuilding.

    `most_to_embed` is how many documents may wait in the partition's embedding queue; None for any number.
    """

    _redis: Client
    _partition: PartitionKeys
    _generation: int
    _fence: int | None
    _rebuilder: str = ""
    most_to_embed: int | None = None

    def __post_init__(self) -> None:
        self.keys: GenerationKeys = self._partition.of_generation(self._generation)

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        names = list(ids)
        documents = await load(self._redis, self.keys, names)
        return {name: document for name, document in zip(names, documents, strict=True) if document is not None}

    async def members(self, listings: Collection[str]) -> dict[str, Sequence[str]]:
        parts: dict[str, list[str]] = {}
        whole: list[str] = []
        for name in listings:
            listing, beginning = whole_of(name)
            parts.setdefault(listing, []).append(beginning) if beginning else whole.append(name)
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in whole:
                pipe.zrange(self.keys.listing(name), 0, -1)
            stored: list[list[bytes]] = await pipe.execute()
        for listing, beginnings in parts.items():
            stored += await members_of_parts(self._redis, self.keys.listing(listing), beginnings)
            whole += (part_of(listing, beginning) for beginning in beginnings)
        return {name: [member.decode() for member in members] for name, members in zip(whole, stored, strict=True)}

    async def checkpoint(self) -> Position:
        stored = await self._redis.get(self.keys.checkpoint)
        return stored_position(stored)

    async def save(self, changes: Changes, position: Position) -> None:
        await self.save_and(changes, position, lambda pipe: None)

    async def save_and(self, changes: Changes, position: Position, also: Also, contexts: Sequence[str] = ()) -> None:
        """Save, with what `also` queues in the same transaction (acknowledgements, a dead letter).

        `contexts` are the traces that readers of the feed continue. Raises LeaseLost, with nothing saved, if the
        partition has a new owner or generation.
        """
        async with self._redis.pipeline(transaction=True) as pipe:
            is_new = await self._watch_ownership(pipe)
            pipe.multi()
            if is_new:
                pipe.set(self.keys.folded_by, str(VERSION))
            self._queue_documents(pipe, changes.documents)
            self._queue_listings(pipe, changes.documents)
            # the feed entry is in the same transaction as the documents, so a replica never learns of one without
            # the other; the checkpoint, so that a crash repeats the whole batch or none of it
            pipe.set(self.keys.checkpoint, str(position))
            self._queue_outputs(pipe, changes, position, contexts)
            queued = also(pipe)
            if queued is not None:
                await queued
            pipe.zcard(self.keys.embed_queue)
            try:
                *_, waiting = await pipe.execute()
            except WatchError:
                raise LeaseLost(f"partition {self._partition.partition} has a new owner or generation") from None
        if self.most_to_embed is not None and waiting > self.most_to_embed:
            await bound_embed_queues(self._redis, [self.keys], self.most_to_embed)

    async def _watch_ownership(self, pipe: Transaction) -> bool:
        """Make the transaction fail if the partition's owner or generation changes before it runs. Return whether
        nothing was saved in the generation yet.

        The lease alone is not enough: a worker that was paused for longer than its lease still believes it is the
        owner. Its fence is older than the stored one by then.
        """
        names = (self._partition.fence, self._partition.generation, self._partition.rebuild)
        # a runner does not watch the rebuild lease: a rebuild beside it must not make its transactions fail
        await pipe.watch(*(names if self._rebuilder else names[:2]))
        fence, generation, rebuilder, checkpoint = await pipe.mget(*names, self.keys.checkpoint)
        live = int(generation or 1)
        if self._fence is not None:
            # projecting may exceed maxmemory, because its events were acknowledged; a rebuild can wait (decision 30)
            pipe.exceed_memory_limit({self._partition.fence: fence, self._partition.generation: generation})
            is_owner = int(fence or 0) == self._fence and live == self._generation
        else:
            is_owner = live != self._generation and self._rebuilder in ("", (rebuilder or b"").decode())
        if not is_owner:
            raise LeaseLost(
                f"partition {self._partition.partition}: fence {self._fence} or generation "
                f"{self._generation} is outdated"
            )
        return checkpoint is None

    def _queue_documents(self, pipe: Transaction, documents: Mapping[DocumentId, DocumentChange]) -> None:
        # one command for all texts and one for all deletions: packing each command took most of the time of a save
        texts: dict[str, bytes] = {}
        deleted: list[str] = []
        begin = self.keys.doc("")
        for name, (before, after) in documents.items():
            if before is not None and isinstance(before, Row) and not isinstance(after, Row):
                deleted.append(self.keys.row(name))
            if isinstance(after, Row):
                queue_row(after, self.keys.row_pk(name), pipe)
            elif after is not None:
                texts[begin + name] = encode(after)
            elif not isinstance(before, Row):
                deleted.append(self.keys.doc(name))
        if texts:
            pipe.mset(texts)
        if deleted:
            pipe.delete(*deleted)

    def _queue_listings(self, pipe: Transaction, documents: Mapping[DocumentId, DocumentChange]) -> None:
        added: dict[str, dict[str, float]] = {}
        removed: dict[str, list[str]] = {}
        for before, after in documents.values():
            old, new = listings(before), listings(after)
            for name, member in old - new if old else ():
                removed.setdefault(name, []).append(member)
            for name, member in new - old if old else new:
                added.setdefault(name, {})[member] = 0
        for name, members in removed.items():
            pipe.zrem(self.keys.listing(name), *members)
        for name, scores in added.items():
            pipe.zadd(self.keys.listing(name), scores)

    def _queue_outputs(self, pipe: Transaction, changes: Changes, position: Position, contexts: Sequence[str]) -> None:
        """What others do next: the feed for replicas, the embedding queue, erasures in the log, texts to purge."""
        pipe.xadd(self.keys.changes, entry_fields(feed_items(changes), position, contexts))
        new_texts = dict(to_embed(changes, position))
        if new_texts:
            pipe.zadd(self.keys.embed_queue, new_texts)
        if changes.retired:
            pipe.zrem(self.keys.embed_queue, *changes.retired)
        if self._fence is None:
            return  # a generation that is not live must not change the log, which the live one reads
        # Digests of texts whose vectors are to be deleted. An erasure is noted even without a text, as b"": it is what
        # starts a purge, and the other notes wait for it. Retired texts are not noted: their vectors are gone already.
        texts = {
            part
            for name, (before, after) in changes.documents.items()
            if before is not None and isinstance(before, Searched) and _text_is_gone(before, after)
            if after is not None or name not in changes.retired
            for part in chunk(searchable_text(before))
        }
        notes = [*([b""] if changes.erased else []), *map(text_digest, texts)]
        if notes:
            pipe.sadd(self._partition.purge, *notes)
        if changes.erased:
            # the entry goes and its stub comes in one step: a replay in between would lack what the stub keeps
            pipe.xdel(self._partition.log, *map(str, changes.erased))
            stubs = {
                stub_member(self._partition, Stored(erased_at, encode_event(stub))): 0
                for erased_at, stub in changes.erased.items()
            }
            pipe.zadd(self._partition.erased, stubs)


def _text_is_gone(before: Searched, after: Document | None) -> bool:
    """Whether no document says any more what this one said. Of those that change, lessons and summaries change text."""
    if not isinstance(after, Searched):
        return True
    return isinstance(after, Lesson | Summary) and searchable_text(before) != searchable_text(after)


def acknowledge(pipe: Transaction, keys: PartitionKeys, positions: Sequence[Position]) -> None:
    """Queue the acknowledgement of log entries to the consumer group."""
    pipe.xack(keys.log, CONSUMER_GROUP, *map(str, positions))


BATCH = 256
SORTED_AT_ONCE = 10_000


class StoredPlace(NamedTuple):
    """Where a searchable document is in the log; takes some 200 bytes of memory."""

    position: Position
    id: DocumentId


async def load(redis: Client, keys: GenerationKeys, names: Sequence[DocumentId]) -> list[Document | None]:
    """The documents as they are now, in this order; None for one that does not exist. One round trip."""
    if not names:
        return []
    rows = [name for name in names if row_type(name)]
    others = [name for name in names if not row_type(name)]
    async with redis.pipeline(transaction=False) as pipe:
        for name in rows:
            pipe.hgetall(key_of(keys, name))
        if others:
            pipe.mget(*(key_of(keys, name) for name in others))
        answers: list[Any] = await pipe.execute()
    stored = dict(zip([*rows, *others], [*answers[: len(rows)], *(answers[-1] if others else ())], strict=True))
    return [decode(name, stored[name]) for name in names]


async def places(redis: Client, keys: GenerationKeys) -> list[StoredPlace]:
    """All searchable documents, in log order. Those written during the scan may be included or not."""
    unsorted: list[StoredPlace] = []
    async for batch in scanned(redis, keys, BATCH):
        unsorted += (
            StoredPlace(stored_position(document.position), DocumentId(document.id))
            for document in await load(redis, keys, batch)
            if isinstance(document, Searched)
        )
    return await asyncio.to_thread(_in_order, unsorted)


def _in_order(unsorted: list[StoredPlace]) -> list[StoredPlace]:
    """Sorted and without the duplicates of a scan. In runs, because a sort holds the GIL until it ends."""
    runs = [sorted(unsorted[start : start + SORTED_AT_ONCE]) for start in range(0, len(unsorted), SORTED_AT_ONCE)]
    return [location for location, _ in groupby(merge(*runs))]


async def scanned(redis: Client, keys: GenerationKeys, batch: int) -> AsyncGenerator[list[DocumentId]]:
    """The ids of all documents, `batch` at a time; a scan may return one twice."""
    for prefix in (keys.doc(""), keys.row("")):
        names: list[DocumentId] = []
        async for raw in redis.scan_iter(match=f"{prefix}*", count=1000):
            names.append(DocumentId(raw.decode().removeprefix(prefix)))
            if len(names) == batch:
                yield names
                names = []
        if names:
            yield names


async def are_searched(redis: Client, keys: GenerationKeys, names: Sequence[DocumentId]) -> list[bool]:
    """Whether each of these ids is that of a searchable document now. Reads one byte of each."""
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            if row_type(name):
                pipe.exists(key_of(keys, name))
            else:
                pipe.execute_command("GETRANGE", key_of(keys, name), 0, 0)
        answers: list[bytes | int] = await pipe.execute()
    return [answer in SEARCHED_LETTERS if isinstance(answer, bytes) else bool(answer) for answer in answers]
