"""arq job: turns queued documents into vectors, a batch at a time, in the order of `projections.vectors.embedder`.

Vectors come from the cache, else they are computed in threads and cached.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from redis.exceptions import ResponseError, WatchError

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import EMBEDDING_CACHE_TTL, GenerationKeys, PartitionKeys, embedding
from ingest.log.position import Position
from ingest.log.scripts import bound_embed_queues, finish_embedding
from ingest.nouns.registry import decode as decode_event
from ingest.platform.connections import Client
from ingest.platform.partial import UNREACHABLE
from ingest.platform.processes import give_back
from ingest.platform.redis_client import is_out_of_memory
from ingest.platform.tasks import end
from projections.index.comparing import cached_vectors, queue_to_embed
from projections.nouns.document import Document, Searched, decode, queue_read, searchable_text
from projections.nouns.fold import documents_of
from projections.store.feed import Vectors, encode_items
from projections.store.redis_store import load
from projections.vectors.embedder import BYTES_PER_DIMENSION, Embedder, Embedders, cache_key, chunk, pack

logger = logging.getLogger(__name__)

SLICE_S = 20.0
LOOK_AGAIN_S = 5.0
"""How often queues are checked without a signal, and after the log's server was full."""
BATCH = 64
"""Documents a round: short enough (about a second) that a memory never waits long after observations."""
ROUNDS = 2
"""Rounds at a time: the threads have texts of one while the other is read, cached or published."""
LATER_AT_ONCE = 4 * BATCH
"""Log entries that are read together for postponed documents."""
NOTE = ["count", "low", "high", "before"]
"""Of postponed documents: how many, from when to when in the log (ms), and before which position to continue."""
PART_CHARACTERS = 1_000
"""Of the texts of a thread at once: what some 250 tokens take in a run stays in the processor's cache."""


class DocumentLocation(NamedTuple):
    """Where a document is."""

    partition: int
    generation: int
    id: DocumentId


