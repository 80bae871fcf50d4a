"""Rebuilding the documents of a partition: replicas and readers move to the next generation.

Documents get their vectors: in which order, once for each text, and again after a crash.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta

import numpy as np
import pytest
from factories import place, remembered
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from msgspec.structs import replace
from numpy.typing import NDArray
from rebuilding import rebuild
from replay_compare import assert_equals_replay, cosines, differences, of_store, replay, stored, without_vectors
from replica_pen import PARTITIONS, OpenReplica, Pen, assert_same, drain, held_up, ids, wait_for_own_writes
from servers import Server
from waiting import wait_until
from workshop import embedding_queue

from ingest.commands.decide import RecordLesson
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client, connect
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.index import comparing as comparing_module
from projections.index import following as following_module
from projections.index.replica import end_of_feed
from projections.nouns.document import searchable_text
from projections.nouns.fold import Changes, DocumentChange
from projections.nouns.memory import Memory
from projections.queries.documents import DocumentReader
from projections.rebuilding import documents as rebuild_module
from projections.rebuilding.documents import clean_up, fill, switch
from projections.store.dead_letters import PartitionDeadLetters
from projections.store.feed import Switched, read_entry
from projections.store.protocol import project
from projections.store.redis_store import RedisStore
from projections.vectors.embedder import Embedder
from workers.host import RunnerHost


@asynccontextmanager
async def running(redis: Client, valkey: Server, name: str = "w1") -> AsyncGenerator[RunnerHost]:
    blocking = connect(valkey.url, connections=2 * PARTITIONS + 4)
    host = RunnerHost(
        redis, blocking, RedisLog(redis, PARTITIONS), name, lambda partition, changes: None, PartitionDeadLetters
    )
    host.start()
    try:
        yield host
    finally:
        await host.aclose()
        await blocking.aclose()


async def test_a_rebuild_under_writes_ends_as_the_live_documents_would(
    pen: Pen, redis: Client, valkey: Server, open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
):
    """Writers, the runner, readers and a replica go on; every one of them ends in the new generation."""
    monkeypatch.setattr(rebuild_module, "BATCH", 16)
    reader = DocumentReader(redis, PARTITIONS)
    memory = await pen.remember("ada likes green tea")
    doomed = await pen.remember("bob likes black coffee")
    ((partition, _),) = Token.parse(memory.position).items()
    await pen.write_some(20)
    async with running(redis, valkey), open_replica("a") as replica:
        await wait_until(lambda: wait_for_own_writes(pen))
        done = asyncio.Event()

        async def write_on() -> None:
            while not done.is_set():
                await pen.write_some(1)
                await asyncio.sleep(0.01)

        async def read_on() -> int:
            missed = 0
            while not done.is_set():
                missed += await reader.get([(partition, DocumentId(memory.id))]) == [None]
                await asyncio.sleep(0.002)
            return missed

        writing, reading = asyncio.create_task(write_on()), asyncio.create_task(read_on())
        await pen.forget(doomed.id)
        for number in range(PARTITIONS):
            assert await rebuild(redis, pen.log, number, 20) == 1
        await asyncio.sleep(0.3)
        done.set()
        await writing
        assert await reading == 0, "a reader saw nothing where a document is"
        await wait_until(lambda: wait_for_own_writes(pen))
        assert [await redis.get(PartitionKeys(number).generation) for number in range(PARTITIONS)] == [b"2", b"2"]
        replays = await assert_equals_replay(redis, pen.log, PARTITIONS)
        documents = {name for store in replays.values() for name in store.documents}
        assert {memory.id, doomed.id} <= documents
        heads = Token({number: await pen.log.head(number) for number in range(PARTITIONS)})
        await replica.wait_for(heads, 30)
        assert {at.generation for at in replica.at.values()} == {2}
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)
        assert memory.id in await ids(replica, "green tea")
        assert doomed.id not in await ids(replica, "black coffee")


async def test_a_generation_that_is_behind_is_not_switched_to(pen: Pen, redis: Client):
    first = await pen.remember("ada likes green tea")
    await pen.project()
    ((partition, _),) = Token.parse(first.position).items()
    assert (await fill(redis, pen.log, partition, 2, 10)).level
    await pen.remember("ada drinks it without sugar")
    await pen.project()
    assert not await switch(redis, partition, 1, 2)
    assert await redis.get(PartitionKeys(partition).generation) is None
    assert (await fill(redis, pen.log, partition, 2, 10)).level
    assert await switch(redis, partition, 1, 2)


async def test_cleaning_up_takes_the_old_generation_only(pen: Pen, redis: Client):
    await pen.add_some(10)
    before = [await stored(redis, number) for number in range(PARTITIONS)]
    for number in range(PARTITIONS):
        assert await rebuild(redis, pen.log, number, 10) == 1
        assert await clean_up(redis, number, 2) == 0, "the live generation is nobody's to delete"
    assert await clean_up(redis, 0, 1) > 0
    assert await stored(redis, 0, 1) == ({}, {})
    ((_, last_word),) = await redis.xrange(PartitionKeys(0).of_generation(1).changes)
    end = await end_of_feed(redis, PartitionKeys(0).of_generation(2))
    assert read_entry(last_word) == ([Switched(2, end)], None), "a follower that comes late is sent on"
    for number in range(PARTITIONS):
        assert differences(before[number], await stored(redis, number)) == {}
    assert (await stored(redis, 1, 1)).documents, "another partition's old generation is not this one's"


async def test_cleaning_up_generation_1_leaves_generation_10(pen: Pen, redis: Client):
    await pen.add_some(3)
    for generation in range(1, 10):
        assert await rebuild(redis, pen.log, 0, 10) == generation
    live = await stored(redis, 0)
    assert await clean_up(redis, 0, 1) > 0
    assert await stored(redis, 0) == live
    assert live.documents


async def test_an_interrupted_rebuild_goes_on_where_it_stopped(
    pen: Pen, redis: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rebuild_module, "BATCH", 4)
    await pen.add_some(20)
    where = max(range(PARTITIONS), key=[await redis.xlen(PartitionKeys(n).log) for n in range(PARTITIONS)].__getitem__)
    read_from: list[Position] = []

    class Breaking(RedisLog):
        async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
            read_from.append(after)
            if len(read_from) == 5:
                raise ConnectionResetError("the worker was killed")
            return await super().read(partition, after, limit)

    log = Breaking(redis, PARTITIONS)
    with pytest.raises(ConnectionResetError):
        await rebuild(redis, log, where, 10)
    assert await redis.get(PartitionKeys(where).generation) is None, "half a rebuild is nobody's"
    await pen.add_some(5)
    assert await rebuild(redis, log, where, 10) == 1
    assert read_from[5] == read_from[4] > read_from[3]
    assert differences(await stored(redis, where), of_store(await replay(pen.log, where))) == {}
    assert differences(await stored(redis, where, 1), await stored(redis, where)) == {}


async def test_a_rebuild_in_slices_says_when_there_is_more_to_do(pen: Pen, redis: Client):
    await pen.add_some(5)
    assert await rebuild(redis, pen.log, 0, 0.0) is None
    assert await rebuild(redis, pen.log, 0, 10.0) == 1


async def test_an_empty_partition_can_be_rebuilt(pen: Pen, redis: Client):
    assert await rebuild(redis, pen.log, 0, 10) == 1
    await pen.add_some(5)
    await assert_equals_replay(redis, pen.log, PARTITIONS)


async def test_a_rebuild_that_overtakes_the_runner_still_erases_what_is_forgotten(
    pen: Pen, redis: Client, valkey: Server
):
    """The runner was away while a memory was forgotten; the rebuild applied that first. The payload must still go."""
    secret = await pen.remember("the secret is swordfish")
    await pen.project()
    await pen.forget(secret.id)
    ((partition, position),) = Token.parse(secret.position).items()
    rebuilding = asyncio.create_task(rebuild(redis, pen.log, partition, 3))
    await asyncio.sleep(0.3)
    await redis.delete(*(PartitionKeys(number).lease for number in range(PARTITIONS)))
    async with running(redis, valkey):
        await rebuilding
        await wait_until(lambda: wait_for_own_writes(pen))
        await asyncio.sleep(0.2)
    (entry,) = [entry for entry in await pen.log.read(partition, Position(0, 0), 100) if entry.position == position]
    assert b"swordfish" not in entry.payload, "the forgotten memory's payload is in the log for ever"


async def test_vectors_are_there_again_after_a_rebuild_without_a_model_call(
    pen: Pen, redis: Client, queue: EmbeddingQueue, embedder: HashEmbedder, open_replica: OpenReplica
):
    await pen.add_some(5, queue=queue)
    embedder.asked.clear()
    for number in range(PARTITIONS):
        assert await rebuild(redis, pen.log, number, 10) == 1
    async with open_replica("a") as replica:
        await wait_until(lambda: not replica.comparing)
        assert await replica.in_index_thread(without_vectors, replica.index) == set()
    assert await drain(queue) == 0, "nothing waits for what the cache has"
    assert embedder.asked == []


async def test_what_waits_to_be_embedded_goes_on_waiting_behind_a_rebuild(
    pen: Pen, redis: Client, queue: EmbeddingQueue, open_replica: OpenReplica
):
    await pen.add_some(5)
    for number in range(PARTITIONS):
        assert await rebuild(redis, pen.log, number, 10) == 1
    assert await drain(queue) == 5 + 5 + 5
    async with open_replica("a") as replica:
        await wait_until(lambda: not replica.comparing)
        assert await replica.in_index_thread(without_vectors, replica.index) == set()


@pytest.fixture
def may_compare(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set it to let indexes be compared with the documents of the next generation."""
    return held_up(monkeypatch, comparing_module, "places")


