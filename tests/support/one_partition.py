"""One partition of a real server with a runner at work on it, and a fold that can be made to fail."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from factories import event
from msgspec import Struct

from ingest.errors import LeaseLost
from ingest.events.envelope import Recorded, encode
from ingest.ids import EventId
from ingest.log.event_log import Entry
from ingest.log.keys import CONSUMER_GROUP, LEASE_TTL, PartitionKeys
from ingest.log.position import Position
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.nouns.observation import ObservationRecorded
from ingest.platform.connections import Client
from projections.nouns.fold import Changes
from projections.nouns.observation import Observation, session_observations
from projections.nouns.session import Session, session_document_id
from projections.store.dead_letters import DeadLetter, PartitionDeadLetters, dead_letters
from projections.store.protocol import StateStore, project
from projections.store.redis_store import RedisStore
from workers.runner import PartitionRunner

PARTITION = 0
KEYS = PartitionKeys(PARTITION)
SESSION = session_document_id("default", "atlas", "s1")
POISON = "poison"
TTL_MS = int(LEASE_TTL.total_seconds() * 1000)


class Log(Struct):
    """The partition under test: append to it, look at what became of it."""

    redis: Client
    log: RedisLog
    generation: int = 1

    async def append(self, *contents: str) -> list[Position]:
        """Append observations of one session; their event ids are their contents."""
        events = [event(ObservationRecorded(content=content), event_id=content) for content in contents]
        entries = [Entry(EventId(event.envelope.event_id), encode(event)) for event in events]
        return [appended.position for appended in (await self.log.append({PARTITION: entries}))[PARTITION]]

    async def fence(self, worker: str = "w1") -> int:
        """The token of a new lease, taken from whoever had it."""
        await cast(Any, self.redis).delete(KEYS.lease)
        return await acquire_lease(self.redis, KEYS, worker, TTL_MS)

    @property
    def store(self) -> RedisStore:
        """The documents, for reading."""
        return RedisStore(self.redis, KEYS, self.generation, None)

    async def applied_up_to(self, position: Position) -> bool:
        """Whether the checkpoint is there."""
        return await self.store.checkpoint() >= position

    async def contents(self) -> list[str]:
        """What the session's observations say, in order."""
        listing = session_observations(SESSION)
        names = [member.rpartition("|")[2] for member in (await self.store.members([listing]))[listing]]
        results = await self.store.load(cast(Any, names))
        return [item.content for name in names if isinstance(item := results[cast(Any, name)], Observation)]

    async def observation_count(self) -> int:
        """How many observations the session counted: more than there are would be one applied twice."""
        session = (await self.store.load([SESSION])).get(SESSION)
        return session.observation_count if isinstance(session, Session) else 0

    async def dead(self) -> list[DeadLetter]:
        """The partition's dead letters."""
        return [letter async for letter in dead_letters(self.redis, KEYS)]

    async def pending(self) -> int:
        """Entries handed to a runner and not acknowledged."""
        (group,) = await self.redis.xinfo_groups(KEYS.log)
        assert group["name"] == CONSUMER_GROUP.encode()
        return int(group["pending"])


@asynccontextmanager
async def running(
    log: Log, fence: int, applied: Callable[[int, Changes], None] = lambda partition, changes: None
) -> AsyncGenerator[asyncio.Task[None]]:
    """A runner at work; it stops, or has failed as the test expects, when the block ends."""
    runner = PartitionRunner(log.redis, log.log, PARTITION, fence, applied, PartitionDeadLetters)
    task = asyncio.create_task(runner.run())
    try:
        yield task
    finally:
        runner.stop()
        await asyncio.wait([task])
        if not task.cancelled() and not isinstance(task.exception(), LeaseLost):
            await task


class Fold:
    """The fold, with a fault: it raises for a batch that has the poison in it. `sizes` are those of all batches."""

    def __init__(self) -> None:
        self.alone = 0
        self.well = self.ends_workers = False
        self.sizes: list[int] = []

    async def __call__(self, store: StateStore, events: Sequence[Recorded]) -> Changes:
        contents = [event.data.content for event in events if isinstance(event.data, ObservationRecorded)]
        self.sizes.append(len(contents))
        if POISON in contents and self.ends_workers:
            raise SystemExit
        if POISON in contents and not self.well:
            self.alone += len(contents) == 1
            raise ZeroDivisionError("the fold does not like this one")
        return await project(store, events)
