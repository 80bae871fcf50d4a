"""An archive under test: segments of a few entries, and a log that is archived between any two operations."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import Sealing
from ingest.log.archived import load_archived
from ingest.log.event_log import Appended, Entry, Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position
from ingest.log.redis_log import stub_member
from ingest.log.segments import Outrun
from ingest.platform.connections import Client

LATE = Position(10**14 - 1, 0)
"""Behind everything."""


async def pretend_projected(redis: Client, partition: int, until: Position = LATE) -> None:
    """Let a partition's documents be as far as that, whatever they are."""
    await redis.set(PartitionKeys(partition).of_generation(1).checkpoint, str(until))


async def erase(redis: Client, partition: int, position: Position, stub: bytes) -> None:
    """Put a stub in the place of an entry, in one transaction, as the fold does."""
    keys = PartitionKeys(partition)
    async with redis.pipeline(transaction=True) as pipe:
        pipe.xdel(keys.log, str(position))
        pipe.zadd(keys.erased, {stub_member(keys, Stored(position, stub)): 0})
        await pipe.execute()


async def seal_next(redis: Client, log: ArchivedLog, partition: int, count: int) -> int:
    """Seal the next `count` entries, or as many as there are; returns how many."""
    sealed = (await load_archived(redis, PartitionKeys(partition))).sealed
    entries = await log.read(partition, sealed, count)
    if not entries:
        return 0
    results = await Sealing(redis, log).seal(partition, entries[-1].position, LATE)
    return results.content.entries if results else 0


class RestlessLog(ArchivedLog):
    """Archived behind the back of whoever uses it: before each read, something is sealed, trimmed or rewritten."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turn = itertools.cycle([3, 0, 5, 1, 8])
        self._quiet = False

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        answers = await super().append(batches)
        for partition in batches:
            await pretend_projected(self._redis, partition)
        return answers

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        await self._archive_a_little(partition)
        return await super().read(partition, after, limit)

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        await self._archive_a_little(partition)
        return await super().read_back(partition, before, limit)

    async def _archive_a_little(self, partition: int) -> None:
        if self._quiet:  # sealing reads, too
            return
        self._quiet = True
        try:
            sealing, step = Sealing(self._redis, self), next(self._turn)
            if step == 1:
                await sealing.rewrite(partition)
            elif step:
                await seal_next(self._redis, self, partition, step)
                await sealing.let_go(partition)
        except Outrun:
            pass  # a concurrent reader came between
        finally:
            self._quiet = False


async def trimmed(redis: Client, partition: int) -> Position:
    """Up to where a partition's stream was trimmed."""
    return (await load_archived(redis, PartitionKeys(partition))).trimmed


async def everything(log: ArchivedLog, partition: int, page: int = 7) -> list[Stored]:
    """A partition from its beginning, in pages."""
    results: list[Stored] = []
    while rows := await log.read(partition, results[-1].position if results else START, page):
        results += rows
    return results


async def everything_back(log: ArchivedLog, partition: int, page: int = 7) -> list[Stored]:
    """A partition from its end, in pages."""
    results: list[Stored] = []
    while rows := await log.read_back(partition, results[-1].position if results else None, page):
        results += rows
    return results
