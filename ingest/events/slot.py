"""Slots: short named texts that are part of every agent's context."""

from typing import ClassVar, Literal

from msgspec import Struct

SlotScope = Literal["project", "global"]


class SlotSet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slot was created or replaced. What is None stays as it was, or is the default of a new slot.

    Version 1 said all of a slot every time.
    """

    TYPE: ClassVar[str] = "slot.set"
    VERSION: ClassVar[int] = 2

    label: str
    content: str
    scope: SlotScope = "project"
    size_limit: int | None = None
    description: str | None = None
    pinned: bool | None = None
    read_only: bool | None = None


class SlotAppended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line was added to a slot."""

    TYPE: ClassVar[str] = "slot.appended"
    VERSION: ClassVar[int] = 1

    label: str
    content: str
    scope: SlotScope = "project"


class SlotDeleted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slot was removed. (What it said stays in the log until the project is forgotten.)"""

    TYPE: ClassVar[str] = "slot.deleted"
    VERSION: ClassVar[int] = 1

    label: str
    scope: SlotScope = "project"
