"""Retired observations: what a session's ledgers note of them, and what the log still has."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Recorded
from ingest.events.subject import EventErased
from ingest.kinds import OBSERVATION
from ingest.log.event_log import EventLog
from ingest.log.position import Position, partition_of, session_route
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.registry import decode
from ingest.platform.clock import from_ms
from projections.nouns import observation as observations
from projections.nouns.observation import Observation
from projections.nouns.session import (
    Session,
    session_document_id,
)
from projections.nouns.tombstone import (
    Ledger,
    LedgerEntry,
    holds,
    ledger_id,
    ledgers,
    unpacked,
)
from projections.queries.documents import DocumentReader

RETIRED_PAGE = 100
"""Observations, or ledgers, that are in memory at once."""
READ = 200
"""Log entries read at a time: those of one session are seldom far apart."""
LAST_SEQ = 999_999
"""The log has at most a million entries of one millisecond."""


@dataclass
class Retired:
    """Reads the ledgers, and in the log what they tell of."""

    _documents: DocumentReader
    _log: EventLog

    async def of_session(self, session: Session) -> AsyncIterator[list[Observation]]:
        """A session's retired observations, some at a time; those that are being forgotten are left out."""
        home = self._home(session.tenant, session.project, session.session_id)
        for ledger in await self._parts(home, session.id):
            async for page in self.of_ledger(ledger):
                yield page

    async def of_ledger(
        self, ledger: Ledger, takes: Callable[[LedgerEntry], bool] = lambda entry: True
    ) -> AsyncIterator[list[Observation]]:
        """The observations of a part of a ledger, of entries that `takes` accepts; compressed where they were."""
        entries = unpacked(ledger)
        chosen = [entry for entry in entries if entry.is_observation and takes(entry)]
        compressed = {
            entry.subject: entry for entry in entries if entry.was == ObservationCompressed.TYPE and not entry.erased
        }
        home = self._home(ledger.tenant, ledger.project, ledger.session_id)
        for start in range(0, len(chosen), RETIRED_PAGE):
            page = chosen[start : start + RETIRED_PAGE]
            compressions = [compressed[entry.name] for entry in page if entry.name in compressed]
            recorded = await _recorded_at(self._log, home, {entry.position for entry in (*page, *compressions)})
            retired = {entry.name: _observation(ledger, entry, recorded.get(entry.position)) for entry in page}
            for entry in compressions:
                event, observation = recorded.get(entry.position), retired[entry.subject]
                if observation is not None and event is not None and isinstance(event.data, ObservationCompressed):
                    retired[entry.subject] = observations.compressed(observation, event.data)
            yield [observation for observation in retired.values() if observation is not None]

    async def find(self, names: Collection[str], tenant: str) -> list[Observation]:
        """Those of these observations that are retired. Looks through all of a tenant's ledgers."""
        missing = {name for name in names if name.partition("_")[0] == OBSERVATION}
        retired: list[Observation] = []
        if not missing:
            return retired
        async for page in self._documents.pages(ledgers(tenant), range(self._documents.partitions), RETIRED_PAGE):
            for ledger in page:
                held = {name for name in missing if isinstance(ledger, Ledger) and holds(ledger, name)}
                if held and isinstance(ledger, Ledger):
                    async for some in self.of_ledger(ledger, lambda entry, held=held: entry.name in held):
                        retired += some
                    missing -= held
            if not missing:
                break
        return retired

    async def notes(self, recorded: Recorded, name: str) -> bool:
        """Whether the session of an event has retired the observation."""
        envelope = recorded.envelope
        home = self._home(envelope.tenant, envelope.project, envelope.session_id)
        session = session_document_id(envelope.tenant, envelope.project, envelope.session_id)
        return any(holds(ledger, name) for ledger in await self._parts(home, session))

    def _home(self, tenant: str, project: str, session_id: str) -> int:
        return partition_of(session_route(tenant, project, session_id), self._documents.partitions)

    async def _parts(self, home: int, session: str) -> list[Ledger]:
        (first,) = await self._documents.get([(home, ledger_id(session))])
        if not isinstance(first, Ledger):
            return []
        others = await self._documents.get([(home, ledger_id(session, part)) for part in range(1, first.parts)])
        return [first, *(ledger for ledger in others if isinstance(ledger, Ledger))]


async def _recorded_at(log: EventLog, partition: int, positions: Collection[Position]) -> dict[Position, Recorded]:
    """What the log has at these positions; nothing for what cannot be read."""
    events: dict[Position, Recorded] = {}
    waiting = deque(sorted(positions))
    while waiting and (rows := await log.read(partition, _before(waiting[0]), READ)):
        stored = {row.position: row.payload for row in rows}
        while waiting and waiting[0] <= rows[-1].position:
            position = waiting.popleft()
            # what cannot be read was written by a newer release: it is forgotten by its id
            with suppress(UnreadableEvent):
                if position in stored:
                    events[position] = decode(stored[position], position)
    return events


def _before(position: Position) -> Position:
    return Position(position.ms, position.seq - 1) if position.seq else Position(position.ms - 1, LAST_SEQ)


def _observation(ledger: Ledger, entry: LedgerEntry, recorded: Recorded | None) -> Observation | None:
    """The observation that an entry notes; without its text when the log has none; None when that was erased."""
    if recorded is not None and isinstance(recorded.data, ObservationRecorded):
        return observations.observation(recorded, recorded.data, ledger.session)
    if recorded is not None and isinstance(recorded.data, EventErased):
        return None
    return Observation(
        id=entry.name,
        event_id=entry.name,
        tenant=ledger.tenant,
        project=ledger.project,
        session_id=ledger.session_id,
        session=ledger.session,
        agent_id=entry.agent_id,
        user_id=entry.user_id,
        occurred_at=from_ms(entry.occurred_ms),
        recorded_at=from_ms(entry.recorded_ms),
        position=str(entry.position),
    )
