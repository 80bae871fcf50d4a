"""The runner of one leased partition: read, fold, save, acknowledge.

Guarantee: an entry is acknowledged in the transaction that saves what it changed, so a crash at any moment repeats work
and never skips or doubles it. An event that cannot be applied is tried alone five times, across crashes, then parked as
a dead letter in the transaction that moves the checkpoint past it; the partition continues.

Three things make it so. The checkpoint is the newest position that is saved: what it covers is acknowledged, not folded
again. The fence (in `RedisStore`) refuses a save by a worker that lost its lease. The consumer group remembers what was
delivered and not acknowledged: that is applied first, before anything newer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from ingest.errors import LeaseLost, UnreadableEvent
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import CONSUMER, CONSUMER_GROUP, GenerationKeys, PartitionKeys
from ingest.log.position import START, TRACE, Position
from ingest.log.redis_log import read_entries
from ingest.nouns.registry import decode
from ingest.platform.connections import Client, Transaction, past_memory_limit
from ingest.platform.tracing import batch
from projections.nouns.fold import Changes
from projections.store.protocol import project
from projections.store.redis_store import RedisStore, acknowledge

logger = logging.getLogger(__name__)

BATCH = 256
MOST = 1_024
"""Batch size if more entries are waiting than fit into the last batch. Rows and round trips cost once per batch: for
sessions that write continuously, a batch four times as large costs a third less per event."""
MOST_BYTES = 2 << 20
"""The byte limit of a batch that is larger than BATCH."""
PRESSED = 64
"""Entries in one read from which a worker's other jobs step back."""
BLOCK_MS = 1000
TICK_S = 0.05
"""A partition that has caught up saves at most this often, and all of a worker's partitions at the same moments.

With `appendfsync always` every round of the server's event loop that writes costs an fsync (0.2 to 7 ms when measured).
Saving each event alone would leave little of the disk to writers; saving together lets partitions share an fsync
(decision 6).
"""
REDRIVES = 16
"""Dead letters retried between two batches, so that readers still get the events that they wait for."""
MAX_ATTEMPTS = 5
FIRST_PAUSE_S = 0.05
"""Pause between attempts at one event; doubles each time."""

