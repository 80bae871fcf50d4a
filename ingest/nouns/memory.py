"""Long-term memories.

First its events, then its commands and the decision on each. Pure.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from msgspec import Meta

from ingest.errors import CommandRejected, OutsideKeyScope
from ingest.events.envelope import EventData
from ingest.kinds import MEMORY
from ingest.nouns.command import (
    EVERY_PROJECT,
    Command,
    Decision,
    Importance,
    Name,
    Names,
    Origin,
    Title,
    Version,
    creating,
    data_of,
    decides,
    decides_about,
    need_text,
    utc,
    writer,
)

MemoryType = Literal["episodic", "semantic", "procedural", "rule"]
"""A rule says what users want every time, in its project or, of the project `*`, in all of the tenant."""
Purpose = Literal["information", "question", "request"]
Visibility = Literal["public", "shared", "private"]


class _MemoryData(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """What a version of a memory says. `valid_until` is when the statement stops being true; the memory stays."""

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
    mandatory: bool = False


class MemoryRecorded(_MemoryData, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody asked to remember this. Whether it supersedes an older memory is decided by the fold, in log order.

    Version 2 carries `forget_after`, a time; version 1 carried `ttl_days`, which only a reader with a clock could use.
    """

    TYPE = "memory.recorded"
    VERSION = 2


class MemoryRevised(_MemoryData, frozen=True, kw_only=True, omit_defaults=True):
    """A memory was changed on purpose: a new version whose parent is the newest version of `memory`.

    It says all of the new version, so that forgetting the old one takes nothing from it. `creator` is the first
    version's agent, where the envelope names another one.
    """

    TYPE = "memory.revised"

    memory: str
    creator: str = ""
    expected_version: int | None = None

    @property
    def is_awaited(self) -> bool:
        return self.expected_version is not None


class MemoryCondensed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Several memories were condensed into one; the originals are retired.

    The fold ignores it unless every original is current, so that of two that race only the first counts.
    """

    TYPE = "memory.condensed"

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


class MemoryConfirmed(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A memory proved right, or was relied on."""

    TYPE = "memory.confirmed"

    memory: str


class MemoryVisibilityChanged(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Who may read a memory was changed; `shared_with` None keeps the list there was."""

    TYPE = "memory.visibility_changed"

    memory: str
    visibility: Visibility
    shared_with: list[str] | None = None


class _MemoryCommand(Command, frozen=True, kw_only=True):
    """What a memory, or a version of one, says."""

    content: str
    title: Title = ""
    tags: Names = []
    concepts: Names = []
    files: Names = []
    references: Names = []
    importance: Importance = 5.0
    visibility: Visibility = "public"
    shared_with: Names = []
    owner: Name = ""
    keep_duplicates: bool = False
    derived_from: Names = []
    valid_until: datetime | None = None
    mandatory: bool = False
    """Of a rule: nothing that is stated later replaces it."""


class Remember(_MemoryCommand, frozen=True, kw_only=True, tag="remember"):
    """Keep something for a long time. With `keep_duplicates` it supersedes nothing, nor is it superseded."""

    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    ttl_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class ReviseMemory(_MemoryCommand, frozen=True, kw_only=True, tag="revise"):
    """Make a new version of a memory that the caller has looked up and may change; every field is the new version's."""

    memory: Name
    memory_type: MemoryType
    purpose: Purpose
    forget_after: datetime | None = None
    creator: Name = ""
    expected_version: Version | None = None


class ChangeVisibility(Command, frozen=True, kw_only=True, tag="visibility"):
    """Change who may read a memory that the caller has looked up, and may change."""

    memory: Name
    visibility: Visibility
    shared_with: Names | None = None


class CondenseMemories(Command, frozen=True, kw_only=True, tag="condense"):
    """Put one memory in the place of several."""

    originals: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    content: str
    memory_type: MemoryType = "semantic"
    importance: Importance = 1.0
    tags: Names = []
    visibility: Visibility = "public"
    shared_with: Names = []
    owner: Name = ""
    model: str = ""
    prompt_version: str = ""


class ConfirmMemory(Command, frozen=True, kw_only=True, tag="confirm_memory"):
    """Say that a memory which exists proved right."""

    memory: Name


@decides(Remember)
def _remember(command: Remember, origin: Origin) -> Decision:
    if not (command.keep_duplicates and command.content):  # what is kept whatever it says may be blank
        need_text(command.content)
    forget_after = None if command.ttl_days is None else origin.now + timedelta(days=command.ttl_days)
    return _stating(MemoryRecorded, command, origin, forget_after)


@decides(ReviseMemory)
def _revise_memory(command: ReviseMemory, origin: Origin) -> Decision:
    need_text(command.content)
    forget_after = None if command.forget_after is None else utc(command.forget_after, "forget_after")
    return _stating(MemoryRevised, command, origin, forget_after)


decides_about(ChangeVisibility, MemoryVisibilityChanged, "memory")
decides_about(ConfirmMemory, MemoryConfirmed, "memory", keep_names=True)


@decides(CondenseMemories, keep_names=True)
def _condense_memories(command: CondenseMemories, origin: Origin) -> Decision:
    return creating(MEMORY, command, origin, data_of(MemoryCondensed, command, shared_with=command.shared_with))


def _stating(
    event: type[MemoryRecorded | MemoryRevised],
    command: Remember | ReviseMemory,
    origin: Origin,
    forget_after: datetime | None,
) -> Decision:
    if command.memory_type == "rule" and command.project == EVERY_PROJECT and not origin.caller.key_scope.is_admin:
        raise OutsideKeyScope("rules of every project, which need the admin role", command.project, "project")
    owner = command.owner or writer(command.agent_id, origin.caller.agent_id)
    if command.visibility != "public" and not owner:
        raise CommandRejected(
            f"a {command.visibility} memory needs an agent_id or owner, or no agent could read it", "agent_id"
        )
    valid_until = None if command.valid_until is None else utc(command.valid_until, "valid_until")
    data = data_of(event, command, forget_after=forget_after, valid_until=valid_until)
    return creating(MEMORY, command, origin, data)
