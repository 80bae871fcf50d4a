"""Memories: what was kept on purpose, in versions. A new memory that says nearly the same supersedes the old one."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded
from ingest.events.memory import (
    MemoryCondensed,
    MemoryRecorded,
    MemoryRevised,
    MemoryType,
    MemoryVisibilityChanged,
    Purpose,
    Visibility,
)
from ingest.ids import MEMORY, DocumentId, document_id
from ingest.log.partitions import project_route
from ingest.log.position import Position
from projections.compression.data_urls import named
from projections.search.similarity import SUPERSEDE_ABOVE, jaccard, signature

TITLE_CHARS = 80


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory. Superseded versions stay readable; recall sees the latest unless asked `as_of`.

    `condensed` names the memories that this one was made of and stands for. `updated_at` moves with its visibility.
    """

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
    keep_duplicates: bool = False
    derived_from: list[str] = []
    condensed: list[str] = []
    model: str = ""
    prompt_version: str = ""
    updated_at: datetime
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str = "native"


def memory_id(recorded: Recorded) -> DocumentId:
    """The id of the document that a memory event creates."""
    envelope = recorded.envelope
    return document_id(MEMORY, project_route(envelope.tenant, envelope.project), envelope.event_id)


def memory(recorded: Recorded, said: MemoryRecorded | MemoryRevised) -> Memory:
    """The memory that an event creates, as it tells it; which version it is, others decide."""
    envelope = recorded.envelope
    return Memory(
        id=memory_id(recorded),
        event_id=envelope.event_id,
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        agent_id=(isinstance(said, MemoryRevised) and said.creator) or envelope.agent_id,
        user_id=envelope.user_id,
        content=said.content,
        title=said.title or _title(said.content),
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
        owner=said.owner or (isinstance(said, MemoryRevised) and said.creator) or envelope.agent_id,
        forget_after=said.forget_after,
        keep_duplicates=said.keep_duplicates,
        derived_from=said.derived_from,
        updated_at=recorded.recorded_at,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
        source=envelope.source,
    )


def condensed(recorded: Recorded, said: MemoryCondensed) -> Memory:
    """The memory that stands for several."""
    envelope = recorded.envelope
    return Memory(
        id=memory_id(recorded),
        event_id=envelope.event_id,
        tenant=envelope.tenant,
        project=envelope.project,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        content=said.content,
        title=_title(said.content),
        memory_type=said.memory_type,
        tags=said.tags,
        importance=said.importance,
        visibility=said.visibility,
        shared_with=said.shared_with,
        owner=said.owner or envelope.agent_id,
        keep_duplicates=True,
        condensed=said.originals,
        model=said.model,
        prompt_version=said.prompt_version,
        updated_at=recorded.recorded_at,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
        source=envelope.source,
    )


def with_visibility(known: Memory, said: MemoryVisibilityChanged, at: datetime) -> Memory:
    """The memory after it was decided who may read it."""
    shared_with = known.shared_with if said.shared_with is None else said.shared_with
    return replace(known, visibility=said.visibility, shared_with=shared_with, updated_at=at)


def most_similar(new: Memory, candidates: Iterable[Memory]) -> Memory | None:
    """The latest memory that `new` supersedes: Jaccard similarity above 0.7, the most similar, then the newest.

    Only memories about the same user, of the same visibility and owner, are compared: a private note never replaces
    what others can read.
    """
    mine = signature(new.content)
    best: tuple[float, Position] | None = None
    found: Memory | None = None
    for other in candidates:
        if not other.is_latest or other.keep_duplicates or other.id == new.id or not _same_audience(new, other):
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


def restored(old: Memory) -> Memory:
    """The old memory as current again: what stood for it is forgotten."""
    return replace(old, is_latest=True, superseded_at=None, superseded_by="")


def _title(content: str) -> str:
    return named(content.strip().split("\n", 1)[0])[:TITLE_CHARS]


def _same_audience(new: Memory, other: Memory) -> bool:
    if new.visibility != other.visibility or new.user_id != other.user_id:
        return False
    return new.visibility == "public" or (new.owner == other.owner and set(new.shared_with) == set(other.shared_with))
