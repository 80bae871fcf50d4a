"""agentd's memories as ours: a project of their own, ids of agentd's form, nothing that supersedes. Pure.

A memory's id there, `mem_<unix ms>_<8 hex>`, is kept as metadata, and the id of our document follows from it, as that
of an imported memory does: it is found without a search, and a memory that moved here is called what it was called.
What was written into the project natively or by another API has only our own id, and goes by that.
"""

import re
from datetime import datetime

from msgspec import UNSET, Struct, UnsetType

from api.dialects.agentd import importer as imports
from ingest.commands.decide import Caller, Remember, decide
from ingest.events.envelope import Recorded
from ingest.events.memory import MemoryRecorded, Purpose, Visibility
from ingest.ids import DocumentId, EventId
from ingest.log.position import Token
from ingest.platform.clock import from_ms, to_ms
from projections.documents.memories import Memory, memory

PROJECT = "agentd"
_NAME = re.compile(r"mem_[0-9]+_[0-9a-f]{8}")


class MemoryView(Struct, frozen=True, kw_only=True):
    """A memory as agentd's clients read it. `owner` is told where it is not the creator."""

    id: str
    content: str
    type: Purpose
    tags: list[str] = []
    created_by: str
    owner: str | UnsetType | None = UNSET
    created_at: datetime
    updated_at: datetime
    visibility: Visibility = "public"
    shared_with: list[str] = []
    references: list[str] = []


def new_name(at: datetime, noise: str) -> str:
    """The id of a new memory; `noise` are 8 hex digits."""
    return f"mem_{to_ms(at)}_{noise}"


def document_of(name: str, tenant: str) -> DocumentId:
    """The document that an id means: agentd's form, or one of ours as it is."""
    return imports.memory_id(tenant, PROJECT, name) if _NAME.fullmatch(name) else DocumentId(name)


def name_of(memory: Memory) -> str:
    """What a memory is called here. A revision has its first version's metadata, and is another document."""
    known = memory.metadata.get(imports.ID, "")
    return known if document_of(known, memory.tenant) == memory.id else memory.id


def remember(
    name: str,
    content: str,
    created_by: str,
    at: datetime,
    *,
    purpose: Purpose = "information",
    tags: list[str] | None = None,
    visibility: Visibility = "public",
    shared_with: list[str] | None = None,
    references: list[str] | None = None,
) -> Remember:
    """The command that stores a memory under a new name."""
    return Remember(
        event_id=imports.event_id(imports.SYSTEM, imports.key(name)),
        project=PROJECT,
        agent_id=created_by,
        content=content,
        purpose=purpose,
        tags=tags or [],
        visibility=visibility,
        shared_with=shared_with or [],
        references=references or [],
        occurred_at=to_the_ms(at),
        keep_duplicates=True,
        metadata={imports.ID: name},
    )


def recorded(command: Remember, caller: Caller, position: str) -> Memory:
    """The memory that an acknowledged command becomes, before it is projected."""
    token = Token.parse(position)
    place = max(token.values())
    event = decide(command, caller, EventId(command.event_id), place.recorded_at).event
    assert isinstance(event.data, MemoryRecorded)
    return memory(Recorded(place, *event), event.data)


def view(memory: Memory) -> MemoryView:
    """A memory for a client. Its times are whole milliseconds, which is what lists and searches go by."""
    created = to_the_ms(memory.occurred_at)
    changed = memory.updated_at != memory.recorded_at
    return MemoryView(
        id=name_of(memory),
        content=memory.content,
        type=memory.purpose,
        tags=memory.tags,
        created_by=memory.agent_id,
        owner=memory.owner if memory.owner != memory.agent_id else UNSET,
        created_at=created,
        updated_at=max(created, to_the_ms(memory.updated_at)) if changed else created,
        visibility=memory.visibility,
        shared_with=memory.shared_with,
        references=memory.references,
    )


def to_the_ms(at: datetime) -> datetime:
    """The time, rounded down to a millisecond."""
    return from_ms(to_ms(at))
