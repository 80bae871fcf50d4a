"""Memories: what was kept on purpose, in versions. A new memory that says nearly the same supersedes the old one."""

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import ClassVar

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
from ingest.platform.clock import to_ms
from ingest.secrets.scrub import is_only_marks
from projections.compression.payloads import named
from projections.condensing.memex import without_prefix
from projections.documents.index_entry import IndexEntry, index_terms, searchable
from projections.documents.rows import by_position, by_time, derived, in_user_listing, part_of
from projections.search.similarity import SUPERSEDE_ABOVE, jaccard, keys_of, tokens_of

TITLE_CHARS = 80
MOST_IMPORTANT = 10.0


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a memory. Superseded versions stay readable; recall sees the latest unless asked `as_of`.

    `condensed` names the memories that this one was made of and stands for. `updated_at` moves with its visibility.
    `confirmations` is how often it proved right.
    """

    LETTER: ClassVar[bytes] = b"m"

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
    confirmations: int = 0
    confirmed_at: datetime | None = None
    updated_at: datetime
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str = "native"

    @property
    def audience(self) -> list[str]:
        """Who may read it, sorted; empty means everybody in the tenant."""
        if self.visibility == "public":
            return []
        return sorted({self.owner, self.agent_id, *(self.shared_with if self.visibility == "shared" else ())})

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        member = by_position(self.position, self.id)
        found = {
            (memories(self.tenant, self.project), member),
            *((derived(source), self.id) for source in self.derived_from),
            *in_user_listing(self.tenant, self.user_id, member),
        }
        if not self.is_latest:
            return found
        if not self.keep_duplicates:
            name = similar(self.tenant, self.project)
            keys = keys_of(self.content)
            found |= {(name, f"{key}|{keys.sketch:016x}|{self.id}") for key in keys.filed}
        if self.memory_type == "episodic" and self.user_id:
            found.add((EPISODIC, f"{episodic_pair(self.tenant, self.agent_id, self.user_id)}{member}"))
        if self.forget_after:
            found.add((EXPIRING, by_time(max(0, to_ms(self.forget_after)), self.id)))
        return found

    def searchable_text(self) -> str:
        """What it says, without what a summary says of itself."""
        content = without_prefix(self.content) if self.condensed else self.content
        return searchable([content, *self.tags, *self.concepts, *self.files])

    def index_entry(self) -> IndexEntry:
        """What an index replica knows of it."""
        return IndexEntry(
            id=self.id,
            kind="memory",
            terms=index_terms(self.searchable_text(), self.occurred_at, stated=True),
            tenant=self.tenant,
            project=self.project,
            session_id=self.session_id,
            agent_id=self.agent_id,
            user_id=self.user_id,
            tags=self.tags,
            occurred_ms=to_ms(self.occurred_at),
            recorded_ms=to_ms(self.recorded_at),
            retired_ms=to_ms(self.superseded_at) if self.superseded_at else 0,
            expires_ms=to_ms(self.forget_after) if self.forget_after else 0,
            importance=confirmed_importance(float(self.importance), self.confirmations),
            audience=self.audience,
            types=[self.memory_type, self.purpose],
            files=list(self.files),
            concepts=self.concepts,
            visibility=self.visibility,
        )


def confirmed_importance(importance: float, confirmations: int) -> float:
    """What a memory counts as in rankings: a step more once it was confirmed, and for each doubling after; at most 10.

    What was stated to be more than that stays.
    """
    return max(importance, min(MOST_IMPORTANT, importance + math.log2(1 + confirmations)))


EPISODIC = "episodic"
"""Listing of a partition's current episodic memories about users: by tenant, agent and user, then in log order."""
EXPIRING = "expiring"
"""Listing of a partition's memories that are to be forgotten at a time, by that time."""


def episodic_pair(tenant: str, agent: str, user: str) -> str:
    """What members of EPISODIC about one agent and user begin with."""
    return f"{tenant}\0{agent}\0{user}\0"


def memories(tenant: str, project: str) -> str:
    """Listing of a project's memories, in log order."""
    return f"memories:{tenant}\0{project}"


def similar(tenant: str, project: str) -> str:
    """Listing of a project's current memories under the keys by which those that say nearly the same are found.

    Members are `<key>|<sketch>|<id>`.
    """
    return f"similar:{tenant}\0{project}"


