"""Composition root of the worker process: runners for leased partitions, and the arq jobs."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

from redis.exceptions import ResponseError

from ingest.commands.handler import CommandHandler
from ingest.errors import InvalidSetting, MnemologError
from ingest.events.envelope import Event, encode
from ingest.events.routing import route_of
from ingest.ids import dedup_id, new_event_id
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.opening import open_log
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import LEASE_TTL, WORKERS
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import heard_of
from ingest.platform.connections import Client, connect, once_reachable
from ingest.platform.memory_limit import is_out_of_memory
from ingest.platform.settings import Settings
from ingest.platform.tasks import end
from ingest.platform.tuning import tune_interpreter
from projections.condensing.llm.config import build_assistant, parse_daily_tokens
from projections.condensing.llm.config import check as check_llm
from projections.embedding.embedder import Embedder
from projections.embedding.factory import build_embedder
from projections.embedding.live import LiveEmbedder
from projections.folds.fold import Changes
from projections.health.lag import wait_projected
from projections.maintenance.backup.target import Target, target_of
from projections.maintenance.rebuilds.store import Rebuilds
from projections.operations import Condensing, Current, Forgetting
from projections.queries.documents import DocumentReader
from projections.search.presence import work_folder
from workers.document_vectors import DocumentVectors
from workers.host import RunnerHost
from workers.jobs.archive import ArchiveJob
from workers.jobs.backup import BackupJob
from workers.jobs.embed import EmbeddingQueue
from workers.jobs.embeddings import EmbeddingRebuild
from workers.jobs.enrich import EnrichJob
from workers.jobs.forget import ForgetJob
from workers.jobs.purge import Purge
from workers.jobs.rebuilds import RebuildJob
from workers.jobs.reconcile import ReconcileJob
from workers.jobs.retire import RetireJob
from workers.jobs.snapshot import SnapshotJob
from workers.jobs.upkeep import Condense, Upkeep
from workers.queue import Job, JobQueue, build_worker, run_worker

logger = logging.getLogger(__name__)

EMBED_SLICE_S = 20.0
REBUILD_SLICE_S = 20.0
REBUILD_LOOK_S = 1.0
"""Between two looks for a rebuild that was ordered, or that a worker left."""
EMBEDDING_NICENESS = 19
"""Embedding takes the processor time that nobody else wants: writes and text search come first."""
EMBED_AT_LEAST_EVERY_S = 5.0
UPKEEP_EVERY_S = 60.0
ARCHIVE_EVERY_S = 600.0
"""At most: to see whether a segment's worth is there costs reading what waits, up to 8 MiB a partition."""
WAIT_S = 30.0
"""How long a job waits for what it wrote to be projected."""
EMBEDDING_WAITS = 20
"""Tenths of a second, before each batch of texts, while events wait to be projected."""


