"""The documents as they are while a batch of events is folded, the steps that all folds share, and the rules. Pure.

Three things make a repeat harmless. A document's id is made of its event's id, so a repeat finds the document. An event
that changes a document instead of making one leaves a mark, under an id made the same way, so a repeat finds the mark.
And a repeat at another position in the log is erased there: left alone, it would still hold the content after the first
one was forgotten.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from ingest.events.envelope import SESSION_TYPES, Envelope, Event, EventData, Recorded, route_of
from ingest.events.subject import EventErased
from ingest.ids import DocumentId, document_id
from ingest.log.position import Position
from ingest.platform.clock import from_ms
from projections.nouns.rows import part_of, session_document_id
from projections.nouns.tombstone import (
    Ledger,
    LedgerEntry,
    Outcome,
    SupersededEvent,
    Tombstone,
    entries,
    holds,
    ledger_id,
    packed,
    unpacked,
)


class Document(Protocol):
    """What a batch asks of a document, whatever its noun."""

    @property
    def id(self) -> str: ...

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs of the document."""
        ...


D = TypeVar("D", bound=Document)


class DocumentChange(NamedTuple, Generic[D]):
    """A document before and after a batch; None for absent."""

    before: D | None
    after: D | None


class Changes(NamedTuple, Generic[D]):
    """What a batch did: the documents that differ, and the stubs that replace erased log entries.

    `retired` documents left the store but not the log: unlike forgotten ones, they leave nothing to purge.
    """

    documents: Mapping[DocumentId, DocumentChange[D]]
    erased: Mapping[Position, Event]
    retired: frozenset[DocumentId] = frozenset()


LOOKED_FOR: set[type[Any]] = {SupersededEvent, Tombstone}
"""Documents that later events of a batch look for in listings, which were loaded before the batch was folded. Nouns add
theirs."""


