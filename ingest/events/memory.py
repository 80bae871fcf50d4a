"""Long-term memories, and relations between documents."""

from datetime import datetime
from typing import ClassVar, Literal

from msgspec import Struct

MemoryType = Literal["episodic", "semantic", "procedural"]
Purpose = Literal["information", "question", "request"]
Visibility = Literal["public", "shared", "private"]


class MemoryRecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody asked to remember this. Whether it supersedes an older memory is decided by the fold, in log order.

    Version 2 carries `forget_after`, a time; version 1 carried `ttl_days`, which only a reader with a clock could use.
    `valid_until` is when the statement stops being true; the memory stays.
    """

    TYPE: ClassVar[str] = "memory.recorded"
    VERSION: ClassVar[int] = 2

    content: str
    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    tags: list[str] = []
    concepts: list[str] = []
    files: list[str] = []
    references: list[str] = []
    importance: float = 5.0
    visibility: Visibility = "public"
    shared_with: list[str] = []
    owner: str = ""
    forget_after: datetime | None = None
    title: str = ""
    derived_from: list[str] = []
    keep_duplicates: bool = False
    valid_until: datetime | None = None


class MemoryRevised(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory was changed on purpose: a new version whose parent is the newest version of `memory`.

    It says all of the new version, so that forgetting the old one takes nothing from it. `creator` is the first
    version's agent, where the envelope names another one.
    """

    TYPE: ClassVar[str] = "memory.revised"
    VERSION: ClassVar[int] = 1

    memory: str
    content: str
    tags: list[str] = []
    concepts: list[str] = []
    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    files: list[str] = []
    references: list[str] = []
    importance: float = 5.0
    visibility: Visibility = "public"
    shared_with: list[str] = []
    owner: str = ""
    forget_after: datetime | None = None
    title: str = ""
    derived_from: list[str] = []
    keep_duplicates: bool = False
    creator: str = ""
    valid_until: datetime | None = None


class MemoryCondensed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Several memories were condensed into one; the originals are retired.

    The fold ignores it unless every original is current, so that of two that race only the first counts.
    """

    TYPE: ClassVar[str] = "memory.condensed"
    VERSION: ClassVar[int] = 1

    originals: list[str]
    content: str
    memory_type: MemoryType = "semantic"
    model: str = ""
    prompt_version: str = ""
    importance: float = 1.0
    tags: list[str] = []
    visibility: Visibility = "public"
    shared_with: list[str] = []
    owner: str = ""


class MemoryConfirmed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory proved right, or was relied on."""

    TYPE: ClassVar[str] = "memory.confirmed"
    VERSION: ClassVar[int] = 1

    memory: str


class MemoryVisibilityChanged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who may read a memory was changed; `shared_with` None keeps the list there was."""

    TYPE: ClassVar[str] = "memory.visibility_changed"
    VERSION: ClassVar[int] = 1

    memory: str
    visibility: Visibility
    shared_with: list[str] | None = None


class RelationLinked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two documents were related."""

    TYPE: ClassVar[str] = "relation.linked"
    VERSION: ClassVar[int] = 1

    source: str
    target: str
    relation: str
    confidence: float | None = None
    derived_from: list[str] = []


class RelationUnlinked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A relation was withdrawn."""

    TYPE: ClassVar[str] = "relation.unlinked"
    VERSION: ClassVar[int] = 1

    source: str
    target: str
    relation: str
