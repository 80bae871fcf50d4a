"""StateStore on Redis: one generation of one partition. Everything that a batch changes goes into one MULTI.

Also: which documents a generation has, and where the searchable ones are in the log.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from heapq import merge
from itertools import groupby
from typing import Any, NamedTuple

from redis.exceptions import WatchError

from ingest.errors import LeaseLost
from ingest.events.envelope import encode as encode_event
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.keys import CONSUMER_GROUP, GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import stub_member
from ingest.log.scripts import bound_embed_queues, members_of_parts
from ingest.platform.connections import Client, Transaction
from projections.documents.document import (
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
from projections.documents.lessons import Lesson
from projections.documents.rows import Row, part_of, queue_row, whole_of
from projections.documents.sessions import Summary
from projections.folds.fold import Changes, DocumentChange
from projections.store.feed import entry_fields, feed_items, to_embed
from projections.vectors.embedder import chunk, text_digest


class RedisStore:
    """The documents of one partition as one worker may write them: `fence` is the token of its lease.

    Without a fence (a rebuild) saving checks that the generation is not live, and that `rebuilder`, if one is named,
    still has the partition's lease on rebuilding.
    """

    def __init__(
        self,
        redis: Client,
        keys: PartitionKeys,
        generation: int,
        fence: int | None,
        rebuilder: str = "",
        most_to_embed: int | None = None,
    ) -> None:
        """`most_to_embed` is how many documents may wait in the partition's embedding queue; None for any number."""
        self._redis, self._partition, self._generation, self._fence = redis, keys, generation, fence
        self._rebuilder, self._most_to_embed = rebuilder, most_to_embed
        self.keys: GenerationKeys = keys.of_generation(generation)

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        names = list(ids)
        if not names:
            return {}
        rows = [name for name in names if row_type(name)]
        others = [name for name in names if not row_type(name)]
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in rows:
                pipe.hgetall(key_of(self.keys, name))
            if others:
                pipe.mget(*(key_of(self.keys, name) for name in others))
            stored: list[Any] = await pipe.execute()
        raw = [*stored[: len(rows)], *(stored[-1] if others else ())]
        found = {name: decode(name, one) for name, one in zip([*rows, *others], raw, strict=True)}
        return {name: document for name, document in found.items() if document is not None}

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
        return Position.parse(stored) if stored else START

    async def save(self, changes: Changes, position: Position) -> None:
        await self.save_and(changes, position, lambda pipe: None)

    async def save_and(
        self,
        changes: Changes,
        position: Position,
        also: Callable[[Transaction], Awaitable[None] | None],
        contexts: Sequence[str] = (),
    ) -> None:
        """Save, with what `also` queues in the same transaction (acknowledgements, a dead letter).

        `contexts` are the traces that who applies the feed goes on with.
        """
        async with self._redis.pipeline(transaction=True) as pipe:
            await self._watch_ownership(pipe)
            pipe.multi()
            self._queue_documents(pipe, changes.documents)
            self._queue_listings(pipe, changes.documents)
            self._queue_embedding(pipe, changes, position)
            pipe.xadd(self.keys.changes, entry_fields(feed_items(changes), position, contexts))
            pipe.set(self.keys.checkpoint, str(position))
            if self._fence is not None:
                self._queue_purge(pipe, changes)
            if changes.erased and self._fence is not None:
                pipe.xdel(self._partition.log, *map(str, changes.erased))
                pipe.zadd(
                    self._partition.erased,
                    {
                        stub_member(self._partition, Stored(at, encode_event(stub))): 0
                        for at, stub in changes.erased.items()
                    },
                )
            queued = also(pipe)
            if queued is not None:
                await queued
            pipe.zcard(self.keys.embed_queue)
            try:
                *_, waiting = await pipe.execute()
            except WatchError:
                raise LeaseLost(f"partition {self._partition.partition} has a new owner or generation") from None
        if self._most_to_embed is not None and waiting > self._most_to_embed:
            await bound_embed_queues(self._redis, [self.keys], self._most_to_embed)

    async def _watch_ownership(self, pipe: Transaction) -> None:
        """Make the transaction fail if the partition's owner or generation changes before it runs."""
        names = (self._partition.fence, self._partition.generation, self._partition.rebuild)
        watched = names if self._rebuilder else names[:2]  # a runner does not mind who rebuilds beside it
        await pipe.watch(*watched)
        fence, generation, rebuilder = await pipe.mget(*names)
        if self._fence is not None:  # what was accepted; a rebuild can wait for memory
            pipe.exceed_memory_limit({self._partition.fence: fence, self._partition.generation: generation})
        live = int(generation or 1)
        if self._fence is None:
            owned = live != self._generation and self._rebuilder in ("", (rebuilder or b"").decode())
        else:
            owned = int(fence or 0) == self._fence and live == self._generation
        if not owned:
            raise LeaseLost(
                f"partition {self._partition.partition}: fence {self._fence} or generation {self._generation} is past"
            )

    def _queue_documents(self, pipe: Transaction, documents: Mapping[DocumentId, DocumentChange]) -> None:
        """One command for all texts, and one for all deletions: packing and answering each took most of saving."""
        texts: dict[str, bytes] = {}
        deleted: list[str] = []
        for name, (before, after) in documents.items():
            if isinstance(before, Row) and not isinstance(after, Row):
                deleted.append(self.keys.row(name))
            if isinstance(after, Row):
                queue_row(after, self.keys.row_pk(name), pipe)
            elif after is not None:
                texts[self.keys.doc(name)] = encode(after)
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
            was, now = listings(before), listings(after)
            for name, member in was - now if was else ():
                removed.setdefault(name, []).append(member)
            for name, member in now - was if was else now:
                added.setdefault(name, {})[member] = 0
        for name, members in removed.items():
            pipe.zrem(self.keys.listing(name), *members)
        for name, scores in added.items():
            pipe.zadd(self.keys.listing(name), scores)

    def _queue_purge(self, pipe: Transaction, changes: Changes) -> None:
        """Note which texts' vectors are to be deleted, in the transaction that deletes or replaces the texts.

        An erasure is noted by itself, too: then there is something to purge. The rest waits for that. What was retired
        is not noted: its vectors are gone already, and a purge is for what must not be found.
        """
        texts = {
            part
            for name, (before, after) in changes.documents.items()
            if isinstance(before, Searched) and _is_gone(before, after)
            if after is not None or name not in changes.retired
            for part in chunk(searchable_text(before))
        }
        notes = [*([b""] if changes.erased else []), *map(text_digest, texts)]
        if notes:
            pipe.sadd(self._partition.purge, *notes)

    def _queue_embedding(self, pipe: Transaction, changes: Changes, position: Position) -> None:
        wanted = dict(to_embed(changes, position))
        if wanted:
            pipe.zadd(self.keys.embed_queue, wanted)
        if changes.retired:
            pipe.zrem(self.keys.embed_queue, *changes.retired)


