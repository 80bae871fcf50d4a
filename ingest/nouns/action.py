"""Work items that agents share.

First its events, then its commands and the decision on each. Pure.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ingest.errors import CommandRejected
from ingest.events.envelope import EventData
from ingest.kinds import ACTION
from ingest.nouns.command import (
    Command,
    ConditionalCommand,
    ConditionalData,
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
    decides_about,
    need_text,
)

Token = Annotated[str, Meta(min_length=1, max_length=64)]
"""The fencing token of a claim: the position of its event, so a later claim of the action has a greater one."""
LeaseSeconds = Annotated[int, Meta(ge=1, le=86_400)]
LEASE_SECONDS = 300
EdgeType = Literal["requires", "unlocks", "spawned_by", "gated_by", "conflicts_with"]


class ActionEdge(Struct, frozen=True, kw_only=True):
    """How a work item depends on another one."""

    type: EdgeType
    target: str


class ActionCreated(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A work item was written down. `requires` is short for edges of that type."""

    TYPE = "action.created"

    title: str
    description: str = ""
    priority: int | float = 0
    tags: list[str] = []
    requires: list[str] = []
    parent: str = ""
    assigned_to: str = ""
    status: str = "pending"
    edges: list[ActionEdge] = []
    paths: list[str] = []


class ActionUpdated(ConditionalData, frozen=True, kw_only=True, omit_defaults=True):
    """A work item changed; absent fields stay as they were. `edges` are added to the existing ones.

    An event with a `token` is refused unless this is the token of the current claim.
    """

    TYPE = "action.updated"

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
    paths: list[str] | None = None
    token: str = ""

    @property
    def is_awaited(self) -> bool:
        return self.token != "" or self.expected_version is not None


class _Awaited(EventData, frozen=True, kw_only=True, omit_defaults=True):
    @property
    def is_awaited(self) -> bool:
        return True


class ActionClaimed(_Awaited, frozen=True, kw_only=True, omit_defaults=True):
    """An agent asked for one of these work items, best first, for `lease_seconds` from the time of recording.

    The fold gives it the first that is free, and the event's position becomes the claim's token; if none is free, it
    refuses the event.
    """

    TYPE = "action.claimed"

    actions: list[str]
    lease_seconds: int


class ActionRenewed(_Awaited, frozen=True, kw_only=True, omit_defaults=True):
    """The holder of a claim needs longer: the lease ends `lease_seconds` after the time of recording."""

    TYPE = "action.renewed"

    action: str
    token: str
    lease_seconds: int


class ActionReleased(_Awaited, frozen=True, kw_only=True, omit_defaults=True):
    """The holder of a claim gave the work item back, unfinished."""

    TYPE = "action.released"

    action: str
    token: str


class ActionExpired(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The lease of a claim ended before the work item was finished or released."""

    TYPE = "action.expired"

    action: str
    token: str
    holder: str


class WriteAction(ConditionalCommand, frozen=True, kw_only=True, tag="action"):
    """Write down a work item, or change the one that `action` names; what is null stays as it is.

    With the `token` of a claim, the change applies only while that claim is valid.
    """

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
    paths: Names | None = None
    token: Token = ""


class ClaimActions(Command, frozen=True, kw_only=True, tag="claim"):
    """Claim the first of these actions that is free."""

    actions: Names
    lease_seconds: LeaseSeconds


class RenewClaim(Command, frozen=True, kw_only=True, tag="renew"):
    """Extend a claim."""

    action: Name
    token: Token
    lease_seconds: LeaseSeconds


class ReleaseClaim(Command, frozen=True, kw_only=True, tag="release"):
    """Give up a claim."""

    action: Name
    token: Token


class ExpireClaim(Command, frozen=True, kw_only=True, tag="expire"):
    """Record that the lease of a claim has ended."""

    action: Name
    token: Token
    holder: Name


@decides(WriteAction)
def _write_action(command: WriteAction, origin: Origin) -> Decision:
    requires = [ActionEdge(type="requires", target=require) for require in command.requires]
    edges = [ActionEdge(type=require.type, target=require.target) for require in (*requires, *command.edges)]
    if command.action:
        if command.parent:
            raise CommandRejected("an action keeps the parent it was created with", "parent")
        data = data_of(ActionUpdated, command, session=command.session_id or None, edges=edges)
        return about(command.action, command, origin, data)
    if command.token or command.expected_version:
        raise CommandRejected("a new action has no version and no claim yet", "action")
    need_text(command.title or "", "title")
    changes = {"priority": command.priority or 0, "status": command.status or "pending", "requires": [], "edges": edges}
    return creating(ACTION, command, origin, data_of(ActionCreated, command, **changes))


@decides(ClaimActions, keep_names=True)
def _claim_actions(command: ClaimActions, origin: Origin) -> Decision:
    decision = about(command.actions[0], command, origin, data_of(ActionClaimed, command))
    if not decision.event.envelope.agent_id:
        raise CommandRejected("a claim needs the name of its agent (X-Agent-Id)", "agent_id")
    return decision


decides_about(RenewClaim, ActionRenewed, "action", keep_names=True)
decides_about(ReleaseClaim, ActionReleased, "action", keep_names=True)
decides_about(ExpireClaim, ActionExpired, "action", keep_names=True)
