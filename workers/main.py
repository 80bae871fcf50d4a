"""Composition root of the worker process: runners for leased partitions, and the arq jobs."""

import asyncio
import logging
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

from ingest.connections import Client, connect
from ingest.errors import InvalidSetting
from ingest.ids import new_event_id
from ingest.log.keys import LEASE_TTL, WORKERS, PartitionKeys
from ingest.log.redis_log import RedisLog
from ingest.settings import Settings
from ingest.tasks import end
from ingest.tuning import tune_interpreter
from projections.embedding.embedder import Embedder
from projections.embedding.factory import build_embedder
from projections.fold import Changes
from projections.index.work_folder import work_folder
from workers.host import RunnerHost
from workers.jobs.embed import EmbeddingQueue
from workers.jobs.rebuild import claim, clean_up, rebuild
from workers.jobs.snapshot import SnapshotJob
from workers.queue import JobQueue, build_worker, run_worker

logger = logging.getLogger(__name__)

EMBED_SLICE_S = 20.0
REBUILD_SLICE_S = 60.0
OLD_GENERATION_KEPT = timedelta(seconds=60)
"""Readers that learned the generation just before a switch finish well within this."""
EMBEDDING_NICENESS = 19
"""Embedding takes the processor time that nobody else wants: writes and text search come first."""
EMBED_AT_LEAST_EVERY_S = 5.0
EMBEDDING_WAITS = 20
"""Tenths of a second, before each batch of texts, while events wait to be projected."""


class WorkerProcess:
    """Everything a worker does, from start to stop."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise InvalidSetting("REDIS_URL is not set; `mnemolog up` starts an embedded server and sets it")
        self._settings, self._redis_url = settings, settings.redis_url
        self._id = str(new_event_id())
        self._embedding_wanted = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what is at hand and give the partitions up."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            redis = connect(self._redis_url)
            stack.push_async_callback(redis.aclose)
            blocking = connect(self._redis_url, connections=2 * settings.partitions + 4, repeat=False)
            stack.push_async_callback(blocking.aclose)
            log = RedisLog(redis, settings.partitions)
            await log.create_or_check()
            queue = await JobQueue.connect(self._redis_url)
            stack.push_async_callback(queue.aclose)
            embedder = await asyncio.to_thread(
                build_embedder,
                settings.embedder,
                directory=settings.model_directory,
                threads=1,
                api_key=settings.embedder_key or "",
            )
            host = RunnerHost(redis, blocking, settings.partitions, self._id, self._applied)
            jobs = self._jobs(redis, log, queue, embedder, host, stack)
            tasks = [
                asyncio.create_task(run_worker(partial(build_worker, self._redis_url, jobs, self._crons(jobs)))),
                asyncio.create_task(self._ask_for_embedding(queue, host)),
            ]
            tune_interpreter()
            host.start()
            logger.info("worker %s is up", self._id)
            await stop.wait()
            await host.aclose()
            await end(*tasks)
        logger.info("worker %s has stopped", self._id)

    def _applied(self, partition: int, changes: Changes) -> None:
        if changes.documents:
            self._embedding_wanted.set()

    def _jobs(
        self,
        redis: Client,
        log: RedisLog,
        queue: JobQueue,
        embedder: Embedder,
        host: RunnerHost,
        stack: AsyncExitStack,
    ) -> dict[str, Any]:
        settings = self._settings
        threads = max(1, min(4, (os.cpu_count() or 1) - 1))  # one processor stays free of it
        executor = ThreadPoolExecutor(threads, "embedding", initializer=_be_nice)
        stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        waiting = EmbeddingQueue(redis, embedder, executor, threads)
        work = work_folder(settings.cache_dir / "snapshots")
        snapshots = SnapshotJob(
            redis, settings.partitions, settings.snapshots, work, embedder.model, embedder.dimensions,
            settings.snapshot_every,
        )  # fmt: skip

        async def embed(ctx: dict[Any, Any], partitions: list[int]) -> int:
            until, done = asyncio.get_running_loop().time() + EMBED_SLICE_S, 0
            while asyncio.get_running_loop().time() < until:
                await _let_projecting_go_first(host)
                embedded = await waiting.work(partitions)
                done += embedded
                if not embedded:
                    break
            return done

        async def snapshot(ctx: dict[Any, Any], force: bool = False) -> str | None:
            manifest = await snapshots.run(force=force)
            return manifest.name if manifest else None

        async def rebuild_partition(ctx: dict[Any, Any], partition: int, who: str = "", part: int = 0) -> int | None:
            who = who or str(new_event_id())
            if not await claim(redis, partition, who):
                return None
            old = await rebuild(redis, log, partition, REBUILD_SLICE_S)
            if old is None:
                again = f"rebuild:{partition}:{part + 1}"
                await queue.enqueue("rebuild", partition, who, part + 1, job_id=again)
            else:
                await redis.delete(PartitionKeys(partition).rebuild)
                cleaning = f"clean-up:{partition}:{old}"
                await queue.enqueue("clean_up", partition, old, job_id=cleaning, delay=OLD_GENERATION_KEPT)
            return old

        async def clean_up_generation(ctx: dict[Any, Any], partition: int, generation: int) -> int:
            return await clean_up(redis, partition, generation)

        return {
            "embed": embed,
            "snapshot": snapshot,
            "rebuild": rebuild_partition,
            "clean_up": clean_up_generation,
        }

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
                if not await queue.enqueue("embed", host.leased, job_id=f"embed:{self._id}"):
                    self._embedding_wanted.set()
                    await asyncio.sleep(0.1)
            except Exception as error:  # Redis is away or starting: the event is set again, nothing is lost
                logger.warning("embedding was not asked for: %s", error)
                self._embedding_wanted.set()
                await asyncio.sleep(1.0)


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
        oldest = (time.time() - LEASE_TTL.total_seconds()) * 1000
        return int(await redis.zcount(WORKERS, oldest, "+inf")) > 0
    finally:
        await redis.aclose()
