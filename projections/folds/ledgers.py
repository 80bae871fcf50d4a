"""The ledgers of a batch: what earlier retirements of a session know, unpacked while a batch of events is folded. Pure.

A retirement takes observations, and the marks of their session's events, out of the documents and notes them in a part
of the session's ledger. Everything that asks whether an event was applied before asks the ledger as well.
"""

from collections.abc import Callable, Iterator, Mapping
from string import hexdigits
from typing import Protocol

from msgspec.structs import replace

from ingest.events.envelope import Envelope, Recorded
from ingest.ids import DocumentId
from ingest.log.position import Position
from ingest.platform.clock import from_ms, to_ms
from projections.documents.document import Document
from projections.documents.observations import Observation
from projections.documents.tombstones import (
    ID_BYTES,
    TYPES,
    Ledger,
    LedgerEntry,
    SupersededEvent,
    holds,
    ledger_id,
    packed,
    unpacked,
)


class BatchDocuments(Protocol):
    """The documents as they stand in a batch."""

    def get(self, name: str) -> Document | None:
        """The document; None when there is none."""
        ...

    def put(self, document: Document) -> None:
        """The document is now this."""
        ...


class Ledgers:
    """Reads the ledgers that were loaded, remembers what changed, and packs that once, when the batch is folded."""

    def __init__(self, documents: BatchDocuments) -> None:
        self._documents = documents
        self._open: dict[DocumentId, dict[DocumentId, LedgerEntry]] = {}
        self._marks: dict[DocumentId, dict[DocumentId, list[DocumentId]]] = {}
        self._changed: dict[DocumentId, None] = {}

    def find(self, session: str, name: str) -> LedgerEntry | None:
        """What is noted of an observation or a mark; None when it was not retired."""
        for part in self._parts(session):
            existing = self._open.get(part.id)
            if existing is None and holds(part, name):
                existing = self._opened(part)
            if existing is not None and (entry := existing.get(DocumentId(name))) is not None:
                return entry
        return None

    def marks_about(self, session: str, subject: str) -> list[LedgerEntry]:
        """The marks of events about a session, or about one of its observations."""
        marks: list[LedgerEntry] = []
        for part in self._parts(session):
            if part.was or part.id in self._open:
                entries = self._opened(part)
                names = self._marks[part.id].get(DocumentId(subject), ())
                marks += (entries[name] for name in names if name in entries)
        return marks

    def begin(self, session: DocumentId, requested: int, envelope: Envelope) -> int:
        """Make sure that there is such a part, and that the first one tells of it; returns its number.

        Parts follow each other: an event that names a later one than the next (which no job of ours makes) opens that.
        """
        existing = self._documents.get(ledger_id(session))
        number = max(0, min(requested, existing.parts if isinstance(existing, Ledger) else 0))
        for part in dict.fromkeys((0, number)):
            if not isinstance(self._documents.get(ledger_id(session, part)), Ledger):
                self._documents.put(
                    Ledger(
                        id=ledger_id(session, part),
                        session=session,
                        tenant=envelope.tenant,
                        project=envelope.project,
                        session_id=envelope.session_id,
                    )
                )
        first = self._documents.get(ledger_id(session))
        if isinstance(first, Ledger) and first.parts <= number:
            self._documents.put(replace(first, parts=number + 1))
        return number

    def note(self, session: str, number: int, entry: LedgerEntry) -> None:
        """Put an entry into a part that there is."""
        part = self._documents.get(ledger_id(session, number))
        if isinstance(part, Ledger):
            self._opened(part)[entry.name] = entry
            self._file(part.id, entry)
            self._changed[part.id] = None

    def amend(self, session: str, entry: LedgerEntry) -> None:
        """The entry is now this."""
        for name, entries in self._held(session, entry.name):
            entries[entry.name] = entry
            self._changed[name] = None

    def strike(self, session: str, name: DocumentId) -> None:
        """There is no such entry any more."""
        for part, entries in self._held(session, name):
            del entries[name]
            self._changed[part] = None

    def pack(self) -> None:
        """Make documents of what changed."""
        for name in self._changed:
            part = self._documents.get(name)
            if isinstance(part, Ledger):
                self._documents.put(packed(part, self._open[name].values()))
        self._changed = {}

    def _held(self, session: str, name: DocumentId) -> Iterator[tuple[DocumentId, dict[DocumentId, LedgerEntry]]]:
        if self.find(session, name) is not None:
            for part in self._parts(session):
                entries = self._open.get(part.id)
                if entries is not None and name in entries:
                    yield part.id, entries

    def _parts(self, session: str) -> Iterator[Ledger]:
        first = self._documents.get(ledger_id(session))
        if isinstance(first, Ledger):
            for number in range(first.parts):
                part = self._documents.get(ledger_id(session, number))
                if isinstance(part, Ledger):
                    yield part

    def _opened(self, part: Ledger) -> dict[DocumentId, LedgerEntry]:
        existing = self._open.get(part.id)
        if existing is None:
            existing = self._open[part.id] = {entry.name: entry for entry in unpacked(part)}
            self._marks[part.id] = {}
            for entry in existing.values():
                self._file(part.id, entry)
        return existing

    def _file(self, part: DocumentId, entry: LedgerEntry) -> None:
        """Remember what a mark is about."""
        if not entry.is_observation:
            self._marks[part].setdefault(entry.subject, []).append(entry.name)


