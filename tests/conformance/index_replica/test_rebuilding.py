"""Rebuilding the documents of a partition: replicas and readers move to the next generation."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from rebuilding import rebuild
from replay_compare import assert_equals_replay, differences, of_store, replay, stored, without_vectors
from replica_pen import PARTITIONS, HashEmbedder, OpenReplica, Pen, assert_same, caught_up, drain, ids
from servers import Server
from waiting import wait_until

from ingest.connections import Client, connect
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from projections.feed import Switched, read_entry
from projections.queries.documents import DocumentReader
from workers.host import RunnerHost
from workers.jobs import rebuild as rebuild_module
from workers.jobs.embed import EmbeddingQueue
from workers.jobs.rebuild import clean_up


@asynccontextmanager
async def running(redis: Client, valkey: Server, name: str = "w1") -> AsyncGenerator[RunnerHost]:
    blocking = connect(valkey.url, connections=2 * PARTITIONS + 4)
    host = RunnerHost(redis, blocking, RedisLog(redis, PARTITIONS), name, lambda partition, changes: None)
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
    kept = await pen.remember("ada likes green tea")
    doomed = await pen.remember("bob likes black coffee")
    ((partition, _),) = Token.parse(kept.position).items()
    await pen.write_some(20)
    async with running(redis, valkey), open_replica("a") as replica:
        await wait_until(lambda: caught_up(pen))
        done = asyncio.Event()

        async def write_on() -> None:
            while not done.is_set():
                await pen.write_some(1)
                await asyncio.sleep(0.01)

        async def read_on() -> int:
            missed = 0
            while not done.is_set():
                missed += await reader.get([(partition, DocumentId(kept.id))]) == [None]
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
        await wait_until(lambda: caught_up(pen))
        assert [await redis.get(PartitionKeys(number).generation) for number in range(PARTITIONS)] == [b"2", b"2"]
        replays = await assert_equals_replay(redis, pen.log, PARTITIONS)
        documents = {name for store in replays.values() for name in store.documents}
        assert {kept.id, doomed.id} <= documents
        heads = Token({number: await pen.log.head(number) for number in range(PARTITIONS)})
        await replica.wait_for(heads, 30)
        assert {at.generation for at in replica.at.values()} == {2}
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)
        assert kept.id in await ids(replica, "green tea")
        assert doomed.id not in await ids(replica, "black coffee")


async def test_cleaning_up_takes_the_old_generation_only(pen: Pen, redis: Client):
    await pen.write_some(10)
    await pen.project()
    before = [await stored(redis, number) for number in range(PARTITIONS)]
    for number in range(PARTITIONS):
        assert await rebuild(redis, pen.log, number, 10) == 1
        assert await clean_up(redis, number, 2) == 0, "the live generation is nobody's to delete"
    assert await clean_up(redis, 0, 1) > 0
    assert await stored(redis, 0, 1) == ({}, {})
    ((_, last_word),) = await redis.xrange(PartitionKeys(0).of_generation(1).changes)
    assert read_entry(last_word) == ([Switched(2)], None), "a follower that comes late is sent on"
    for number in range(PARTITIONS):
        assert differences(before[number], await stored(redis, number)) == {}
    assert (await stored(redis, 1, 1)).documents, "another partition's old generation is not this one's"


async def test_cleaning_up_generation_1_leaves_generation_10(pen: Pen, redis: Client):
    await pen.write_some(3)
    await pen.project()
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
    await pen.write_some(20)
    await pen.project()
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
    await pen.write_some(5)
    await pen.project()
    assert await rebuild(redis, log, where, 10) == 1
    assert read_from[5] == read_from[4] > read_from[3]
    assert differences(await stored(redis, where), of_store(await replay(pen.log, where))) == {}
    assert differences(await stored(redis, where, 1), await stored(redis, where)) == {}


async def test_a_rebuild_in_slices_says_when_there_is_more_to_do(pen: Pen, redis: Client):
    await pen.write_some(5)
    await pen.project()
    assert await rebuild(redis, pen.log, 0, 0.0) is None
    assert await rebuild(redis, pen.log, 0, 10.0) == 1


async def test_an_empty_partition_can_be_rebuilt(pen: Pen, redis: Client):
    assert await rebuild(redis, pen.log, 0, 10) == 1
    await pen.write_some(5)
    await pen.project()
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
        await wait_until(lambda: caught_up(pen))
        await asyncio.sleep(0.2)
    (entry,) = [entry for entry in await pen.log.read(partition, Position(0, 0), 100) if entry.position == position]
    assert b"swordfish" not in entry.payload, "the forgotten memory's payload is in the log for ever"


async def test_vectors_are_there_again_after_a_rebuild_without_a_model_call(
    pen: Pen, redis: Client, queue: EmbeddingQueue, embedder: HashEmbedder, open_replica: OpenReplica
):
    await pen.write_some(5)
    await pen.project()
    await drain(queue)
    embedder.asked.clear()
    for number in range(PARTITIONS):
        assert await rebuild(redis, pen.log, number, 10) == 1
    assert await drain(queue) > 0
    assert embedder.asked == []
    async with open_replica("a") as replica:
        assert await replica.in_index_thread(without_vectors, replica.index) == set()
