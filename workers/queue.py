"""arq: the job functions, the queue, the worker. The one file that imports arq."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import msgspec
from arq import ArqRedis, Worker, cron
from arq.constants import result_key_prefix
from arq.jobs import Job as ArqJob
from arq.jobs import JobStatus
from arq.worker import func
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError, ResponseError

from ingest.errors import InvalidSetting
from ingest.platform.redis_client import PROTOCOL, ServerPipeline, is_out_of_memory
from ingest.platform.tasks import JobState

logger = logging.getLogger(__name__)

QUEUE = "mnemolog:arq"
POLL_S = 0.05
"""arq polls for work this often: an enqueued job starts after about 30 ms."""
JOB_TIMEOUT_S = 300
"""The time limit of a job run. Also how long arq waits before it repeats a job whose worker was killed."""
CONNECT_TRIES, CONNECT_AGAIN_S, CONNECT_TIMEOUT_S = 31, 1, 10
"""A starved server on this machine is not away, and taking it for that ends the jobs."""
_Hook = Callable[[dict[Any, Any]], Awaitable[None]]
_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode
_decode = msgspec.msgpack.decode


@dataclass(frozen=True)
class Job:
    """Work that any worker may be given by name; `run` takes the arguments that it was queued with.

    It is queued every `period_s` seconds from the start on, or runs at the given seconds of each minute; with neither,
    only what asks for it queues it.
    """

    name: str
    run: Callable[..., Awaitable[object]]
    period_s: float | None = None
    keep_result_s: int = 0
    """How long `JobQueue.state` tells the result. While there is one, arq refuses another job with the same id."""
    at_seconds: frozenset[int] = frozenset()


class _Transaction(ServerPipeline):
    """One of arq's, carried out past the memory limit, too: forgetting and trimming are jobs. arq watches a key only
    where it goes on if the key is not there."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.exceed_memory_limit({})

    async def watch(self, *names: str) -> Any:
        self.exceed_memory_limit(dict.fromkeys(names))
        return await super().watch(*names)


class JobQueue(ArqRedis):
    """Puts jobs on the queue; what it writes is small, and goes past the memory limit.

    A job id that is queued or running already is not queued again.
    """

    @classmethod
    async def connect(cls, redis_url: str) -> "JobQueue":
        """A queue on a server (arq cannot use a cluster). Waits for it for half a minute; then raises RedisError."""
        queue = cls(_connections(redis_url), _encode, _decode, QUEUE)
        for left in reversed(range(CONNECT_TRIES)):
            try:
                await queue.ping()
                break
            except (RedisError, OSError) as error:
                if not left:
                    raise
                logger.warning("jobs: Redis is unreachable, retrying: %s", error)
                await asyncio.sleep(CONNECT_AGAIN_S)
        return queue

    async def enqueue(
        self, name: str, *args: Any, job_id: str, delay: timedelta | None = None, again: bool = False
    ) -> bool:
        """Queue a job; false when one with this id is waiting or running, or has a result, unless `again`."""
        if again:
            await self.delete(result_key_prefix + job_id)
        return await self.enqueue_job(name, *args, _job_id=job_id, _defer_by=delay) is not None

    async def state(self, job_id: str) -> tuple[JobState, Any] | None:
        """Return how far a job is, and its result, or the text of its error; None for an unknown job, or one whose
        result is no longer kept."""
        job = ArqJob(job_id, self, QUEUE, _decode)
        if (info := await job.result_info()) is not None:
            return ("done" if info.success else "failed"), info.result
        status = await job.status()
        if status is JobStatus.not_found:
            return None
        return ("queued" if status in (JobStatus.deferred, JobStatus.queued) else "running"), None

    async def aclose(self, close_connection_pool: bool | None = True) -> None:
        """Close the connections."""
        await super().aclose(close_connection_pool)  # pyright: ignore[reportAttributeAccessIssue]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        return _Transaction(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return cast(Any, await super().execute_command(*args, **options))
        except ResponseError as error:
            if not is_out_of_memory(error):
                raise
        async with self.pipeline() as pipe:
            pipe.execute_command(*args, **options)
            return (await pipe.execute())[0]


class _Worker(Worker):
    """arq's worker with a client of ours."""

    def __init__(self, redis_url: str, **options: Any) -> None:
        super().__init__(**options)
        self._url = redis_url

    async def main(self) -> None:
        """Take jobs for ever."""
        self._pool = await JobQueue.connect(self._url)
        await super().main()

    async def close(self) -> None:
        """Stop; the connections close even if the server is away."""
        try:
            await super().close()
        finally:
            if self._pool:
                await self._pool.aclose()


def build_worker(redis_url: str, jobs: Sequence[Job]) -> Worker:
    """An arq worker for the jobs; those with `at_seconds` run one at a time.

    It installs no signal handlers: the process that runs it decides when to stop.
    """
    return _Worker(redis_url, handle_signals=False, **_options(jobs))


def arq_settings(redis_url: str, jobs: Sequence[Job], start: _Hook, end: _Hook) -> dict[str, Any]:
    """The settings of arq's own command for the jobs; it calls `start` before the first, and `end` after the last."""
    queue = JobQueue(_connections(redis_url), _encode, _decode, QUEUE)
    return {"redis_pool": queue, "on_startup": start, "on_shutdown": end, **_options(jobs)}


def _options(jobs: Sequence[Job]) -> dict[str, Any]:
    return {
        "functions": [
            func(
                _without_context(job), name=job.name, keep_result=job.keep_result_s, timeout=JOB_TIMEOUT_S, max_tries=5
            )
            for job in jobs
            if not job.at_seconds
        ],
        "cron_jobs": [
            cron(
                _without_context(job), name=job.name, second=set(job.at_seconds), unique=True, job_id=job.name,
                timeout=JOB_TIMEOUT_S,
            )
            for job in jobs
            if job.at_seconds
        ],
        "queue_name": QUEUE,
        "poll_delay": POLL_S,
        "max_jobs": 8,
        "keep_result": 0,
        "job_serializer": _encode,
        "job_deserializer": _decode,
        "health_check_interval": 30,
        "log_results": False,
    }  # fmt: skip


def _without_context(job: Job) -> Any:
    """The function as arq calls it: with a context first, which no job of ours needs."""

    async def run(_: dict[Any, Any], *args: Any) -> object:
        return await job.run(*args)

    return run


async def run_worker(build: Callable[[], Worker]) -> None:
    """Take jobs until canceled, with a new worker whenever Redis was away.

    Canceling stops the running jobs; arq lets another worker try them again.
    """
    while True:
        worker = build()
        try:
            await worker.main()
        except (RedisError, OSError) as error:
            logger.warning("jobs: Redis is unreachable, retrying: %s", error)
            await asyncio.sleep(0.5)
        finally:
            try:
                # closing talks to a Redis that may be away; the next worker must not wait for that
                await asyncio.wait_for(worker.close(), timeout=5)
            except (asyncio.CancelledError, TimeoutError, RedisError, OSError):
                logger.debug("jobs: the worker did not shut down cleanly")


def _connections(url: str) -> Any:
    """Connections as all of ours: arq's own would use another protocol with redis-py 8 than with 5."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise InvalidSetting(
            "the job queue needs a redis://, rediss:// or unix:// URL (MNEMOLOG_JOBS_REDIS_URL, or "
            "REDIS_URL if that is unset)"
        )
    return cast(Any, ConnectionPool).from_url(url, socket_connect_timeout=CONNECT_TIMEOUT_S, protocol=PROTOCOL)
