"""The host of a worker's runners: leases partitions, renews the leases, shares partitions evenly with other workers.

A worker that dies or stalls stops renewing; its partitions are free after the lease time, and the next tick of another
worker takes them. No step waits long for a server, because leases would expire: the partitions of a cluster are on
several nodes, and a node that does not answer must not cost the leases on the others.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from ingest.errors import LeaseLost, reason_of
from ingest.log.event_log import EventLog
from ingest.log.keys import LEASE_TTL, WORKERS, PartitionKeys
from ingest.log.scripts import acquire_lease, beat, release_lease, renew_leases
from ingest.platform.connections import Client
from ingest.platform.tasks import end, nothing
from workers.runner import Applied, OpenDeadLetters, PartitionRunner

logger = logging.getLogger(__name__)

TICK_S = 1.0
ANSWER_WITHIN_S, ANSWER_WITHIN_AT_MOST_S = 1.0, 4.0
"""Time limit of a lease request, on a machine with time to spare and on a starved one."""
SLOWER = 4
"""How many times as long as the slowest request of the last tick the next ones may take."""
SHRINKS_TO = 0.95
"""Of the limit, per tick: a starved process stalls for seconds, with half a minute in between."""


class AdaptiveTimeout:
    """A time limit of requests that grows while answers are slow: a server that is starved of time is not down."""

    def __init__(self) -> None:
        self.seconds = ANSWER_WITHIN_S
        self._slowest_s = 0.0
        self._adapted_at = time.monotonic()

    @property
    def lease_ms(self) -> int:
        """How long a lease must last to be renewed in time: LEASE_TTL, or as many times longer as the limit is."""
        return int(1000 * LEASE_TTL.total_seconds() * self.seconds / ANSWER_WITHIN_S)

    def adapt(self) -> None:
        """Set the limit, once a tick, by the slowest request since the last call and by how late this tick is."""
        now = time.monotonic()
        late_s = now - self._adapted_at - TICK_S
        patient_s = max(ANSWER_WITHIN_S, SHRINKS_TO * self.seconds, SLOWER * self._slowest_s, late_s)
        self.seconds = min(patient_s, ANSWER_WITHIN_AT_MOST_S)
        self._slowest_s, self._adapted_at = 0.0, now

    @asynccontextmanager
    async def limit(self) -> AsyncGenerator[None]:
        """Raise TimeoutError in the block if it takes longer."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.seconds):
                yield
        finally:
            self._slowest_s = max(self._slowest_s, time.monotonic() - began)


def share_of(worker: str, workers: Sequence[str], partitions: int) -> int:
    """How many partitions a worker should run; all shares add up to `partitions` and differ by at most one.

    A worker that is not in `workers` is counted as well. Workers that see the same list compute the same shares.
    """
    everyone = sorted({*workers, worker})
    each, left = divmod(partitions, len(everyone))
    return each + (everyone.index(worker) < left)


