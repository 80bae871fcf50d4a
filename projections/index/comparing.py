"""Synchronizes an index with a partition's documents if the feed no longer has everything that the index lacks.

That is so after another generation became live, after the server lost writes that were read, and where no usable
snapshot covers what was trimmed from the feed. The documents are read in log order and compared with the index: equal
ones stay, with their vectors, different ones are replaced, and what is no longer a document is removed. The feed is
followed at the same time, or afterward, from its position at the beginning. What it changes is newer and left alone.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys, PartitionKeys, embedding
from ingest.log.position import Position, stored_position
from ingest.platform.connections import Client
from projections.index.replica import (
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
from projections.nouns.document import Document, Searched, index_entry, searchable_text
from projections.nouns.index_entry import IndexEntry
from projections.store.feed import Vectors, queue_place
from projections.store.redis_store import StoredPlace as DocumentLocation
from projections.store.redis_store import load, places
from projections.vectors.embedder import BYTES_PER_DIMENSION, cache_key, chunk

logger = logging.getLogger(__name__)

BATCH = 64
"""Documents read and compared at once."""
NAMES_AT_ONCE = 500
LONGEST_REST_S = 0.1

T = TypeVar("T")


def differences(expected: Mapping[str, T], actual: Mapping[str, T]) -> list[tuple[str, T | None, T | None]]:
    """Each name whose values (digests, documents, counts) differ, with both of them; None for a side that lacks it.

    In the order of the expected side; names that only the actual side has come last.
    """
    return [
        (name, expected.get(name), actual.get(name))
        for name in {**expected, **actual}
        if expected.get(name) != actual.get(name)
    ]


@dataclass(eq=False)
class Comparison:
    """A comparison that is pending or under way.

    `up_to` is the checkpoint at its beginning: documents after that come by the feed. `complete` says that the index
    has all that its position covers, as before another generation became live; else reads cannot rely on the partition
    until the end. `base` says that the index has any documents of it.
    """

    why: str
    up_to: Position
    complete: bool = False
    base: bool = False
    changed: set[str] = field(default_factory=set[str])
    """Ids that the feed has changed since the beginning; touched in the index thread only."""
    done: int = 0


async def begin(redis: Client, partition: int, why: str) -> tuple[FeedPosition, Comparison]:
    """The end of the live generation's feed, and a comparison that begins there, as of one moment."""
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
    up_to = stored_position(checkpoint)
    at = FeedPosition(generation=generation, feed=newest_id(rows, trimmed), covers=str(up_to))
    return at, Comparison(why, up_to)


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
    located = await places(redis, keys)

    def plan() -> tuple[list[DocumentLocation], set[str], dict[str, int]]:
        covered = [place for place in located if place.position <= comparison.up_to]
        return covered, {place.id for place in located}, {place.id: rank for rank, place in enumerate(covered)}

    covered, existing, rank = await asyncio.to_thread(plan)
    comparison.done = 0
    work = _Work(redis, keys, index, partition, comparison, in_thread, queue)
    inserted: list[str] = []
    for start in range(0, len(covered), BATCH):
        began = time.monotonic()
        batch = covered[start : start + BATCH]
        inserted += await work.put([place.id for place in batch])
        comparison.done += len(batch)
        if comparison.complete:  # no read waits for it, so it takes half of a processor at most
            await asyncio.sleep(min(LONGEST_REST_S, time.monotonic() - began))
    inserted += await work.remove_others(existing)
    # new documents go where they belong in their episodes: the feed may have had later ones before
    sorted_before: set[int] = set()
    for start in range(0, len(inserted), NAMES_AT_ONCE):
        await in_thread(index.sort_episodes, inserted[start : start + NAMES_AT_ONCE], rank, sorted_before)
    count = len(located)
    logger.info("index: compared partition %d with %d documents; %d were new", partition, count, len(inserted))


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
    """Apply a partition's feed after `at`, in its live generation, to its end or to `goal` at least.

    Returns the position reached. For an index that is not followed yet: where the feed has a gap, it reads the
    documents.
    """

    async def from_documents(why: str) -> FeedPosition:
        logger.info("index: comparing partition %d with its documents: %s", partition, why)
        at, comparison = await begin(redis, partition, why)
        await compare(redis, index, partition, at.generation, comparison, in_thread, queue=queue)
        return at

    live = await live_generation(redis, partition)
    if at.generation != live:
        at = await from_documents(f"generation {live} is live, but the index has generation {at.generation}")
    while goal is None or at.generation != goal.generation or Position.parse(at.feed) < Position.parse(goal.feed):
        try:
            read = await read_feed(redis, partition, at, None)
        except FeedGap as error:
            at = await from_documents(str(error))
            continue
        if not read.entries:
            break
        at, steps = read.then, steps_of(read.entries)
        while steps:
            switched = await in_thread(apply_steps, index, partition, steps)
            if switched is not None:
                at = await from_documents(f"generation {switched.generation} became live")
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

    async def put(self, names: Sequence[DocumentId]) -> list[str]:
        """Put documents as they are now, with vectors as far as they are cached; returns the ids of new ones."""
        documents = await load(self.redis, self.keys, list(names))
        entries = await asyncio.to_thread(lambda: [entry for entry in map(index_entry, documents) if entry is not None])
        done = await self.in_thread(self.replica.put_unless, self.partition, entries, self.comparison.changed)
        if done.without_vectors and self.replica.vectors.dimensions:
            await self._give_vectors(documents, {entry.id: entry for entry in entries}, set(done.without_vectors))
        return done.inserted

    async def remove_others(self, existing: set[str]) -> list[str]:
        """Remove what is no longer a document. One that the scan has missed is put; returns the ids of those."""
        others: list[str] = await self.in_thread(self.replica.names_beyond, self.partition, existing)
        inserted: list[str] = []
        for start in range(0, len(others), NAMES_AT_ONCE):
            if await live_generation(self.redis, self.partition) != self.keys.generation:
                break  # its documents may be deleted by now; those of the next one are compared soon
            names = [DocumentId(name) for name in others[start : start + NAMES_AT_ONCE]]
            documents = await load(self.redis, self.keys, names)
            gone = [name for name, row in zip(names, documents, strict=True) if index_entry(row) is None]
            await self.in_thread(self.replica.remove_unless, gone, self.comparison.changed)
            missed = [document for document in documents if isinstance(document, Searched)]
            up_to = self.comparison.up_to
            covered = [row.id for row in missed if stored_position(row.position) <= up_to]
            inserted += await self.put([DocumentId(name) for name in covered])
        return inserted

    async def _give_vectors(
        self, documents: Sequence[Document | None], entries: Mapping[str, IndexEntry], missing: set[str]
    ) -> None:
        without = [document for document in documents if document is not None and document.id in missing]
        cached = await cached_vectors(self.redis, self.replica.model, self.replica.vectors.dimensions, without)
        items = deque((entries[item.id].terms, item) for item in cached.items)

        def give_some() -> None:
            # for SLICE_S, then searches have their turn
            until = time.monotonic() + SLICE_S
            while items and time.monotonic() < until:
                self.replica.give_vectors(*items.popleft())

        while items:
            await self.in_thread(give_some)
        if self.queue:
            await queue_to_embed(self.redis, self.keys, documents, cached.missing)


