"""A log, its documents and the worker's jobs on a real server, by a clock that the test moves.

The log keeps the server's time, so the clock begins at that; what the jobs do is folded when the test says `project`.
"""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from factories import ManualClock
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder

from ingest.commands.decide import AnyCommand, Caller, Observe, RecordLesson, Remember
from ingest.commands.handler import Accepted, CommandHandler
from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from ingest.log.archive.archive import Archive
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import ArchiveJob
from ingest.log.event_log import EventLog
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Token, partition_of, project_route
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.log.store import store_of
from ingest.nouns.registry import decode
from ingest.platform.connections import Client
from projections.condensing.operations import Condensing
from projections.dead_letters.room import DeadLetters
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.forgetting.forget import Forgetting
from projections.forgetting.jobs import ForgetJob, RetireJob
from projections.forgetting.purge import Purge, SnapshotPurge
from projections.index.snapshots import SnapshotJob
from projections.nouns.document import Document
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.session import Session, Summary, session_document_id, summary_id
from projections.operations.current import Current, Wait
from projections.queries.documents import DocumentReader
from projections.rebuilding.documents import DocumentRebuild
from projections.rebuilding.embeddings import EmbeddingRebuild
from projections.rebuilding.job import RebuildJob
from projections.rebuilding.rebuilds import Rebuilds
from projections.store.protocol import project
from projections.store.redis_store import RedisStore
from projections.vectors.embedder import Embedder, Embedders
from workers.upkeep import Condense, Upkeep

D = TypeVar("D")
PARTITIONS = 3
TENANT = "default"
IDLE_AFTER = timedelta(minutes=30)
RETAIN = timedelta(days=30)


def embedding_queue(redis: Client, embedder: Embedder, executor: Executor) -> EmbeddingQueue:
    """The embedding queue of a worker, with an embedder that does not change."""
    return EmbeddingQueue(redis, FixedEmbedder(embedder), DocumentVectors(redis, executor))