async def test_recall_goes_on_while_the_index_is_compared_with_the_next_generation(
    pen: Pen, redis: Client, queue: EmbeddingQueue, open_replica: OpenReplica, may_compare: asyncio.Event
):
    """All that was found is found, with its vectors; reads wait for their own writes, and nobody is sent away."""
    tea = await pen.remember("ada likes green tea")
    doomed = await pen.remember("bob likes black coffee")
    await pen.add_some(10, queue=queue)
    async with open_replica("a") as replica:
        before = replica.applied
        for number in range(PARTITIONS):
            assert await rebuild(redis, pen.log, number, 10) == 1
        await wait_until(lambda: {at.generation for at in replica.at.values()} == {2})
        assert replica.ready
        assert replica.trouble is None
        assert replica.applied == before
        assert replica.documents == 2 + 10 + 10 + 7
        assert await ids(replica, "green tea") == [tea.id]
        assert await replica.in_index_thread(without_vectors, replica.index) == set()
        written = await pen.write_some(3)
        for partition, position in Token.parse((await pen.forget(doomed.id)).position).items():
            written.include(partition, position)
        await pen.project()
        await replica.wait_for(written, 30)
        assert replica.documents == 1 + 13 + 13 + 7
        assert await ids(replica, "black coffee") == []
        await drain(queue)
        may_compare.set()
        await wait_until(lambda: not replica.comparing)
        assert replica.documents == 1 + 13 + 13 + 7
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)


