"""The documents as they stand while a batch of events is folded, and the steps every fold shares. Pure."""

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
    """What a batch did: the documents that differ, and the stubs that take the place of erased log entries.

    Those that were `retired` are gone as forgotten ones are, but nothing is to be purged for that.
    """

    documents: Mapping[DocumentId, DocumentChange]
    erased: Mapping[Position, Event]
    retired: frozenset[DocumentId] = frozenset()


_LOOKED_FOR = (Memory, SupersededEvent, Tombstone)


class FoldBatch:
    """Reads what was loaded, remembers what changed."""

    def __init__(self, loaded: Mapping[DocumentId, Document], candidates: Mapping[str, Sequence[str]]) -> None:
        self._loaded, self._now = loaded, dict(loaded)
        self._members = candidates
        self._added: dict[str, list[str]] = {}
        self._changed: dict[DocumentId, None] = {}
        self._erased: dict[Position, Event] = {}
        self._retired: set[DocumentId] = set()
        self.ledgers = Ledgers(self)
        self.tenant: str | None = None
        """Whose event is folded. The documents of others are not there for it, whatever ids it names."""

    def get(self, name: str) -> Document | None:
        """The document as it stands; None when there is none."""
        found = self._now.get(DocumentId(name))
        return None if self._is_foreign(found) else found

    def session(self, event: Recorded) -> Session | None:
        """The session that an event names."""
        found = self.get(session_of(event))
        return found if isinstance(found, Session) else None

    def put(self, document: Document) -> None:
        """The document is now this."""
        name = DocumentId(document.id)
        if self._is_foreign(self._now.get(name)):
            return
        self._now[name] = document
        self._changed[name] = None
        if isinstance(document, _LOOKED_FOR):  # what later events of this batch look for in listings
            for listing, member in listings(document):
                beginning, _, rest = member.partition("|")
                for name in (listing, part_of(listing, f"{beginning}|")) if rest else (listing,):
                    self._added.setdefault(name, []).append(member)

    def drop(self, name: DocumentId) -> None:
        """The document is no more."""
        if self._is_foreign(self._now.get(name)):
            return
        self._now.pop(name, None)
        self._changed[name] = None

    def retire(self, name: DocumentId) -> None:
        """The document is no more, and its ledger says so."""
        self.drop(name)
        self._retired.add(name)

    def _is_foreign(self, document: Document | None) -> bool:
        """A tombstone is nobody's: nothing is left of it that an event could change."""
        return self.tenant is not None and getattr(document, "tenant", self.tenant) != self.tenant

    def members(self, listing: str, wants: Callable[[str], bool] | None = None) -> list[Document]:
        """The documents in a listing, or a part of one, that was loaded or added to; of all, or of wanted members.

        What was loaded are the members that any event of the batch wants.
        """
        listed = (*self._members.get(listing, ()), *self._added.get(listing, ()))
        wanted = listed if wants is None else filter(wants, listed)
        names = dict.fromkeys(member.rpartition("|")[2] for member in wanted)
        return [found for name in names if (found := self.get(name)) is not None]

    def mark(self, event: Recorded, subject: str) -> bool:
        """Note that an event about `subject` was applied; False when that is noted already.

        A repeat that is in the log a second time is erased there: it would outlive a forgetting of the first.
        """
        name = mark_of(event)
        known = self.get(name)
        if known is None and event.data.TYPE in SESSION_TYPES:
            known = self.ledgers.find(session_of(event), name)
        if known is not None:
            if str(event.position) != str(getattr(known, "position", "")):
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
        """Erase the entry at a position; the stub says nothing of what was said, by whom and where stays."""
        kept = Envelope(
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
        self._erased[Position.parse(position)] = Event(kept, stub)

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
        """Erase every marked entry about a subject (of one type, if `was` is given) that came before its forgetting."""
        for mark in self.members(entries(subject)):
            if (
                isinstance(mark, SupersededEvent)
                and was in ("", mark.was)
                and Position.parse(mark.position) < forgetting.position
            ):
                self.erase_mark(mark, forgetting.envelope.session_id)
        if forgetting.envelope.session_id:
            self._erase_retired_marks(subject, forgetting, was)

    def _erase_retired_marks(self, subject: str, forgetting: Recorded, was: str) -> None:
        session, envelope = session_of(forgetting), forgetting.envelope
        for entry in self.ledgers.marks_about(session, subject):
            if was in ("", entry.was) and not entry.erased and entry.position < forgetting.position:
                stub = EventErased(was=entry.was, document=entry.subject, mark=entry.name)
                self.erase(str(entry.position), stub, erased_envelope(entry, envelope))
                self.ledgers.amend(session, entry._replace(erased=True, user_id=""))

    def void(self, event: Recorded) -> None:
        """Erase a marked event that came to nothing: what it says may be about something forgotten."""
        mark = self.get(mark_of(event))
        if isinstance(mark, SupersededEvent):
            self.erase_mark(mark, event.envelope.session_id)

    def erase_repeat(self, event: Recorded, first: str, document: str) -> None:
        """Erase a repeat of an event whose document the log has at `first` already."""
        if str(event.position) != first:
            self.erase(str(event.position), EventErased(was=event.data.TYPE, document=document), event.envelope)

    def changes(self) -> Changes:
        """What differs from what was loaded."""
        self.ledgers.pack()
        changed = {name: DocumentChange(self._loaded.get(name), self._now.get(name)) for name in self._changed}
        different = {name: change for name, change in changed.items() if change.before != change.after}
        return Changes(different, self._erased, frozenset(self._retired & different.keys()))


Loaded = Mapping[DocumentId, Document]


def _nothing(event: Recorded) -> set[str]:
    return set()


def _anything(member: str) -> bool:
    return True


def _everything(event: Recorded) -> Callable[[str], bool]:
    return _anything


def _no_more(event: Recorded, loaded: Loaded) -> set[str]:
    return set()


class FoldRule(NamedTuple):
    """How one type of event is folded.

    `reads`: ids of the documents it looks at. `listings`: listings whose members it looks at, those that it `wants` by
    what a member itself says. `follows` and `further_listings`: what it also looks at, given the documents that were
    loaded (asked again until nothing is new).
    """

    apply: Callable[[FoldBatch, Recorded], None]
    reads: Callable[[Recorded], Iterable[str]]
    listings: Callable[[Recorded], Iterable[str]]
    follows: Callable[[Recorded, Loaded], Iterable[str]]
    further_listings: Callable[[Recorded, Loaded], Iterable[str]]
    wants: Callable[[Recorded], Callable[[str], bool]]


RULES: dict[type[EventData], FoldRule] = {}
"""The rule of each type of event; the modules of this package add theirs when they are imported."""
Apply = Callable[[FoldBatch, Recorded], None]


def folds(
    *events: type[EventData],
    reads: Callable[[Recorded], Iterable[str]] = _nothing,
    listings: Callable[[Recorded], Iterable[str]] = _nothing,
    follows: Callable[[Recorded, Loaded], Iterable[str]] = _no_more,
    further_listings: Callable[[Recorded, Loaded], Iterable[str]] = _no_more,
    wants: Callable[[Recorded], Callable[[str], bool]] = _everything,
) -> Callable[[Apply], Apply]:
    """Register a function as how these events are folded; what else it says is as in Rule."""

    def register(apply: Apply) -> Apply:
        for event in events:
            RULES[event] = FoldRule(apply, reads, listings, follows, further_listings, wants)
        return apply

    return register


def reading(*ids: Callable[[Recorded], str]) -> Callable[[Recorded], set[str]]:
    """Returns the `reads` of a rule that looks at a fixed number of documents, one a function."""
    return lambda event: {one(event) for one in ids}


def session_of(event: Recorded) -> DocumentId:
    """The id of the session that an event names."""
    envelope = event.envelope
    return sessions.session_document_id(envelope.tenant, envelope.project, envelope.session_id)


def mark_of(event: Recorded) -> DocumentId:
    """The id of an event's mark: its type and id within the stream it is routed to."""
    return document_id("evt", f"{route_of(event.envelope, event.data)}\0{event.data.TYPE}", event.envelope.event_id)
