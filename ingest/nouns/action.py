"""Work items that agents share.

First its events, then its commands and the decision on each. Pure.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from ingest.errors import CommandRejected
from ingest.events.envelope import EventData
from ingest.kinds import ACTION
from ingest.nouns.command import (
    Command,
    Decision,
    Name,
    Names,
    Origin,
    Priority,
    Status,
    Title,
    about,
    creating,
    data_of,
    decides,
    need_text,
)

EdgeType = Literal["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"]


class ActionEdge(Struct, frozen=True, kw_only=True):
    """How a work item depends on another one."""

    type: EdgeType
    target: str


class ActionCreated(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A work item was written down. `requires` is short for edges of that type."""

    TYPE: ClassVar[str] = "action.created"
    VERSION: ClassVar[int] = 1

    title: str
    description: str = ""
    priority: int | float = 0
    tags: list[str] = []
    requires: list[str] = []
    parent: str = ""
    assigned_to: str = ""
    status: str = "pending"
    edges: list[ActionEdge] = []


class ActionUpdated(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A work item changed; absent fields stay as they were. `edges` are added to those there are."""

    TYPE: ClassVar[str] = "action.updated"
    VERSION: ClassVar[int] = 1

    action: str
    status: str | None = None
    priority: int | float | None = None
    assigned_to: str | None = None
    result: str | None = None
    title: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    session: str | None = None
    crystallized_into: str | None = None
    edges: list[ActionEdge] = []


class WriteAction(Command, frozen=True, kw_only=True, tag="action"):
    """Write down a work item, or change the one that `action` names; what is null stays as it is."""

    action: Name = ""
    title: Title | None = None
    description: str | None = None
    status: Status | None = None
    priority: Priority | None = None
    tags: Names | None = None
    requires: Names = []
    edges: Annotated[list[ActionEdge], Meta(max_length=200)] = []
    parent: Name = ""
    assigned_to: Name | None = None
    result: str | None = None
    crystallized_into: Name | None = None


@decides(WriteAction)
def _write_action(command: WriteAction, origin: Origin) -> Decision:
    requires = [ActionEdge(type="requires", target=require) for require in command.requires]
    edges = [ActionEdge(type=require.type, target=require.target) for require in (*requires, *command.edges)]
    if command.action:
        if command.parent:
            raise CommandRejected("an action keeps the parent it was created with", "parent")
        data = data_of(ActionUpdated, command, session=command.session_id or None, edges=edges)
        return about(command.action, command, origin, data)
    need_text(command.title or "", "title")
    changes = {"priority": command.priority or 0, "status": command.status or "pending", "requires": [], "edges": edges}
    return creating(ACTION, command, origin, data_of(ActionCreated, command, **changes))