class FoldBatch:
    """Reads what was loaded, records what changes."""

    def __init__(self, loaded: Mapping[DocumentId, Document], candidates: Mapping[str, Sequence[str]]) -> None:
        self._loaded, self._now = loaded, dict(loaded)
        self._members = candidates
        self._added: dict[str, list[str]] = {}
        self._changed: dict[DocumentId, None] = {}
        self._erased: dict[Position, Event] = {}
        self._retired: set[DocumentId] = set()
        self.ledgers = Ledgers(self)
        self.tenant: str | None = None
        """The tenant of the event that is folded. It neither reads nor changes documents of another one."""

    def get(self, name: str) -> Document | None:
        """The document as it is now; None if it does not exist."""
        document = self._now.get(DocumentId(name))
        return None if self._is_foreign(document) else document

    def put(self, document: Document) -> None:
        """Add or replace a document."""
        name = DocumentId(document.id)
        if self._is_foreign(self._now.get(name)):
            return
        self._now[name] = document
        self._changed[name] = None
        if type(document) in LOOKED_FOR:
            for listing, member in document.listing_members():
                beginning, _, rest = member.partition("|")
                for name in (listing, part_of(listing, f"{beginning}|")) if rest else (listing,):
                    self._added.setdefault(name, []).append(member)

    def drop(self, name: DocumentId) -> None:
        """Delete a document."""
        if self._is_foreign(self._now.get(name)):
            return
        self._now.pop(name, None)
        self._changed[name] = None

    def retire(self, name: DocumentId) -> None:
        """Delete a document that is now in its session's ledger."""
        self.drop(name)
        self._retired.add(name)

    def _is_foreign(self, document: Document | None) -> bool:
        # a tombstone has no tenant: it keeps nothing that an event could change
        return self.tenant is not None and getattr(document, "tenant", self.tenant) != self.tenant

    def members(self, listing: str, wants: Callable[[str], bool] | None = None) -> list[Document]:
        """The documents in a listing, or a part of one, that was loaded or added to; with `wants`, of those members.

        The loaded members are those that any event of the batch wants.
        """
        listed = (*self._members.get(listing, ()), *self._added.get(listing, ()))
        names = dict.fromkeys(member.rpartition("|")[2] for member in listed if wants is None or wants(member))
        return [document for name in names if (document := self.get(name)) is not None]

    def mark(self, event: Recorded, subject: str) -> bool:
        """Record that an event about `subject` is applied; False if it was applied before."""
        name = mark_of(event)
        existing = self.get(name)
        if existing is None and event.data.TYPE in SESSION_TYPES:
            existing = self.ledgers.find(session_of(event), name)
        if existing is not None:
            if str(event.position) != str(getattr(existing, "position", "")):
                stub = EventErased(was=event.data.TYPE, document=subject, mark=name)
                self.erase(str(event.position), stub, event.envelope)
            return False
        self.put(
            SupersededEvent(
                id=name,
                position=str(event.position),
                subject=subject,
                was=event.data.TYPE,
                tenant=event.envelope.tenant,
                project=event.envelope.project,
                user_id=event.envelope.user_id,
            )
        )
        return True

    def decide(self, event: Recorded, outcome: Outcome) -> None:
        """Note on the mark of an event what its writer waits for."""
        mark = self.get(mark_of(event))
        if isinstance(mark, SupersededEvent):
            self.put(replace(mark, outcome=outcome))

    def erase(self, position: str, stub: EventErased, envelope: Envelope) -> None:
        """Replace the entry at a position by its stub: who and where, which a replay needs, but no content."""
        bare = Envelope(
            event_id=envelope.event_id,
            type=stub.TYPE,
            version=stub.VERSION,
            tenant=envelope.tenant,
            project=envelope.project,
            agent_id=envelope.agent_id,
            session_id=envelope.session_id,
            occurred_at=envelope.occurred_at,
            recorded_at=envelope.recorded_at,
        )
        self._erased[Position.parse(position)] = Event(bare, stub)

    def erase_mark(self, mark: SupersededEvent, session_id: str) -> None:
        """Erase the entry of a marked event, once; the mark stays, without its user."""
        if mark.erased:
            return
        stub = EventErased(was=mark.was, document=mark.subject, mark=mark.id)
        envelope = Envelope(
            event_id=mark.id, type=mark.was, version=1, tenant=mark.tenant, project=mark.project, session_id=session_id
        )
        self.erase(mark.position, stub, envelope)
        self.put(replace(mark, user_id="", erased=True, outcome=None))

    def erase_entries(self, subject: str, forgetting: Recorded, was: str = "") -> None:
        """Erase every marked entry about a subject (of type `was`, if given) recorded before its forgetting."""
        for mark in self.members(entries(subject)):
            if (
                isinstance(mark, SupersededEvent)
                and was in ("", mark.was)
                and Position.parse(mark.position) < forgetting.position
            ):
                self.erase_mark(mark, forgetting.envelope.session_id)
        if not forgetting.envelope.session_id:
            return
        session = session_of(forgetting)
        for entry in self.ledgers.marks_about(session, subject):
            if was in ("", entry.was) and not entry.erased and entry.position < forgetting.position:
                stub = EventErased(was=entry.was, document=entry.subject, mark=entry.name)
                self.erase(str(entry.position), stub, erased_envelope(entry, forgetting.envelope))
                self.ledgers.amend(session, entry.name, entry._replace(erased=True, user_id=""))

    def void(self, event: Recorded) -> None:
        """Erase a marked event that has no effect: its content may be about something that was forgotten."""
        mark = self.get(mark_of(event))
        if isinstance(mark, SupersededEvent):
            self.erase_mark(mark, event.envelope.session_id)

    def erase_repeat(self, event: Recorded, first: str, document: str) -> None:
        """Erase a repeat of an event whose document was made by the entry at `first`."""
        if str(event.position) != first:
            self.erase(str(event.position), EventErased(was=event.data.TYPE, document=document), event.envelope)

    def changes(self) -> Changes[Document]:
        """What differs from what was loaded."""
        self.ledgers.pack()
        del self.ledgers  # they refer to each other: without this the batch's documents wait for the garbage collector
        changed = {name: DocumentChange(self._loaded.get(name), self._now.get(name)) for name in self._changed}
        different = {name: change for name, change in changed.items() if change.before != change.after}
        return Changes(different, self._erased, frozenset(self._retired & different.keys()))


class Ledgers:
    """The ledgers of a batch: unpacked when they are read, packed once, when the batch is folded.

    A retirement moves observations, and the marks of their session's events, from the documents into the session's
    ledger. So a check whether an event was applied before looks there as well.
    """

    def __init__(self, documents: "FoldBatch") -> None:
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
                noted = self._opened(part)
                names = self._marks[part.id].get(DocumentId(subject), ())
                marks += (noted[name] for name in names if name in noted)
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

    def amend(self, session: str, name: DocumentId, entry: LedgerEntry | None) -> None:
        """Replace an entry, or remove it if the new one is None."""
        if self.find(session, name) is None:
            return
        for part in self._parts(session):
            noted = self._open.get(part.id)
            if noted is not None and name in noted:
                self._changed[part.id] = None
                if entry is None:
                    del noted[name]
                else:
                    noted[name] = entry

    def pack(self) -> None:
        """Make documents of what changed."""
        for name in self._changed:
            part = self._documents.get(name)
            if isinstance(part, Ledger):
                self._documents.put(packed(part, self._open[name].values()))
        self._changed = {}

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


Loaded = Mapping[DocumentId, Document]
# the data of the event is an argument of its own, because each rule knows its type
Apply = Callable[[FoldBatch, Recorded, Any], None]
About = Callable[[Recorded, Any], list[str]]
Reads = Callable[[Recorded, Any], Iterable[str]]
Follows = Callable[[Recorded, Any, Loaded], Iterable[str]]
Wants = Callable[[Recorded, Any], Callable[[str], bool]]


