"""Composition root of the worker process: runners for leased partitions, and the arq jobs.

What only a setting asks for (archive, search engine, language model) is imported where the setting is looked at.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from api.access.keys import Registry
from ingest.commands.handler import CommandHandler
from ingest.errors import MnemologError
from ingest.events.envelope import Event, encode, route_of
from ingest.ids import dedup_id, new_event_id
from ingest.log.event_log import Entry, refuse_if_closed
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import LEASE_TTL, WORKERS
from ingest.log.lag import wait_projected
from ingest.log.opening import open_to_write
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import heard_of
from ingest.platform.connections import Client, connect, retry_until_connected
from ingest.platform.processes import give_way, tune_interpreter, usable_cores
from ingest.platform.settings import Settings
from ingest.platform.tasks import end
from projections.condensing.operations import Condensing, build_assistant, check_model
from projections.dead_letters.room import DeadLetters, PartitionDeadLetters
from projections.embedding.embed_job import LOOK_AGAIN_S, DocumentVectors, EmbeddingQueue, EmbedJob, LaterTexts
from projections.embedding.factory import build_embedder
from projections.embedding.live import LiveEmbedder
from projections.forgetting.room import Forgetting, purging_jobs
from projections.index.snapshots import SnapshotJob
from projections.index.waiting import work_folder
from projections.maintenance.room import BackupJob, IndexNames, NewestSnapshot, ReconcileJob, Target, target_of
from projections.nouns.fold import Changes
from projections.nouns.session import Session
from projections.operations.current import Current
from projections.queries.documents import DocumentReader
from projections.rebuilding.room import DocumentRebuild, EmbeddingRebuild, EngineEmbeddingRebuild, RebuildJob, Rebuilds
from projections.vectors.embedder import Embedder
from projections.webhooks.deliveries import Deliveries
from workers.host import RunnerHost
from workers.queue import Job, JobQueue, arq_settings, build_worker, run_worker
from workers.rebuilding import RebuildProcesses
from workers.snapshotting import SubprocessSnapshotJob
from workers.upkeep import Condense, Upkeep

if TYPE_CHECKING:
    from ingest.log.archive.room import ArchiveJob

logger = logging.getLogger(__name__)

REBUILD_SLICE_S = 20.0
REBUILD_LOOK_S = 1.0
"""Between two checks for a requested rebuild, or one that a worker abandoned."""
REBUILD_AGAIN_S = 0.2
"""Between two slices of a rebuild: a worker's job can go to another worker, which has its own."""
UPKEEP_EVERY_S = 60.0
EXPIRE_EVERY_S = 2.0
ARCHIVE_EVERY_S = 600.0
"""At most: to see whether a segment's worth is there costs reading what waits, up to 8 MiB a partition."""
PROJECT_RESULT_S = 3600
"""How long the result of consolidating or reflecting can be read."""
WAIT_S = 30.0
"""How long a job waits until its writes are projected."""
ASK_AGAIN_S = 1.0
"""After a job could not be queued."""
LOCAL_TIMEOUT_S = 60.0
"""Timeout for a response from a server on a Unix socket."""
EMBEDDING_WAITS = 20
"""Tenths of a second, before each batch of texts, while events wait to be projected."""
SNAPSHOT_AT_SECONDS = frozenset({15, 45})
JOBS = (
    "archive", "backup", "condense", "embed", "enrich", "expire", "forget", "project", "purge", "rebuild", "reconcile",
    "retire", "snapshot", "summarise", "upkeep",
)  # fmt: skip
JOBS_AT_SECONDS = {"scheduled-snapshot": SNAPSHOT_AT_SECONDS}