Applied = Callable[[int, Changes], None]
"""Called after every saved batch with its partition and changes."""


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
    """How often the events of one partition were tried.

    An attempt is counted in Redis before it begins, because it may kill the worker. One that was interrupted because
    Redis was unreachable or out of memory says nothing about the event: it resumes when Redis answers again, and is not
    counted twice.
    """

    def __init__(self, redis: Client, keys: PartitionKeys) -> None:
        self._redis, self._key = redis, keys.attempts
        self._begun: dict[str, int] = {}

    async def begin(self, position: str) -> int:
        """Begin an attempt, or resume an interrupted one; returns its number, from 1."""
        if position not in self._begun:
            async with past_memory_limit(self._redis) as pipe:
                pipe.hincrby(self._key, position, 1)
                (self._begun[position],) = await pipe.execute()
        return self._begun[position]

    async def are_none(self) -> bool:
        """Whether no attempt is counted: no event that is still to be applied has failed or killed a worker."""
        return not await self._redis.hlen(self._key)

    def end(self, position: str) -> None:
        """The attempt is over, with whatever result."""
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
        self._redis, self._log, self._partition, self._applied = redis, log, partition, applied
        self.fence = fence
        self._keys = PartitionKeys(partition)
        self._most_to_embed = most_to_embed
        self._store = RedisStore(redis, self._keys, 1, fence)
        self._checkpoint = START
        self._discarded: set[Position] = set()
        self._attempts = Attempts(redis, self._keys)
        self._dead_letters = dead_letters(redis, log, self._keys)
        self._contexts: dict[Position, str] = {}
        """The traces that wrote the entries of the last read."""
        self._applied_bytes = self._appended_bytes = 0
        """Sizes of all events up to the checkpoint, and of all that were in the log before the last read."""
        self._stopping = False
        self._batch_size = BATCH
        self._is_awaited = False
        """Whether the last batch had an event whose writer waits for what the fold decides."""
        self.pressed = False
        """Whether the last read had many waiting entries, so that other work of this process should wait."""

    def stop(self) -> None:
        """Finish the current batch and return from `run` within about a second."""
        self._stopping = True

    async def run(self) -> None:
        """Run until stopped. Raises LeaseLost, with nothing half done, when another worker has taken the partition."""
        while not self._stopping:
            try:
                await self._open()
                await self._catch_up()
                await self._catch_up_pending()
                while not self._stopping:
                    count = self._batch_size
                    entries = await self._read(">", count)
                    self.pressed = len(entries) >= PRESSED
                    is_older_pending, redrives, appended_bytes = await self._inspect(entries)
                    if is_older_pending:  # these entries are pending now as well, and are applied in order with them
                        await self._catch_up_pending()
                        continue
                    if not entries:
                        await self._correct_size()
                    self._appended_bytes = appended_bytes
                    await self._apply(entries)
                    for position in redrives:
                        changes = await self._dead_letters.redrive(
                            self._store, self._checkpoint, position, self._attempts.begin
                        )
                        self._attempts.end(str(position))
                        self._applied(self._partition, changes)
                    self._batch_size = size_of_next(count, entries)
                    # caught up: save with the other partitions, to share an fsync; an agent that claims work waits for
                    # each event, so its next event is not delayed
                    if 0 < len(entries) < count and not self._is_awaited:
                        now = asyncio.get_running_loop().time()
                        await asyncio.sleep(TICK_S - now % TICK_S)
            except (ConnectionError, TimeoutError, OSError) as error:
                logger.warning("partition %d: Redis is unreachable, retrying: %s", self._partition, error)
                await asyncio.sleep(0.2)
            except ResponseError as error:  # Redis refuses writes (full disk, read-only replica), or the group is gone
                logger.error("partition %d: Redis refused: %s", self._partition, error)
                await asyncio.sleep(1.0)

    async def _open(self) -> None:
        generation = int(await self._redis.get(self._keys.generation) or 1)
        self._store = RedisStore(self._redis, self._keys, generation, self.fence, most_to_embed=self._most_to_embed)
        self._checkpoint = await self._store.checkpoint()
        # only a restored log has any: otherwise an event is applied or parked before it can be discarded
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
        """Apply, in order, the entries that the group was given and this generation has not applied.

        There are some after a rollback to an older generation, and after documents or group were restored. Those that
        are still pending are applied with their attempts counted: one of them may have killed a worker.
        """
        groups: list[dict[str, Any]] = await self._redis.xinfo_groups(self._keys.log)
        group = next(group for group in groups if group["name"] == CONSUMER_GROUP.encode())
        delivered = Position.parse(group["last-delivered-id"])
        while not self._stopping and self._checkpoint < delivered:
            read = await self._log.read(self._partition, self._checkpoint, BATCH)
            entries = [entry for entry in read if entry.position <= delivered]
            if not entries:
                return
            rows = await self._redis.xpending_range(
                self._keys.log,
                CONSUMER_GROUP,
                min=f"({self._checkpoint}",
                max=str(entries[-1].position),
                count=BATCH,
            )
            pending = {Position.parse(row["message_id"]) for row in rows}
            for is_pending, some in groupby(entries, lambda entry, pending=pending: entry.position in pending):
                await (self._apply_pending if is_pending else self._apply)(list(some))
            if self._checkpoint < entries[-1].position:
                return  # stopping

    async def _read(self, start: str, count: int) -> list[Stored]:
        """New entries (`>`, waits up to a second) or those delivered and not acknowledged (`0`)."""
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

    async def _inspect(self, entries: Sequence[Stored]) -> tuple[bool, list[Position], int]:
        """Whether entries before these are pending; which dead letters to try again; how many bytes were ever appended.

        A reply can be lost with its connection, or reach a worker that was paused and has lost its lease. Its entries
        are pending then, delivered but not applied, and must be applied before newer ones.
        """
        before = f"({entries[0].position}" if entries else "+"
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xpending_range(self._keys.log, CONSUMER_GROUP, min="-", max=before, count=1)
            pipe.zrange(self._keys.redrive, 0, REDRIVES - 1)
            pipe.get(self._keys.appended)
            pending, redrives, appended = await pipe.execute()
        return bool(pending), [Position.parse(position) for position in redrives], int(appended or 0)

    async def _correct_size(self) -> None:
        """Correct the count of applied bytes: everything that was in the log before the last read is applied.

        The count is wrong when an entry was erased before it was applied, and after a rollback or a restore.
        """
        if self._applied_bytes != self._appended_bytes:
            self._applied_bytes = self._appended_bytes
            async with past_memory_limit(self._redis) as pipe:
                pipe.set(self._keys.applied, str(self._applied_bytes))
                await pipe.execute()

    async def _catch_up_pending(self) -> None:
        """Apply what a crash or an error left unacknowledged; one of these entries may have caused the crash."""
        while not self._stopping and (entries := await self._read("0", BATCH)):
            await self._apply_pending(entries)

    async def _apply_pending(self, entries: Sequence[Stored]) -> None:
        """Apply entries that were delivered before, as one batch, and count the attempt: a worker killed by it leaves
        the count behind.

        If any attempt is counted already, each entry is applied alone, so that the one that kills workers is found and
        parked (decision 37).
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
        """Apply entries as one batch; if that fails, each entry alone."""
        if not entries:
            return
        try:
            await self._save(entries, attempted=attempted)
        except (LeaseLost, RedisError, OSError):
            raise
        except Exception as error:  # anything that a fold raises
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
            except (LeaseLost, RedisError, OSError):  # says nothing about the event: this attempt is not over
                raise
            except UnreadableEvent as error:  # a retry does not help; a newer release may read it
                await self._park(entry, error.code, str(error), attempts)
                return
            except Exception as error:
                logger.warning("partition %d: attempt %d at %s failed: %r", self._partition, attempts, position, error)
                if attempts == MAX_ATTEMPTS:
                    await self._park(entry, type(error).__name__, str(error), attempts)
                    return
            self._attempts.end(position)
            # the cause may pass (memory, a node that restarts); the pause doubles so that five attempts span seconds
            await asyncio.sleep(pause)
            pause *= 2

    async def _save(self, entries: Sequence[Stored], *, attempted: bool = False) -> None:
        """Fold entries, then save and acknowledge them in one transaction."""
        # entries that the checkpoint covers are only acknowledged: they were saved, but the acknowledgement was lost
        # with the consumer group or in a failover; marks alone must not be what keeps them from being folded again
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
        traces = [trace for entry in fresh if (trace := self._contexts.get(entry.position))] if self._contexts else []
        with batch("project", traces, about) as contexts:
            events = [decode(entry.payload, entry.position) for entry in fresh]
            self._is_awaited = any(event.data.is_awaited for event in events)
            changes = await project(self._store, events)
            await self._store.save_and(changes, max(self._checkpoint, positions[-1]), also, contexts)
        self._checkpoint, self._applied_bytes = max(self._checkpoint, positions[-1]), applied_bytes
        self._applied(self._partition, changes)

    def _bytes_behind(self, entries: Sequence[Stored]) -> int:
        """The size of all events up to the checkpoint, once these are applied."""
        return self._applied_bytes + sum(len(entry.payload) for entry in entries if entry.position > self._checkpoint)

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


def size_of_next(requested: int, entries: Sequence[Stored]) -> int:
    """How many entries to read next: twice as many after a full batch, as long as entries are small."""
    if len(entries) < requested:
        return BATCH
    size = sum(len(entry.payload) for entry in entries)
    if size > MOST_BYTES:
        return max(BATCH, requested // 2)
    return min(2 * requested, MOST) if 2 * size <= MOST_BYTES else requested
