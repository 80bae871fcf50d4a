"""Actions: work items that agents share."""

from typing import ClassVar

from ingest.events.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.events.envelope import Recorded
from ingest.ids import ACTION, DocumentId, document_id
from ingest.log.partitions import project_route
from ingest.platform.clock import from_ms
from projections.documents.frontier import WorkItem, is_dropped, is_finished
from projections.documents.listings import by_position, in_user_listing, of_tenant
from projections.documents.rows import Row, joined, split

_OF_EDGE = "\x1e"


class Action(Row, index=True):
    """One work item, as its events tell it; whether it is blocked depends on others (see `frontier`).

    Times are milliseconds since the epoch; `tags` and `edges` are joined texts (see `tag_list`, `edge_list`).
    """

    PREFIX: ClassVar[str] = ACTION

    id: str = ""
    tenant: str = ""
    project: str = ""
    title: str = ""
    description: str = ""
    status: str = "pending"
    priority: float = 0
    tags: str = ""
    edges: str = ""
    parent: str = ""
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    assigned_to: str = ""
    result: str = ""
    crystallized_into: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    position: str = ""

    @property
    def tag_list(self) -> list[str]:
        """The tags."""
        return split(self.tags)

    @property
    def edge_list(self) -> list[ActionEdge]:
        """How it depends on other actions."""
        pairs = (edge.split(_OF_EDGE, 1) for edge in split(self.edges))
        return [ActionEdge(type=kind, target=target) for kind, target in pairs]  # type: ignore[arg-type]

    @property
    def is_open(self) -> bool:
        """Whether it still is to be done."""
        return not is_finished(self.status) and not is_dropped(self.status)

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        member = by_position(self.position, self.id)
        found = {(actions(self.tenant, self.project), member), *in_user_listing(self.tenant, self.user_id, member)}
        if self.is_open:
            found |= {(open_actions(self.tenant), member), (open_actions(self.tenant, self.project), member)}
        return found


def actions(tenant: str, project: str) -> str:
    """Listing of a project's actions, in log order."""
    return f"actions:{tenant}\0{project}"


def open_actions(tenant: str, project: str | None = None) -> str:
    """Listing of a tenant's or a project's actions that are still to be done, in log order."""
    return of_tenant("open-actions", tenant, project)


def work_item(action: Action) -> WorkItem:
    """An action as the frontier weighs it."""
    ends: dict[str, list[str]] = {}
    for edge in action.edge_list:
        ends.setdefault(edge.type, []).append(edge.target)
    return WorkItem(
        id=action.id,
        title=action.title,
        status=action.status,
        priority=action.priority,
        created_at=from_ms(action.created_ms),
        assigned_to=action.assigned_to,
        requires=ends.get("requires", []),
        gated_by=ends.get("gated_by", []),
        conflicts_with=ends.get("conflicts_with", []),
        unlocks=ends.get("unlocks", []),
        spawned_by=ends.get("spawned_by", []),
    )


def action_id(recorded: Recorded) -> DocumentId:
    """The id of the document that an `action.created` event creates."""
    envelope = recorded.envelope
    return document_id(ACTION, project_route(envelope.tenant, envelope.project), envelope.event_id)


def created(recorded: Recorded, data: ActionCreated) -> Action:
    """The action of its first event."""
    envelope = recorded.envelope
    requires = [ActionEdge(type="requires", target=one) for one in data.requires]
    return Action(
        id=action_id(recorded),
        tenant=envelope.tenant,
        project=envelope.project,
        title=data.title,
        description=data.description,
        status=data.status,
        priority=data.priority,
        tags=joined(data.tags),
        edges=_joined([*requires, *data.edges]),
        parent=data.parent,
        session_id=envelope.session_id,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        assigned_to=data.assigned_to,
        created_ms=recorded.recorded_ms,
        updated_ms=recorded.recorded_ms,
        position=str(recorded.position),
    )


def updated(action: Action, recorded: Recorded, data: ActionUpdated) -> Action:
    """The action after a change; what the event leaves out stays."""
    stated = {
        "status": data.status,
        "priority": data.priority,
        "assigned_to": data.assigned_to,
        "result": data.result,
        "title": data.title,
        "description": data.description,
        "tags": None if data.tags is None else joined(data.tags),
        "session_id": data.session,
        "crystallized_into": data.crystallized_into,
    }
    changes: dict[str, object] = {name: value for name, value in stated.items() if value is not None}
    if data.edges:
        changes["edges"] = _joined([*action.edge_list, *data.edges])
    return action.model_copy(update={**changes, "updated_ms": recorded.recorded_ms})


def _joined(edges: list[ActionEdge]) -> str:
    return joined(dict.fromkeys(f"{edge.type}{_OF_EDGE}{edge.target}" for edge in edges))
