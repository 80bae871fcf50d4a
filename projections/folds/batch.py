"""The documents as they are while a batch of events is folded, the steps that all folds share, and the rules. Pure.

Three things make a repeat harmless. A document's id is made of its event's id, so a repeat finds the document. An event
that changes a document instead of making one leaves a mark, under an id made the same way, so a repeat finds the mark.
And a repeat at another position in the log is erased there: left alone, it would still hold the content after the first
one was forgotten.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ingest.events.envelope import SESSION_TYPES, Envelope, Event, Recorded, route_of
from ingest.events.registry import EventData
from ingest.events.subject import EventErased
from ingest.ids import DocumentId, document_id
from ingest.log.position import Position
from projections.documents import sessions
from projections.documents.document import Document, listings
from projections.documents.memories import Memory
from projections.documents.rows import part_of
from projections.documents.sessions import Session
from projections.documents.tombstones import SupersededEvent, Tombstone, entries
from projections.folds.ledgers import Ledgers, erased_envelope


class DocumentChange(NamedTuple):
    """A document before and after a batch; None for absent."""

    before: Document | None
    after: Document | None


class Changes(NamedTuple):
    """What a batch did: the documents that differ, and the stubs that replace erased log entries.

    `retired` documents left the store but not the log: unlike forgotten ones, they leave nothing to purge.
    """

    documents: Mapping[DocumentId, DocumentChange]
    erased: Mapping[Position, Event]
    retired: frozenset[DocumentId] = frozenset()


_LOOKED_FOR = (Memory, SupersededEvent, Tombstone)


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
        """The document as it is now; None if there is none."""
        document = self._now.get(DocumentId(name))
        return None if self._is_foreign(document) else document

    def session(self, event: Recorded) -> Session | None:
        """The session that an event names."""
        document = self.get(session_of(event))
        return document if isinstance(document, Session) else None

    def put(self, document: Document) -> None:
        """Add or replace a document."""
        name = DocumentId(document.id)
        if self._is_foreign(self._now.get(name)):
            return
        self._now[name] = document
        self._changed[name] = None
        # later events of this batch look for these in listings, which were loaded before the batch was folded
        if isinstance(document, _LOOKED_FOR):
            for listing, member in listings(document):
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
        self.put(replace(mark, user_id="", erased=True))

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
                self.ledgers.amend(session, entry._replace(erased=True, user_id=""))

    def void(self, event: Recorded) -> None:
        """Erase a marked event that has no effect: its content may be about something that was forgotten."""
        mark = self.get(mark_of(event))
        if isinstance(mark, SupersededEvent):
            self.erase_mark(mark, event.envelope.session_id)

    def erase_repeat(self, event: Recorded, first: str, document: str) -> None:
        """Erase a repeat of an event whose document was made by the entry at `first`."""
        if str(event.position) != first:
            self.erase(str(event.position), EventErased(was=event.data.TYPE, document=document), event.envelope)

    def changes(self) -> Changes:
        """What differs from what was loaded."""
        self.ledgers.pack()
        changed = {name: DocumentChange(self._loaded.get(name), self._now.get(name)) for name in self._changed}
        different = {name: change for name, change in changed.items() if change.before != change.after}
        return Changes(different, self._erased, frozenset(self._retired & different.keys()))


Loaded = Mapping[DocumentId, Document]
Apply = Callable[[FoldBatch, Recorded], None]
Reads = Callable[[Recorded], Iterable[str]]
Follows = Callable[[Recorded, Loaded], Iterable[str]]
Wants = Callable[[Recorded], Callable[[str], bool]]


class FoldRule(NamedTuple):
    """How one type of event is folded.

    `reads`: ids of the documents it reads. `listings`: listings whose documents it reads; of their members only those
    that it `wants`, judged by the member itself. `follows` and `further_listings`: what else it reads, given the
    documents that were loaded (asked again until nothing is new).
    """

    apply: Apply
    reads: Reads
    listings: Reads
    follows: Follows
    further_listings: Follows
    wants: Wants


RULES: dict[type[EventData], FoldRule] = {}
"""The rule of each type of event; the modules of this package add theirs when they are imported."""


def _no_names(event: Recorded, loaded: Loaded | None = None) -> Iterable[str]:
    return ()


def _all_members(event: Recorded) -> Callable[[str], bool]:
    return lambda member: True


def folds(
    *events: type[EventData],
    reads: Reads = _no_names,
    listings: Reads = _no_names,
    follows: Follows = _no_names,
    further_listings: Follows = _no_names,
    wants: Wants = _all_members,
) -> Callable[[Apply], Apply]:
    """Register a function as the fold of these events; the other arguments are those of FoldRule."""

    def register(apply: Apply) -> Apply:
        for event in events:
            RULES[event] = FoldRule(apply, reads, listings, follows, further_listings, wants)
        return apply

    return register


def reading(*ids: Callable[[Recorded], str]) -> Callable[[Recorded], set[str]]:
    """Returns the `reads` of a rule that reads a fixed number of documents: each function returns the id of one."""
    return lambda event: {id_of(event) for id_of in ids}


def session_of(event: Recorded) -> DocumentId:
    """The id of the session that an event names."""
    envelope = event.envelope
    return sessions.session_document_id(envelope.tenant, envelope.project, envelope.session_id)


def mark_of(event: Recorded) -> DocumentId:
    """The id of an event's mark: its type and id within the stream it is routed to."""
    return document_id("evt", f"{route_of(event.envelope, event.data)}\0{event.data.TYPE}", event.envelope.event_id)
