"""The host of a worker's runners: leases partitions, renews them, shares them fairly with the other workers.

A worker that dies stops renewing; its partitions are free after the lease time and taken by the next tick of another.
"""

import asyncio
import logging
import math
import time

from redis.exceptions import RedisError

from ingest.connections import Client
from ingest.errors import LeaseLost
from ingest.log.keys import LEASE_TTL, WORKERS, PartitionKeys
from ingest.log.scripts import acquire_lease, release_lease, renew_leases
from ingest.tasks import end
from workers.runner import Applied, PartitionRunner

logger = logging.getLogger(__name__)

TICK_S = 1.0
_TTL_MS = int(LEASE_TTL.total_seconds() * 1000)


class RunnerHost:
    """Runs a PartitionRunner for each partition this worker has leased."""

    def __init__(self, redis: Client, blocking: Client, partitions: int, worker_id: str, applied: Applied) -> None:
        """`blocking` serves the runners: two connections a partition, and a client that does not repeat commands."""
        self._redis, self._blocking = redis, blocking
        self._partitions, self._worker_id, self._applied = partitions, worker_id, applied
        self._running: dict[int, tuple[PartitionRunner, asyncio.Task[None]]] = {}
        self._ticker: asyncio.Task[None] | None = None

    @property
    def leased(self) -> list[int]:
        """The partitions this worker runs."""
        return sorted(self._running)

    @property
    def pressed(self) -> bool:
        """Whether events wait for any of its partitions to be projected."""
        return any(runner.pressed for runner, _ in self._running.values())

    def start(self) -> None:
        """Begin to lease partitions."""
        self._ticker = asyncio.create_task(self._tick_for_ever(), name="leases")

    async def aclose(self) -> None:
        """Finish the batches at hand, then give every partition up, so that another worker need not wait."""
        if self._ticker is not None:
            await end(self._ticker)
        await self._give_up(self.leased)
        try:
            await self._redis.zrem(WORKERS, self._worker_id)
        except (RedisError, OSError) as error:
            logger.warning("could not sign off, the lease time will do it: %s", error)

    async def _tick_for_ever(self) -> None:
        while True:
            try:
                await self._tick()
            except (RedisError, OSError) as error:
                logger.warning("leases: Redis is away: %s", error)
            await asyncio.sleep(TICK_S)

    async def _tick(self) -> None:
        await self._drop_finished()
        await self._renew()
        fair = math.ceil(self._partitions / await self._live_workers())
        if len(self._running) > fair:
            await self._give_up(self.leased[fair:])
        for partition in range(self._partitions):
            if len(self._running) >= fair:
                break
            if partition not in self._running:
                await self._try_acquire(partition)

    async def _live_workers(self) -> int:
        """How many workers beat their heart within the lease time, this one included."""
        now_ms = time.time() * 1000
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(WORKERS, {self._worker_id: now_ms})
            pipe.zremrangebyscore(WORKERS, 0, now_ms - _TTL_MS)
            pipe.zcard(WORKERS)
            return max(1, int((await pipe.execute())[2]))

    async def _try_acquire(self, partition: int) -> None:
        fence = await acquire_lease(self._redis, PartitionKeys(partition), self._worker_id, _TTL_MS)
        if fence:
            runner = PartitionRunner(self._blocking, partition, fence, self._applied)
            task = asyncio.create_task(runner.run(), name=f"runner-{partition}")
            self._running[partition] = (runner, task)

    async def _renew(self) -> None:
        leased = self.leased
        held = await renew_leases(self._redis, [PartitionKeys(one) for one in leased], self._worker_id, _TTL_MS)
        lost = [partition for partition, is_held in zip(leased, held, strict=True) if not is_held]
        if lost:
            logger.warning("partitions %s: the lease ran out", ", ".join(map(str, lost)))
            await self._stop(lost)

    async def _drop_finished(self) -> None:
        for partition, (_, task) in list(self._running.items()):
            if task.done():
                del self._running[partition]
                error = task.exception()
                if isinstance(error, LeaseLost):
                    logger.info("%s", error)
                else:
                    logger.error("partition %d: the runner failed", partition, exc_info=error)
                await release_lease(self._redis, PartitionKeys(partition), self._worker_id)

    async def _stop(self, partitions: list[int]) -> None:
        stopped = [self._running.pop(partition) for partition in partitions]
        for runner, _ in stopped:
            runner.stop()
        await asyncio.gather(*(task for _, task in stopped), return_exceptions=True)

    async def _give_up(self, partitions: list[int]) -> None:
        await self._stop(partitions)
        for partition in partitions:
            try:
                await release_lease(self._redis, PartitionKeys(partition), self._worker_id)
            except (RedisError, OSError) as error:
                logger.warning("partition %d: could not release, the lease time will do it: %s", partition, error)
