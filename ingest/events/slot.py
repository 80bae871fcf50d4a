"""Small named texts that agents keep in view."""

from typing import ClassVar, Literal

from msgspec import Struct

SlotScope = Literal["project", "global"]


class SlotSet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slot was created or its text replaced."""

    TYPE: ClassVar[str] = "slot.set"
    VERSION: ClassVar[int] = 1

    label: str
    content: str
    scope: SlotScope = "project"
    size_limit: int = 2000
    description: str = ""
    pinned: bool = True


class SlotAppended(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line was added to a slot."""

    TYPE: ClassVar[str] = "slot.appended"
    VERSION: ClassVar[int] = 1

    label: str
    content: str
    scope: SlotScope = "project"


class SlotDeleted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slot was removed."""

    TYPE: ClassVar[str] = "slot.deleted"
    VERSION: ClassVar[int] = 1

    label: str
    scope: SlotScope = "project"