def entry_of(document: Document | None) -> LedgerEntry | None:
    """What a ledger notes of a document; None for what no ledger takes."""
    match document:
        case Observation():
            return LedgerEntry(
                document.id,
                Position.parse(document.position),
                TYPES[0],
                document.id,
                document.agent_id,
                document.user_id,
                to_ms(document.occurred_at),
                to_ms(document.recorded_at),
            )
        case SupersededEvent(was=was, position=position) if was in TYPES and position and _is_id(document.subject):
            return LedgerEntry(
                document.id,
                Position.parse(position),
                was,
                DocumentId(document.subject),
                user_id=document.user_id,
                erased=document.erased,
            )
        case _:
            return None


def _is_id(subject: str) -> bool:
    """Whether it is one that a ledger can hold: a mark is about whatever its event said."""
    digest = subject.partition("_")[2]
    return len(digest) == 2 * ID_BYTES and all(letter in hexdigits for letter in digest)


def erased_envelope(entry: LedgerEntry, forgetting: Envelope) -> Envelope:
    """What a stub keeps of an entry: what the session took from it, and its id in the place of the event's.

    (The event's own id is not in the ledger.)
    """
    bare = Envelope(
        event_id=entry.name,
        type=entry.was,
        version=1,
        tenant=forgetting.tenant,
        project=forgetting.project,
        agent_id=entry.agent_id,
        session_id=forgetting.session_id,
    )
    if not entry.is_observation:
        return bare
    imported = entry.recorded_ms != entry.position.ms
    recorded_at = from_ms(entry.recorded_ms) if imported else None
    return replace(bare, occurred_at=from_ms(entry.occurred_ms), recorded_at=recorded_at)


def first_part(session: Callable[[Recorded], DocumentId]) -> Callable[[Recorded], str]:
    """Returns, for the `reads` of a rule, the first part of the ledger of the session that an event names."""
    return lambda event: ledger_id(session(event))


def further_parts(
    session: Callable[[Recorded], DocumentId],
) -> Callable[[Recorded, Mapping[DocumentId, Document]], set[str]]:
    """Returns, for the `follows` of a rule, the other parts of that ledger."""

    def parts(event: Recorded, loaded: Mapping[DocumentId, Document]) -> set[str]:
        if not event.envelope.session_id:
            return set()
        name = session(event)
        first = loaded.get(ledger_id(name))
        return {ledger_id(name, part) for part in range(1, first.parts)} if isinstance(first, Ledger) else set()

    return parts
