"""Puts this worker's jobs on the queue: at fixed periods, for rebuilds, and for documents that wait for vectors."""

import asyncio
import logging
from collections.abc import Callable

from projections.maintenance.rebuilds import Rebuilds
from workers.host import RunnerHost
from workers.jobs.embed import LOOK_AGAIN_S
from workers.jobs.rebuild import RebuildJob
from workers.queue import Job, JobQueue

logger = logging.getLogger(__name__)

REBUILD_LOOK_S = 1.0
"""Between two looks for a rebuild that was ordered, or that a worker left."""


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
        try:
            if await rebuilds.wanted():
                await queue.enqueue("rebuild", job_id=f"rebuild:{worker}")
            else:
                await rebuilding.rest()
        except Exception as error:  # Redis is away or starting; looked again later
            logger.warning("rebuilds were not looked for: %s", error)
        await asyncio.sleep(REBUILD_LOOK_S)


async def queue_embedding(
    queue: JobQueue, host: RunnerHost, changed: asyncio.Event, arq_worker: Callable[[], str]
) -> None:
    """Keep one embedding job queued or running while there may be something to embed: always when `changed` is set.

    A job that runs may have seen the queues empty just before; asking again until a new one is accepted makes sure
    that one starts after the last change.
    """
    while True:
        try:
            async with asyncio.timeout(LOOK_AGAIN_S):
                await changed.wait()
        except TimeoutError:
            pass  # nothing new: look all the same, for what an earlier worker left
        changed.clear()
        try:
            if not await queue.enqueue("embed", host.leased, job_id=f"embed:{arq_worker()}"):
                changed.set()
                await asyncio.sleep(0.1)
        except Exception as error:  # Redis is away or starting: the event is set again, nothing is lost
            logger.warning("embedding was not asked for: %s", error)
            changed.set()
            await asyncio.sleep(1.0)
