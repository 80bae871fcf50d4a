"""Documents get their vectors: in which order, once for each text, and again after a crash."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
from embedding import embedding_queue
from factories import place, remembered
from msgspec.structs import replace
from numpy.typing import NDArray
from replay_compare import cosines, stored, without_vectors
from replica_pen import PARTITIONS, HashEmbedder, OpenReplica, Pen, drain

from ingest.commands.decide import RecordLesson
from ingest.log.keys import PartitionKeys
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client
from projections.documents.document import searchable_text
from projections.documents.memories import Memory
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.folds.fold import Changes, DocumentChange
from projections.store.protocol import project
from projections.store.redis_store import RedisStore
from projections.vectors.embedder import Embedder, FixedEmbedder


async def queued(redis: Client, generation: int = 1) -> dict[str, float]:
    results: dict[str, float] = {}
    for number in range(PARTITIONS):
        key = PartitionKeys(number).of_generation(generation).embed_queue
        results |= {name.decode(): score for name, score in await redis.zrange(key, 0, -1, withscores=True)}
    return results


async def test_what_was_kept_on_purpose_is_embedded_first(
    pen: Pen, queue: EmbeddingQueue, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
):
    """Whatever came first, and across partitions; then the newest first."""
    monkeypatch.setattr("projections.embedding.embed_job.BATCH", 1)
    for n in range(3):
        await pen.observe(f"observation {n}", f"s{n}")
        await asyncio.sleep(0.002)
    await pen.remember("memory 1", "p1")
    await asyncio.sleep(0.002)
    await pen.remember("memory 2 of another kind", "p2")
    await asyncio.sleep(0.002)
    await pen.say(RecordLesson(content="lesson 1", project="p3"))
    await pen.project(batch=1)
    await drain(queue)
    assert embedder.asked == [
        "lesson 1", "memory 2 of another kind", "memory 1", "observation 2", "observation 1", "observation 0",
    ]  # fmt: skip


async def test_every_document_gets_its_own_vector(
    pen: Pen, queue: EmbeddingQueue, redis: Client, open_replica: OpenReplica
):
    """However the batch was divided between threads."""
    await pen.write_some(40)
    await pen.project()
    assert await drain(queue) == 40 + 40 + 7
    assert await queued(redis) == {}
    texts = {
        str(name): searchable_text(document)  # pyright: ignore[reportArgumentType]
        for number in range(PARTITIONS)
        for name, document in (await stored(redis, number)).documents.items()
        if name.startswith(("obs_", "mem_", "lsn_"))
    }
    probe = HashEmbedder.vector("probe")
    async with open_replica("a") as replica:
        vectors = await replica.in_index_thread(cosines, replica.index, probe)
    expected = {name: float(HashEmbedder.vector(text) @ probe) for name, text in texts.items()}
    assert vectors.keys() == expected.keys()
    assert all(abs(vectors[name] - expected[name]) < 2e-3 for name in vectors)


async def test_a_long_document_has_a_vector_for_each_part(pen: Pen, queue: EmbeddingQueue, open_replica: OpenReplica):
    late = "the password of the harbour office is swordfish."
    words = " ".join(f"word{n} and so on." for n in range(400))
    accepted = await pen.remember(f"{words} {late}")
    await pen.project()
    assert await drain(queue) == 1
    async with open_replica("a") as replica:
        index = replica.index
        assert len(index.vectors._matrix) > 3  # pyright: ignore[reportPrivateUsage]
        assert await replica.in_index_thread(without_vectors, index) == set()
    assert accepted.id


async def test_a_repeated_text_costs_no_second_model_call(pen: Pen, queue: EmbeddingQueue, embedder: HashEmbedder):
    await pen.observe("the build failed", "s1")
    await pen.project()
    await drain(queue)
    assert embedder.asked == ["the build failed"]
    await pen.observe("the build failed", "s2")
    await pen.observe("the build failed", "s1")
    await pen.project()
    assert await drain(queue) == 2
    assert embedder.asked == ["the build failed"]


async def test_a_document_whose_text_changed_meanwhile_stays_queued(
    redis: Client, embedder: HashEmbedder, open_replica: OpenReplica
):
    """The old text was being embedded when the new one came: the new one's vector must still follow."""
    keys = PartitionKeys(0)
    store = RedisStore(redis, keys, 1, await acquire_lease(redis, keys, "pen", 60_000))
    event = remembered(1, "green tea")
    changes = await project(store, [event])
    await store.save(changes, event.position)
    (name,) = changes.documents
    started = asyncio.Event()
    go_on = asyncio.Event()

    class Slow(DocumentVectors):
        async def _vectors(self, embedder: Embedder, texts: Sequence[str], cached: timedelta) -> list[bytes]:
            vectors = await super()._vectors(embedder, texts, cached)
            started.set()
            await go_on.wait()
            return vectors

    with ThreadPoolExecutor(1) as executor:
        queue = EmbeddingQueue(redis, FixedEmbedder(embedder), Slow(redis, executor))
        work = asyncio.create_task(queue.work([0]))
        await started.wait()
        before = (await store.load([name]))[name]
        assert isinstance(before, Memory)
        later = place(2)
        changes = Changes({name: DocumentChange(before, replace(before, content="black coffee"))}, {})
        await store.save(changes, later)
        go_on.set()
        assert await work == 1
        assert await queued(redis) != {}
        assert await queue.work([0]) == 1
        assert await queued(redis) == {}
    probe = HashEmbedder.vector("probe")
    async with open_replica("a") as replica:
        vectors = await replica.in_index_thread(cosines, replica.index, probe)
    assert vectors[name] == pytest.approx(float(HashEmbedder.vector("black coffee") @ probe), abs=2e-3)


async def test_a_forgotten_document_leaves_the_queue_without_a_model_call(
    pen: Pen, queue: EmbeddingQueue, embedder: HashEmbedder, redis: Client
):
    accepted = await pen.remember("a secret")
    await pen.project()
    await pen.forget(accepted.id)
    await pen.project()
    await drain(queue)
    assert await queued(redis) == {}
    assert embedder.asked == []


async def test_a_crash_while_embedding_leaves_the_documents_queued(pen: Pen, redis: Client, embedder: HashEmbedder):
    await pen.write_some(3)
    await pen.project()
    before = await queued(redis)

    class Broken(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            raise RuntimeError("out of memory")

    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(RuntimeError):
            await embedding_queue(redis, Broken(), executor).work(range(PARTITIONS))
        assert await queued(redis) == before != {}
        await drain(embedding_queue(redis, embedder, executor))
    assert await queued(redis) == {}
