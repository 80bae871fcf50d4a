"""Forgetting: deletes documents, writes tombstones, undoes effects; and what is folded in the place of erased events.

Whatever a document gave to others is taken back: a session loses what it took from a forgotten observation, and its
summary; memories that were condensed together with a forgotten one are current again, and their summary goes; what a
forgotten memory had superseded is current again where that was a memory of its own, unless another still supersedes it.
A stub does to everything else what the event did before it was erased.
"""

from collections.abc import Collection, Sequence
from typing import cast

from msgspec.structs import replace

from ingest.events.envelope import SESSION_TYPES, Envelope, Recorded
from ingest.events.memory import MemoryRecorded
from ingest.events.session import ObservationRecorded, SessionSummarised
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import MEMORY, OBSERVATION, DocumentId
from ingest.log.position import Position
from projections.documents import memories, sessions
from projections.documents.actions import Action
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.rows import joined
from projections.documents.sessions import SESSION, Commit, Session, Summary, summary_id
from projections.documents.slots import Slot
from projections.documents.tombstones import Ledger, LedgerEntry, SupersededEvent, Tombstone, entries, ledger_id
from projections.folds.batch import FoldBatch, Loaded, folds, session_of
from projections.folds.ledgers import erased_envelope, further_parts


def named(data: SubjectForgotten) -> list[str]:
    """The ids of the documents that an event forgets."""
    if data.documents or data.kept or data.kind in ("session", "user", "project"):
        return data.documents
    return [data.subject]


_further_parts = further_parts(session_of)


def _forgotten_reads(event: Recorded) -> set[str]:
    data = cast(SubjectForgotten, event.data)
    found = {*named(data), *data.kept}
    if event.envelope.session_id:
        found |= {session_of(event), summary_id(session_of(event)), ledger_id(session_of(event))}
    return found


def _forgotten_listings(event: Recorded) -> set[str]:
    found = {entries(name) for name in named(cast(SubjectForgotten, event.data))}
    if event.envelope.session_id:
        found.add(entries(session_of(event)))
    return found


def _connected(event: Recorded, loaded: Loaded) -> set[str]:
    """What was condensed with a forgotten memory, what stands for that, and what a mark is about.

    Also what a memory superseded and what superseded it, beyond those of them that are forgotten.
    """
    found = set[str]()
    waiting = list(named(cast(SubjectForgotten, event.data)))
    seen = {*waiting}
    while waiting:
        match known := loaded.get(DocumentId(waiting.pop())):
            case Memory() | Tombstone():
                found.update(known.condensed)
                for name in (known.parent_id, known.superseded_by):
                    other = loaded.get(DocumentId(name))
                    goes = isinstance(other, Memory | Tombstone) and known.id in other.condensed
                    if (goes or isinstance(other, Tombstone)) and name not in seen:
                        seen.add(name)
                        waiting.append(name)
                    found.add(name)
            case SupersededEvent():
                found.add(known.subject)
            case _:
                pass
    return found - {""}


def _further_entries(event: Recorded, loaded: Loaded) -> set[str]:
    """The marks of what a memory was condensed with, and those beside a mark that is forgotten."""
    found = {entries(name) for name in _connected(event, loaded) if name.partition("_")[0] == MEMORY}
    marked = (loaded.get(DocumentId(name)) for name in named(cast(SubjectForgotten, event.data)))
    return found | {entries(mark.subject) for mark in marked if isinstance(mark, SupersededEvent)}


def _follows(event: Recorded, loaded: Loaded) -> set[str]:
    return _connected(event, loaded) | _further_parts(event, loaded)


@folds(
    SubjectForgotten,
    reads=_forgotten_reads,
    listings=_forgotten_listings,
    follows=_follows,
    further_listings=_further_entries,
)
def _forgotten(batch: FoldBatch, event: Recorded) -> None:
    """Observations before their session: what is left of it depends on them."""
    data = cast(SubjectForgotten, event.data)
    names = named(data)
    before = batch.session(event)
    for name in sorted(names, key=lambda one: one.partition("_")[0] == SESSION):
        _forget(batch, event, DocumentId(name), names, before)
    for name in data.kept:
        _keep(batch, name, data.sources)


