"""Memories: what was kept on purpose, in versions. A new memory that says nearly the same supersedes the old one."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded
from ingest.events.memory import MemoryRecorded, MemoryType, Purpose, Visibility
from ingest.ids import MEMORY, DocumentId, document_id
from ingest.log.partitions import project_route
from ingest.log.position import Position
from projections.similarity import SUPERSEDE_ABOVE, jaccard, signature

TITLE_CHARS = 80


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory. Superseded versions stay readable; recall sees the latest unless asked `as_of`."""

    id: DocumentId
    event_id: str
    tenant: str
    project: str = ""
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    content: str
    title: str = ""
    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    tags: list[str] = []
    concepts: list[str] = []
    files: list[str] = []
    references: list[str] = []
    metadata: dict[str, str] = {}
    importance: float = 5.0
    visibility: Visibility = "public"
    shared_with: list[str] = []
    owner: str = ""
    forget_after: datetime | None = None
    version: int = 1
    parent_id: str = ""
    is_latest: bool = True
    superseded_at: datetime | None = None
    superseded_by: str = ""
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str = "native"


def memory_id(recorded: Recorded) -> DocumentId:
    """The id of the document that a memory event creates."""
    envelope = recorded.envelope
    return document_id(MEMORY, project_route(envelope.tenant, envelope.project), envelope.event_id)


def memory(recorded: Recorded, said: MemoryRecorded) -> Memory:
    """The first version of a memory, as its event tells it."""
    envelope = recorded.envelope
    return Memory(
        id=memory_id(recorded),
        event_id=envelope.event_id,
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        content=said.content,
        title=said.content.strip().split("\n", 1)[0][:TITLE_CHARS],
        memory_type=said.memory_type,
        purpose=said.purpose,
        tags=said.tags,
        concepts=said.concepts,
        files=said.files,
        references=said.references,
        metadata=envelope.metadata,
        importance=said.importance,
        visibility=said.visibility,
        shared_with=said.shared_with,
        owner=said.owner or envelope.agent_id,
        forget_after=said.forget_after,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.position.recorded_at,
        position=str(recorded.position),
        source=envelope.source,
    )


def most_similar(new: Memory, candidates: Iterable[Memory]) -> Memory | None:
    """The latest memory that `new` supersedes: Jaccard similarity above 0.7, the most similar, then the newest.

    Only memories of the same visibility and owner are compared: a private note never replaces what others can read.
    """
    mine = signature(new.content)
    best: tuple[float, Position] | None = None
    found: Memory | None = None
    for other in candidates:
        if not other.is_latest or other.id == new.id or not _same_audience(new, other):
            continue
        rank = (jaccard(mine, signature(other.content)), Position.parse(other.position))
        if rank[0] > SUPERSEDE_ABOVE and (best is None or rank > best):
            best, found = rank, other
    return found


def superseding(new: Memory, old: Memory) -> tuple[Memory, Memory]:
    """The new memory as the next version, and the old one as superseded by it."""
    return inheriting(new, old.id, old.version), retired(old, new.id, new.recorded_at)


def inheriting(new: Memory, parent: DocumentId, parent_version: int) -> Memory:
    """The new memory as the version that follows its parent's."""
    return replace(new, version=parent_version + 1, parent_id=parent)


def retired(old: Memory, heir: str, at: datetime) -> Memory:
    """The old memory as superseded by its heir."""
    return replace(old, is_latest=False, superseded_at=at, superseded_by=heir)


def _same_audience(new: Memory, other: Memory) -> bool:
    if new.visibility != other.visibility:
        return False
    return new.visibility == "public" or (new.owner == other.owner and set(new.shared_with) == set(other.shared_with))