class RunnerHost:
    """Runs a PartitionRunner for each partition this worker has leased."""

    def __init__(
        self,
        redis: Client,
        blocking: Client,
        log: EventLog,
        worker_id: str,
        applied: Applied,
        dead_letters: OpenDeadLetters,
        look_at_log: Callable[[], Awaitable[None]] = nothing,
        most_to_embed: int | None = None,
    ) -> None:
        """`blocking` serves the runners: two connections a partition, and a client that does not repeat commands.

        They read `log` to catch up on what the consumer group delivered before. `look_at_log` is awaited once a tick.
        `most_to_embed` is how many documents may wait in a partition's embedding queue.
        """
        self._redis, self._blocking, self._log = redis, blocking, log
        self._partitions, self._worker_id, self._applied = log.partitions, worker_id, applied
        self._running: dict[int, tuple[PartitionRunner, asyncio.Task[None]]] = {}
        self._leaving: dict[int, asyncio.Task[None]] = {}
        """Partitions whose runner is finishing its batch; the lease is released after it."""
        self._dead_letters, self._look_at_log, self._most_to_embed = dead_letters, look_at_log, most_to_embed
        self._timeout = AdaptiveTimeout()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def leased(self) -> list[int]:
        """The partitions this worker runs."""
        return sorted(self._running)

    @property
    def pressed(self) -> bool:
        """Whether many events of any of its partitions wait to be projected."""
        return any(runner.pressed for runner, _ in self._running.values())

    def start(self) -> None:
        """Start leasing partitions."""
        # two tasks: the node that says whether the log accepts writes may be another one, and be unreachable
        self._tasks = [
            asyncio.create_task(self._tick(), name="leases"),
            asyncio.create_task(self._look(), name="log"),
        ]

    async def beat(self) -> list[str]:
        """Announce this worker; returns all that are up."""
        return await beat(self._redis, WORKERS, self._worker_id, self._timeout.lease_ms)

    async def aclose(self) -> None:
        """Finish the current batches and release every partition, so that another worker need not wait."""
        await end(*self._tasks)
        self._give_up(self.leased)
        await asyncio.gather(*self._leaving.values())
        try:
            await self._redis.zrem(WORKERS, self._worker_id)
        except (RedisError, OSError) as error:
            logger.warning("could not deregister the worker; its heartbeat will expire: %s", error)

    async def _tick(self) -> None:
        while True:
            for step in (self._drop_finished, self._renew, self._share):
                try:
                    await step()
                except (RedisError, OSError, TimeoutError) as error:
                    logger.warning("leases: Redis is unreachable: %s", reason_of(error))
            await asyncio.sleep(TICK_S)

    async def _look(self) -> None:
        while True:
            try:
                # bounded: with a stalled node this look must end before the next one is due
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    await self._look_at_log()
            except (RedisError, OSError, TimeoutError) as error:
                logger.debug("could not check whether the log accepts writes: %s", reason_of(error))
            await asyncio.sleep(TICK_S)

    async def _drop_finished(self) -> None:
        for partition, (_, task) in list(self._running.items()):
            if task.done():
                # released at once, so that another worker need not wait for the lease to expire
                del self._running[partition]
                error = task.exception()
                if isinstance(error, LeaseLost):
                    logger.info("%s", error)
                else:
                    logger.error("partition %d: the runner failed", partition, exc_info=error)
                async with self._timeout.limit():
                    await release_lease(self._redis, PartitionKeys(partition), self._worker_id)

    async def _renew(self) -> None:
        leased = self.leased
        # only here, so that no request until the next renewal takes longer than the lease was made for
        self._timeout.adapt()
        # shorter than the lease: a renewal without an answer is tried again before the lease expires
        async with self._timeout.limit():
            fences = {PartitionKeys(partition): self._running[partition][0].fence for partition in leased}
            held = await renew_leases(self._redis, fences, self._worker_id, self._timeout.lease_ms)
        lost = [partition for partition, is_held in zip(leased, held, strict=True) if is_held is False]
        if lost:
            logger.warning("partitions %s: the lease expired", ", ".join(map(str, lost)))
            self._give_up(lost)
        # these leases may be renewed or not: their runners continue, and the fence stops them if they are not
        if errors := [answer for answer in held if isinstance(answer, Exception)]:
            raise errors[0]

    async def _share(self) -> None:
        """Take free partitions or give up surplus ones until this worker has its share."""
        async with self._timeout.limit():
            workers = await self.beat()
        share = share_of(self._worker_id, workers, self._partitions)
        self._give_up(self.leased[share:])
        if len(self._running) < share:
            others = [n for n in range(self._partitions) if n not in self._running and n not in self._leaving]
            # read in parallel before any is acquired, so a node that is away delays only its own partitions
            are_free = await asyncio.gather(*(self._is_free(partition) for partition in others))
            free = [partition for partition, is_free in zip(others, are_free, strict=True) if is_free]
            await asyncio.gather(*(self._try_acquire(partition) for partition in free[: share - len(self._running)]))

    async def _is_free(self, partition: int) -> bool:
        """Whether no other worker has a partition; False when its node does not answer."""
        try:
            async with self._timeout.limit():
                holder = await self._redis.get(PartitionKeys(partition).lease)
        except (RedisError, OSError, TimeoutError):
            return False
        return holder is None or holder == self._worker_id.encode()

    async def _try_acquire(self, partition: int) -> None:
        try:
            async with self._timeout.limit():
                fence = await acquire_lease(
                    self._redis, PartitionKeys(partition), self._worker_id, self._timeout.lease_ms
                )
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("partition %d: could not be leased: %s", partition, reason_of(error))
            return
        if fence:
            # runners block on a connection pool of their own, so renewals never wait behind a blocking read
            runner = PartitionRunner(
                self._blocking, self._log, partition, fence, self._applied, self._dead_letters, self._most_to_embed
            )
            task = asyncio.create_task(runner.run(), name=f"runner-{partition}")
            self._running[partition] = (runner, task)

    def _give_up(self, partitions: list[int]) -> None:
        """Stop these runners; each lease is released when its runner has finished, while the others are renewed."""
        for partition in partitions:
            runner, task = self._running.pop(partition)
            runner.stop()
            self._leaving[partition] = asyncio.create_task(self._leave(partition, task), name=f"leaving-{partition}")

    async def _leave(self, partition: int, task: "asyncio.Task[None]") -> None:
        # a runner that takes longer than the lease loses it; the fence refuses what it saves after that
        await asyncio.gather(task, return_exceptions=True)
        try:
            await release_lease(self._redis, PartitionKeys(partition), self._worker_id)
        except (RedisError, OSError) as error:
            logger.warning("partition %d: could not release; the lease will expire: %s", partition, error)
        finally:
            del self._leaving[partition]
