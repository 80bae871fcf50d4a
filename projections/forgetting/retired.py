"""Retired observations, read out of the log again: forgetting needs to know what they said, and what came of it."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Recorded, decode
from ingest.events.session import ObservationCompressed, ObservationRecorded
from ingest.events.subject import EventErased
from ingest.ids import OBSERVATION, DocumentId
from ingest.log.event_log import EventLog
from ingest.log.position import Position, partition_of, session_route
from ingest.platform.clock import from_ms
from projections.documents import observations
from projections.documents.observations import Observation
from projections.documents.sessions import Session, session_document_id
from projections.documents.tombstones import Ledger, LedgerEntry, holds, ledger_id, ledgers, unpacked
from projections.queries.documents import DocumentReader

PAGE = 100
"""Observations, or ledgers, that are in memory at once."""
READ = 200
"""Log entries read at a time: those of one session are seldom far apart."""
LAST_SEQ = 999_999
"""The log has at most a million entries of one millisecond."""


class Retired:
    """Reads the ledgers, and in the log what they tell of."""

    def __init__(self, documents: DocumentReader, log: EventLog) -> None:
        self._documents, self._log = documents, log

    async def of_session(self, session: Session) -> AsyncIterator[list[Observation]]:
        """A session's retired observations, some at a time; those that are being forgotten are left out."""
        home = self._home(session.tenant, session.project, session.session_id)
        for ledger in await self._parts(home, session.id):
            async for page in self.of_ledger(ledger):
                yield page

    async def of_ledger(
        self, ledger: Ledger, wanted: Callable[[LedgerEntry], bool] = lambda entry: True
    ) -> AsyncIterator[list[Observation]]:
        """The wanted observations of one part of a ledger, as they were, model's compressions included."""
        entries = unpacked(ledger)
        chosen = [one for one in entries if one.is_observation and wanted(one)]
        compressed = {one.subject: one for one in entries if one.was == ObservationCompressed.TYPE and not one.erased}
        for start in range(0, len(chosen), PAGE):
            page = chosen[start : start + PAGE]
            yield await self._read(ledger, page, [compressed[one.name] for one in page if one.name in compressed])

    async def find(self, names: Collection[str], tenant: str) -> list[Observation]:
        """Those of these observations that are retired. Looks through all of a tenant's ledgers."""
        missing = {name for name in names if name.partition("_")[0] == OBSERVATION}
        found: list[Observation] = []
        if not missing:
            return found
        async for page in self._documents.pages(ledgers(tenant), range(self._documents.partitions), PAGE):
            for ledger in page:
                held = {name for name in missing if isinstance(ledger, Ledger) and holds(ledger, name)}
                if held and isinstance(ledger, Ledger):
                    async for some in self.of_ledger(ledger, lambda entry, held=held: entry.name in held):
                        found += some
                    missing -= held
            if not missing:
                break
        return found

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
        return [first, *(one for one in others if isinstance(one, Ledger))]

    async def _read(
        self, ledger: Ledger, page: Sequence[LedgerEntry], compressions: Sequence[LedgerEntry]
    ) -> list[Observation]:
        home = self._home(ledger.tenant, ledger.project, ledger.session_id)
        recorded = await _recorded_at(self._log, home, {one.position for one in (*page, *compressions)})
        found: dict[DocumentId, Observation] = {}
        for entry in page:
            seen = _observation(ledger, entry, recorded.get(entry.position))
            if seen is not None:
                found[entry.name] = seen
        for entry in compressions:
            said = recorded.get(entry.position)
            if said is not None and isinstance(said.data, ObservationCompressed) and entry.subject in found:
                found[entry.subject] = observations.compressed(found[entry.subject], said.data)
        return list(found.values())


async def _recorded_at(log: EventLog, partition: int, positions: Collection[Position]) -> dict[Position, Recorded]:
    """What the log has at these positions; nothing for what cannot be read."""
    found: dict[Position, Recorded] = {}
    waiting = sorted(positions)
    at = 0
    while at < len(waiting):
        rows = await log.read(partition, _before(waiting[at]), READ)
        if not rows:
            break
        stored = {row.position: row.payload for row in rows}
        while at < len(waiting) and waiting[at] <= rows[-1].position:
            if (payload := stored.get(waiting[at])) is not None:
                try:
                    found[waiting[at]] = decode(payload, waiting[at])
                except UnreadableEvent:
                    pass  # a newer release wrote it: it is forgotten by its id
            at += 1
    return found


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
