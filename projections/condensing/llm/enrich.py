"""arq job: have a model compress long observations, and record each answer as an event.

Walks every partition's log behind a cursor of its own. Nothing is lost when the model is away or the budget is spent:
the cursor stays, and readers have the compression made by rules until then.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Envelope, Event, Recorded
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, stored_position
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from ingest.secrets.clean import cleaned
from projections.condensing.llm.answers import Compression
from projections.condensing.llm.assistant import Assistant, Skipped
from projections.nouns.document import searchable_text
from projections.nouns.observation import Observation, observation
from projections.nouns.tombstone import Tombstone
from projections.queries.documents import DocumentReader
from projections.queries.retired import Retired

logger = logging.getLogger(__name__)

MIN_CHARS = 400
"""The rules already give the first 400 characters; a model adds nothing to a shorter text."""
READ = 50
"""Log entries a turn, before the next partition has its."""
SLICE_S = 60.0
"""With two requests of 60 s behind it, still well within a job's time."""
MAX_RUNS = 3
"""Runs that one observation may hold up; with the assistant's own cap, six requests at most."""
SOURCE = "llm"

Append = Callable[[int, Event], Awaitable[None]]
"""Appends an event to a partition; one whose event id is there already is not appended again."""


class EnrichedCount(NamedTuple):
    """What a run did: events appended, and for partitions that wait for another run, why."""

    compressed: int
    skipped: dict[int, Skipped]


class EnrichJob:
    """Enriches some partitions, a slice of time at a run. Two at once do the same work twice, and no harm.

    The cursor is saved after each answer, so a crash costs one repeated question at most. The event id is a function of
    the observation: the log takes a repeat within its dedup window for the first, and a fold does so ever after.
    """

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        assistant: Assistant,
        append: Append,
        partitions: Sequence[int],
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._log, self._assistant, self._append = redis, log, assistant, append
        self._waiting = list(partitions)
        self._clock = clock
        self._documents = DocumentReader(redis, log.partitions)
        self._retired = Retired(self._documents, log)
        self._held_up: dict[int, tuple[Position, int]] = {}

    async def run(self, slice_s: float = SLICE_S) -> EnrichedCount:
        """Enrich until every partition is at its head or waits, or the time is over; partitions take turns.

        A tenant over budget or an observation without a usable answer holds up its partition, anything else the run.
        An observation that held up MAX_RUNS runs keeps the local compression and is skipped.
        """
        until = asyncio.get_running_loop().time() + slice_s
        compressed, skipped, idle = 0, dict[int, Skipped](), set[int]()
        while asyncio.get_running_loop().time() < until and len(idle) < len(self._waiting):
            partition = self._waiting.pop(0)
            self._waiting.append(partition)
            if partition in idle:
                continue
            done, more, reason = await self._turn(partition, until)
            compressed += done
            if reason is not None:
                skipped[partition] = reason
                logger.warning("partition %d: keeping the rule-based compression for now: %s", partition, reason)
                if not (reason.reason.of_the_input or reason.reason.of_the_tenant):
                    break
            if not more:
                idle.add(partition)
        return EnrichedCount(compressed, skipped)

    async def _turn(self, partition: int, until: float) -> tuple[int, bool, Skipped | None]:
        """Events appended, whether there may be more to do now, and the reason to stop if there is one."""
        saved = await self._redis.get(PartitionKeys(partition).enriched)
        cursor = stored_position(saved)
        entries = await self._log.read(partition, cursor, READ)
        done = 0
        for stored in entries:
            if (candidate := _long_observation(stored)) is not None:
                if asyncio.get_running_loop().time() >= until:
                    break
                recorded, document = candidate
                if await self._is_settled(partition, recorded, document.id):
                    cursor = stored.position
                    continue
                answer = await self._assistant.compress(document.tenant, document)
                if not isinstance(answer, Skipped):
                    await self._append(partition, self._event(recorded, document, answer))
                    await self._save(partition, stored.position)
                    done += 1
                elif not self._is_given_up(partition, stored.position, answer):
                    await self._save(partition, cursor)
                    return done, False, answer
            cursor = stored.position
        if entries:
            await self._save(partition, cursor)
        return done, bool(entries), None

    async def _is_settled(self, partition: int, recorded: Recorded, name: DocumentId) -> bool:
        """Whether there is nothing to ask: the observation is forgotten or retired, or has a model's compression (its
        log was imported, say). One that is not projected yet is asked about."""
        (current,) = await self._documents.get([(partition, name)])
        if current is None:
            return await self._retired.notes(recorded, name)
        return isinstance(current, Tombstone) or (isinstance(current, Observation) and current.model != "")

    def _is_given_up(self, partition: int, position: Position, skipped: Skipped) -> bool:
        """Whether an observation has held up its partition for long enough. Counted by each process for itself."""
        if not skipped.reason.of_the_input:
            return False
        at, runs = self._held_up.get(partition, (START, 0))
        runs = runs + 1 if at == position else 1
        self._held_up[partition] = (position, runs)
        if runs < MAX_RUNS:
            return False
        del self._held_up[partition]
        logger.warning(
            "partition %d, %s: keeping the rule-based compression permanently: %s", partition, position, skipped
        )
        return True

    def _event(self, recorded: Recorded, document: Observation, answer: Compression) -> Event:
        source = recorded.envelope
        data = ObservationCompressed(observation=document.id, **asdict(answer))
        envelope = Envelope(
            event_id=f"llm-compress:{document.id}",
            type=data.TYPE,
            version=data.VERSION,
            tenant=source.tenant,
            project=source.project,
            agent_id=source.agent_id,
            session_id=source.session_id,
            user_id=source.user_id,
            occurred_at=self._clock(),
            source=SOURCE,
            causation=source.event_id,
        )
        return Event(envelope, cleaned(data, "keep"))

    async def _save(self, partition: int, position: Position) -> None:
        if position > START:
            await self._redis.set(PartitionKeys(partition).enriched, str(position))


def _long_observation(stored: Stored) -> tuple[Recorded, Observation] | None:
    """The observation in an entry, if it is one that a model can add to."""
    try:
        recorded = decode(stored.payload, stored.position)
    except UnreadableEvent:  # its projection parks it as a dead letter
        return None
    data = recorded.data
    if not isinstance(data, ObservationRecorded) or (len(data.content) < MIN_CHARS and not data.data):
        return None
    document = observation(recorded, data, DocumentId(""))
    return (recorded, document) if len(searchable_text(document)) >= MIN_CHARS else None
