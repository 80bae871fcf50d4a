"""arq job: turn queued documents into vectors, a batch at a time, what was kept on purpose first."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingest.connections import Client
from ingest.ids import DocumentId
from ingest.log.keys import EMBEDDING_CACHE_TTL, PartitionKeys, embedding
from ingest.log.scripts import finish_embedding
from projections.documents.codec import decode, key_of, row_type
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.embedding.cache import cache_key, pack
from projections.embedding.chunks import chunk
from projections.embedding.embedder import Embedder
from projections.feed import Vectors, encode_items
from projections.searchable import searchable_text

logger = logging.getLogger(__name__)

BATCH = 64
"""Documents a round: short enough (about 0.2 s) that a memory never waits long behind observations."""

MIN_PART = 8
"""Texts not worth dividing further."""


class _Queued(NamedTuple):
    partition: int
    generation: int
    id: DocumentId
    score: float


class EmbeddingQueue:
    """The embedding queues of some partitions, as one queue in order of priority, then age."""

    def __init__(self, redis: Client, embedder: Embedder, executor: Executor, threads: int) -> None:
        """`executor` has `threads` threads; a batch is divided between them."""
        self._redis, self._embedder, self._executor, self._threads = redis, embedder, executor, threads

    async def work(self, partitions: Sequence[int]) -> int:
        """Embed one batch; returns how many documents it took, 0 when the queues are empty.

        A crash leaves the documents queued; embedding twice ends in the same vectors.
        """
        queued = await self._next(partitions)
        if not queued:
            return 0
        documents = await self._load(queued)
        chunks = [chunk(_text(document)) for document in documents]
        vectors = await self._vectors([text for texts in chunks for text in texts])
        start, items = 0, dict[tuple[int, int], list[Vectors]]()
        for entry, texts in zip(queued, chunks, strict=True):
            rows = b"".join(vectors[start : start + len(texts)])
            start += len(texts)
            if rows:
                item = Vectors(entry.id, self._embedder.model, self._embedder.dimensions, rows)
                items.setdefault((entry.partition, entry.generation), []).append(item)
        for place in {(entry.partition, entry.generation) for entry in queued}:
            keys = PartitionKeys(place[0]).of_generation(place[1])
            done = [(entry.id, entry.score) for entry in queued if (entry.partition, entry.generation) == place]
            await finish_embedding(self._redis, keys, encode_items(items[place]) if place in items else b"", done)
        return len(queued)

    async def _next(self, partitions: Sequence[int]) -> list[_Queued]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition in partitions:
                pipe.get(PartitionKeys(partition).generation)
            generations = [int(raw or 1) for raw in await pipe.execute()]
        places = list(zip(partitions, generations, strict=True))
        async with self._redis.pipeline(transaction=False) as pipe:
            for partition, generation in places:
                queue = PartitionKeys(partition).of_generation(generation).embed_queue
                pipe.zrange(queue, 0, BATCH - 1, withscores=True)
            heads: list[list[tuple[bytes, float]]] = await pipe.execute()
        found = [
            _Queued(partition, generation, DocumentId(name.decode()), score)
            for (partition, generation), head in zip(places, heads, strict=True)
            for name, score in head
        ]
        return sorted(found, key=lambda entry: entry.score)[:BATCH]

    async def _load(self, queued: Sequence[_Queued]) -> list[Document | None]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for entry in queued:
                key = key_of(PartitionKeys(entry.partition).of_generation(entry.generation), entry.id)
                pipe.hgetall(key) if row_type(entry.id) else pipe.get(key)
            stored = await pipe.execute()
        return [decode(entry.id, raw) for entry, raw in zip(queued, stored, strict=True)]

    async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Packed vectors of the texts: from the cache, else computed and cached. No texts or no model: none."""
        if not texts or not self._embedder.dimensions:
            return []
        keys = [embedding(cache_key(self._embedder.model, text)) for text in texts]
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.get(key)
            vectors: list[bytes | None] = await pipe.execute()
        missing = [n for n, vector in enumerate(vectors) if vector is None]
        if missing:
            computed = await self._embed([texts[n] for n in missing])
            async with self._redis.pipeline(transaction=False) as pipe:
                for n, row in zip(missing, computed, strict=True):
                    vectors[n] = packed = pack(np.asarray(row, dtype=np.float32))
                    pipe.set(keys[n], packed, ex=EMBEDDING_CACHE_TTL)
                await pipe.execute()
        return [vector for vector in vectors if vector is not None]

    async def _embed(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """One row a text, in order. Texts of like length go to the same thread, so that little is padding."""
        loop = asyncio.get_running_loop()
        by_length = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        size = max(MIN_PART, -(-len(texts) // self._threads))
        parts = [by_length[start : start + size] for start in range(0, len(texts), size)]
        found: dict[int, NDArray[np.float32]] = {}
        work = [loop.run_in_executor(self._executor, self._embedder.embed, [texts[n] for n in part]) for part in parts]
        for part, rows in zip(parts, await asyncio.gather(*work), strict=True):
            found.update(zip(part, rows, strict=True))
        return [found[n] for n in range(len(texts))]


def _text(document: Document | None) -> str:
    return searchable_text(document) if isinstance(document, Observation | Memory | Lesson) else ""
