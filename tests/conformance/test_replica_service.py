"""From the log to the index on a real server: the feed, snapshots and trimming, rebuilds, embeddings.

The writer here is `Pen`: it appends through the command handler and projects by hand, so that a test says when. Where
the point is concurrency, a RunnerHost projects.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories import place, remembered
from msgspec.structs import replace
from numpy.typing import NDArray
from replay_compare import (
    assert_equals_replay,
    assert_same_index,
    cosines,
    differences,
    indexed,
    of_store,
    replay,
    stored,
    without_vectors,
)
from waiting import wait_until

from ingest.commands.decide import Caller
from ingest.commands.handler import Accepted, CommandHandler
from ingest.commands.requests import AnyCommand, ForgetSubject, Observe, RecordLesson, Remember
from ingest.connections import Client, connect
from ingest.errors import ProjectionBehind
from ingest.events.envelope import decode
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.valkey import EmbeddedValkey
from projections.documents.memories import Memory
from projections.fold import Change, Changes
from projections.index import service as service_module
from projections.index.search import Filter, Question
from projections.index.service import ReplicaService
from projections.queries.documents import DocumentReader
from projections.redis_store import RedisStore
from projections.searchable import searchable_text
from projections.store import project
from workers.host import RunnerHost
from workers.jobs import rebuild as rebuild_module
from workers.jobs.embed import EmbeddingQueue
from workers.jobs.rebuild import clean_up, rebuild
from workers.jobs.snapshot import SnapshotJob

PARTITIONS = 2
DIMENSIONS = 16
TENANT = "default"
EVERYTHING = Filter(tenant=TENANT)
OCCURRED = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class HashEmbedder:
    """A test double for speed: the same text gives the same random unit vector. Counts what it is asked."""

    model = "test/hash"
    dimensions = DIMENSIONS
    max_tokens = 256

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        rows = np.stack([self.vector(text) for text in texts]) if texts else np.zeros((0, DIMENSIONS), np.float32)
        return rows.astype(np.float32)

    @staticmethod
    def vector(text: str) -> NDArray[np.float32]:
        row = np.random.default_rng(int.from_bytes(sha256(text.encode()).digest()[:8])).standard_normal(DIMENSIONS)
        return (row / np.linalg.norm(row)).astype(np.float32)


class Pen:
    """Writes commands to the log, and projects a partition when told to."""

    def __init__(self, redis: Client) -> None:
        self.redis = redis
        self.log = RedisLog(redis, PARTITIONS)
        self.handler = CommandHandler(GroupCommit(self.log), PARTITIONS)
        self._numbers = count()
        self._fence: dict[int, int] = {}

    async def say(self, command: AnyCommand) -> Accepted:
        return await self.handler.handle(command, Caller(TENANT))

    async def remember(self, content: str, project_name: str = "atlas") -> Accepted:
        return await self.say(Remember(content=content, project=project_name, occurred_at=OCCURRED))

    async def observe(self, content: str, session: str = "s1") -> Accepted:
        return await self.say(Observe(content=content, session_id=session, project="atlas", occurred_at=OCCURRED))

    async def forget(self, memory: str) -> Accepted:
        return await self.say(ForgetSubject(kind="memory", subject=memory, project="atlas"))

    async def write_some(self, n: int = 30) -> Token:
        """Memories, observations in sessions, lessons, in both partitions; returns the token of all."""
        token = Token()
        for _ in range(n):
            k = next(self._numbers)
            for accepted in (
                await self.remember(f"memory{k} is about topic{k % 5}", f"project{k % 4}"),
                await self.observe(f"observation{k} on topic{k % 5}", f"s{k % 6}"),
                await self.say(RecordLesson(content=f"lesson{k % 7} learned", project="atlas", occurred_at=OCCURRED)),
            ):
                for partition, position in Token.parse(accepted.position).items():
                    token.include(partition, position)
        return token

    async def project(self, batch: int = 7) -> None:
        """Bring every partition's documents up to the head of its log."""
        for partition in range(PARTITIONS):
            keys = PartitionKeys(partition)
            if partition not in self._fence:
                self._fence[partition] = await acquire_lease(self.redis, keys, "pen", 600_000)
            generation = int(await self.redis.get(keys.generation) or 1)
            store = RedisStore(self.redis, keys, generation, self._fence[partition])
            while entries := await self.log.read(partition, await store.checkpoint(), batch):
                changes = await project(store, [decode(entry.payload, entry.position) for entry in entries])
                await store.save(changes, entries[-1].position)