class FoldRule(NamedTuple):
    """How one type of event is folded.

    `about`: ids of the documents that it is about, the one that it creates first. `reads`: ids of the documents that
    the rule reads. `listings`: listings whose documents it reads; of their members only those that it `wants`, judged
    by the member itself. `follows` and `further_listings`: what else it reads, given the documents that were loaded
    (asked again until nothing is new).
    """

    apply: Apply
    about: About
    reads: Reads
    listings: Reads
    follows: Follows
    further_listings: Follows
    wants: Wants


RULES: dict[type[EventData], FoldRule] = {}
"""The rule of each type of event; the modules of this package add theirs when they are imported."""


def _no_names(event: Recorded, data: EventData, loaded: Loaded | None = None) -> Iterable[str]:
    return ()


def folds(
    *events: type[EventData],
    about: About,
    reads: Reads | None = None,
    listings: Reads = _no_names,
    follows: Follows = _no_names,
    further_listings: Follows = _no_names,
    wants: Wants = lambda event, data: lambda member: True,
) -> Callable[[Apply], Apply]:
    """Register a function as the fold of these events; the other arguments are those of FoldRule.

    By default it reads the documents that the event is about, and its mark.
    """

    def about_and_mark(event: Recorded, data: Any) -> Iterable[str]:
        return {mark_of(event), *about(event, data)}

    def register(apply: Apply) -> Apply:
        for event in events:
            RULES[event] = FoldRule(apply, about, reads or about_and_mark, listings, follows, further_listings, wants)
        return apply

    return register


def conflict(document: object, expected_version: int | None) -> Outcome | None:
    """Return the refusal of an event that expects another version of its document; None if it applies."""
    version, changed_by = getattr(document, "version", 0), getattr(document, "changed_by", "")
    if isinstance(document, Tombstone) and not document.position:  # a replay has not reached its forgetting
        version, changed_by = document.memory_version, document.author
    if expected_version in (None, version):
        return None
    return Outcome(refused="version_conflict", version=version, changed_by=changed_by)


def fold_one(
    *events: type[EventData],
    of: type[D],
    subject: Callable[[Recorded, Any], str],
    evolve: Callable[[D | None, Recorded, Any], Document | None],
    drops: bool = False,
    reads: Reads = _no_names,
    follows: Follows = _no_names,
    refusal: Callable[[D | None, Recorded, Any], Outcome | None] = lambda document, event, data: None,
) -> None:
    """Register events that change one document of a type, the `subject`, and leave a mark.

    `evolve` makes the document after the event from the document before it. If it returns None, the document is dropped
    if `drops` is set; else the event is void. `reads` and `follows` are what the rule also reads. An event that expects
    another version, or has a `refusal`, changes nothing; its outcome is noted.
    """

    def apply(batch: FoldBatch, event: Recorded, data: EventData) -> None:
        name = subject(event, data)
        if not batch.mark(event, name):
            return
        existing = batch.get(name)
        before = existing if isinstance(existing, of) else None
        if refused := conflict(before, getattr(data, "expected_version", None)) or refusal(before, event, data):
            batch.decide(event, refused)
            return
        after = evolve(before, event, data)
        if after is not None:
            batch.put(after)
        elif drops:
            batch.drop(DocumentId(name))
        else:
            batch.void(event)
        if data.is_awaited:
            batch.decide(event, Outcome(version=getattr(after, "version", 0), until_ms=getattr(after, "expires_ms", 0)))

    register = folds(
        *events,
        about=lambda event, data: [subject(event, data)],
        reads=lambda event, data: {mark_of(event), subject(event, data), *reads(event, data)},
        follows=follows,
    )
    register(apply)


def session_of(event: Recorded) -> DocumentId:
    """The id of the session that an event names."""
    envelope = event.envelope
    return session_document_id(envelope.tenant, envelope.project, envelope.session_id)


def mark_of(event: Recorded) -> DocumentId:
    """The id of an event's mark: its type and id within the stream it is routed to."""
    return mark_id(route_of(event.envelope, event.data), event.data.TYPE, event.envelope.event_id)


def mark_id(route: str, event_type: str, event_id: str) -> DocumentId:
    """The id of the mark of an event that is known by its stream, type and id."""
    return document_id("evt", f"{route}\0{event_type}", event_id)


def session_and_ledger(event: Recorded, data: EventData | None = None) -> set[str]:
    """The session that an event names, and the first part of its ledger."""
    session = session_of(event)
    return {session, ledger_id(session)}


def further_parts(event: Recorded, data: EventData, loaded: Loaded) -> set[str]:
    """The other parts of that ledger."""
    if not event.envelope.session_id:
        return set()
    name = session_of(event)
    first = loaded.get(ledger_id(name))
    return {ledger_id(name, part) for part in range(1, first.parts)} if isinstance(first, Ledger) else set()