def _is_gone(before: Searched, after: Document | None) -> bool:
    """Whether nothing says any more what a document said. Of those that change, lessons and summaries change texts."""
    if not isinstance(after, Searched):
        return True
    return isinstance(after, Lesson | Summary) and searchable_text(before) != searchable_text(after)


def acknowledge(pipe: Transaction, keys: PartitionKeys, positions: Sequence[Position]) -> None:
    """Queue the acknowledgement of log entries to the consumer group."""
    pipe.xack(keys.log, CONSUMER_GROUP, *map(str, positions))


BATCH = 256
SORTED_AT_ONCE = 10_000


class StoredPlace(NamedTuple):
    """Where a searchable document is in the log; some 200 bytes each are in memory at once."""

    position: Position
    id: DocumentId


async def places(redis: Client, keys: GenerationKeys) -> list[StoredPlace]:
    """All searchable documents, in the order of the log. What is written meanwhile may be among them or not."""
    found: list[StoredPlace] = []
    async for batch in scanned(redis, keys, BATCH):
        found += _searched(await load(redis, keys, batch))
    return await asyncio.to_thread(_in_order, found)


async def scanned(redis: Client, keys: GenerationKeys, batch: int) -> AsyncGenerator[list[DocumentId]]:
    """The ids of all documents, some at a time; a scan may name one twice."""
    for prefix in (keys.doc(""), keys.row("")):
        names: list[DocumentId] = []
        async for raw in redis.scan_iter(match=f"{prefix}*", count=1000):
            names.append(DocumentId(raw.decode().removeprefix(prefix)))
            if len(names) == batch:
                yield names
                names = []
        if names:
            yield names


async def load(redis: Client, keys: GenerationKeys, names: list[DocumentId]) -> list[Document | None]:
    """The documents as they are now, in this order; None for one that is not there."""
    if not names:
        return []
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(key_of(keys, name)) if row_type(name) else pipe.get(key_of(keys, name))
        stored = await pipe.execute()
    return [decode(name, raw) for name, raw in zip(names, stored, strict=True)]


async def are_searched(redis: Client, keys: GenerationKeys, names: Sequence[DocumentId]) -> list[bool]:
    """Whether each of these ids is that of a searchable document now. Reads a byte of each."""
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            if row_type(name):
                pipe.exists(key_of(keys, name))
            else:
                pipe.execute_command("GETRANGE", key_of(keys, name), 0, 0)
        answers: list[bytes | int] = await pipe.execute()
    return [answer in SEARCHED_LETTERS if isinstance(answer, bytes) else bool(answer) for answer in answers]


def _in_order(found: list[StoredPlace]) -> list[StoredPlace]:
    """Sorted, each once, though a scan may name a key twice. By parts: sorting lets no other thread run meanwhile."""
    runs = [sorted(found[start : start + SORTED_AT_ONCE]) for start in range(0, len(found), SORTED_AT_ONCE)]
    return [place for place, _ in groupby(merge(*runs))]


def _searched(documents: list[Document | None]) -> list[StoredPlace]:
    return [
        StoredPlace(Position.parse(document.position or str(START)), DocumentId(document.id))
        for document in documents
        if isinstance(document, Searched)
    ]
