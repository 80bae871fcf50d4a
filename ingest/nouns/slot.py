"""Slots: short named texts that are part of every agent's context.

First its events, then its commands and the decision on each. Pure.
"""

from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from ingest.errors import CommandRejected
from ingest.kinds import SLOT
from ingest.nouns.command import (
    ConditionalCommand,
    ConditionalData,
    Decision,
    Label,
    Origin,
    SlotSize,
    creating,
    data_of,
    decides,
)

SlotScope = Literal["project", "global"]


class SlotSet(ConditionalData, frozen=True, kw_only=True, omit_defaults=True):
    """A slot was created or replaced. What is None stays as it was, or is the default of a new slot.

    Version 1 said all of a slot every time.
    """

    TYPE = "slot.set"
    VERSION = 2

    label: str
    content: str
    scope: SlotScope = "project"
    size_limit: int | None = None
    description: str | None = None
    pinned: bool | None = None
    read_only: bool | None = None


class SlotAppended(ConditionalData, frozen=True, kw_only=True, omit_defaults=True):
    """A line was added to a slot."""

    TYPE = "slot.appended"

    label: str
    content: str
    scope: SlotScope = "project"


class SlotDeleted(ConditionalData, frozen=True, kw_only=True, omit_defaults=True):
    """A slot was removed. (What it said stays in the log until the project is forgotten.)"""

    TYPE = "slot.deleted"

    label: str
    scope: SlotScope = "project"


class SetSlot(ConditionalCommand, frozen=True, kw_only=True, tag="slot"):
    """Create a slot or replace its text; with `append`, add a line to it. What is null stays as it is."""

    label: Label
    content: str
    scope: SlotScope = "project"
    append: bool = False
    size_limit: SlotSize | None = None
    description: Annotated[str, Meta(max_length=2000)] | None = None
    pinned: bool | None = None
    read_only: bool | None = None


class DeleteSlot(ConditionalCommand, frozen=True, kw_only=True, tag="slot_delete"):
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