def _keep(batch: FoldBatch, name: str, gone: Collection[str]) -> None:
    """A document that stays is not derived from what is forgotten any more."""
    match known := batch.get(name):
        case Memory(derived_from=sources):
            batch.put(replace(known, derived_from=[one for one in sources if one not in gone]))
        case Lesson(sources=sources) | Relation(sources=sources):
            left = joined(one for one in sources if one not in gone)
            batch.put(known.model_copy(update={"derived_from": left}))
        case _:
            pass


def _forget(
    batch: FoldBatch, event: Recorded, name: DocumentId, also: Sequence[str], before: Session | None = None
) -> None:
    match known := batch.get(name) or _retired(batch, event, name):
        case Observation():
            _erase_document(batch, known, EventErased(was=ObservationRecorded.TYPE, document=name))
            _bury(batch, event, Tombstone(id=name))
            _leave_session(batch, event)
        case LedgerEntry():
            _forget_retired(batch, event, known)
        case Memory():
            _forget_memory(batch, event, known, also)
        case Session():
            _forget_session(batch, event, known, before)
        case Summary():
            _forget_summary(batch, event, known)
        case SupersededEvent():
            if not _stands(batch, known, also):
                _forget_past(batch, event, known)
        case Tombstone(position=""):
            _bury(batch, event, known)
            if name.partition("_")[0] == OBSERVATION:
                _leave_session(batch, event)
            else:
                _restore(batch, event, known, also)
        case Tombstone() | Ledger():
            pass
        case None:
            if name.partition("_")[0] in (OBSERVATION, MEMORY):
                _bury(batch, event, Tombstone(id=name))
            batch.erase_entries(name, event)
        case _:
            _drop(batch, event, known)


def _drop(batch: FoldBatch, event: Recorded, known: Lesson | Slot | Action | Relation | Commit) -> None:
    """A document that its events may make anew: it goes, with every entry that told of it."""
    if _came_later(known, event):
        return
    batch.erase_entries(known.id, event)
    batch.drop(DocumentId(known.id))


def _came_later(known: Lesson | Slot | Action | Relation | Commit | Summary, event: Recorded) -> bool:
    """Whether a forgetting that is applied again meets what was made after it."""
    return Position.parse(known.position) > event.position


def _stands(batch: FoldBatch, mark: SupersededEvent, also: Sequence[str]) -> bool:
    """Whether a document that is not forgotten with it still holds what the event of a mark did.

    Such an entry stays, for a replay could not end there without it; it goes when the document does.
    """
    known = batch.get(mark.subject)
    if known is None or isinstance(known, Tombstone) or mark.subject in also:
        return False
    position = getattr(known, "position", "")
    return not position or Position.parse(position) <= Position.parse(mark.position)


def _forget_past(batch: FoldBatch, event: Recorded, mark: SupersededEvent) -> None:
    """Every entry about what the mark's document was before it went: a replay of some of them would end elsewhere."""
    position = getattr(batch.get(mark.subject), "position", "")
    since = Position.parse(position) if position else None
    for other in (mark, *batch.members(entries(mark.subject))):
        if isinstance(other, SupersededEvent) and other.position:
            place = Position.parse(other.position)
            if place <= event.position and (since is None or place < since):
                batch.erase_mark(other, event.envelope.session_id)


def _forget_session(batch: FoldBatch, event: Recorded, session: Session, before: Session | None) -> None:
    if before is None or Position.parse(before.forgotten_at) >= event.position:
        return  # applied again: what is there was opened after it
    batch.erase_entries(session.id, event)
    batch.drop(summary_id(DocumentId(session.id)))
    left = sessions.forgotten(session, event)
    if left is None:
        batch.drop(DocumentId(session.id))
    else:
        batch.put(left)