async def test_what_the_next_generation_has_not_leaves_the_index_and_what_it_has_joins_it(
    pen: Pen, redis: Client, open_replica: OpenReplica, may_compare: asyncio.Event
):
    """Documents that differ from those of before, as after a release that reads events in another way."""
    tea = await pen.remember("ada likes green tea")
    coffee = await pen.remember("bob likes black coffee")
    await pen.add_some(3)
    ((partition, _),) = Token.parse(tea.position).items()
    async with open_replica("a") as replica:
        next_one = PartitionKeys(partition).of_generation(2)
        level = await fill(redis, pen.log, partition, 2, 10.0)
        assert level.level
        stored_tea = await redis.get(next_one.doc(tea.id))
        await redis.set(next_one.doc(tea.id), stored_tea.replace(b"green tea", b"white tea"))
        await redis.delete(next_one.doc(coffee.id))
        assert await switch(redis, partition, 1, 2)
        await wait_until(lambda: replica.at[partition].generation == 2)
        assert set(await ids(replica, "likes")) == {tea.id, coffee.id}
        may_compare.set()
        await wait_until(lambda: not replica.comparing)
        assert await ids(replica, "likes") == [tea.id]
        assert await ids(replica, "white") == [tea.id]


async def test_vectors_that_come_again_cost_no_insert(
    pen: Pen, redis: Client, queue: EmbeddingQueue, open_replica: OpenReplica
):
    await pen.add_some(5, queue=queue)
    async with open_replica("a") as replica:
        rows = len(replica.index.vectors._matrix)  # pyright: ignore[reportPrivateUsage]
        for number in range(PARTITIONS):
            assert await rebuild(redis, pen.log, number, 10) == 1
        assert await drain(queue) == 0
        await wait_until(lambda: {at.generation for at in replica.at.values()} == {2} and not replica.comparing)
        for number in range(PARTITIONS):
            end = await end_of_feed(redis, PartitionKeys(number).of_generation(2))
            await wait_until(lambda number=number, end=end: replica.at[number].feed == end)
        assert len(replica.index.vectors._matrix) == rows  # pyright: ignore[reportPrivateUsage]


async def test_a_follower_that_missed_two_switches_ends_with_the_documents_that_are_live(
    pen: Pen, redis: Client, open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
):
    """Generation 1 was live before, and is again, with a feed that begins where it became that."""
    await pen.add_some(5)
    async with open_replica("a") as replica:
        held = held_up(monkeypatch, following_module, "read_feed")
        await asyncio.sleep(1.1)  # the reads that are blocked now end within a second
        doomed = await pen.remember("bob likes black coffee")
        await pen.project()
        for number in range(PARTITIONS):
            assert await rebuild(redis, pen.log, number, 10) == 1
            await pen.forget(doomed.id)
            await pen.project()
            assert (await fill(redis, pen.log, number, 1, 10.0)).level
            assert await switch(redis, number, 2, 1)
        await pen.add_some(2)
        held.set()
        heads = Token({number: await pen.log.head(number) for number in range(PARTITIONS)})
        await replica.wait_for(heads, 30)
        await wait_until(lambda: replica.ready and not replica.comparing)
        assert replica.documents == 7 + 7 + 7
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)


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
    await pen.add_some(40)
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
    assert all(abs(vectors[name] - expected[name]) < 5e-3 for name in vectors)


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
    await pen.add_some(3)
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
