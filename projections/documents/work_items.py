"""Actions as the frontier sees them. Pure."""

from ingest.platform.clock import from_ms
from projections.documents.actions import Action
from projections.documents.frontier import WorkItem


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