@dataclass
class DocumentVectors:
    """Makes vectors of documents as they are now.

    The threads of `executor` share the texts. Vectors are `cached` for so long.
    """

    _redis: Client
    _executor: Executor
    _cached: timedelta = EMBEDDING_CACHE_TTL

    async def of(
        self, embedder: Embedder, places: Sequence[DocumentLocation], cached: timedelta = timedelta(0)
    ) -> list[bytes]:
        """The vectors of each document, one a chunk, packed; nothing for one without text, or that has changed.

        Vectors are cached for at least `cached`; those of changed texts are removed from the cache.
        """
        if not embedder.dimensions:
            return [b""] * len(places)
        texts = await self._texts(places)
        chunks = [chunk(text) for text in texts]
        vectors = iter(await self._vectors(embedder, [*chain.from_iterable(chunks)], max(cached, self._cached)))
        # a purge cannot delete what is cached after it: what was deleted until now leaves the cache here, and a later
        # purge finds the rest there
        now = await self._texts(places)
        changed = [n for n, (old, new) in enumerate(zip(texts, now, strict=True)) if old != new]
        if keys := [embedding(cache_key(embedder.model, text)) for n in changed for text in chunks[n]]:
            await self._redis.unlink(*keys)
        packed = [b"".join(islice(vectors, len(parts))) for parts in chunks]
        gone = {places[n].id for n in changed}
        return [b"" if place.id in gone else rows for place, rows in zip(places, packed, strict=True)]

    async def _texts(self, places: Sequence[DocumentLocation]) -> list[str]:
        documents = await self.documents(places)
        return [searchable_text(row) if isinstance(row, Searched) else "" for row in documents]

    async def documents(self, places: Sequence[DocumentLocation]) -> list[Document | None]:
        """The documents as they are now; None for one that is not there."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for place in places:
                queue_read(pipe, PartitionKeys(place.partition).of_generation(place.generation), place.id)
            stored = await pipe.execute()
        return [decode(place.id, raw) for place, raw in zip(places, stored, strict=True)]

    async def _vectors(self, embedder: Embedder, texts: Sequence[str], cached: timedelta) -> list[bytes]:
        """Packed vectors of the texts: from the cache, else computed and cached. Empty without texts or a model."""
        if not texts or not embedder.dimensions:
            return []
        keys = [embedding(cache_key(embedder.model, text)) for text in texts]
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.get(key)
            vectors: list[bytes | None] = [_unless_away(answer) for answer in await pipe.execute(raise_on_error=False)]
        missing = [n for n, vector in enumerate(vectors) if vector is None]
        if missing:
            # the threads take parts of texts of similar length, so that there is little padding
            loop = asyncio.get_running_loop()
            parts = [[missing[number] for number in part] for part in parts_of([len(texts[n]) for n in missing])]
            work = [loop.run_in_executor(self._executor, embedder.embed, [texts[n] for n in part]) for part in parts]
            computed = await asyncio.gather(*work)
            async with self._redis.pipeline(transaction=False) as pipe:
                for part, rows in zip(parts, computed, strict=True):
                    for n, row in zip(part, rows, strict=True):
                        vectors[n] = packed = pack(np.asarray(row, dtype=np.float32))
                        pipe.set(keys[n], packed, ex=cached)
                for answer in await pipe.execute(raise_on_error=False):
                    _unless_away(answer)
        # cut, because earlier releases cached vectors of tokens after that of the text
        size = BYTES_PER_DIMENSION * embedder.dimensions
        return [vector[:size] for vector in vectors if vector is not None]


def parts_of(lengths: Sequence[int]) -> list[list[int]]:
    """Numbers of texts in parts of up to PART_CHARACTERS, of like length each, the longest first.

    A part is at most as long as its longest text for each of its texts. A longer text is a part of its own.
    """
    parts: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if parts and (len(parts[-1]) + 1) * lengths[parts[-1][0]] <= PART_CHARACTERS:
            parts[-1].append(number)
        else:
            parts.append([number])
    return parts


def _unless_away(answer: Any) -> Any:
    """An answer; None where the node of a cluster that has it is away. Raises any other error."""
    if isinstance(answer, UNREACHABLE):
        return None
    if isinstance(answer, Exception):
        raise answer
    return answer


async def live_keys(redis: Client, partitions: Sequence[int]) -> list[GenerationKeys]:
    """The keys of the live generations, of the partitions whose node answers."""
    async with redis.pipeline(transaction=False) as pipe:
        for partition in partitions:
            pipe.get(PartitionKeys(partition).generation)
        generations = await pipe.execute(raise_on_error=False)
    return [
        PartitionKeys(partition).of_generation(int(_unless_away(raw) or 1))
        for partition, raw in zip(partitions, generations, strict=True)
        if not isinstance(raw, UNREACHABLE)
    ]


def _readable(entries: Sequence[Stored]) -> Iterator[Recorded]:
    """The events of log entries; without those that this release cannot read, which made no documents."""
    for entry in entries:
        with suppress(UnreadableEvent):
            yield decode_event(entry.payload, entry.position)


class _Queued(NamedTuple):
    place: DocumentLocation
    score: float


@dataclass
class EmbeddingQueue:
    """The embedding queues of some partitions, as one queue."""

    _redis: Client
    _embedders: Embedders
    _vectors: DocumentVectors

    def __post_init__(self) -> None:
        self._in_progress = set[DocumentLocation]()

    async def work(self, partitions: Sequence[int]) -> int:
        """Embed one batch; returns how many documents it took, 0 when there are none that no other call has taken.

        A crash leaves the documents queued; embedding twice ends in the same vectors. On a cluster, those on a
        node that is away wait for it, and vectors cached there are made again.
        """
        queued = await self._next(partitions)
        if not queued:
            return 0
        taken = {entry.place for entry in queued}
        self._in_progress |= taken
        try:
            await self._embed(queued)
        finally:
            self._in_progress -= taken
        return len(queued)

    async def _embed(self, queued: Sequence[_Queued]) -> None:
        """Publish vectors of these documents, and take them off their queues."""
        embedder = await self._embedders.refresh()  # after reading the queue: see EmbeddingRebuild.change_over
        vectors = await self._vectors.of(embedder, [entry.place for entry in queued])
        items = dict[tuple[int, int], list[Vectors]]()
        done = dict[tuple[int, int], list[tuple[DocumentId, float]]]()
        for (place, score), rows in zip(queued, vectors, strict=True):
            where = place.partition, place.generation
            done.setdefault(where, []).append((place.id, score))
            if rows:
                items.setdefault(where, []).append(Vectors(place.id, embedder.model, embedder.dimensions, rows))
        for where, taken in done.items():
            keys = PartitionKeys(where[0]).of_generation(where[1])
            await finish_embedding(self._redis, keys, encode_items(items[where]) if where in items else b"", taken)

    async def _next(self, partitions: Sequence[int]) -> list[_Queued]:
        live = await live_keys(self._redis, partitions)
        async with self._redis.pipeline(transaction=False) as pipe:
            for keys in live:
                pipe.zrange(keys.embed_queue, 0, BATCH + len(self._in_progress) - 1, withscores=True)
            answers = await pipe.execute(raise_on_error=False)
        heads: list[list[tuple[bytes, float]]] = [_unless_away(answer) or [] for answer in answers]
        queued = [
            _Queued(DocumentLocation(keys.partition, keys.generation, DocumentId(name.decode())), score)
            for keys, head in zip(live, heads, strict=True)
            for name, score in head
        ]
        free = [entry for entry in queued if entry.place not in self._in_progress]
        return sorted(free, key=lambda entry: entry.score)[:BATCH]


@dataclass
class LaterTexts:
    """What does not fit into the embedding queues: each has `most` documents at most, the most urgent ones.

    The others are found by their static vectors until they are queued, when there is nothing else to do. The log has
    them: a note of the partition has their range. So the note is small, however many are postponed.
    """

    _redis: Client
    _log: EventLog
    _embedders: Embedders
    _most: int

    async def put_off(self, partitions: Sequence[int]) -> None:
        """Remove what is too much from the queues, as runners do. Comparisons and rebuilds queue everything."""
        await bound_embed_queues(self._redis, await live_keys(self._redis, partitions), self._most)

    async def queue_some(self, partitions: Sequence[int]) -> bool:
        """Queue some of what was postponed, the newest first; false without any.

        After a crash, or when more is postponed, a part of the log is read again; what has vectors in the cache by then
        is not queued.
        """
        some = False
        for keys in await live_keys(self._redis, partitions):
            note: list[bytes | None] = await self._redis.hmget(keys.embed_later, NOTE)
            if note[0] is not None:
                await self._queue_some(keys, note)
                some = True
        return some

    async def _queue_some(self, keys: GenerationKeys, note: list[bytes | None]) -> None:
        count, low, high = (int(value or 0) for value in note[:3])
        before = Position.parse(note[3]) if note[3] else Position(high + 1, 0)
        entries = await self._log.read_back(keys.partition, before, LATER_AT_ONCE)
        recent = [entry for entry in entries if entry.position.ms >= low]
        rows = await load(self._redis, keys, sorted(documents_of(_readable(recent))))
        documents = [row for row in rows if isinstance(row, Searched)]
        embedder = await self._embedders.refresh()
        missing = (await cached_vectors(self._redis, embedder.model, embedder.dimensions, documents)).missing
        await queue_to_embed(self._redis, keys, documents, missing)
        async with self._redis.pipeline(transaction=True) as pipe:
            # watched: a runner may postpone more between the read of the note and its deletion
            await pipe.watch(keys.embed_later)
            if await pipe.hmget(keys.embed_later, NOTE) != note:
                return  # more was postponed in between, which is newer
            pipe.multi()
            if len(recent) < LATER_AT_ONCE:
                pipe.delete(keys.embed_later)
            else:
                left = max(1, count - len(missing))
                pipe.hset(keys.embed_later, mapping={"count": left, "before": str(recent[-1].position)})
            with suppress(WatchError):
                await pipe.execute()


@dataclass
class EmbedJob:
    """Embeds what is queued; `go_first` lets more urgent work of this process go first."""

    _queue: EmbeddingQueue
    _later: LaterTexts
    _go_first: Callable[[], Awaitable[None]]

    async def run(self, partitions: list[int]) -> int:
        """Embed until the partitions' queues are empty or the slice is over; returns how many documents it took."""
        until = asyncio.get_running_loop().time() + SLICE_S
        await self._later.put_off(partitions)
        rounds = [asyncio.create_task(self._rounds(partitions, until)) for _ in range(ROUNDS)]
        try:
            return sum(await asyncio.gather(*rounds))
        finally:
            await end(*rounds)
            await asyncio.to_thread(give_back)  # each thread has memory of its own, which fills with what is free

    async def _rounds(self, partitions: list[int], until: float) -> int:
        done = 0
        while asyncio.get_running_loop().time() < until:
            await self._go_first()
            try:
                embedded = await self._queue.work(partitions)
            except ResponseError as error:
                if not is_out_of_memory(error):
                    raise
                logger.warning("embedding is paused: Redis is at its maxmemory")
                await asyncio.sleep(LOOK_AGAIN_S)
                break
            done += embedded
            if not embedded and not await self._later.queue_some(partitions):
                break
        return done
