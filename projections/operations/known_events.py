"""Whether a log has the events of an import already, however long ago it took them.

Three things tell. An entry at the moment at which the event was recorded: the log is the one that recorded it. What the
event made, or the mark that it left, in the documents: the log took it in an earlier import. And for tombstones and
stubs, of which no document tells, a note of their digests.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Event, Recorded, decode, encode, route_of
from ingest.events.registry import EventData
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import EventId, imported_dedup_id
from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position, partition_of
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client
from projections.store.protocol import are_repeats
from projections.store.redis_store import RedisStore

NOTED: tuple[type[EventData], ...] = (EventErased, SubjectForgotten)
ENTRIES_PER_READ = 500
ENTRIES_AT_FIRST = 10
"""Few moments have more; reading the most for each event made an import ten times as slow."""
READS_AT_ONCE = 16
LAST = 999_999
"""The highest number of an entry within its millisecond."""
BEHIND_ALL = Position(10**14 - 1, 0)


class _Identity(NamedTuple):
    event_id: str
    type: str
    route: str

    @classmethod
    def of(cls, event: Event) -> "_Identity":
        return cls(event.envelope.event_id, event.data.TYPE, route_of(*event))


class KnownEvents:
    """Looks events up, some hundred at a time."""

    def __init__(self, redis: Client, log: EventLog) -> None:
        self._redis, self._log = redis, log
        self._reads = asyncio.Semaphore(READS_AT_ONCE)

    async def known(self, events: Sequence[Event]) -> list[bool]:
        """For each event, whether the log has it. What was appended in the last moments may be missed: the window of
        duplicates has that."""
        found = [False] * len(events)
        partitions: dict[int, list[int]] = {}
        for n, event in enumerate(events):
            partitions.setdefault(self._partition(event), []).append(n)
        for partition, places in partitions.items():
            recorded_here = await self._recorded_here(partition, [events[n] for n in places])
            rest = [n for n in places if _Identity.of(events[n]) not in recorded_here]
            for n in set(places).difference(rest):
                found[n] = True
            for n, known in zip(rest, await self._imported(partition, [events[n] for n in rest]), strict=True):
                found[n] = known
        return found

    async def note(self, events: Sequence[Event]) -> None:
        """Note those of the events, now in the log, of which no document tells."""
        noted: dict[str, list[bytes]] = {}
        for event in events:
            if isinstance(event.data, NOTED):
                noted.setdefault(PartitionKeys(self._partition(event)).imported, []).append(_digest(event))
        for key, digests in noted.items():
            await self._redis.sadd(key, *digests)

    def _partition(self, event: Event) -> int:
        return partition_of(route_of(*event), self._log.partitions)

    async def _recorded_here(self, partition: int, events: Sequence[Event]) -> set[_Identity]:
        """The events among the entries of the milliseconds in which these were recorded."""
        head = await self._log.head(partition)
        moments = {to_ms(one.envelope.recorded_at) for one in events if one.envelope.recorded_at is not None}
        read = await asyncio.gather(*(self._entries_of(partition, ms) for ms in sorted(moments) if 0 < ms <= head.ms))
        return {one for found in read for one in found}

    async def _entries_of(self, partition: int, ms: int) -> set[_Identity]:
        found: set[_Identity] = set()
        at, count = Position(ms - 1, LAST), ENTRIES_AT_FIRST
        async with self._reads:
            while rows := await self._log.read(partition, at, count):
                of_moment = [row for row in rows if row.position.ms == ms]
                for row in of_moment:
                    try:
                        recorded = decode(row.payload, row.position)
                    except UnreadableEvent:
                        continue
                    found.add(_Identity.of(Event(recorded.envelope, recorded.data)))
                if len(of_moment) < count:
                    break
                at, count = rows[-1].position, ENTRIES_PER_READ
        return found

    async def _imported(self, partition: int, events: Sequence[Event]) -> list[bool]:
        keys = PartitionKeys(partition)
        store = RedisStore(self._redis, keys, int(await self._redis.get(keys.generation) or 1), None)
        repeats = await are_repeats(store, [Recorded(BEHIND_ALL, event.envelope, event.data) for event in events])
        async with self._redis.pipeline(transaction=False) as pipe:
            for event in events:
                pipe.sismember(keys.imported, _digest(event))
            noted = await pipe.execute() if events else []
        return [
            bool(is_noted) if isinstance(event.data, NOTED) else is_repeat
            for event, is_repeat, is_noted in zip(events, repeats, noted, strict=True)
        ]


def _digest(event: Event) -> bytes:
    name = imported_dedup_id(route_of(*event), EventId(event.envelope.event_id), encode(event))
    return bytes.fromhex(name)
