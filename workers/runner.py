"""The runner of one leased partition: read, fold, save, acknowledge.

Guarantee: an entry is acknowledged in the transaction that saves what it changed, so a crash at any moment repeats work
and never skips or doubles it. An event that cannot be applied is tried alone five times, across crashes, then parked as
a dead letter in the transaction that moves the checkpoint past it; the partition goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from ingest.connections import Client, Transaction
from ingest.errors import LeaseLost, UnreadableEvent
from ingest.events.envelope import decode
from ingest.log.event_log import Stored
from ingest.log.keys import CONSUMER, CONSUMER_GROUP, PartitionKeys
from ingest.log.position import START, Position
from projections.dead_letters import DeadLetter, queue_park
from projections.fold import Changes
from projections.redis_store import RedisStore, acknowledge
from projections.store import project

logger = logging.getLogger(__name__)

BATCH = 256
PRESSED = 64
BLOCK_MS = 1000
TICK_S = 0.05
"""A partition that has caught up saves at most this often, and all of a worker's partitions at the same moments.

With `appendfsync always` every round of the server's event loop that writes costs an fsync (0.2 to 7 ms here). Saving
each event by itself would leave little of the disk to the writers; saving together lets partitions share the fsync.
"""
MAX_ATTEMPTS = 5
FIRST_PAUSE_S = 0.05
"""Between attempts at one event; doubles each time."""

Applied = Callable[[int, Changes], None]
"""Told of every saved batch: partition and changes."""


class PartitionRunner:
    """Applies one partition's log to its documents while this worker holds the lease that `fence` belongs to."""

    def __init__(self, redis: Client, partition: int, fence: int, applied: Applied) -> None:
        self._redis, self._partition, self._fence, self._applied = redis, partition, fence, applied
        self._keys = PartitionKeys(partition)
        self._store = RedisStore(redis, self._keys, 1, fence)
        self._checkpoint = START
        self._stopping = False
        self.pressed = False
        """The last read found many entries waiting: other work of this process had better wait."""

    def stop(self) -> None:
        """Finish the batch at hand and return from `run` within about a second."""
        self._stopping = True

    async def run(self) -> None:
        """Run until stopped. Raises LeaseLost, with nothing half done, when another worker has taken the partition."""
        while not self._stopping:
            try:
                await self._open()
                await self._catch_up_pending()
                while not self._stopping:
                    entries = await self._read(">", BATCH)
                    self.pressed = len(entries) >= PRESSED
                    if await self._passed_over(entries):
                        await self._catch_up_pending()
                        continue
                    await self._apply(entries)
                    if 0 < len(entries) < BATCH:
                        await _next_tick()
            except (ConnectionError, TimeoutError, OSError) as error:
                logger.warning("partition %d: Redis is away, trying again: %s", self._partition, error)
                await asyncio.sleep(0.2)
            except ResponseError as error:  # refuses writes (full disk, read-only replica), or lost its consumer group
                logger.error("partition %d: Redis refused: %s", self._partition, error)
                await asyncio.sleep(1.0)

    async def _open(self) -> None:
        generation = int(await self._redis.get(self._keys.generation) or 1)
        self._store = RedisStore(self._redis, self._keys, generation, self._fence)
        self._checkpoint = await self._store.checkpoint()
        try:
            await self._redis.xgroup_create(self._keys.log, CONSUMER_GROUP, id=str(self._checkpoint), mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def _read(self, start: str, count: int) -> list[Stored]:
        """New entries (`>`, waits up to a second) or those delivered and not acknowledged yet (`0`)."""
        answer: Any = await self._redis.xreadgroup(
            CONSUMER_GROUP, CONSUMER, {self._keys.log: start}, count=count, block=BLOCK_MS if start == ">" else None
        )
        if not answer:
            return []
        entries: list[tuple[bytes, dict[bytes, bytes] | None]] = answer[0][1]
        return [Stored(Position.parse(position), (fields or {}).get(b"e", b"")) for position, fields in entries]

    async def _passed_over(self, entries: Sequence[Stored]) -> bool:
        """Whether older entries were delivered to somebody who never applied them.

        A reply can be lost with its connection, or reach a worker that was paused and has lost the lease since. Those
        entries are pending and must be applied before what came after them.
        """
        before = f"({entries[0].position}" if entries else "+"
        keys = self._keys
        return bool(await self._redis.xpending_range(keys.log, CONSUMER_GROUP, min="-", max=before, count=1))

    async def _catch_up_pending(self) -> None:
        """Apply, one at a time, what a crash or an error left unacknowledged; one of them may be what crashed."""
        while not self._stopping and (entries := await self._read("0", BATCH)):
            for entry in entries:
                await self._apply_alone(entry)

    async def _apply(self, entries: Sequence[Stored]) -> None:
        """Apply a batch at once; if any of it fails, each entry alone."""
        if not entries:
            return
        try:
            await self._save(entries)
        except (LeaseLost, RedisError, OSError):
            raise
        except Exception as error:
            logger.warning("partition %d: a batch failed, applying its events alone: %r", self._partition, error)
            for entry in entries:
                await self._apply_alone(entry)

    async def _apply_alone(self, entry: Stored) -> None:
        position, pause = str(entry.position), FIRST_PAUSE_S
        while not self._stopping:
            attempts = int(await self._redis.hincrby(self._keys.attempts, position, 1))
            if attempts > MAX_ATTEMPTS:
                await self._park(entry, "crashed", "the worker died each time it applied this event", attempts - 1)
                return
            try:
                await self._save([entry], attempted=True)
                return
            except (LeaseLost, RedisError, OSError):
                raise
            except UnreadableEvent as error:  # no retry makes it readable: a newer release may
                await self._park(entry, error.code, str(error), attempts)
                return
            except Exception as error:
                logger.warning("partition %d: attempt %d at %s failed: %r", self._partition, attempts, position, error)
                if attempts == MAX_ATTEMPTS:
                    await self._park(entry, type(error).__name__, str(error), attempts)
                    return
            await asyncio.sleep(pause)
            pause *= 2

    async def _save(self, entries: Sequence[Stored], *, attempted: bool = False) -> None:
        """Read, fold, save and acknowledge in one transaction. Entries behind the checkpoint are only acknowledged."""
        fresh = [entry for entry in entries if entry.position > self._checkpoint and entry.payload]
        changes = await project(self._store, [decode(entry.payload, entry.position) for entry in fresh])
        positions = [entry.position for entry in entries]

        def also(pipe: Transaction) -> None:
            acknowledge(pipe, self._keys, positions)
            if attempted:
                pipe.hdel(self._keys.attempts, *map(str, positions))

        await self._store.save_and(changes, max(self._checkpoint, positions[-1]), also)
        self._checkpoint = max(self._checkpoint, positions[-1])
        self._applied(self._partition, changes)

    async def _park(self, entry: Stored, code: str, message: str, attempts: int) -> None:
        letter = DeadLetter(position=str(entry.position), code=code, message=message[:2000], attempts=attempts)

        def also(pipe: Transaction) -> None:
            queue_park(pipe, self._keys, letter)
            acknowledge(pipe, self._keys, [entry.position])
            pipe.hdel(self._keys.attempts, letter.position)

        await self._store.save_and(Changes({}, {}), max(self._checkpoint, entry.position), also)
        self._checkpoint = max(self._checkpoint, entry.position)
        logger.error("partition %d: parked %s: %s: %s", self._partition, entry.position, code, message)


async def _next_tick() -> None:
    """Sleep until the next moment that all partitions of this process share."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(TICK_S - now % TICK_S)
