"""A writer for the tests of the index replica: it appends as the doors do, and projects when a test says so.

Beside it an embedder that is quick, and what two replicas are compared by.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from itertools import count
from types import ModuleType
from typing import Any

import pytest
from hash_embedder import HashEmbedder
from replay_compare import assert_same_index, cosines, indexed
from waiting import wait_until

from ingest.commands.decide import AnyCommand, Caller, ForgetSubject, Observe, RecordLesson, Remember
from ingest.commands.handler import Accepted, CommandHandler
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.nouns.registry import decode
from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue
from projections.index.service import ReplicaService
from projections.index.snapshots import SnapshotJob, SnapshotManifest
from projections.search.question import Filter, Question
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

PARTITIONS = 2
TENANT = "default"
EVERYTHING = Filter(tenant=TENANT, now_ms=0)
OCCURRED = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def held_up(patch: pytest.MonkeyPatch, module: ModuleType, name: str) -> asyncio.Event:
    """Holds up who calls a function of a module, until the event that is returned is set."""
    go_on, function = asyncio.Event(), getattr(module, name)

    async def waiting(*arguments: Any) -> Any:
        await go_on.wait()
        return await function(*arguments)

    patch.setattr(module, name, waiting)
    return go_on


class Pen:
    """Writes commands to the log, and projects a partition when told to."""

    def __init__(self, redis: Client) -> None:
        self.redis = redis
        self.log = RedisLog(redis, PARTITIONS)
        self.handler = CommandHandler(GroupCommit(self.log), PARTITIONS)
        self._numbers = count()
        self._fence: dict[int, int] = {}
        self.most_to_embed: int | None = None
        """As of a runner."""

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

    async def add_some(self, n: int = 30, queue: EmbeddingQueue | None = None) -> Token:
        """Write some, and project them; given a queue, they get their vectors, too."""
        token = await self.write_some(n)
        await self.project()
        if queue:
            await drain(queue)
        return token

    async def project(self, batch: int = 7) -> None:
        """Bring every partition's documents up to the head of its log."""
        for partition in range(PARTITIONS):
            keys = PartitionKeys(partition)
            if partition not in self._fence:
                self._fence[partition] = await acquire_lease(self.redis, keys, "pen", 600_000)
            generation = int(await self.redis.get(keys.generation) or 1)
            fence, most = self._fence[partition], self.most_to_embed
            store = RedisStore(self.redis, keys, generation, fence, most_to_embed=most)
            while entries := await self.log.read(partition, await store.checkpoint(), batch):
                changes = await project(store, [decode(entry.payload, entry.position) for entry in entries])
                await store.save(changes, entries[-1].position)


OpenReplica = Callable[[str], AbstractAsyncContextManager[ReplicaService]]


async def drain(queue: EmbeddingQueue) -> int:
    done = 0
    while embedded := await queue.work(range(PARTITIONS)):
        done += embedded
    return done


async def taken(job: SnapshotJob, *, force: bool = False, compact: bool = False) -> SnapshotManifest:
    """The snapshot that a job writes now."""
    manifest = await job.run(force=force, compact=compact)
    assert manifest is not None
    return manifest


async def ids(service: ReplicaService, text: str, limit: int = 100) -> list[str]:
    question = Question(text=text, vector=None, limit=limit, now_ms=0)
    return [hit.id for hit in await service.search(question, EVERYTHING)]


async def assert_same(first: ReplicaService, second: ReplicaService) -> None:
    """Both hold the same documents, with the same contents and vectors, and answer alike."""
    await wait_until(lambda: first.applied == second.applied)
    mine, other = [await item.in_index_thread(indexed, item.index) for item in (first, second)]
    assert mine
    assert_same_index(mine, other)
    query = HashEmbedder.vector("any")
    mine, other = [await item.in_index_thread(cosines, item.index, query) for item in (first, second)]
    assert mine == pytest.approx(other, abs=1e-5)
    for word in ("topic1", "memory3", "lesson2", "observation", "learned", "memory is about"):
        for limit in (5, 100):
            assert await ids(first, word, limit) == await ids(second, word, limit)


async def wait_for_own_writes(pen: Pen) -> bool:
    for partition in range(PARTITIONS):
        keys = PartitionKeys(partition)
        generation = int(await pen.redis.get(keys.generation) or 1)
        raw = await pen.redis.get(keys.of_generation(generation).checkpoint)
        if (Position.parse(raw) if raw else Position(0, 0)) != await pen.log.head(partition):
            return False
    return True


async def closed(service: ReplicaService) -> None:
    """Close it however its followers take a cancellation; that once is enough has a test of its own."""
    closing = asyncio.create_task(service.aclose())
    while not closing.done():
        await asyncio.wait([closing], timeout=0.2)
        for task in asyncio.all_tasks():
            if not closing.done() and task.get_name().startswith(("feed-", "index-replica", "lag")):
                task.cancel()
    await closing