class WorkerProcess:
    """Everything a worker does, from start to stop."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise InvalidSetting("REDIS_URL is not set; `mnemolog up` starts an embedded server and sets it")
        check_llm(settings.llm, settings.llm_key or "", settings.llm_daily_tokens)
        self._settings, self._redis_url, self._jobs_url = settings, settings.redis_url, settings.jobs_url
        self._id = self._taking_jobs = str(new_event_id())
        self._embedding_wanted = asyncio.Event()
        # before an embedder may tell the library that both use to stay offline
        self._backups = target_of(settings.backup_target, settings.hf_token or "") if settings.backup_target else None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what is at hand and give the partitions up."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            redis = connect(self._redis_url)
            stack.push_async_callback(redis.aclose)
            blocking = connect(self._redis_url, connections=2 * settings.partitions + 4, repeat=False)
            stack.push_async_callback(blocking.aclose)
            log = await once_reachable(redis, "to open the log", lambda: open_log(settings, redis))
            queue = await JobQueue.connect(self._jobs_url)
            stack.push_async_callback(queue.aclose)
            embedders = LiveEmbedder(redis, partial(_build_embedder, settings), settings.named_embedders)
            await once_reachable(redis, "to read the embedder", lambda: embedders.start(settings.embedder))
            rebuilds = Rebuilds(redis)
            host = RunnerHost(redis, blocking, log, self._id, self._applied)
            jobs = {
                **self._jobs(redis, log, rebuilds, embedders, host, stack),
                **self._later_jobs(redis, log, embedders, stack),
            }
            tasks = [
                asyncio.create_task(run_worker(partial(self._build_worker, jobs))),
                asyncio.create_task(self._ask_for_embedding(queue, host)),
                asyncio.create_task(self._ask_for_rebuilding(queue, rebuilds)),
                *(
                    asyncio.create_task(self._ask_every(queue, name, seconds))
                    for name, seconds in self._periods(jobs).items()
                ),
            ]
            tune_interpreter()
            host.start()
            logger.info("worker %s is up", self._id)
            await stop.wait()
            await host.aclose()
            await end(*tasks)
        logger.info("worker %s has stopped", self._id)

    def _build_worker(self, jobs: dict[str, Any]) -> Any:
        """An arq worker for the jobs. Redis may have kept that the one before it is still at an embedding job, for
        minutes; those of this one go by another id."""
        self._taking_jobs = str(new_event_id())
        return build_worker(self._jobs_url, jobs, self._crons(jobs))

    def _applied(self, partition: int, changes: Changes) -> None:
        if changes.documents:
            self._embedding_wanted.set()

    def _jobs(
        self,
        redis: Client,
        log: RedisLog,
        rebuilds: Rebuilds,
        embedders: LiveEmbedder,
        host: RunnerHost,
        stack: AsyncExitStack,
    ) -> dict[str, Any]:
        settings = self._settings
        threads = max(1, min(4, (os.cpu_count() or 1) - 1))  # one processor stays free of it
        executor = ThreadPoolExecutor(threads, "embedding", initializer=_be_nice)
        stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        cached = max(timedelta(seconds=1), timedelta(days=settings.embedding_cache_days))
        vectors = DocumentVectors(redis, executor, threads, cached)
        waiting = EmbeddingQueue(redis, embedders, vectors)
        work = work_folder(settings.cache_dir / "snapshots")
        snapshots = self._snapshots = SnapshotJob(
            redis, settings.partitions, settings.snapshots, work, embedders, settings.snapshot_every
        )
        stack.push_async_callback(snapshots.aclose)
        embeddings = EmbeddingRebuild(
            redis, settings.partitions, embedders, vectors, snapshots, settings.snapshots,
            work_folder(settings.cache_dir / "embeddings"), partial(_let_projecting_go_first, host),
        )  # fmt: skip
        keep = timedelta(seconds=settings.rebuild_keep)
        rebuilding = self._rebuilding = RebuildJob(redis, log, rebuilds, keep, embeddings, self._id)
        stack.push_async_callback(rebuilding.aclose)

        async def embed(ctx: dict[Any, Any], partitions: list[int]) -> int:
            until, done = asyncio.get_running_loop().time() + EMBED_SLICE_S, 0
            while asyncio.get_running_loop().time() < until:
                await _let_projecting_go_first(host)
                try:
                    embedded = await waiting.work(partitions)
                except ResponseError as error:
                    if not is_out_of_memory(error):
                        raise
                    logger.warning("texts wait for their vectors: the log's server is at its maxmemory")
                    await asyncio.sleep(EMBED_AT_LEAST_EVERY_S)
                    break
                done += embedded
                if not embedded:
                    break
            return done

        async def snapshot(ctx: dict[Any, Any], force: bool = False) -> str | None:
            manifest = await snapshots.run(force=force)
            return manifest.name if manifest else None

        async def go_on_rebuilding(ctx: dict[Any, Any]) -> None:
            await rebuilding.run(REBUILD_SLICE_S)

        return {
            "embed": embed,
            "snapshot": snapshot,
            "rebuild": go_on_rebuilding,
        }

    def _later_jobs(
        self, redis: Client, log: RedisLog, embedders: LiveEmbedder, stack: AsyncExitStack
    ) -> dict[str, Any]:
        """What time alone brings about, what is condensed, what is forgotten."""
        settings, partitions = self._settings, self._settings.partitions
        appends = GroupCommit(log)
        stack.push_async_callback(appends.aclose)
        wait = partial(wait_projected, redis, timeout_s=WAIT_S)
        current = Current(CommandHandler(appends, partitions), DocumentReader(redis, partitions), log, wait)
        assistant = build_assistant(
            settings.llm, settings.llm_key or "", parse_daily_tokens(settings.llm_daily_tokens), redis
        )
        condense = Condense(settings.condense_threshold, settings.condense_batch)
        upkeep = Upkeep(
            current,
            Forgetting(current),
            Condensing(current, assistant),
            idle_after=timedelta(minutes=settings.session_idle_minutes),
            condense=condense if settings.condense_threshold else None,
        )
        archive = (
            ArchiveJob(redis, log, after=timedelta(seconds=settings.archive_after))
            if isinstance(log, ArchivedLog)
            else None
        )
        purge = Purge(
            redis,
            partitions,
            embedders,
            self._snapshots,
            settings.snapshots,
            work_folder(settings.cache_dir / "probes"),
            self._rebuilding,
            archive=archive,
        )
        forget = ForgetJob(redis, current, purge, wait)

        async def keep_up(ctx: dict[Any, Any]) -> dict[str, int]:
            return await upkeep.run()

        async def condense_memories(ctx: dict[Any, Any]) -> int:
            return await upkeep.condense()

        async def purge_forgotten(ctx: dict[Any, Any], force: bool = False) -> bool:
            if not force and not await purge.wanted():
                return False
            await purge.run()
            return True

        async def forget_subjects(ctx: dict[Any, Any]) -> int:
            return await forget.run()

        reconciliation = ReconcileJob(redis, log, settings.snapshots, embedders)

        async def reconcile(ctx: dict[Any, Any], force: bool = False) -> bool:
            return await reconciliation.run(force=force) is not None  # the next minute's goes on with what is left

        jobs: dict[str, Any] = {
            "reconcile": reconcile,
            "upkeep": keep_up,
            "condense": condense_memories,
            "purge": purge_forgotten,
            "forget": forget_subjects,
        }
        if settings.retain_sessions_days is not None:
            retain = timedelta(days=settings.retain_sessions_days)
            retiring = RetireJob(redis, current, embedders, retain)

            async def retire(ctx: dict[Any, Any]) -> int:
                return await retiring.run()

            jobs["retire"] = retire
        if assistant is not None:
            stack.push_async_callback(assistant.aclose)
            enrichment = EnrichJob(redis, log, assistant, partial(_append, log), range(partitions))

            async def enrich(ctx: dict[Any, Any]) -> int:
                return (await enrichment.run()).compressed

            jobs["enrich"] = enrich
        if archive is not None:

            async def seal_and_trim(ctx: dict[Any, Any]) -> int:
                try:
                    return (await archive.run()).trimmed
                except MnemologError as error:
                    logger.warning("nothing is archived: %s", error)
                    return 0

            jobs["archive"] = seal_and_trim
        if self._backups is not None:
            jobs["backup"] = self._backup_job(redis, log, self._backups, stack)
        return jobs

    def _backup_job(self, redis: Client, log: RedisLog, target: Target, stack: AsyncExitStack) -> Job:
        settings = self._settings
        backup = BackupJob(
            redis, log, target, work_folder(settings.cache_dir / "backups"),
            every=timedelta(seconds=settings.backup_every), keep=settings.backup_keep,
        )  # fmt: skip
        stack.push_async_callback(backup.aclose)

        async def back_up(ctx: dict[Any, Any]) -> bool:
            return await backup.start_or_go_on()

        return back_up

    def _periods(self, jobs: Collection[str]) -> dict[str, float]:
        """Seconds between two runs of the jobs that are asked for again and again, from the start on."""
        settings = self._settings
        wanted = {
            "upkeep": UPKEEP_EVERY_S,
            "condense": settings.condense_every,
            "purge": settings.purge_every,
            "forget": UPKEEP_EVERY_S,
            "reconcile": UPKEEP_EVERY_S,
            "enrich": UPKEEP_EVERY_S,
            "archive": max(1.0, min(ARCHIVE_EVERY_S, settings.archive_after / 6)),
            "retire": _retiring_every_s(settings.retain_sessions_days),
            "backup": min(UPKEEP_EVERY_S, settings.backup_every),
        }
        return {name: seconds for name, seconds in wanted.items() if name in jobs}

    async def _ask_every(self, queue: JobQueue, name: str, seconds: float) -> None:
        """Queue a job now and again; one that is waiting or running, of any worker, is not queued twice."""
        while True:
            try:
                await queue.enqueue(name, job_id=name)
            except Exception as error:  # Redis is away or starting; asked for again later
                logger.warning("%s was not asked for: %s", name, error)
            await asyncio.sleep(seconds)

    async def _ask_for_rebuilding(self, queue: JobQueue, rebuilds: Rebuilds) -> None:
        """Queue this worker's part in a rebuild while there is one; each worker has a job of its own to share it."""
        while True:
            try:
                if await rebuilds.wanted():
                    await queue.enqueue("rebuild", job_id=f"rebuild:{self._id}")
                else:
                    await self._rebuilding.rest()
            except Exception as error:  # Redis is away or starting; looked again later
                logger.warning("rebuilds were not looked for: %s", error)
            await asyncio.sleep(REBUILD_LOOK_S)

    def _crons(self, jobs: dict[str, Any]) -> list[tuple[Any, str, set[int]]]:
        async def scheduled_snapshot(ctx: dict[Any, Any]) -> str | None:
            return await jobs["snapshot"](ctx)

        return [(scheduled_snapshot, "scheduled-snapshot", {15, 45})]

    async def _ask_for_embedding(self, queue: JobQueue, host: RunnerHost) -> None:
        """Keep one embedding job queued or running while there may be something to embed.

        A job that runs may have seen the queues empty just before; asking again until a new one is accepted makes sure
        that one starts after the last change.
        """
        while True:
            try:
                async with asyncio.timeout(EMBED_AT_LEAST_EVERY_S):
                    await self._embedding_wanted.wait()
            except TimeoutError:
                pass  # nothing new: look all the same, for what an earlier worker left
            self._embedding_wanted.clear()
            try:
                if not await queue.enqueue("embed", host.leased, job_id=f"embed:{self._taking_jobs}"):
                    self._embedding_wanted.set()
                    await asyncio.sleep(0.1)
            except Exception as error:  # Redis is away or starting: the event is set again, nothing is lost
                logger.warning("embedding was not asked for: %s", error)
                self._embedding_wanted.set()
                await asyncio.sleep(1.0)


def _retiring_every_s(days: float | None) -> float:
    """A minute; less where sessions are kept for less, as in a test."""
    return UPKEEP_EVERY_S if days is None else min(UPKEEP_EVERY_S, max(1.0, days * 86_400 / 4))


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


def _be_nice() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), EMBEDDING_NICENESS)
    except (AttributeError, OSError) as error:
        logger.info("embedding runs at normal priority: %s", error)


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