class WorkerProcess:
    """Everything a worker does, from start to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._redis_url, self._jobs_url = settings, settings.required_redis_url(), settings.jobs_url
        check_model(settings)
        self._id = self._arq_worker_id = str(new_event_id())
        self._documents_changed, self._session_ended = asyncio.Event(), asyncio.Event()
        # before an embedder may tell the library that both use to stay offline
        self._backups = target_of(settings.backup_target, settings.hf_token or "") if settings.backup_target else None

    async def run(self, stop: asyncio.Event, on_jobs: Callable[[list[Job]], object] | None = None) -> None:
        """Work until `stop` is set; then finish the current batches and give the partitions up.

        With `on_jobs`, the caller runs the jobs, which it gets once this is connected.
        """
        settings = self._settings
        async with AsyncExitStack() as stack:

            def client(url: str, **options: Any) -> Client:
                # a server on this machine that ended closes its socket; one that only lacks processor time answers late
                options = {"read_timeout_s": LOCAL_TIMEOUT_S} | options if url.startswith("unix") else options
                opened = connect(url, **options)
                stack.push_async_callback(opened.aclose)
                return opened

            most_connections = 2 * settings.partitions + 4
            redis, engine = client(self._redis_url), None
            if settings.search_engine is not None:
                is_log = settings.search_engine == settings.redis_url
                engine = redis if is_log else client(settings.search_engine, connections=most_connections)
            blocking = client(self._redis_url, connections=most_connections, repeat=False)
            log = await retry_until_connected(redis, "to open the log", lambda: open_to_write(settings, redis))
            rebuilds = Rebuilds(redis)
            why = await retry_until_connected(
                redis, "to read the folds' version", lambda: rebuilds.start_due(settings.partitions)
            )
            if why:
                logger.warning("%s; `mnemolog admin rebuild status` shows its progress", why)
            queue = await JobQueue.connect(self._jobs_url)
            stack.push_async_callback(queue.aclose)
            embedders = LiveEmbedder(redis, self._build_embedder, settings.named_embedders)
            await retry_until_connected(redis, "to read the embedder", lambda: embedders.start(settings.embedder))
            most = max(1, settings.embedding_queue // settings.partitions)
            host = RunnerHost(
                redis, blocking, log, self._id, self._applied, PartitionDeadLetters, log.look_whether_open, most
            )
            services = _Services(settings, redis, log, embedders, stack, engine, host)
            vectors, snapshots = services.vectors(), services.snapshots()
            rebuilding = services.rebuilding(rebuilds, vectors, snapshots, self._id)
            processes = RebuildProcesses(settings.workers, settings.partitions)
            stack.push_async_callback(processes.aclose)
            later = LaterTexts(redis, log, embedders, most)
            embed = EmbedJob(EmbeddingQueue(redis, embedders, vectors), later, services.let_projecting_go_first)
            jobs = [
                Job("embed", embed.run),
                *services.snapshot_jobs(snapshots),
                Job("rebuild", partial(self._rebuild, rebuilds, rebuilding, processes)),
                *services.maintenance_jobs(snapshots, rebuilding),
                *services.backup_jobs(self._backups),
            ]

            await retry_until_connected(redis, "to register the process", host.beat)
            await retry_until_connected(redis, "to check the log again", lambda: refuse_if_closed(redis))

            def embedding() -> Awaitable[bool]:
                return queue.enqueue("embed", host.leased, job_id=f"embed:{self._arq_worker_id}")

            def summarising() -> Awaitable[bool]:
                return queue.enqueue("summarise", job_id="summarise")

            def worker() -> Any:
                # Redis may have stored that the worker before this one still runs an embedding job, for minutes; those
                # of this one have another id
                self._arq_worker_id = str(new_event_id())
                return build_worker(self._jobs_url, jobs)

            tasks = [
                asyncio.create_task(run_worker(worker) if on_jobs is None else stop.wait()),
                asyncio.create_task(queue_when(self._documents_changed, embedding, LOOK_AGAIN_S)),
                asyncio.create_task(queue_when(self._session_ended, summarising, UPKEEP_EVERY_S)),
                asyncio.create_task(Deliveries(settings, redis, log, self._id, Registry(redis).allows).run()),
                asyncio.create_task(queue_rebuilding(queue, rebuilds, rebuilding, self._id, settings.partitions)),
                *(
                    asyncio.create_task(queue_periodically(queue, job, job.period_s))
                    for job in jobs
                    if job.period_s is not None
                ),
            ]
            tune_interpreter()
            host.start()
            if on_jobs is not None:
                on_jobs(jobs)
            if engine is not None:
                from projections.search_engine.room import SearchEngineIndexes, Servers

                # twice as many connections as it has partitions, because one index is filled to replace another
                servers = Servers(redis, client(self._redis_url, connections=most_connections, repeat=False), engine)
                indexes = SearchEngineIndexes(
                    servers, settings.partitions, embedders, lambda: host.leased, settings.snapshot_every
                )
                indexes.start()
                stack.push_async_callback(indexes.aclose)
            logger.info("worker %s has started", self._id)
            await stop.wait()
            await host.aclose()
            await end(*tasks)
        logger.info("worker %s has stopped", self._id)

    @staticmethod
    async def _rebuild(rebuilds: Rebuilds, rebuilding: RebuildJob, processes: RebuildProcesses) -> None:
        """Take part in the current rebuild for a slice: processes of their own fill documents."""
        current = await rebuilds.current()
        if current is not None and current.fills_documents:
            await processes.run(REBUILD_SLICE_S)
        else:
            await rebuilding.run(REBUILD_SLICE_S)

    def _build_embedder(self, spec: str) -> Embedder:
        """The embedder of a spec: the configured one, or that of a rebuild."""
        settings = self._settings
        return build_embedder(spec, cache=settings.cache_dir, threads=1, api_key=settings.embedder_key or "")

    def _applied(self, partition: int, changes: Changes) -> None:
        if changes.documents:
            self._documents_changed.set()
        documents = [change.after for change in changes.documents.values()]
        if any(isinstance(document, Session) and document.awaits_summary for document in documents):
            self._session_ended.set()


class _Services(NamedTuple):
    """What jobs are made of; `stack` closes them."""

    settings: Settings
    redis: Client
    log: RedisLog
    embedders: LiveEmbedder
    stack: AsyncExitStack
    engine: Client | None
    """The search engine with the index; None if each API process has its own index."""
    host: RunnerHost

    async def let_projecting_go_first(self) -> None:
        """Wait while events wait to be projected, two seconds at most: text first, but vectors always progress."""
        for _ in range(EMBEDDING_WAITS):
            if not self.host.pressed:
                return
            await asyncio.sleep(0.1)

    def vectors(self) -> DocumentVectors:
        """The vectors of documents, made in threads of low priority."""
        threads = max(1, min(4, usable_cores()) // self.settings.workers)  # shared with this machine's other workers
        executor = ThreadPoolExecutor(threads, "embedding", initializer=_lower_priority)
        self.stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        cached = max(timedelta(seconds=1), timedelta(days=self.settings.embedding_cache_days))
        return DocumentVectors(self.redis, executor, cached)

    def snapshots(self) -> SnapshotJob:
        """The job that writes snapshots."""
        settings = self.settings
        snapshots = SubprocessSnapshotJob(
            self.redis, settings.partitions, settings.snapshots,
            self.embedders, settings.snapshot_every, lambda: self.host.pressed,
        )  # fmt: skip
        self.stack.push_async_callback(snapshots.aclose)
        return snapshots

    def rebuilding(
        self, rebuilds: Rebuilds, vectors: DocumentVectors, snapshots: SnapshotJob, worker: str
    ) -> RebuildJob:
        """This worker's part in rebuilds."""
        settings, redis, go_first = self.settings, self.redis, self.let_projecting_go_first
        if self.engine is None:
            embeddings = EmbeddingRebuild(
                redis, settings.partitions, self.embedders, vectors, snapshots, settings.snapshots, go_first
            )
        else:
            embeddings = EngineEmbeddingRebuild(redis, self.embedders, vectors, go_first)
        keep = timedelta(seconds=settings.rebuild_keep)
        documents = DocumentRebuild(redis, self.log, worker)
        rebuilding = RebuildJob(redis, rebuilds, keep, documents, embeddings, worker)
        self.stack.push_async_callback(rebuilding.aclose)
        return rebuilding

    def snapshot_jobs(self, snapshots: SnapshotJob) -> list[Job]:
        """With a search engine there is nothing to write, and the worker's log says so."""

        async def no_snapshot(force: bool = False) -> None:
            logger.info("snapshots are not written: the index is on a search engine")

        if self.engine is not None:
            return [Job("snapshot", no_snapshot)]
        scheduled = Job("scheduled-snapshot", snapshots.run, at_seconds=SNAPSHOT_AT_SECONDS)
        return [Job("snapshot", snapshots.run), scheduled]

    def maintenance_jobs(self, snapshots: SnapshotJob, rebuilding: RebuildJob) -> list[Job]:
        """Scheduled maintenance: expiring, condensing, forgetting, checking, archiving."""
        settings, redis, log, engine = self.settings, self.redis, self.log, self.engine
        appends = GroupCommit(log)
        self.stack.push_async_callback(appends.aclose)
        wait = partial(wait_projected, redis, timeout_s=WAIT_S)
        documents = DocumentReader(redis, settings.partitions)
        current = Current(CommandHandler(appends, settings.partitions), documents, log, wait)
        assistant = build_assistant(settings, redis)
        condense = Condense(settings.condense_threshold, settings.condense_batch)
        condensing = Condensing(current, assistant)
        upkeep = Upkeep(
            current,
            Forgetting(current),
            condensing,
            idle_after=timedelta(minutes=settings.session_idle_minutes),
            condense=condense if settings.condense_threshold else None,
        )

        def index_of(embedder: Embedder) -> IndexNames:
            if engine is None:
                return NewestSnapshot(settings.snapshots, embedder.model)
            from projections.search_engine.room import EngineNames

            return EngineNames(engine)

        jobs = [
            Job("upkeep", upkeep.run, UPKEEP_EVERY_S),
            Job("expire", upkeep.expire_claims, EXPIRE_EVERY_S),
            Job("summarise", upkeep.summarise),
            Job("condense", upkeep.condense, settings.condense_every),
            Job("project", condensing.carry_out, keep_result_s=PROJECT_RESULT_S),
            # the next minute's goes on with what is left
            Job("reconcile", ReconcileJob(redis, log, index_of, self.embedders).run, UPKEEP_EVERY_S),
        ]
        archive = None
        if settings.archive:
            from ingest.log.archive.room import ArchivedLog, ArchiveJob

            assert isinstance(log, ArchivedLog), "the log was opened with the same settings"
            archive = ArchiveJob(redis, log, after=timedelta(seconds=settings.archive_after))
        erase_dead_letters = DeadLetters(redis, log, documents).erase_all
        jobs += starmap(
            Job,
            purging_jobs(
                settings, redis, engine, current, self.embedders, snapshots, rebuilding, archive, wait,
                erase_dead_letters,
            ),
        )  # fmt: skip
        if assistant is not None:
            from projections.condensing.llm.enrich import EnrichJob

            async def append(partition: int, event: Event) -> None:
                id_of_it = dedup_id(route_of(event.envelope, event.data), event.envelope.event_id)
                await log.append({partition: [Entry(id_of_it, encode(event))]})

            self.stack.push_async_callback(assistant.aclose)
            enrichment = EnrichJob(redis, log, assistant, append, range(settings.partitions))
            jobs.append(Job("enrich", enrichment.run, UPKEEP_EVERY_S))
        if archive is not None:
            archive_every_s = max(1.0, min(ARCHIVE_EVERY_S, settings.archive_after / 6))
            jobs.append(Job("archive", partial(_seal_and_trim, archive), archive_every_s))
        return jobs

    def backup_jobs(self, target: Target | None) -> list[Job]:
        """The one that backs up; none without a target."""
        if target is None:
            return []
        settings = self.settings
        backup = BackupJob(
            self.redis, self.log, target, work_folder(settings.cache_dir / "backups"),
            every=timedelta(seconds=settings.backup_every), keep=settings.backup_keep,
        )  # fmt: skip
        self.stack.push_async_callback(backup.aclose)
        return [Job("backup", backup.start_or_go_on, min(UPKEEP_EVERY_S, settings.backup_every))]