def _forget_summary(batch: FoldBatch, event: Recorded, known: Summary) -> None:
    if _came_later(known, event):
        return
    session = batch.get(known.session)
    if isinstance(session, Session):
        batch.put(session.model_copy(update={"summarised": 0}))
    _drop_summary(batch, event, known.session)


def _drop_summary(batch: FoldBatch, event: Recorded, session: DocumentId) -> None:
    batch.drop(summary_id(session))
    batch.erase_entries(session, event, was=SessionSummarised.TYPE)


def _bury(batch: FoldBatch, event: Recorded, tombstone: Tombstone) -> None:
    """The tombstone of a forgotten observation or memory."""
    batch.put(replace(tombstone, position=str(event.position), successor=""))
    batch.erase_entries(tombstone.id, event)


def _retired(batch: FoldBatch, event: Recorded, name: str) -> LedgerEntry | None:
    """What the ledger of the event's session notes of an observation."""
    if not event.envelope.session_id or name.partition("_")[0] != OBSERVATION:
        return None
    return batch.ledgers.find(session_of(event), name)


def _forget_retired(batch: FoldBatch, event: Recorded, entry: LedgerEntry) -> None:
    stub = EventErased(was=ObservationRecorded.TYPE, document=entry.name)
    batch.erase(str(entry.position), stub, erased_envelope(entry, event.envelope))
    batch.ledgers.strike(session_of(event), entry.name)
    _bury(batch, event, Tombstone(id=entry.name))
    _leave_session(batch, event, retired=True)


def _leave_session(batch: FoldBatch, event: Recorded, *, retired: bool = False) -> None:
    """One less is counted, and nothing of what the session took from the observation stays: its summary goes, too."""
    session = batch.session(event)
    if session is not None:
        batch.put(sessions.without_observation(session, event, retired=retired))
        _drop_summary(batch, event, DocumentId(session.id))


def _forget_memory(batch: FoldBatch, event: Recorded, known: Memory, also: Sequence[str]) -> None:
    stub = EventErased(
        was=MemoryRecorded.TYPE,
        document=known.id,
        memory_version=known.version,
        parent_id=known.parent_id,
        separate_parent=known.separate_parent,
        superseded_by=known.superseded_by,
        originals=known.condensed,
    )
    _erase_document(batch, known, stub)
    tombstone = Tombstone(
        id=known.id,
        memory_version=known.version,
        author=known.author,
        parent_id=known.parent_id,
        separate_parent=known.separate_parent,
        superseded_by=known.superseded_by,
        condensed=known.condensed,
    )
    _bury(batch, event, tombstone)
    _restore(batch, event, tombstone, also)


def _restore(batch: FoldBatch, event: Recorded, gone: Tombstone, also: Sequence[str]) -> None:
    """What a forgotten memory stood for is current again, and what stands for it and others is forgotten, too."""
    for name in gone.condensed:
        match other := batch.get(name):
            case Memory(superseded_by=successor) if successor == gone.id and name not in also:
                batch.put(memories.restored(other))
            case Tombstone(position="", superseded_by=successor) if successor == gone.id and name not in also:
                batch.put(replace(other, superseded_by=""))
            case _:
                pass
    match successor := batch.get(gone.superseded_by):
        case Memory(condensed=condensed) | Tombstone(position="", condensed=condensed) if gone.id in condensed:
            _forget(batch, event, successor.id, also)
        case _:
            pass
    if not _is_superseded(batch, gone, also):
        _restore_parent(batch, gone, also)


def _is_superseded(batch: FoldBatch, gone: Tombstone, also: Sequence[str]) -> bool:
    """Whether a memory that is not forgotten superseded a forgotten one, or what did.

    A tombstone without a position is a memory, to the events that a replay has come to.
    """
    name = gone.superseded_by
    while isinstance(successor := batch.get(name), Memory | Tombstone):
        if name not in also and (isinstance(successor, Memory) or not successor.position):
            return True
        name = successor.superseded_by
    return False


