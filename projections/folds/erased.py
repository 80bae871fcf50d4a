"""What is folded in the place of what was erased: a stub does to everything else what the event did."""

from typing import cast

from msgspec.structs import replace

from ingest.events.envelope import SESSION_TYPES, Recorded
from ingest.events.session import ObservationRecorded
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from projections.documents import memories, sessions
from projections.documents.ledgers import ledger_id
from projections.documents.memories import Memory
from projections.documents.tombstones import Mark, Tombstone
from projections.folds.batch import Batch, folds, session_of
from projections.folds.ledgers import further_parts


def _erased_reads(event: Recorded) -> set[str]:
    stub = cast(EventErased, event.data)
    found = {stub.document, stub.mark, stub.parent_id, *stub.originals} - {""}
    if event.envelope.session_id:
        found |= {session_of(event), ledger_id(session_of(event))}
    return found


@folds(EventErased, reads=_erased_reads, follows=further_parts(session_of))
def _event_erased(batch: Batch, event: Recorded) -> None:
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
    batch.put(Tombstone(id=name, memory_version=stub.memory_version, heir=stub.superseded_by, condensed=stub.originals))
    if stub.was == ObservationRecorded.TYPE:
        batch.put(sessions.observed(batch.session(event), event))
    for parent in (stub.parent_id, *stub.originals):
        _superseded(batch, event, parent, stub.document)


def _erased_mark(batch: Batch, event: Recorded, stub: EventErased) -> None:
    envelope = event.envelope
    if batch.get(stub.mark) is None and not _is_retired(batch, event, stub.mark):
        batch.put(
            Mark(
                id=DocumentId(stub.mark),
                position=str(event.position),
                subject=stub.document,
                was=stub.was,
                tenant=envelope.tenant,
                project=envelope.project,
                erased=True,
            )
        )


def _is_retired(batch: Batch, event: Recorded, name: str) -> bool:
    """Whether the ledger of the event's session notes an observation or a mark: this was a repeat of it."""
    in_session = cast(EventErased, event.data).was in SESSION_TYPES and event.envelope.session_id
    return bool(in_session) and batch.ledgers.find(session_of(event), name) is not None


def _superseded(batch: Batch, event: Recorded, parent: str, heir: str) -> None:
    known = batch.get(parent) if parent else None
    if isinstance(known, Memory):
        batch.put(memories.retired(known, heir, event.recorded_at))
    elif isinstance(known, Tombstone):
        batch.put(replace(known, superseded_by=heir))
