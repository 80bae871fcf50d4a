"""Composition root of the worker process: runners for leased partitions, and the arq jobs."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

from ingest.commands.handler import CommandHandler
from ingest.errors import InvalidSetting, MnemologError
from ingest.events.envelope import Event, encode, route_of
from ingest.ids import dedup_id, new_event_id
from ingest.log.archive.room import ArchivedLog, ArchiveJob, open_to_write
from ingest.log.event_log import Entry, refuse_if_closed
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import LEASE_TTL, WORKERS
from ingest.log.lag import wait_projected
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import heard_of
from ingest.platform.connections import Client, connect, retry_until_connected
from ingest.platform.processes import give_way, tune_interpreter, usable_cores
from ingest.platform.settings import Settings
from ingest.platform.tasks import end
from projections.condensing.llm.assistant import build_assistant, parse_daily_tokens
from projections.condensing.llm.assistant import check as check_llm
from projections.condensing.llm.enrich import EnrichJob
from projections.condensing.operations import Condensing
from projections.dead_letters.room import DeadLetters, PartitionDeadLetters
from projections.documents.sessions import Session
from projections.embedding.embed_job import LOOK_AGAIN_S, DocumentVectors, EmbeddingQueue, EmbedJob, LaterTexts
from projections.embedding.factory import build_embedder
from projections.embedding.live import LiveEmbedder
from projections.folds.fold import Changes
from projections.forgetting.room import Forgetting, purging_jobs
from projections.maintenance.room import BackupJob, IndexNames, NewestSnapshot, ReconcileJob, target_of
from projections.operations.current import Current
from projections.queries.documents import DocumentReader
from projections.rebuilding.room import DocumentRebuild, EmbeddingRebuild, EngineEmbeddingRebuild, RebuildJob, Rebuilds
from projections.search.snapshots import SnapshotJob
from projections.search.waiting import work_folder
from projections.search_engine.room import EngineNames, SearchEngineIndexes, Servers
from projections.vectors.embedder import Embedder
from workers.host import RunnerHost
from workers.queue import Job, JobQueue, build_worker, run_worker
from workers.upkeep import Condense, Upkeep

logger = logging.getLogger(__name__)

REBUILD_SLICE_S = 20.0
REBUILD_LOOK_S = 1.0
"""Between two looks for a rebuild that was ordered, or that a worker left."""
REBUILD_AGAIN_S = 0.2
"""Between two slices of a rebuild: the job of one worker may be given to another, which has its own at hand."""
UPKEEP_EVERY_S = 60.0
ARCHIVE_EVERY_S = 600.0
"""At most: to see whether a segment's worth is there costs reading what waits, up to 8 MiB a partition."""
WAIT_S = 30.0
"""How long a job waits for what it wrote to be projected."""
ASK_AGAIN_S = 1.0
"""After a job could not be queued."""
EMBEDDING_WAITS = 20
"""Tenths of a second, before each batch of texts, while events wait to be projected."""
SNAPSHOT_AT_SECONDS = frozenset({15, 45})


