"""Work items that agents share."""

from typing import ClassVar

from msgspec import Struct


class ActionCreated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A work item was written down."""

    TYPE: ClassVar[str] = "action.created"
    VERSION: ClassVar[int] = 1

    title: str
    description: str = ""
    priority: int = 0
    tags: list[str] = []
    requires: list[str] = []
    parent: str = ""
    assigned_to: str = ""


class ActionUpdated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A work item changed; absent fields stay as they were."""

    TYPE: ClassVar[str] = "action.updated"
    VERSION: ClassVar[int] = 1

    action: str
    status: str | None = None
    priority: int | None = None
    assigned_to: str | None = None
    result: str | None = None
