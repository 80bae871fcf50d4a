"""Bringing an index in line with the documents of a partition, where the feed does not tell all that it lacks.

So after another generation became live, after the server lost writes that were read, and where no usable snapshot
covers what was trimmed from the feed. The documents are read in the order of the log and compared with the index: what
is the same stays, with its vectors; what differs is replaced; what is no document is removed. The feed is followed
meanwhile, or afterwards, from where it stood at the beginning. What it tells of is newer and is left alone.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys, PartitionKeys, embedding
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.documents.document import Document, Searched, index_entry, searchable_text
from projections.documents.index_entry import IndexEntry
from projections.search.replica import (
    SLICE_S,
    FeedGap,
    FeedPosition,
    IndexReplica,
    InThread,
    apply_steps,
    live_generation,
    newest_id,
    read_feed,
    steps_of,
)
from projections.store.feed import Vectors, queue_place
from projections.store.redis_store import StoredPlace as DocumentLocation
from projections.store.redis_store import load, places
from projections.vectors.embedder import BYTES_PER_DIMENSION, cache_key, chunk

logger = logging.getLogger(__name__)

BATCH = 64
"""Documents read and compared at once."""
NAMES_AT_ONCE = 500
LONGEST_REST_S = 0.1


@dataclass(eq=False)
class Comparison:
    """A comparison that is to be made, or is under way.

    `up_to` is the checkpoint at its beginning: documents behind that come by the feed. `complete` says that the index
    has all that its position covers, as it was before another generation became live; else reads cannot rely on the
    partition until the end. `base` says that the index has documents of it at all.
    """

    why: str
    up_to: Position
    complete: bool = False
    base: bool = False
    changed: set[str] = field(default_factory=set[str])
    """Ids of which the feed has told since the beginning; touched in the index thread only."""
    done: int = 0
    total: int | None = None


class Beginning(NamedTuple):
    """Where the feed of a partition's live generation ends, and a comparison that begins there."""

    at: FeedPosition
    comparison: Comparison


async def begin(redis: Client, partition: int, why: str) -> Beginning:
    """Begin a comparison with the live generation: its feed and its checkpoint as of one moment."""
    while True:
        generation = await live_generation(redis, partition)
        keys = PartitionKeys(partition).of_generation(generation)
        async with redis.pipeline(transaction=True) as pipe:
            pipe.get(PartitionKeys(partition).generation)
            pipe.xrevrange(keys.changes, count=1)
            pipe.mget(keys.trimmed, keys.checkpoint)
            live, rows, (trimmed, checkpoint) = await pipe.execute()
        if int(live or 1) == generation:
            break
    up_to = Position.parse(checkpoint) if checkpoint else START
    at = FeedPosition(generation=generation, feed=newest_id(rows, trimmed), covers=str(up_to))
    return Beginning(at, Comparison(why, up_to))


async def compare(
    redis: Client,
    index: IndexReplica,
    partition: int,
    generation: int,
    comparison: Comparison,
    in_thread: InThread,
    *,
    queue: bool = True,
) -> None:
    """Bring the index in line with the documents. Doing it again, from the beginning, does no harm.

    Missing vectors come from the cache; with `queue`, texts that are not there are queued to be embedded.
    """
    keys = PartitionKeys(partition).of_generation(generation)
    found = await places(redis, keys)
    known, wanted, rank = await asyncio.to_thread(_plan, found, comparison.up_to)
    comparison.done, comparison.total = 0, len(wanted)
    work = _Work(redis, keys, index, partition, comparison, in_thread, queue)
    inserted: list[str] = []
    for start in range(0, len(wanted), BATCH):
        began = time.monotonic()
        inserted += await work.put(wanted[start : start + BATCH])
        comparison.done += len(wanted[start : start + BATCH])
        if comparison.complete:  # nobody waits for it, so it takes half of a processor at most
            await asyncio.sleep(min(LONGEST_REST_S, time.monotonic() - began))
    inserted += await work.remove_others(known)
    await work.sort_episodes(inserted, rank)
    logger.info("index: partition %d was compared with %d documents, %d were new", partition, len(found), len(inserted))


async def catch_up(
    redis: Client,
    index: IndexReplica,
    partition: int,
    at: FeedPosition,
    in_thread: InThread,
    goal: FeedPosition | None = None,
    *,
    queue: bool = True,
) -> FeedPosition:
    """Apply what a partition's feed holds behind `at`, in its live generation, to its end or to `goal` at least.

    Returns how far that was. For an index that is not followed yet: where the feed does not tell all, the documents do.
    """
    live = await live_generation(redis, partition)
    if at.generation != live:
        why = f"generation {live} is live, and the index is of generation {at.generation}"
        at = await _from_documents(redis, index, partition, in_thread, why, queue=queue)
    while goal is None or at.generation != goal.generation or Position.parse(at.feed) < Position.parse(goal.feed):
        try:
            read = await read_feed(redis, partition, at, None)
        except FeedGap as error:
            at = await _from_documents(redis, index, partition, in_thread, str(error), queue=queue)
            continue
        if not read.entries:
            break
        at, steps = read.then, steps_of(read.entries)
        while steps:
            switched = await in_thread(apply_steps, index, partition, steps)
            if switched is not None:
                why = f"generation {switched.generation} became live"
                at = await _from_documents(redis, index, partition, in_thread, why, queue=queue)
    return at


async def _from_documents(
    redis: Client, index: IndexReplica, partition: int, in_thread: InThread, why: str, *, queue: bool
) -> FeedPosition:
    logger.info("index: partition %d is compared with its documents: %s", partition, why)
    at, comparison = await begin(redis, partition, why)
    await compare(redis, index, partition, at.generation, comparison, in_thread, queue=queue)
    return at