class WorkerProcess:
    """Everything a worker does, from start to stop."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise InvalidSetting("REDIS_URL is not set; `mnemolog up` starts an embedded server and sets it")
        check_llm(settings.llm, settings.llm_key or "", settings.llm_daily_tokens)
        self._settings, self._redis_url, self._jobs_url = settings, settings.redis_url, settings.jobs_url
        self._id = self._arq_worker_id = str(new_event_id())
        self._documents_changed, self._session_ended = asyncio.Event(), asyncio.Event()
        # before an embedder may tell the library that both use to stay offline
        self._backups = target_of(settings.backup_target, settings.hf_token or "") if settings.backup_target else None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what is at hand and give the partitions up."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            redis = connect(self._redis_url)
            stack.push_async_callback(redis.aclose)
            engine = _engine(settings, redis, stack)
            blocking = connect(self._redis_url, connections=2 * settings.partitions + 4, repeat=False)
            stack.push_async_callback(blocking.aclose)
            log = await retry_until_connected(redis, "to open the log", lambda: open_to_write(settings, redis))
            queue = await JobQueue.connect(self._jobs_url)
            stack.push_async_callback(queue.aclose)
            embedders = LiveEmbedder(redis, partial(_build_embedder, settings), settings.named_embedders)
            await retry_until_connected(redis, "to read the embedder", lambda: embedders.start(settings.embedder))
            most = max(1, settings.embedding_queue // settings.partitions)
            host = RunnerHost(
                redis, blocking, log, self._id, self._applied, PartitionDeadLetters, log.look_whether_open, most
            )
            rebuilds = Rebuilds(redis)
            at_hand = _AtHand(settings, redis, log, embedders, stack, engine)
            vectors, snapshots = _vectors(at_hand), _snapshots(at_hand, host)
            rebuilding = self._rebuilding(at_hand, rebuilds, vectors, snapshots, host)
            go_first = partial(_let_projecting_go_first, host)
            later = LaterTexts(redis, log, embedders, most)
            jobs = [
                Job("embed", EmbedJob(EmbeddingQueue(redis, embedders, vectors), later, go_first).run),
                *_snapshot_jobs(at_hand, snapshots),
                Job("rebuild", partial(rebuilding.run, REBUILD_SLICE_S)),
                *self._maintenance_jobs(at_hand, snapshots, rebuilding),
            ]

            await retry_until_connected(redis, "to say that it is up", host.beat)
            await retry_until_connected(redis, "to look at the log again", lambda: refuse_if_closed(redis))

            def embedding() -> Awaitable[bool]:
                return queue.enqueue("embed", host.leased, job_id=f"embed:{self._arq_worker_id}")

            def summarising() -> Awaitable[bool]:
                return queue.enqueue("summarise", job_id="summarise")

            tasks = [
                asyncio.create_task(run_worker(partial(self._build_worker, jobs))),
                asyncio.create_task(queue_when(self._documents_changed, embedding, LOOK_AGAIN_S)),
                asyncio.create_task(queue_when(self._session_ended, summarising, UPKEEP_EVERY_S)),
                asyncio.create_task(queue_rebuilding(queue, rebuilds, rebuilding, self._id)),
                *(
                    asyncio.create_task(queue_periodically(queue, job, job.period_s))
                    for job in jobs
                    if job.period_s is not None
                ),
            ]
            tune_interpreter()
            host.start()
            if engine is not None:
                _keep_search_indexes(at_hand, engine, host)
            logger.info("worker %s is up", self._id)
            await stop.wait()
            await host.aclose()
            await end(*tasks)
        logger.info("worker %s has stopped", self._id)

    def _build_worker(self, jobs: list[Job]) -> Any:
        """An arq worker for the jobs. Redis may have kept that the one before it is still at an embedding job, for
        minutes; those of this one go by another id."""
        self._arq_worker_id = str(new_event_id())
        return build_worker(self._jobs_url, jobs)

    def _applied(self, partition: int, changes: Changes) -> None:
        if changes.documents:
            self._documents_changed.set()
        if any(
            isinstance(document.after, Session) and document.after.awaits_summary
            for document in changes.documents.values()
        ):
            self._session_ended.set()

    def _rebuilding(
        self, at_hand: "_AtHand", rebuilds: Rebuilds, vectors: DocumentVectors, snapshots: SnapshotJob, host: RunnerHost
    ) -> RebuildJob:
        settings, redis = at_hand.settings, at_hand.redis
        go_first = partial(_let_projecting_go_first, host)
        embeddings = (
            EmbeddingRebuild(
                redis, settings.partitions, at_hand.embedders, vectors, snapshots, settings.snapshots,
                work_folder(settings.cache_dir / "embeddings"), go_first,
            )
            if at_hand.engine is None
            else EngineEmbeddingRebuild(redis, at_hand.embedders, vectors, go_first)
        )  # fmt: skip
        keep = timedelta(seconds=settings.rebuild_keep)
        documents = DocumentRebuild(redis, at_hand.log, self._id)
        rebuilding = RebuildJob(redis, rebuilds, keep, documents, embeddings, self._id)
        at_hand.stack.push_async_callback(rebuilding.aclose)
        return rebuilding

    def _maintenance_jobs(self, at_hand: "_AtHand", snapshots: SnapshotJob, rebuilding: RebuildJob) -> list[Job]:
        """Scheduled maintenance: expiring, condensing, forgetting, checking, archiving, backing up."""
        settings, redis, log = at_hand.settings, at_hand.redis, at_hand.log
        appends = GroupCommit(log)
        at_hand.stack.push_async_callback(appends.aclose)
        wait = partial(wait_projected, redis, timeout_s=WAIT_S)
        current = Current(
            CommandHandler(appends, settings.partitions), DocumentReader(redis, settings.partitions), log, wait
        )
        daily_tokens = parse_daily_tokens(settings.llm_daily_tokens)
        assistant = build_assistant(settings.llm, settings.llm_key or "", daily_tokens, redis)
        condense = Condense(settings.condense_threshold, settings.condense_batch)
        upkeep = Upkeep(
            current,
            Forgetting(current),
            Condensing(current, assistant),
            idle_after=timedelta(minutes=settings.session_idle_minutes),
            condense=condense if settings.condense_threshold else None,
        )
        archive = _archive(at_hand)
        reconciling = ReconcileJob(redis, log, partial(_index_of, at_hand), at_hand.embedders)
        jobs = [
            Job("upkeep", upkeep.run, UPKEEP_EVERY_S),
            Job("summarise", upkeep.summarise),
            Job("condense", upkeep.condense, settings.condense_every),
            # the next minute's goes on with what is left
            Job("reconcile", reconciling.run, UPKEEP_EVERY_S),
        ]
        letters = DeadLetters(redis, log, current.documents)
        jobs += starmap(
            Job,
            purging_jobs(
                settings, redis, at_hand.engine, current, at_hand.embedders, snapshots, rebuilding, archive, wait,
                letters.erase_all,
            ),
        )  # fmt: skip
        if assistant is not None:
            at_hand.stack.push_async_callback(assistant.aclose)
            enrichment = EnrichJob(redis, log, assistant, partial(_append, log), range(settings.partitions))
            jobs.append(Job("enrich", enrichment.run, UPKEEP_EVERY_S))
        if archive is not None:
            archive_every_s = max(1.0, min(ARCHIVE_EVERY_S, settings.archive_after / 6))
            jobs.append(Job("archive", partial(_seal_and_trim, archive), archive_every_s))
        return [*jobs, *self._backup_jobs(at_hand)]

    def _backup_jobs(self, at_hand: "_AtHand") -> list[Job]:
        """The one that backs up; none without a target."""
        if self._backups is None:
            return []
        settings = at_hand.settings
        backup = BackupJob(
            at_hand.redis, at_hand.log, self._backups, work_folder(settings.cache_dir / "backups"),
            every=timedelta(seconds=settings.backup_every), keep=settings.backup_keep,
        )  # fmt: skip
        at_hand.stack.push_async_callback(backup.aclose)
        return [Job("backup", backup.start_or_go_on, min(UPKEEP_EVERY_S, settings.backup_every))]


class _AtHand(NamedTuple):
    """What jobs are made of; `stack` closes them."""

    settings: Settings
    redis: Client
    log: RedisLog
    embedders: LiveEmbedder
    stack: AsyncExitStack
    engine: Client | None
    """The search engine that has the index; None where each API process has its own."""


def _vectors(at_hand: _AtHand) -> DocumentVectors:
    threads = max(1, min(4, usable_cores()) // at_hand.settings.workers)  # shared with this machine's other workers
    executor = ThreadPoolExecutor(threads, "embedding", initializer=_lower_priority)
    at_hand.stack.callback(executor.shutdown, wait=False, cancel_futures=True)
    cached = max(timedelta(seconds=1), timedelta(days=at_hand.settings.embedding_cache_days))
    return DocumentVectors(at_hand.redis, executor, cached)


def _snapshots(at_hand: _AtHand, host: RunnerHost) -> SnapshotJob:
    settings = at_hand.settings
    work = work_folder(settings.cache_dir / "snapshots")
    snapshots = SnapshotJob(
        at_hand.redis, settings.partitions, settings.snapshots, work, at_hand.embedders, settings.snapshot_every,
        lambda: host.pressed,
    )  # fmt: skip
    at_hand.stack.push_async_callback(snapshots.aclose)
    return snapshots


def _engine(settings: Settings, redis: Client, stack: AsyncExitStack) -> Client | None:
    """A client of the search engine; that of the log, where it is the log's server."""
    url = settings.search_engine
    if url is None or url == settings.redis_url:
        return None if url is None else redis
    engine = connect(url, connections=2 * settings.partitions + 4)
    stack.push_async_callback(engine.aclose)
    return engine