OpenReplica = Callable[[str], AbstractAsyncContextManager[ReplicaService]]


@pytest.fixture
async def pen(redis: Client) -> Pen:
    pen = Pen(redis)
    await pen.log.create_or_check()
    return pen


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
async def queue(redis: Client, embedder: HashEmbedder) -> AsyncIterator[EmbeddingQueue]:
    with ThreadPoolExecutor(2) as executor:
        yield EmbeddingQueue(redis, embedder, executor, 2)


@pytest.fixture
async def feeds(valkey: EmbeddedValkey) -> AsyncIterator[Client]:
    client = connect(valkey.url, connections=64)
    yield client
    await client.aclose()
    await client.connection_pool.disconnect()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def closed(service: ReplicaService) -> None:
    """Close it however its followers take a cancellation; that once is enough has a test of its own."""
    closing = asyncio.create_task(service.aclose())
    while not closing.done():
        await asyncio.wait([closing], timeout=0.2)
        for task in asyncio.all_tasks():
            if not closing.done() and task.get_name().startswith(("feed-", "index-replica", "lag")):
                task.cancel()
    await closing


@pytest.fixture
def open_replica(feeds: Client, tmp_path: Path) -> OpenReplica:
    """`open_replica(name)`: a follower with a working folder of its own; all share one folder of snapshots."""

    @asynccontextmanager
    async def opened(name: str) -> AsyncGenerator[ReplicaService]:
        service = ReplicaService(
            feeds, PARTITIONS, tmp_path / name, tmp_path / "snapshots", HashEmbedder.model, DIMENSIONS
        )
        service.start()
        try:
            await service.wait_ready(10)
            yield service
        finally:
            await closed(service)

    return opened


@pytest.fixture
def snapshots(redis: Client, tmp_path: Path) -> SnapshotJob:
    return SnapshotJob(
        redis, PARTITIONS, tmp_path / "snapshots", tmp_path / "job", HashEmbedder.model, DIMENSIONS, every=1000
    )


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(service_module, "RETRY_S", 0.05)


async def drain(queue: EmbeddingQueue) -> int:
    done = 0
    while embedded := await queue.work(range(PARTITIONS)):
        done += embedded
    return done


SHOWN = 100
"""Hits asked for."""


async def ids(service: ReplicaService, text: str, limit: int = SHOWN) -> list[str]:
    asked = Question(text=text, vector=None, limit=limit, now_ms=0)
    return [hit.id for hit in await service.search(asked, EVERYTHING)]


async def assert_same(first: ReplicaService, second: ReplicaService) -> None:
    """Both hold the same documents, with the same contents and vectors, and answer alike."""
    await wait_until(lambda: first.applied == second.applied, 10)
    mine, other = [await one.in_index_thread(indexed, one.index) for one in (first, second)]
    assert mine
    assert_same_index(mine, other)
    query = HashEmbedder.vector("any")
    mine, other = [await one.in_index_thread(cosines, one.index, query) for one in (first, second)]
    assert mine == pytest.approx(other, abs=1e-5)
    for word in ("topic1", "memory3", "lesson2", "observation"):
        found, also = await ids(first, word), await ids(second, word)
        assert len(found) == len(also)
        if len(found) < SHOWN:  # of more that score alike, each replica shows those it read first
            assert set(found) == set(also)


# following the feed