class _Work(NamedTuple):
    """One comparison at work."""

    redis: Client
    keys: GenerationKeys
    replica: IndexReplica
    partition: int
    comparison: Comparison
    in_thread: InThread
    queue: bool

    async def put(self, batch: Sequence[DocumentLocation]) -> list[str]:
        """Put documents as they are now, with vectors as far as they are cached; returns the ids of new ones."""
        documents = await load(self.redis, self.keys, [place.id for place in batch])
        entries = await asyncio.to_thread(_entries, documents)
        done = await self.in_thread(self.replica.put_unless, self.partition, entries, self.comparison.changed)
        if done.without_vectors and self.replica.vectors.dimensions:
            await self._give_vectors(documents, {entry.id: entry for entry in entries}, done.without_vectors)
        return done.inserted

    async def remove_others(self, known: set[str]) -> list[str]:
        """Remove what is no document any more. One that the scan has missed is put; returns the ids of those."""
        others: list[str] = await self.in_thread(self.replica.names_beyond, self.partition, known)
        inserted: list[str] = []
        for start in range(0, len(others), NAMES_AT_ONCE):
            if await live_generation(self.redis, self.partition) != self.keys.generation:
                break  # its documents may be deleted by now; those of the next one are compared soon
            names = [DocumentId(name) for name in others[start : start + NAMES_AT_ONCE]]
            documents = await load(self.redis, self.keys, names)
            gone = [name for name, one in zip(names, documents, strict=True) if index_entry(one) is None]
            await self.in_thread(self.replica.remove_unless, gone, self.comparison.changed)
            missed = [document for document in documents if isinstance(document, Searched)]
            at = [DocumentLocation(Position.parse(one.position or str(START)), DocumentId(one.id)) for one in missed]
            inserted += await self.put([place for place in at if place.position <= self.comparison.up_to])
        return inserted

    async def sort_episodes(self, inserted: Sequence[str], rank: Mapping[str, int]) -> None:
        """Put the new ones where they belong in their episodes: the feed may have told of later ones before."""
        sorted_before: set[int] = set()
        for start in range(0, len(inserted), NAMES_AT_ONCE):
            names = inserted[start : start + NAMES_AT_ONCE]
            await self.in_thread(self.replica.sort_episodes, names, rank, sorted_before)

    async def _give_vectors(
        self,
        documents: Sequence[Document | None],
        entries: Mapping[str, IndexEntry],
        missing: Sequence[str],
    ) -> None:
        wanted = set(missing)
        found = await cached_vectors(
            self.redis,
            self.replica.model,
            self.replica.vectors.dimensions,
            [document for document in documents if document is not None and document.id in wanted],
        )
        items = deque((entries[item.id].terms, item) for item in found.items)
        while items:
            await self.in_thread(_give_some, self.replica, items)
        if self.queue:
            await queue_to_embed(self.redis, self.keys, documents, found.missing)


class Cached(NamedTuple):
    """Vectors that are in the cache, and the ids of documents whose are not; one without text is in neither."""

    items: list[Vectors]
    missing: set[str]


async def cached_vectors(redis: Client, model: str, dimensions: int, documents: Sequence[Document]) -> Cached:
    """What the cache has of the vectors of documents."""
    if not dimensions:
        return Cached([], set())
    texts = await asyncio.to_thread(_texts, documents)
    keys = [embedding(cache_key(model, text)) for parts in texts.values() for text in parts]
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.get(key)
        rows = iter(await pipe.execute() if keys else [])
    size, found = dimensions * BYTES_PER_DIMENSION, Cached([], set())
    for name, parts in texts.items():
        cached: list[bytes] = [row for _ in parts if len(row := next(rows) or b"") == size]
        if len(cached) == len(parts):
            found.items.append(Vectors(name, model, dimensions, b"".join(cached)))
        else:
            found.missing.add(name)
    return found


async def queue_to_embed(
    redis: Client,
    keys: GenerationKeys,
    documents: Sequence[Document | None],
    names: set[str],
) -> None:
    """Queue documents to be embedded, where they are not: then their vectors come by the feed, behind this moment."""
    scores = {
        document.id: queue_place(document)
        for document in documents
        if isinstance(document, Searched) and document.id in names
    }
    if scores and await live_generation(redis, keys.partition) == keys.generation:
        await redis.zadd(keys.embed_queue, scores, nx=True)


def _give_some(index: IndexReplica, items: deque[tuple[str, Vectors]]) -> None:
    """Give vectors to documents and take them off, for SLICE_S: then searches have their turn."""
    until = time.monotonic() + SLICE_S
    while items and time.monotonic() < until:
        index.give_vectors(*items.popleft())


def _plan(
    found: Sequence[DocumentLocation], up_to: Position
) -> tuple[set[str], list[DocumentLocation], dict[str, int]]:
    """The ids of all that was found; what of it is up to a position; the order of that, by id."""
    wanted = [place for place in found if place.position <= up_to]
    return {place.id for place in found}, wanted, {place.id: rank for rank, place in enumerate(wanted)}


def _entries(documents: Sequence[Document | None]) -> list[IndexEntry]:
    return [entry for document in documents if (entry := index_entry(document)) is not None]


def _texts(documents: Sequence[Document]) -> dict[str, list[str]]:
    """The parts of each document's text that get a vector each; none for one without text."""
    texts = {document.id: chunk(searchable_text(document)) for document in documents if isinstance(document, Searched)}
    return {name: parts for name, parts in texts.items() if parts}