class Cached(NamedTuple):
    """Vectors that are in the cache, and the ids of documents whose are not; one without text is in neither."""

    items: list[Vectors]
    missing: set[str]


async def cached_vectors(redis: Client, model: str, dimensions: int, documents: Sequence[Document]) -> Cached:
    """The cached vectors of documents."""
    if not dimensions:
        return Cached([], set())

    def chunks() -> dict[str, list[str]]:
        texts = {row.id: chunk(searchable_text(row)) for row in documents if isinstance(row, Searched)}
        return {name: parts for name, parts in texts.items() if parts}

    texts = await asyncio.to_thread(chunks)
    keys = [embedding(cache_key(model, text)) for parts in texts.values() for text in parts]
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.get(key)
        rows = iter(await pipe.execute() if keys else [])
    size, cached = dimensions * BYTES_PER_DIMENSION, Cached([], set())
    for name, parts in texts.items():
        vectors: list[bytes] = [row for _ in parts if len(row := (next(rows) or b"")[:size]) == size]
        if len(vectors) == len(parts):
            cached.items.append(Vectors(name, model, dimensions, b"".join(vectors)))
        else:
            cached.missing.add(name)
    return cached


async def queue_to_embed(
    redis: Client, keys: GenerationKeys, documents: Sequence[Document | None], names: set[str]
) -> None:
    """Queue documents to be embedded that are not queued: then their vectors come by the feed, after this moment."""
    scores = {row.id: queue_place(row) for row in documents if isinstance(row, Searched) and row.id in names}
    if scores and await live_generation(redis, keys.partition) == keys.generation:
        await redis.zadd(keys.embed_queue, scores, nx=True)
