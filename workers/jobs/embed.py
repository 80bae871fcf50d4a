"""arq job: turn queued documents into vectors, a batch at a time, what was kept on purpose first."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.ids import DocumentId
from ingest.log.keys import PartitionKeys
from ingest.log.scripts import finish_embedding
from ingest.platform.connections import Client
from projections.embedding.live import Embedders
from projections.store.feed import Vectors, encode_items
from workers.document_vectors import DocumentVectors, Place

BATCH = 64
"""Documents a round: short enough (about 0.2 s) that a memory never waits long behind observations."""


class _Queued(NamedTuple):
    place: Place
    score: float


class EmbeddingQueue:
    """The embedding queues of some partitions, as one queue in order of priority, then age."""

    def __init__(self, redis: Client, embedders: Embedders, vectors: DocumentVectors) -> None:
        self._redis, self._embedders, self._vectors = redis, embedders, vectors

    async def work(self, partitions: Sequence[int]) -> int:
        """Embed one batch; returns how many documents it took, 0 when the queues are empty.

        A crash leaves the documents queued; embedding twice ends in the same vectors.
        """
        queued = await self._next(partitions)
        if not queued:
            return 0
        embedder = await self._embedders.refresh()  # behind the look at the queue: see EmbeddingRebuild.change_over
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
            _Queued(Place(partition, generation, DocumentId(name.decode())), score)
            for (partition, generation), head in zip(places, heads, strict=True)
            for name, score in head
        ]
        return sorted(found, key=lambda entry: entry.score)[:BATCH]