def _keep_search_indexes(at_hand: _AtHand, engine: Client, host: RunnerHost) -> None:
    """Begin to fill the indexes of the engine, for the partitions that this worker runs."""
    settings, embedders, stack = at_hand.settings, at_hand.embedders, at_hand.stack
    # of two indexes, while one is filled to take the other's place
    blocking = connect(settings.redis_url or "", connections=2 * settings.partitions + 4, repeat=False)
    stack.push_async_callback(blocking.aclose)
    servers = Servers(at_hand.redis, blocking, engine)
    indexes = SearchEngineIndexes(servers, settings.partitions, embedders, lambda: host.leased, settings.snapshot_every)
    indexes.start()
    stack.push_async_callback(indexes.aclose)


def _snapshot_jobs(at_hand: _AtHand, snapshots: SnapshotJob) -> list[Job]:
    """With a search engine there is nothing to write: who asks for a snapshot hears that from the worker's log."""
    if at_hand.engine is not None:
        return [Job("snapshot", _no_snapshot)]
    return [
        Job("snapshot", snapshots.run),
        Job("scheduled-snapshot", snapshots.run, at_seconds=SNAPSHOT_AT_SECONDS),
    ]


async def _no_snapshot(force: bool = False) -> None:
    logger.info("no snapshot is written: the index is on a search engine")


