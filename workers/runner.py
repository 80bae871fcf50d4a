"""The runner of one leased partition: read, fold, save, acknowledge.

Guarantee: an entry is acknowledged in the transaction that saves what it changed, so a crash at any moment repeats work
and never skips or doubles it. An event that cannot be applied is tried alone five times, across crashes, then parked as
a dead letter in the transaction that moves the checkpoint past it; the partition goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from ingest.errors import LeaseLost, UnreadableEvent
from ingest.events.envelope import decode
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import CONSUMER, CONSUMER_GROUP, GenerationKeys, PartitionKeys
from ingest.log.position import START, TRACE, Position
from ingest.log.redis_log import read_entries
from ingest.platform.connections import Client, Transaction, past_memory_limit
from ingest.platform.tracing import batch
from projections.folds.fold import Changes
from projections.store.protocol import project
from projections.store.redis_store import RedisStore, acknowledge

logger = logging.getLogger(__name__)

BATCH = 256
MOST = 1_024
"""Entries of a batch while more wait than fit into the one before. Rows and round trips are paid for once a batch: of
sessions that write all the time, four times as many events cost each a third less."""
MOST_BYTES = 2 << 20
"""Of a batch that is larger than BATCH."""
PRESSED = 64
BLOCK_MS = 1000
TICK_S = 0.05
"""A partition that has caught up saves at most this often, and all of a worker's partitions at the same moments.