def _restore_parent(batch: FoldBatch, gone: Tombstone, also: Sequence[str]) -> None:
    """What a forgotten memory superseded is current again, if it was a memory of its own; if it is gone, what it did.

    What is forgotten with it restores its own.
    """
    at = gone
    while isinstance(older := batch.get(at.parent_id), Tombstone) and older.position:
        at = older
    if at.separate_parent and at.parent_id not in also:
        match older:
            case Memory(superseded_by=at.id):
                batch.put(memories.restored(older))
            case Tombstone(superseded_by=at.id):
                batch.put(replace(older, superseded_by=""))
            case _:
                pass


def _erase_document(batch: FoldBatch, document: Observation | Memory, stub: EventErased) -> None:
    imported = document.recorded_at != Position.parse(document.position).recorded_at
    envelope = Envelope(
        event_id=document.event_id,
        type=stub.was,
        version=1,
        tenant=document.tenant,
        project=document.project,
        agent_id=document.author if isinstance(document, Memory) else document.agent_id,
        session_id=document.session_id,
        occurred_at=document.occurred_at,
        recorded_at=document.recorded_at if imported else None,
    )
    batch.erase(document.position, stub, envelope)


def _erased_reads(event: Recorded) -> set[str]:
    stub = cast(EventErased, event.data)
    found = {stub.document, stub.mark, stub.parent_id, *stub.originals} - {""}
    if event.envelope.session_id:
        found |= {session_of(event), ledger_id(session_of(event))}
    return found


@folds(EventErased, reads=_erased_reads, follows=further_parts(session_of))
def _event_erased(batch: FoldBatch, event: Recorded) -> None:
    """Do to everything else what the event did before it was erased."""
    stub = cast(EventErased, event.data)
    if stub.mark:
        _erased_mark(batch, event, stub)
        return
    if not stub.document:
        return  # an event that no document came of: a discarded dead letter
    if batch.get(stub.document) is not None or _is_retired(batch, event, stub.document):
        return
    name = DocumentId(stub.document)
    tombstone = Tombstone(
        id=name,
        memory_version=stub.memory_version,
        author=event.envelope.agent_id if stub.was == MemoryRecorded.TYPE else "",
        parent_id=stub.parent_id,
        separate_parent=stub.separate_parent,
        successor=stub.superseded_by,
        condensed=stub.originals,
    )
    batch.put(tombstone)
    if stub.was == ObservationRecorded.TYPE:
        batch.put(sessions.observed(batch.session(event), event))
    for parent in (stub.parent_id, *stub.originals):
        _superseded(batch, event, parent, stub.document)


def _erased_mark(batch: FoldBatch, event: Recorded, stub: EventErased) -> None:
    envelope = event.envelope
    if batch.get(stub.mark) is None and not _is_retired(batch, event, stub.mark):
        batch.put(
            SupersededEvent(
                id=DocumentId(stub.mark),
                position=str(event.position),
                subject=stub.document,
                was=stub.was,
                tenant=envelope.tenant,
                project=envelope.project,
                erased=True,
            )
        )


def _is_retired(batch: FoldBatch, event: Recorded, name: str) -> bool:
    """Whether the ledger of the event's session notes an observation or a mark: this was a repeat of it."""
    in_session = cast(EventErased, event.data).was in SESSION_TYPES and event.envelope.session_id
    return bool(in_session) and batch.ledgers.find(session_of(event), name) is not None


def _superseded(batch: FoldBatch, event: Recorded, parent: str, successor: str) -> None:
    known = batch.get(parent) if parent else None
    if isinstance(known, Memory):
        batch.put(memories.retired(known, successor, event.recorded_at))
    elif isinstance(known, Tombstone):
        batch.put(replace(known, superseded_by=successor))