def _index_of(at_hand: _AtHand, embedder: Embedder) -> IndexNames:
    if at_hand.engine is not None:
        return EngineNames(at_hand.engine)
    return NewestSnapshot(at_hand.settings.snapshots, embedder.model)


def _archive(at_hand: _AtHand) -> ArchiveJob | None:
    """None for a log without an archive."""
    if not isinstance(at_hand.log, ArchivedLog):
        return None
    return ArchiveJob(at_hand.redis, at_hand.log, after=timedelta(seconds=at_hand.settings.archive_after))


async def _seal_and_trim(archive: ArchiveJob) -> None:
    try:
        await archive.run()
    except MnemologError as error:
        logger.warning("nothing is archived: %s", error)


async def _append(log: RedisLog, partition: int, event: Event) -> None:
    route = route_of(event.envelope, event.data)
    await log.append({partition: [Entry(dedup_id(route, event.envelope.event_id), encode(event))]})


def _build_embedder(settings: Settings, spec: str) -> Embedder:
    """The embedder of a spec: the configured one, or that of a rebuild."""
    return build_embedder(spec, directory=settings.model_directory, threads=1, api_key=settings.embedder_key or "")


async def _let_projecting_go_first(host: RunnerHost) -> None:
    """Wait while events wait to be projected, two seconds at most: text first, but vectors always get on a little."""
    for _ in range(EMBEDDING_WAITS):
        if not host.pressed:
            return
        await asyncio.sleep(0.1)


def _lower_priority() -> None:
    """Embedding takes the processor time that nobody else wants: writes and text search come first."""
    try:
        give_way()
    except (AttributeError, OSError) as error:
        logger.info("embedding runs at normal priority: %s", error)


async def queue_periodically(queue: JobQueue, job: Job, period_s: float) -> None:
    """Queue a job now and again; one that is waiting or running, of any worker, is not queued twice."""
    while True:
        try:
            await queue.enqueue(job.name, job_id=job.name)
        except Exception as error:  # Redis is away or starting; asked for again later
            logger.warning("%s was not asked for: %s", job.name, error)
        await asyncio.sleep(period_s)


async def queue_rebuilding(queue: JobQueue, rebuilds: Rebuilds, rebuilding: RebuildJob, worker: str) -> None:
    """Queue this worker's part in a rebuild while there is one; each worker has a job of its own to share it."""
    while True:
        wanted = False
        try:
            if wanted := await rebuilds.has_work():
                await queue.enqueue("rebuild", job_id=f"rebuild:{worker}")
            else:
                await rebuilding.rest()
        except Exception as error:  # Redis is away or starting; looked again later
            logger.warning("rebuilds were not looked for: %s", error)
        await asyncio.sleep(REBUILD_AGAIN_S if wanted else REBUILD_LOOK_S)


async def queue_when(changed: asyncio.Event, enqueue: Callable[[], Awaitable[bool]], look_again_s: float) -> None:
    """Keep a job queued or running while there may be work for it: always when `changed` is set, and now and again.

    `enqueue` tells whether a job was queued; one that runs may have seen nothing to do just before, and asking again
    until a new one is accepted makes sure that one starts after the last change.
    """
    while True:
        try:
            async with asyncio.timeout(look_again_s):
                await changed.wait()
        except TimeoutError:
            pass  # nothing new: look all the same, for what an earlier worker left
        changed.clear()
        try:
            if not await enqueue():
                changed.set()
                await asyncio.sleep(0.1)
        except Exception as error:  # Redis is away or starting: the event is set again, nothing is lost
            logger.warning("a job was not asked for: %s", error)
            changed.set()
            await asyncio.sleep(ASK_AGAIN_S)
            changed.set()
            await asyncio.sleep(1.0)


async def main(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await WorkerProcess(settings).run(stop)


async def alive(settings: Settings) -> bool:
    """Whether any worker has beaten its heart within the lease time."""
    if settings.redis_url is None:
        raise InvalidSetting("REDIS_URL is not set")
    redis = connect(settings.redis_url, connections=1)
    try:
        return bool(await heard_of(redis, WORKERS, LEASE_TTL // timedelta(milliseconds=1)))
    finally:
        await redis.aclose()
