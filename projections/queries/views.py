"""Documents as readers get them: plain mappings with stable names, times as ISO 8601, nothing internal."""

from typing import Any

from ingest.clock import from_ms
from projections.documents.document import Document
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Session

_INTERNAL = frozenset({"tenant", "session"})


def view(document: Document) -> dict[str, Any]:
    """A document for a reader. Times stay datetimes: the JSON encoder of the door writes them."""
    match document:
        case Observation() | Memory():
            return {name: getattr(document, name) for name in document.__struct_fields__ if name not in _INTERNAL}
        case Lesson():
            return {
                "id": document.id,
                "project": document.project,
                "agent_id": document.agent_id,
                "content": document.content,
                "context": document.context,
                "tags": document.tag_list,
                "confidence": document.confidence,
                "reinforcements": document.reinforcements,
                "origin": document.origin,
                "occurred_at": from_ms(document.occurred_ms),
                "recorded_at": from_ms(document.recorded_ms),
                "reinforced_at": from_ms(document.reinforced_ms),
                "position": document.position,
            }
        case Session():
            return {
                "id": document.session_id,
                "project": document.project,
                "agent_id": document.agent_id,
                "title": document.title,
                "cwd": document.cwd,
                "status": document.status,
                "started_at": from_ms(document.started_ms),
                "updated_at": from_ms(document.updated_ms),
                "ended_at": from_ms(document.ended_ms) if document.ended_ms else None,
                "observation_count": document.observation_count,
            }
        case _:
            return {"id": document.id}


def readable_by(document: Document, tenant: str, reader: str) -> bool:
    """Whether a reader of a tenant may see the document: the tenant's own, and restricted memories only by name."""
    if not isinstance(document, Observation | Memory | Lesson | Session) or document.tenant != tenant:
        return False
    if not isinstance(document, Memory) or document.visibility == "public":
        return True
    readers = {document.owner, document.agent_id, *(document.shared_with if document.visibility == "shared" else ())}
    return bool(reader) and reader in readers
