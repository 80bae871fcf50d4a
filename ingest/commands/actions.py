"""Commands on actions, and the events they become."""

from typing import Annotated

from msgspec import Meta

from ingest.commands.command import (
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
from ingest.errors import CommandRejected
from ingest.events.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.ids import ACTION


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
