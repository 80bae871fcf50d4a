"""Commands on memories and on relations between documents, and the events they become."""

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from ingest.commands.command import (
    Command,
    Confidence,
    Decision,
    Importance,
    Name,
    Names,
    Origin,
    Title,
    creating,
    data_of,
    decides,
    decides_about,
    need_text,
    utc,
    writer,
)
from ingest.errors import CommandRejected
from ingest.events.memory import (
    MemoryCondensed,
    MemoryConfirmed,
    MemoryRecorded,
    MemoryRevised,
    MemoryType,
    MemoryVisibilityChanged,
    Purpose,
    RelationLinked,
    RelationUnlinked,
    Visibility,
)
from ingest.ids import MEMORY, RELATION


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
    event: type[MemoryRecorded | MemoryRevised], command: _MemoryCommand, origin: Origin, forget_after: datetime | None
) -> Decision:
    owner = command.owner or writer(command.agent_id, origin.caller.agent_id)
    if command.visibility != "public" and not owner:
        raise CommandRejected(
            f"a {command.visibility} memory needs an agent_id or owner, or no agent could read it", "agent_id"
        )
    valid_until = None if command.valid_until is None else utc(command.valid_until, "valid_until")
    data = data_of(event, command, forget_after=forget_after, valid_until=valid_until)
    return creating(MEMORY, command, origin, data)


class Relate(Command, frozen=True, kw_only=True, tag="relation"):
    """Relate two documents, or withdraw that (`remove`)."""

    source: Annotated[str, Meta(min_length=1, max_length=512)]
    target: Annotated[str, Meta(min_length=1, max_length=512)]
    relation: Annotated[str, Meta(min_length=1, max_length=64)]
    confidence: Confidence | None = None
    derived_from: Names = []
    remove: bool = False


@decides(Relate)
def _relate(command: Relate, origin: Origin) -> Decision:
    if "\0" in command.source + command.target + command.relation:
        raise CommandRejected("the ends and the name of a relation cannot contain NUL", "source")
    data = data_of(RelationUnlinked if command.remove else RelationLinked, command)
    return creating(RELATION, command, origin, data, command.source, command.relation, command.target)