def probe_listings(memory: Memory) -> list[str]:
    """The parts of listings in which every memory similar enough to be superseded by this one is found."""
    name = similar(memory.tenant, memory.project)
    return [part_of(name, f"{key}|") for key in keys_of(memory.content).probe]


def resembling(content: str) -> Callable[[str], bool]:
    """Tells whether what a member of `similar` names may say nearly the same as a text; judged by its sketch."""
    may_match = keys_of(content).matching()
    return lambda member: may_match(int(member.split("|", 2)[1], 16))


def memory_id(recorded: Recorded) -> DocumentId:
    """The id of the document that a memory event creates."""
    envelope = recorded.envelope
    return document_id(MEMORY, project_route(envelope.tenant, envelope.project), envelope.event_id)


def memory(recorded: Recorded, data: MemoryRecorded | MemoryRevised) -> Memory:
    """The memory that an event creates, as it tells it; which version it is, others decide."""
    envelope = recorded.envelope
    return Memory(
        id=memory_id(recorded),
        event_id=envelope.event_id,
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        agent_id=(isinstance(data, MemoryRevised) and data.creator) or envelope.agent_id,
        user_id=envelope.user_id,
        content=data.content,
        title=data.title or _title(data.content),
        memory_type=data.memory_type,
        purpose=data.purpose,
        tags=data.tags,
        concepts=data.concepts,
        files=data.files,
        references=data.references,
        metadata=envelope.metadata,
        importance=data.importance,
        visibility=data.visibility,
        shared_with=data.shared_with,
        owner=data.owner or (isinstance(data, MemoryRevised) and data.creator) or envelope.agent_id,
        forget_after=data.forget_after,
        keep_duplicates=data.keep_duplicates,
        derived_from=data.derived_from,
        updated_at=recorded.recorded_at,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
        source=envelope.source,
    )


def condensed(recorded: Recorded, data: MemoryCondensed) -> Memory:
    """The memory that stands for several."""
    envelope = recorded.envelope
    return Memory(
        id=memory_id(recorded),
        event_id=envelope.event_id,
        tenant=envelope.tenant,
        project=envelope.project,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        content=data.content,
        title=_title(data.content),
        memory_type=data.memory_type,
        tags=data.tags,
        importance=data.importance,
        visibility=data.visibility,
        shared_with=data.shared_with,
        owner=data.owner or envelope.agent_id,
        keep_duplicates=True,
        condensed=data.originals,
        model=data.model,
        prompt_version=data.prompt_version,
        updated_at=recorded.recorded_at,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
        source=envelope.source,
    )


def with_visibility(known: Memory, data: MemoryVisibilityChanged, at: datetime) -> Memory:
    """The memory after it was decided who may read it."""
    shared_with = known.shared_with if data.shared_with is None else data.shared_with
    return replace(known, visibility=data.visibility, shared_with=shared_with, updated_at=at)


def confirmed(known: Memory, at: datetime) -> Memory:
    """The memory after it proved right once more."""
    return replace(known, confirmations=known.confirmations + 1, confirmed_at=at)


def most_similar(new: Memory, candidates: Iterable[Memory]) -> Memory | None:
    """The latest memory that `new` supersedes: Jaccard similarity above 0.7, the most similar, then the newest.

    Only memories about the same user, of the same visibility and owner, are compared: a private note never replaces
    what others can read.
    """
    mine = tokens_of(new.content)
    best: tuple[float, Position] | None = None
    found: Memory | None = None
    for other in candidates:
        if not other.is_latest or other.keep_duplicates or other.id == new.id or not _same_audience(new, other):
            continue
        rank = (jaccard(mine, tokens_of(other.content)), Position.parse(other.position))
        if rank[0] > SUPERSEDE_ABOVE and (best is None or rank > best):
            best, found = rank, other
    return found


def superseding(new: Memory, old: Memory) -> tuple[Memory, Memory]:
    """The new memory as the next version, which proved right as often, and the old one as superseded by it."""
    heir = replace(new, confirmations=old.confirmations, confirmed_at=old.confirmed_at)
    return inheriting(heir, old.id, old.version), retired(old, new.id, new.recorded_at)


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
    lines = content.strip().split("\n")
    return named(next((line for line in lines if line and not is_only_marks(line)), lines[0]))[:TITLE_CHARS]


def _same_audience(new: Memory, other: Memory) -> bool:
    if new.visibility != other.visibility or new.user_id != other.user_id:
        return False
    return new.visibility == "public" or (new.owner == other.owner and set(new.shared_with) == set(other.shared_with))