async def test_what_is_projected_is_found(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        accepted = await pen.remember("ada likes green tea")
        await pen.project()
        await replica.wait_for(Token.parse(accepted.position), 5)
        assert await ids(replica, "tea") == [accepted.id]


async def test_a_replica_that_starts_late_reads_everything_first(pen: Pen, open_replica: OpenReplica):
    """It is ready only then."""
    token = await pen.write_some()
    await pen.project()
    async with open_replica("a") as replica:
        assert token.covered_by(replica.applied)
        assert replica.documents == 30 + 30 + 7


async def test_a_batch_that_changes_nothing_in_the_index_is_covered_too(pen: Pen, open_replica: OpenReplica):
    """Reading one's own write must not wait for a document that never comes."""
    async with open_replica("a") as replica:
        accepted = await pen.say(ForgetSubject(kind="memory", subject=f"mem_{0:020x}", project="atlas"))
        await pen.project()
        await replica.wait_for(Token.parse(accepted.position), 5)
        assert replica.documents == 0


async def test_waiting_for_what_is_applied_returns_at_once(pen: Pen, open_replica: OpenReplica):
    accepted = await pen.remember("tea")
    await pen.project()
    async with open_replica("a") as replica:
        await replica.wait_for(Token.parse(accepted.position), 0.0)
        await replica.wait_for(Token(), 0.0)


async def test_a_read_that_waited_too_long_says_how_far_behind(pen: Pen, open_replica: OpenReplica):
    """Nobody projects: ProjectionBehind after the time-out, with the entries not applied by partition."""
    async with open_replica("a") as replica:
        accepted = await pen.remember("tea")
        ((partition, _),) = Token.parse(accepted.position).items()
        started = asyncio.get_running_loop().time()
        with pytest.raises(ProjectionBehind) as behind:
            await replica.wait_for(Token.parse(accepted.position), 0.2)
        assert 0.15 < asyncio.get_running_loop().time() - started < 2
        assert behind.value.lag == {partition: 1}


async def test_many_readers_wait_for_one_write(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        accepted = await pen.remember("ada likes green tea")
        token = Token.parse(accepted.position)
        waiting = [asyncio.create_task(replica.wait_for(token, 5)) for _ in range(20)]
        await asyncio.sleep(0)
        await pen.project()
        await asyncio.gather(*waiting)


async def test_before_the_first_load_a_search_is_an_error_and_no_empty_list(feeds: Client, tmp_path: Path, pen: Pen):
    service = ReplicaService(feeds, PARTITIONS, tmp_path / "w", tmp_path / "s", HashEmbedder.model, DIMENSIONS)
    with pytest.raises(ProjectionBehind):
        await service.search(Question(text="tea", vector=None), EVERYTHING)
    await service.aclose()


async def test_a_forgotten_memory_is_not_found(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        tea = await pen.remember("ada likes green tea")
        coffee = await pen.remember("bob likes black coffee")
        await pen.project()
        gone = await pen.forget(tea.id)
        await pen.project()
        await replica.wait_for(Token.parse(gone.position), 5)
        assert await ids(replica, "likes") == [coffee.id]


async def test_closing_ends_at_once_whatever_the_followers_are_doing(feeds: Client, tmp_path: Path, pen: Pen):
    """A process that is told to stop must not wait for a reader that missed it."""
    for n in range(10):
        service = ReplicaService(feeds, PARTITIONS, tmp_path / "w", tmp_path / "s", HashEmbedder.model, DIMENSIONS)
        service.start()
        await service.wait_ready(5)
        await asyncio.sleep(0.01 * (n % 3))
        closing = asyncio.create_task(service.aclose())
        await asyncio.wait([closing], timeout=3)
        hung = not closing.done()
        if hung:
            closing.cancel()
            await closed(service)
        assert not hung, f"the replica of round {n} does not stop"


# snapshots


async def test_a_snapshot_and_the_rest_of_the_feed_are_the_whole_feed(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue
):
    """One replica reads everything; the other starts from a snapshot behind which the feeds were trimmed."""
    async with open_replica("all") as everything:
        await pen.write_some()
        await pen.project()
        await drain(queue)
        manifest = await snapshots.run(force=True)
        assert manifest is not None
        assert manifest.documents == 30 + 30 + 7
        for partition in range(PARTITIONS):
            assert await pen.redis.xlen(PartitionKeys(partition).of_generation(1).changes) == 0
        await pen.write_some()
        await pen.project()
        await drain(queue)
        async with open_replica("late") as late:
            assert late.documents == 60 + 60 + 7
            await assert_same(everything, late)
            assert await late.in_index_thread(without_vectors, late.index) == set()


async def test_a_snapshot_goes_on_from_the_one_before(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, tmp_path: Path
):
    async with open_replica("all") as everything:
        for _ in range(4):
            await pen.write_some(8)
            await pen.project()
            await drain(queue)
            assert await snapshots.run(force=True) is not None
        assert len(list((tmp_path / "snapshots").iterdir())) == 2
        async with open_replica("late") as late:
            await assert_same(everything, late)


async def test_no_snapshot_is_written_while_the_feeds_are_short(pen: Pen, snapshots: SnapshotJob, tmp_path: Path):
    await pen.write_some(3)
    await pen.project()
    assert await snapshots.run() is None
    assert not (tmp_path / "snapshots").exists()


async def test_an_empty_log_can_have_a_snapshot(pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob):
    assert await snapshots.run(force=True) is not None
    async with open_replica("a") as replica:
        await pen.write_some(2)
        await pen.project()
        await wait_until(lambda: replica.documents == 2 + 2 + 2)


async def test_a_follower_that_fell_behind_a_trim_loads_again(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, monkeypatch: pytest.MonkeyPatch
):
    """Its feed lost entries it had not read; it starts over from the snapshot and misses nothing."""
    async with open_replica("slow") as slow, open_replica("all") as everything:
        held = asyncio.Event()
        read = service_module.read_feed

        async def held_up(redis: Client, partition: int, at: Any, block_ms: int | None) -> Any:
            if asyncio.current_task() in slow_tasks:
                await held.wait()
            return await read(redis, partition, at, block_ms)

        await pen.write_some(10)
        await pen.project()
        await wait_until(lambda: slow.applied == everything.applied)
        slow_tasks = {task for task in asyncio.all_tasks() if task.get_name().startswith("feed-")}
        monkeypatch.setattr(service_module, "read_feed", held_up)
        await asyncio.sleep(1.1)  # the reads that are blocked now end within a second
        await pen.write_some(10)
        await pen.project()
        assert await snapshots.run(force=True) is not None
        await pen.write_some(5)
        await pen.project()
        held.set()
        monkeypatch.setattr(service_module, "read_feed", read)
        await wait_until(lambda: slow.documents == 25 + 25 + 7, 10)
        await wait_until(lambda: slow.ready, 10)
        assert slow.trouble is None
        await wait_until(lambda: everything.documents == 25 + 25 + 7, 10)
        await assert_same(slow, everything)


async def test_an_altered_snapshot_is_not_believed(
    pen: Pen, feeds: Client, snapshots: SnapshotJob, open_replica: OpenReplica, tmp_path: Path
):
    """Behind it the feed is gone, so the replica says what is wrong instead of serving half."""
    await pen.write_some(5)
    await pen.project()
    manifest = await snapshots.run(force=True)
    assert manifest is not None
    victim = tmp_path / "snapshots" / manifest.name / "partition.npy"
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")
    service = ReplicaService(feeds, PARTITIONS, tmp_path / "w", tmp_path / "snapshots", HashEmbedder.model, DIMENSIONS)
    service.start()
    try:
        await wait_until(lambda: service.trouble is not None and "rebuild" in service.trouble, 5)
        assert not service.ready
        for partition in range(PARTITIONS):
            assert await rebuild(pen.redis, pen.log, partition, 10) == 1
        await wait_until(lambda: service.ready and service.documents == 5 + 5 + 5, 10)
    finally:
        await closed(service)


# rebuilds


@asynccontextmanager
async def running(redis: Client, valkey: EmbeddedValkey, name: str = "w1") -> AsyncGenerator[RunnerHost]:
    blocking = connect(valkey.url, connections=2 * PARTITIONS + 4)
    host = RunnerHost(redis, blocking, PARTITIONS, name, lambda partition, changes: None)
    host.start()
    try:
        yield host
    finally:
        await host.aclose()
        await blocking.aclose()
        await blocking.connection_pool.disconnect()  # pyright: ignore


async def caught_up(pen: Pen) -> bool:
    for partition in range(PARTITIONS):
        keys = PartitionKeys(partition)
        generation = int(await pen.redis.get(keys.generation) or 1)
        raw = await pen.redis.get(keys.of_generation(generation).checkpoint)
        if (Position.parse(raw) if raw else Position(0, 0)) != await pen.log.head(partition):
            return False
    return True


async def test_a_rebuild_under_writes_ends_as_the_live_documents_would(
    pen: Pen, redis: Client, valkey: EmbeddedValkey, open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
):
    """Writers, the runner, readers and a replica go on; every one of them ends in the new generation."""
    monkeypatch.setattr(rebuild_module, "BATCH", 16)
    reader = DocumentReader(redis, PARTITIONS)
    kept = await pen.remember("ada likes green tea")
    doomed = await pen.remember("bob likes black coffee")
    ((partition, _),) = Token.parse(kept.position).items()
    await pen.write_some(20)
    async with running(redis, valkey), open_replica("a") as replica:
        await wait_until(lambda: caught_up(pen), 10)
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
        await wait_until(lambda: caught_up(pen), 15)
        assert [await redis.get(PartitionKeys(number).generation) for number in range(PARTITIONS)] == [b"2", b"2"]
        replays = await assert_equals_replay(redis, pen.log, PARTITIONS)
        documents = {name for store in replays.values() for name in store.documents}
        assert {kept.id, doomed.id} <= documents
        heads = Token({number: await pen.log.head(number) for number in range(PARTITIONS)})
        await replica.wait_for(heads, 10)
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
    assert await redis.xlen(PartitionKeys(0).of_generation(1).changes) == 0
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
    pen: Pen, redis: Client, valkey: EmbeddedValkey
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
        await wait_until(lambda: caught_up(pen), 10)
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


# embeddings


async def queued(redis: Client, generation: int = 1) -> dict[str, float]:
    found: dict[str, float] = {}
    for number in range(PARTITIONS):
        key = PartitionKeys(number).of_generation(generation).embed_queue
        found |= {name.decode(): score for name, score in await redis.zrange(key, 0, -1, withscores=True)}
    return found


async def test_what_was_kept_on_purpose_is_embedded_first(
    pen: Pen, queue: EmbeddingQueue, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
):
    """Whatever came first, and across partitions; within a priority, the oldest first."""
    monkeypatch.setattr("workers.jobs.embed.BATCH", 1)
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
        "memory 1", "memory 2 of another kind", "lesson 1", "observation 0", "observation 1", "observation 2",
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
        found = await replica.in_index_thread(cosines, replica.index, probe)
    expected = {name: float(HashEmbedder.vector(text) @ probe) for name, text in texts.items()}
    assert found.keys() == expected.keys()
    assert all(abs(found[name] - expected[name]) < 2e-3 for name in found)


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
    asked = asyncio.Event()
    go_on = asyncio.Event()

    class Slow(EmbeddingQueue):
        async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
            found = await super()._vectors(texts)
            asked.set()
            await go_on.wait()
            return found

    with ThreadPoolExecutor(1) as executor:
        queue = Slow(redis, embedder, executor, 1)
        work = asyncio.create_task(queue.work([0]))
        await asked.wait()
        before = (await store.load([name]))[name]
        assert isinstance(before, Memory)
        later = place(2)
        changes = Changes({name: Change(before, replace(before, content="black coffee"))}, {})
        await store.save(changes, later)
        go_on.set()
        assert await work == 1
        assert await queued(redis) != {}
        assert await queue.work([0]) == 1
        assert await queued(redis) == {}
    probe = HashEmbedder.vector("probe")
    async with open_replica("a") as replica:
        found = await replica.in_index_thread(cosines, replica.index, probe)
    assert found[name] == pytest.approx(float(HashEmbedder.vector("black coffee") @ probe), abs=2e-3)


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
            await EmbeddingQueue(redis, Broken(), executor, 1).work(range(PARTITIONS))
        assert await queued(redis) == before != {}
        await drain(EmbeddingQueue(redis, embedder, executor, 1))
    assert await queued(redis) == {}
