"""Commands on slots, and the events they become."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from ingest.commands.command import Command, Decision, Label, Origin, SlotSize, creating, data_of, decides
from ingest.errors import CommandRejected
from ingest.events.slot import SlotAppended, SlotDeleted, SlotScope, SlotSet
from ingest.ids import SLOT


class SetSlot(Command, frozen=True, kw_only=True, tag="slot"):
    """Create a slot or replace its text; with `append`, add a line to it. What is null stays as it is."""

    label: Label
    content: str
    scope: SlotScope = "project"
    append: bool = False
    size_limit: SlotSize | None = None
    description: Annotated[str, Meta(max_length=2000)] | None = None
    pinned: bool | None = None
    read_only: bool | None = None


class DeleteSlot(Command, frozen=True, kw_only=True, tag="slot_delete"):
    """Remove a slot."""

    label: Label
    scope: SlotScope = "project"


@decides(SetSlot)
def _set_slot(command: SetSlot, origin: Origin) -> Decision:
    for name in ("size_limit", "description", "pinned", "read_only") if command.append else ():
        if getattr(command, name) is not None:
            raise CommandRejected("adding a line cannot change other fields of a slot", name)
    return _of_slot(command, origin, data_of(SlotAppended if command.append else SlotSet, command))


@decides(DeleteSlot, keep_names=True)
def _delete_slot(command: DeleteSlot, origin: Origin) -> Decision:
    return _of_slot(command, origin, data_of(SlotDeleted, command))


def _of_slot(command: SetSlot | DeleteSlot, origin: Origin, data: SlotSet | SlotAppended | SlotDeleted) -> Decision:
    # a global slot belongs to the tenant's nameless project
    command = replace(command, project="") if command.scope == "global" else command
    return creating(SLOT, command, origin, data, command.label)
