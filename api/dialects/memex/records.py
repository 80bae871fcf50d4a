"""memex's memories as ours: a project of their own, UUIDs for our ids, its 0 to 2 for our 0 to 10. Pure.

memex knows no visibility and no projects: an agent finds what it stored for a user. So memories are public, and
reads here filter by agent and user, both.
"""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from ingest.commands.decide import Remember
from ingest.ids import DocumentId
from ingest.kinds import MEMORY
from ingest.nouns.memory import MemoryType
from ingest.platform.clock import utc_text
from ingest.secrets.scrub import scrub_text
from projections.nouns.memory import Memory

PROJECT = "memex"
TYPES: dict[str, MemoryType] = {"episodic": "episodic", "semantic": "semantic", "procedural": "procedural"}
MAX_IMPORTANCE = 2.0
IMPORTANCE = "memex_importance"
"""Metadata that keeps the number that was given."""
_SCALE = 5.0
"""memex's usual 1 is our usual 5."""
_NODE = "6d656d6578"
"""Fills what the 80 bits of an id leave of a UUID; says `memex`."""


class Shown(Struct, frozen=True, kw_only=True):
    """A memory as memex shows it; it has a score where it was searched for."""

    id: UUID
    agent_id: str
    user_id: str
    content: str
    importance: float
    memory_type: MemoryType
    created_at: str
    score: float | None = None


def uuid_of(memory: str) -> UUID:
    """The UUID, version 4 in shape, of a memory's id `mem_<20 hex>`."""
    digits = memory.removeprefix(f"{MEMORY}_")
    return UUID(f"{digits[:12]}4{digits[12:15]}8{digits[15:18]}{_NODE}{digits[18:]}")


def memory_id_of(uuid: UUID) -> DocumentId | None:
    """The memory's id of a UUID; None if the UUID was not made here."""
    digits = uuid.hex
    if digits[12] != "4" or digits[16] != "8" or digits[20:30] != _NODE:
        return None
    return DocumentId(f"{MEMORY}_{digits[:12]}{digits[13:16]}{digits[17:20]}{digits[30:]}")


def remember(
    agent_id: str,
    user_id: str,
    content: str,
    memory_type: MemoryType,
    importance: float,
    created_at: datetime | None = None,
) -> Remember:
    """The command that stores a memory; `importance` is memex's, 0 to 2."""
    return Remember(
        project=PROJECT,
        agent_id=agent_id,
        user_id=user_id,
        content=content,
        memory_type=memory_type,
        importance=importance * _SCALE,
        keep_duplicates=True,
        occurred_at=created_at,
        metadata={IMPORTANCE: repr(float(importance))},
    )


def memory_record(memory: Memory, score: float | None = None) -> Shown:
    """A memory, with its score rounded as memex rounds it."""
    score = None if score is None else round(score, 4)
    return _record(memory, memory.id, memory.content, importance_of(memory), memory.occurred_at, score)


def record_at_once(command: Remember, memory: str, created_at: datetime) -> Shown:
    """The memory that a command becomes, before it is projected."""
    importance = float(command.metadata[IMPORTANCE])
    return _record(command, memory, scrub_text(command.content), importance, created_at)


def _record(
    of: Memory | Remember, name: str, content: str, importance: float, created: datetime, score: float | None = None
) -> Shown:
    return Shown(
        id=uuid_of(name), agent_id=of.agent_id, user_id=of.user_id, content=content, importance=importance,
        memory_type=of.memory_type, created_at=time_text(created), score=score,
    )  # fmt: skip


def importance_of(memory: Memory) -> float:
    """The number that memex was given; 1 for what it made of others; of what it was not given, ours on its scale."""
    if memory.condensed:
        return 1.0
    try:
        return float(memory.metadata[IMPORTANCE])
    except (KeyError, ValueError):
        return memory.importance / _SCALE


def time_text(when: datetime) -> str:
    """ISO 8601 with microseconds and Z."""
    return utc_text(when, "microseconds")


def is_found(memory: Memory, agent_id: str) -> bool:
    """Whether memex would say of a memory that it is there, and that agent's."""
    return memory.project == PROJECT and memory.agent_id == agent_id and memory.is_latest
