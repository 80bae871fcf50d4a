"""Work items that agents share."""

from typing import ClassVar, Literal

from msgspec import Struct

EdgeType = Literal["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"]


class ActionEdge(Struct, frozen=True, kw_only=True):
    """How a work item depends on another one."""

    type: EdgeType
    target: str


class ActionCreated(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class ActionUpdated(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
