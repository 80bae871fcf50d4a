"""Slots: what may be asked of them, and what becomes of it."""

from typing import Annotated

from msgspec import Meta

from ingest.commands.command import Command, Decision, Label, Origin, SlotSize, data_of, decides, event_of
from ingest.errors import CommandRejected
from ingest.events.envelope import route_of
from ingest.events.slot import SlotAppended, SlotDeleted, SlotScope, SlotSet
from ingest.ids import SLOT, content_id


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
            raise CommandRejected("adding a line changes nothing else of a slot", name)
    data = data_of(SlotAppended if command.append else SlotSet, command)
    return _of_slot(command, origin, data)


@decides(DeleteSlot, keep_names=True)
def _delete_slot(command: DeleteSlot, origin: Origin) -> Decision:
    return _of_slot(command, origin, data_of(SlotDeleted, command))


def _of_slot(command: SetSlot | DeleteSlot, origin: Origin, data: SlotSet | SlotAppended | SlotDeleted) -> Decision:
    """A global slot belongs to the tenant's nameless project."""
    event = event_of(command, origin, data, project="" if command.scope == "global" else command.project)
    route = route_of(*event)
    return Decision(event, route, content_id(SLOT, route, command.label))