class Workshop:
    """Writes commands, folds them, and makes the jobs of as many workers as a test wants."""

    def __init__(self, redis: Client, folder: Path, *, archived: bool = False) -> None:
        """With `archived` the log has an archive in a folder of its own."""
        self.redis, self.folder = redis, folder
        now = datetime.now(UTC)
        self.clock = ManualClock(now.replace(microsecond=now.microsecond // 1000 * 1000))
        self.log = self.archived_log() if archived else RedisLog(redis, PARTITIONS)
        self.documents = DocumentReader(redis, PARTITIONS)
        self.embedders: Embedders = FixedEmbedder(HashEmbedder())
        self.vectors = DocumentVectors(redis, ThreadPoolExecutor(1, "embedding"))
        self.current = self.another_current()
        self._fences: dict[int, int] = {}
        self._rebuild_jobs: list[RebuildJob] = []
        self._projecting = asyncio.Lock()

    # writing

    def another_current(self, kind: type[Current] = Current) -> Current:
        """What another process looks and writes through."""
        handler = CommandHandler(GroupCommit(self.log), PARTITIONS, self.clock)
        return kind(handler, DocumentReader(self.redis, PARTITIONS), self.log, self.wait)

    async def say(self, command: AnyCommand) -> Accepted:
        """Append what a command becomes."""
        return await self.current.give(command, Caller(TENANT))

    async def observe(self, content: str, session: str = "s1", **text: Any) -> Accepted:
        """Report an observation."""
        fields: dict[str, Any] = {"project": "atlas", **text}
        return await self.say(Observe(content=content, session_id=session, **fields))

    async def remember(self, content: str, **text: Any) -> Accepted:
        """Keep a memory, beside those that say nearly the same."""
        fields: dict[str, Any] = {"project": "atlas", "keep_duplicates": True, **text}
        return await self.say(Remember(content=content, **fields))

    async def learn(self, content: str, **text: Any) -> Accepted:
        """State a lesson."""
        fields: dict[str, Any] = {"project": "atlas", **text}
        return await self.say(RecordLesson(content=content, **fields))

    async def wait(self, token: Token) -> None:
        """What a process waits with: here it folds."""
        await self.project()

    async def project(self) -> None:
        """Bring every partition's documents up to the head of its log."""
        async with self._projecting:
            for partition in range(PARTITIONS):
                keys = PartitionKeys(partition)
                if partition not in self._fences:
                    self._fences[partition] = await acquire_lease(self.redis, keys, "workshop", 600_000)
                generation = int(await self.redis.get(keys.generation) or 1)
                store = RedisStore(self.redis, keys, generation, self._fences[partition])
                while rows := await self.log.read(partition, await store.checkpoint(), 50):
                    changes = await project(store, [decode(row.payload, row.position) for row in rows])
                    await store.save(changes, rows[-1].position)

    @asynccontextmanager
    async def projecting(self) -> AsyncGenerator[None]:
        """Fold whatever comes while the block runs."""
        stop = asyncio.Event()

        async def keep_on() -> None:
            while not stop.is_set():
                await self.project()

        task = asyncio.create_task(keep_on())
        try:
            yield
        finally:
            stop.set()
            await task

    # looking

    async def document(self, name: str, kind: type[D]) -> D:
        """The document of an id."""
        document = await self.documents.find(DocumentId(name))
        assert document is not None, f"there is no {name}"
        assert isinstance(document.document, kind)
        return document.document

    async def gone(self, name: str) -> bool:
        """Whether nothing of a document but a tombstone is there."""
        document = await self.documents.find(DocumentId(name))
        return document is None or type(document.document).__name__ == "Tombstone"

    async def session(self, session_id: str = "s1") -> Session:
        """A session."""
        return await self.document(session_document_id(TENANT, "atlas", session_id), Session)

    async def summary(self, session_id: str = "s1") -> Summary:
        """The summary of a session."""
        return await self.document(summary_id(session_document_id(TENANT, "atlas", session_id)), Summary)

    async def lesson(self, name: str) -> Lesson:
        """A lesson."""
        return await self.document(name, Lesson)

    async def memories(self, project_name: str = "atlas") -> list[Memory]:
        """The current memories of a project, in log order."""
        home = partition_of(project_route(TENANT, project_name), PARTITIONS)
        page = await self.documents.page(
            f"memories:{TENANT}\0{project_name}", [home], cursor=None, limit=1000, newest_first=False
        )
        return [
            document.document
            for document in page.documents
            if isinstance(document.document, Memory) and document.document.is_latest
        ]

    async def events(self, kind: str) -> list[Recorded]:
        """The events of a type that the log has."""
        results: list[Recorded] = []
        for partition in range(PARTITIONS):
            rows = await self.log.read(partition, START, 10_000)
            results += [decode(row.payload, row.position) for row in rows]
        return [result for result in results if kind == result.data.TYPE]

    async def everything(self) -> list[Document]:
        """All documents, whatever they are."""
        results: list[Document] = []
        for partition in range(PARTITIONS):
            prefix = PartitionKeys(partition).of_generation(1).doc("")
            scan = self.redis.scan_iter(match=f"{prefix}*", count=1000)
            names = [raw.decode().removeprefix(prefix) async for raw in scan]
            stored = await self.documents.get([(partition, DocumentId(name)) for name in names])
            results += [row for row in stored if row is not None]
        return results

    # jobs

    def upkeep(self, current: Current | None = None, condense: Condense | None = Condense()) -> Upkeep:
        """The upkeep of a worker."""
        at_hand = current or self.another_current()
        return Upkeep(
            at_hand, Forgetting(at_hand), Condensing(at_hand, clock=self.clock), idle_after=IDLE_AFTER,
            condense=condense, clock=self.clock,
        )  # fmt: skip

    def retire_job(self, current: Current | None = None) -> RetireJob:
        """The retiring of a worker."""
        return RetireJob(self.redis, current or self.another_current(), self.embedders, RETAIN, self.clock)

    @property
    def snapshots(self) -> Path:
        """The folder of snapshots."""
        return self.folder / "snapshots"

    def snapshot_job(self, worker: str = "worker") -> SnapshotJob:
        """The snapshot job of a worker."""
        return SnapshotJob(self.redis, PARTITIONS, self.snapshots, self.embedders, every=1)

    def purge(self, worker: str = "worker") -> Purge:
        """The purge of a worker."""
        return Purge(
            self.redis,
            PARTITIONS,
            self.embedders,
            SnapshotPurge(self.redis, self.embedders, self.snapshot_job(), self.snapshots, self.clock),
            self.rebuild_job(worker),
            archive=self.archive_job() if isinstance(self.log, ArchivedLog) else None,
        )  # fmt: skip

    @property
    def archive(self) -> Path:
        """The folder of the archive."""
        return self.folder / "archive"

    def archived_log(self) -> ArchivedLog:
        """The log as another process opens it."""
        return ArchivedLog(self.redis, PARTITIONS, Archive(self.redis, store_of(str(self.archive))))

    def archive_job(self, after: timedelta = timedelta(hours=1)) -> ArchiveJob:
        """The archiving of a worker."""
        return ArchiveJob(self.redis, self.archived_log(), after=after, clock=self.clock)

    def rebuild_job(
        self, worker: str = "worker", keep: timedelta = timedelta(hours=1), log: EventLog | None = None
    ) -> RebuildJob:
        """A worker's part in rebuilds."""
        documents = DocumentRebuild(self.redis, log or self.log, worker)
        job = RebuildJob(self.redis, self.rebuilds, keep, documents, self.embedding_rebuild(worker), worker)
        self._rebuild_jobs.append(job)
        return job

    async def aclose(self) -> None:
        """End what the workers are at."""
        for job in self._rebuild_jobs:
            await job.aclose()

    def embedding_rebuild(self, worker: str = "worker") -> EmbeddingRebuild:
        """A worker's part in making vectors anew."""
        return EmbeddingRebuild(
            self.redis, PARTITIONS, self.embedders, self.vectors, self.snapshot_job(), self.snapshots,
            clock=self.clock,
        )  # fmt: skip

    def embedding_queue(self) -> EmbeddingQueue:
        """What embeds what is queued."""
        return EmbeddingQueue(self.redis, self.embedders, self.vectors)

    @property
    def rebuilds(self) -> Rebuilds:
        """The rebuilds of the log."""
        return Rebuilds(self.redis, self.clock)

    def forget_job(self, purge: Purge | None = None, current: Current | None = None) -> ForgetJob:
        """The forgetting of a worker."""
        return self.forget_job_that(self.wait, purge, current)

    def forget_job_that(self, wait: Wait, purge: Purge | None = None, current: Current | None = None) -> ForgetJob:
        """The same, with another way to wait for what it appended."""
        letters = DeadLetters(self.redis, self.log, self.documents, self.clock)
        return ForgetJob(
            self.redis, current or self.another_current(), purge or self.purge(), wait, letters.erase_all, self.clock,
        )  # fmt: skip