async def _seal_and_trim(archive: "ArchiveJob") -> None:
    try:
        await archive.run()
    except MnemologError as error:
        logger.warning("archiving is disabled: %s", error)


def _lower_priority() -> None:
    """Embedding takes the processor time that nothing else needs: writes and text search come first."""
    try:
        give_way()
    except (AttributeError, OSError) as error:
        logger.info("embedding runs at normal priority: %s", error)


async def queue_periodically(queue: JobQueue, job: Job, period_s: float) -> None:
    """Queue a job at intervals; one that is waiting or running, of any worker, is not queued twice."""
    while True:
        try:
            await queue.enqueue(job.name, job_id=job.name)
        except Exception as error:  # Redis is away or starting; asked for again later
            logger.warning("%s could not be requested: %s", job.name, error)
        await asyncio.sleep(period_s)


async def queue_rebuilding(
    queue: JobQueue, rebuilds: Rebuilds, rebuilding: RebuildJob, worker: str, partitions: int
) -> None:
    """Queue this worker's part in a rebuild while there is one; each worker has a job of its own to share it.

    After the end of a rebuild that kept one from starting that is due, that one starts.
    """
    has_work = False
    while True:
        had_work, has_work = has_work, False
        try:
            if has_work := await rebuilds.has_work():
                await queue.enqueue("rebuild", job_id=f"rebuild:{worker}")
            else:
                await rebuilding.rest()
                if had_work:
                    await rebuilds.start_due(partitions)
        except Exception as error:  # Redis is away or starting; looked again later
            logger.warning("could not check for rebuilds: %s", error)
        await asyncio.sleep(REBUILD_AGAIN_S if has_work else REBUILD_LOOK_S)