With `appendfsync always` every round of the server's event loop that writes costs an fsync (0.2 to 7 ms here). Saving
each event by itself would leave little of the disk to the writers; saving together lets partitions share the fsync.
"""
REDRIVES = 16
"""Dead letters tried between two batches: those that wait for their events go on meanwhile."""
MAX_ATTEMPTS = 5
FIRST_PAUSE_S = 0.05
"""Between attempts at one event; doubles each time."""

Applied = Callable[[int, Changes], None]
"""Told of every saved batch: partition and changes."""


class DeadLetters(Protocol):
    """What a runner does with the dead letters of its partition."""

    async def discarded_after(self, checkpoint: Position) -> set[Position]:
        """The discarded events after a checkpoint: they are not to be applied."""
        ...

    def queue_parked(
        self, pipe: Transaction, live: GenerationKeys, entry: Stored, code: str, message: str, attempts: int
    ) -> None:
        """Queue the dead letter of an event that could not be applied, on the transaction that moves the checkpoint."""
        ...

    async def redrive(
        self, store: RedisStore, checkpoint: Position, position: Position, begin: Callable[[str], Awaitable[int]]
    ) -> Changes:
        """Try a dead letter that was asked for; `begin` counts the try. Returns what that changed."""
        ...


OpenDeadLetters: TypeAlias = Callable[[Client, EventLog, PartitionKeys], DeadLetters]


class Attempts:
    """How often the events of one partition were tried; by one worker.

    A try is counted across crashes and before it begins, because it may end the worker. One that was broken off because
    the log's server was away or had no memory says nothing about the event: it goes on when the server answers again,
    and is not counted a second time.
    """

    def __init__(self, redis: Client, keys: PartitionKeys) -> None:
        self._redis, self._key = redis, keys.attempts
        self._begun: dict[str, int] = {}

    async def begin(self, position: str) -> int:
        """Begin a try, or go on with one that was broken off; returns which it is, from 1 up."""
        if position not in self._begun:
            async with past_memory_limit(self._redis) as pipe:
                pipe.hincrby(self._key, position, 1)
                (self._begun[position],) = await pipe.execute()
        return self._begun[position]

    async def are_none(self) -> bool:
        """Whether no try is counted: nothing has failed, or ended a worker, and is still to be applied."""
        return not await self._redis.hlen(self._key)

    def end(self, position: str) -> None:
        """The try is over, however it ended."""
        self._begun.pop(position, None)


class PartitionRunner:
    """Applies one partition's log to its documents while this worker holds the lease that `fence` belongs to."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        partition: int,
        fence: int,
        applied: Applied,
        dead_letters: OpenDeadLetters,
        most_to_embed: int | None = None,
    ) -> None:
        """`most_to_embed` is how many documents may wait in the partition's embedding queue; None for any number."""
        self._redis, self._log, self._partition = redis, log, partition
        self._fence, self._applied = fence, applied
        self._keys = PartitionKeys(partition)
        self._most_to_embed = most_to_embed
        self._store = RedisStore(redis, self._keys, 1, fence)
        self._checkpoint = START
        self._discarded: set[Position] = set()
        self._attempts = Attempts(redis, self._keys)
        self._dead_letters = dead_letters(redis, log, self._keys)
        self._contexts: dict[Position, str] = {}
        """The traces that entries of the last read were written in."""
        self._applied_bytes = self._appended_bytes = 0
        """Of all events up to the checkpoint; and of all that were in the log before the last read."""
        self._stopping = False
        self._wanted = BATCH
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
                await self._catch_up()
                await self._catch_up_pending()
                while not self._stopping:
                    asked_for = self._wanted
                    entries = await self._read(">", asked_for)
                    self.pressed = len(entries) >= PRESSED
                    passed_over, wanted, appended_bytes = await self._look(entries)
                    if passed_over:
                        await self._catch_up_pending()
                        continue
                    if not entries:
                        await self._correct_size()
                    self._appended_bytes = appended_bytes
                    await self._apply(entries)
                    await self._redrive(wanted)
                    self._wanted = size_of_next(asked_for, entries)
                    if 0 < len(entries) < asked_for:
                        await _next_tick()
            except (ConnectionError, TimeoutError, OSError) as error:
                logger.warning("partition %d: Redis is away, trying again: %s", self._partition, error)
                await asyncio.sleep(0.2)
            except ResponseError as error:  # refuses writes (full disk, read-only replica), or lost its consumer group
                logger.error("partition %d: Redis refused: %s", self._partition, error)
                await asyncio.sleep(1.0)

    async def _open(self) -> None:
        generation = int(await self._redis.get(self._keys.generation) or 1)
        self._store = RedisStore(self._redis, self._keys, generation, self._fence, most_to_embed=self._most_to_embed)
        self._checkpoint = await self._store.checkpoint()
        # of a log that was restored: in any other nothing is discarded that was not applied or parked before
        self._discarded = await self._dead_letters.discarded_after(self._checkpoint)
        self._applied_bytes = self._appended_bytes = int(await self._redis.get(self._keys.applied) or 0)
        try:
            async with past_memory_limit(self._redis) as pipe:
                pipe.xgroup_create(self._keys.log, CONSUMER_GROUP, id=str(self._checkpoint), mkstream=True)
                await pipe.execute()
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def _catch_up(self) -> None:
        """Apply from the log what the group was given and this generation has not applied, in order.

        That is so after a roll back, and after the documents or the group were restored. What is still pending is
        applied with its attempts counted: it may be what crashed.
        """
        delivered = await self._last_delivered()
        while not self._stopping and self._checkpoint < delivered:
            read = await self._log.read(self._partition, self._checkpoint, BATCH)
            entries = [entry for entry in read if entry.position <= delivered]
            if not entries:
                return
            pending = await self._pending(entries[-1].position)
            for is_pending, some in groupby(entries, lambda entry, pending=pending: entry.position in pending):
                await (self._apply_pending if is_pending else self._apply)(list(some))
            if self._checkpoint < entries[-1].position:
                return  # stopping

    async def _last_delivered(self) -> Position:
        groups: list[dict[str, Any]] = await self._redis.xinfo_groups(self._keys.log)
        group = next(one for one in groups if one["name"] == CONSUMER_GROUP.encode())
        return Position.parse(group["last-delivered-id"])

    async def _pending(self, until: Position) -> set[Position]:
        """The entries behind the checkpoint that were delivered and not acknowledged."""
        after = f"({self._checkpoint}"
        rows = await self._redis.xpending_range(self._keys.log, CONSUMER_GROUP, min=after, max=str(until), count=BATCH)
        return {Position.parse(row["message_id"]) for row in rows}

    async def _read(self, start: str, count: int) -> list[Stored]:
        """New entries (`>`, waits up to a second) or those delivered and not acknowledged yet (`0`)."""
        answer: Any = await self._redis.xreadgroup(
            CONSUMER_GROUP, CONSUMER, {self._keys.log: start}, count=count, block=BLOCK_MS if start == ">" else None
        )
        if not answer:
            return []
        rows: list[tuple[bytes, dict[bytes, bytes]]] = answer[0][1]
        self._contexts = {
            Position.parse(position): fields[TRACE].decode(errors="replace")
            for position, fields in rows
            if fields and TRACE in fields
        }
        return read_entries(self._keys, rows)

    async def _look(self, entries: Sequence[Stored]) -> tuple[bool, list[Position], int]:
        """Whether older entries were delivered to somebody who never applied them; which dead letters to try again; and
        how many bytes were ever appended.

        A reply can be lost with its connection, or reach a worker that was paused and has lost the lease since. Those
        entries are pending and must be applied before what came after them.
        """
        before = f"({entries[0].position}" if entries else "+"
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xpending_range(self._keys.log, CONSUMER_GROUP, min="-", max=before, count=1)
            pipe.zrange(self._keys.redrive, 0, REDRIVES - 1)
            pipe.get(self._keys.appended)
            pending, wanted, appended = await pipe.execute()
        return bool(pending), [Position.parse(place) for place in wanted], int(appended or 0)

    async def _correct_size(self) -> None:
        """All that was in the log before the last read is applied: say so, where the count of its bytes says otherwise.

        It does when something was erased before it was applied, and behind a roll back or a restore.
        """
        if self._applied_bytes != self._appended_bytes:
            self._applied_bytes = self._appended_bytes
            async with past_memory_limit(self._redis) as pipe:
                pipe.set(self._keys.applied, str(self._applied_bytes))
                await pipe.execute()

    async def _redrive(self, wanted: Sequence[Position]) -> None:
        """Try the dead letters that were asked for, in the order of the log."""
        for position in wanted:
            changes = await self._dead_letters.redrive(self._store, self._checkpoint, position, self._attempts.begin)
            self._attempts.end(str(position))
            self._applied(self._partition, changes)

    async def _catch_up_pending(self) -> None:
        """Apply what a crash or an error left unacknowledged; one of them may be what crashed."""
        while not self._stopping and (entries := await self._read("0", BATCH)):
            await self._apply_pending(entries)

    async def _apply_pending(self, entries: Sequence[Stored]) -> None:
        """Apply a batch that was delivered before at once, and count that: a worker that ends by it leaves the count.

        Where anything is counted already, each is applied alone, so that what ends workers is found and parked.
        """
        first = str(entries[0].position)
        if await self._attempts.are_none():
            await self._attempts.begin(first)
            await self._apply(entries, attempted=True)
            self._attempts.end(first)
            return
        for entry in entries:
            await self._apply_alone(entry)

    async def _apply(self, entries: Sequence[Stored], *, attempted: bool = False) -> None:
        """Apply a batch at once; if any of it fails, each entry alone."""
        if not entries:
            return
        try:
            await self._save(entries, attempted=attempted)
        except (LeaseLost, RedisError, OSError):
            raise
        except Exception as error:  # whatever a fold raises
            logger.warning("partition %d: a batch failed, applying its events alone: %r", self._partition, error)
            for entry in entries:
                await self._apply_alone(entry)

    async def _apply_alone(self, entry: Stored) -> None:
        position, pause = str(entry.position), FIRST_PAUSE_S
        while not self._stopping:
            attempts = await self._attempts.begin(position)
            if attempts > MAX_ATTEMPTS:
                await self._park(entry, "crashed", "the worker died each time it applied this event", attempts - 1)
                return
            try:
                await self._save([entry], attempted=True)
                self._attempts.end(position)
                return
            except (LeaseLost, RedisError, OSError):  # says nothing about the event: this try is not over
                raise
            except UnreadableEvent as error:  # no retry makes it readable: a newer release may
                await self._park(entry, error.code, str(error), attempts)
                return
            except Exception as error:
                logger.warning("partition %d: attempt %d at %s failed: %r", self._partition, attempts, position, error)
                if attempts == MAX_ATTEMPTS:
                    await self._park(entry, type(error).__name__, str(error), attempts)
                    return
            self._attempts.end(position)
            await asyncio.sleep(pause)
            pause *= 2

    async def _save(self, entries: Sequence[Stored], *, attempted: bool = False) -> None:
        """Read, fold, save and acknowledge in one transaction. Entries behind the checkpoint are only acknowledged."""
        fresh = [entry for entry in entries if entry.position > self._checkpoint and entry.payload]
        if self._discarded:
            fresh = [entry for entry in fresh if entry.position not in self._discarded]
        positions, applied_bytes = [entry.position for entry in entries], self._bytes_behind(entries)

        def also(pipe: Transaction) -> None:
            acknowledge(pipe, self._keys, positions)
            pipe.set(self._keys.applied, str(applied_bytes))
            if attempted:
                pipe.hdel(self._keys.attempts, *map(str, positions))

        about = {"mnemolog.partition": self._partition, "mnemolog.events": len(fresh)}
        with batch("project", self._contexts_of(fresh), about) as contexts:
            changes = await project(self._store, [decode(entry.payload, entry.position) for entry in fresh])
            await self._store.save_and(changes, max(self._checkpoint, positions[-1]), also, contexts)
        self._checkpoint, self._applied_bytes = max(self._checkpoint, positions[-1]), applied_bytes
        self._applied(self._partition, changes)

    def _contexts_of(self, entries: Sequence[Stored]) -> list[str]:
        """The traces that these were written in."""
        return [one for entry in entries if (one := self._contexts.get(entry.position))] if self._contexts else []

    def _bytes_behind(self, entries: Sequence[Stored]) -> int:
        """The size of all events up to the checkpoint, once these are applied."""
        return self._applied_bytes + sum(len(one.payload) for one in entries if one.position > self._checkpoint)

    async def _park(self, entry: Stored, code: str, message: str, attempts: int) -> None:
        applied_bytes = self._bytes_behind([entry])

        def also(pipe: Transaction) -> None:
            # with the checkpoint, or a crash in between would skip the event without a trace, or park it twice
            self._dead_letters.queue_parked(pipe, self._store.keys, entry, code, message, attempts)
            acknowledge(pipe, self._keys, [entry.position])
            pipe.set(self._keys.applied, str(applied_bytes))
            pipe.hdel(self._keys.attempts, str(entry.position))

        await self._store.save_and(Changes({}, {}), max(self._checkpoint, entry.position), also)
        self._checkpoint, self._applied_bytes = max(self._checkpoint, entry.position), applied_bytes
        self._attempts.end(str(entry.position))
        logger.error("partition %d: parked %s: %s: %s", self._partition, entry.position, code, message)


def size_of_next(wanted: int, entries: Sequence[Stored]) -> int:
    """How many entries to read next: twice as many as were wanted and came, while they are small."""
    if len(entries) < wanted:
        return BATCH
    size = sum(len(entry.payload) for entry in entries)
    if size > MOST_BYTES:
        return max(BATCH, wanted // 2)
    return min(2 * wanted, MOST) if 2 * size <= MOST_BYTES else wanted


async def _next_tick() -> None:
    """Sleep until the next moment that all partitions of this process share."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(TICK_S - now % TICK_S)