async def queue_when(changed: asyncio.Event, enqueue: Callable[[], Awaitable[bool]], look_again_s: float) -> None:
    """Keep a job queued or running while there may be work for it: when `changed` is set, and every `look_again_s`.

    `enqueue` returns whether a job was queued; one that runs may have seen nothing to do just before, and asking again
    until a new one is accepted makes sure that one starts after the last change.
    """
    while True:
        with suppress(TimeoutError):  # nothing new: look all the same, for what an earlier worker left
            async with asyncio.timeout(look_again_s):
                await changed.wait()
        changed.clear()
        try:
            if not await enqueue():
                changed.set()
                await asyncio.sleep(0.1)
        except Exception as error:  # Redis is away or starting: the event is set again, nothing is lost
            logger.warning("a job could not be requested: %s", error)
            changed.set()
            await asyncio.sleep(ASK_AGAIN_S)


async def main(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await WorkerProcess(settings).run(stop)


def worker_settings(settings: Settings) -> dict[str, Any]:
    """For arq's own command: what `mnemolog worker` runs. Raises InvalidSetting.

    arq wants the name of each job before it connects. What the job does exists once it has connected.
    """
    stop, jobs = asyncio.Event(), dict[str, Job]()

    async def start(context: dict[Any, Any]) -> None:
        connected = asyncio.get_running_loop().create_future()
        context["worker"] = worker = asyncio.create_task(WorkerProcess(settings).run(stop, connected.set_result))
        await asyncio.wait([worker, connected], return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            worker.result()
        # a process that runs jobs and projects nothing would look healthy
        worker.add_done_callback(lambda _: stop.is_set() or signal.raise_signal(signal.SIGTERM))
        jobs.update({job.name: job for job in connected.result()})
        if unnamed := jobs.keys() - {*JOBS, *JOBS_AT_SECONDS}:
            raise RuntimeError(f"JOBS lacks {', '.join(unnamed)}")

    async def finish(context: dict[Any, Any]) -> None:
        stop.set()
        await context["worker"]

    def named(name: str, at_seconds: frozenset[int] = frozenset()) -> Job:
        async def run(*arguments: Any) -> None:
            if name in jobs:  # with these settings there is such a job
                await jobs[name].run(*arguments)

        return Job(name, run, at_seconds=at_seconds)

    every = [*map(named, JOBS), *starmap(named, JOBS_AT_SECONDS.items())]
    return arq_settings(settings.jobs_url, every, start, finish)


async def alive(settings: Settings) -> bool:
    """Whether any worker has beaten its heart within the lease time."""
    redis = connect(settings.required_redis_url(), connections=1)
    try:
        return bool(await heard_of(redis, WORKERS, LEASE_TTL // timedelta(milliseconds=1)))
    finally:
        await redis.aclose()
