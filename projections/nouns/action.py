"""Actions: work items that agents share; and those that can be done now, best first.

The rules of the frontier are agentmemory's. Statuses are stored as callers send them, so they are compared by meaning:
case, spaces and dashes do not count.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import ClassVar

from msgspec import Struct

from ingest.events.envelope import Recorded, Trust
from ingest.kinds import ACTION
from ingest.nouns.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.platform.clock import from_ms
from projections.nouns import rows
from projections.nouns.batch import fold_one
from projections.nouns.trust import lowest, trust_of

FINISHED = frozenset({"done", "completed", "complete", "finished"})
DROPPED = frozenset({"cancelled", "canceled", "discarded", "dropped"})
ACTIVE = frozenset({"active", "in_progress", "inprogress", "started", "working"})
PENDING = frozenset({"", "pending", "open", "new", "todo", "to_do", "queued", "ready"})
BLOCKED = "blocked"

FRONTIER = 20
PRIORITIES = (1.0, 10.0)
"""What a priority counts as in a score, least and most; the stored one may be far beyond."""
PRIORITY_WEIGHT = 10.0
AGE_WEIGHT_PER_HOUR = 0.5
MOST_FOR_AGE = 20.0
"""After 40 hours of waiting an action gains nothing more."""
UNLOCKS_WEIGHT = 5.0
SPAWNED_BONUS = 3.0
ACTIVE_BONUS = 15.0


class WorkItem(Struct, frozen=True, kw_only=True):
    """What the frontier needs to know of an action. The lists hold ids of other actions."""

    id: str
    title: str
    status: str
    priority: float
    created_at: datetime
    assigned_to: str
    requires: list[str]
    gated_by: list[str]
    conflicts_with: list[str]
    unlocks: list[str]
    spawned_by: list[str]


class Ready(Struct, frozen=True):
    """An action that can be worked on. `blockers` is empty; `leased`: a named agent is already working on it."""

    item: WorkItem
    score: float
    blockers: list[str]
    leased: bool


def is_finished(status: str) -> bool:
    """Whether the work was done."""
    return _meaning(status) in FINISHED


def is_dropped(status: str) -> bool:
    """Whether the work will not be done."""
    return _meaning(status) in DROPPED


def is_active(status: str) -> bool:
    """Whether an agent is working on it."""
    return _meaning(status) in ACTIVE


def is_open(status: str) -> bool:
    """Whether there is work left: neither finished nor dropped."""
    return not (is_finished(status) or is_dropped(status))


def same_status(status: str, other: str) -> bool:
    """Whether two statuses mean the same: `completed` is `done`, `to do` is `pending`."""
    meanings = {_meaning(status), _meaning(other)}
    return len(meanings) == 1 or any(meanings <= group for group in (FINISHED, DROPPED, ACTIVE, PENDING))


def blockers(item: WorkItem, open_items: Mapping[str, WorkItem]) -> list[str]:
    """The ids of what must be finished or dropped first, each once, in the item's order; unknown ids are gone."""
    waiting_for = dict.fromkeys((*item.requires, *item.gated_by))
    return [other for other in waiting_for if other in open_items and is_open(open_items[other].status)]


def effective_status(item: WorkItem, open_items: Mapping[str, WorkItem]) -> str:
    """The status to show: a pending item that waits for another is blocked, a blocked one that no longer does pending.

    Any other status is shown as stored; so is `blocked` if the action names nothing that it waits for.
    """
    meaning = _meaning(item.status)
    if meaning not in PENDING and meaning != BLOCKED:
        return item.status
    if blockers(item, open_items):
        return BLOCKED
    return "pending" if meaning == BLOCKED and (item.requires or item.gated_by) else item.status


def is_leased(item: WorkItem) -> bool:
    """Whether a named agent is working on it."""
    return bool(item.assigned_to) and is_active(item.status)


def frontier(
    open_items: Mapping[str, WorkItem], now: datetime, agent_id: str = "", limit: int = FRONTIER
) -> list[Ready]:
    """What `agent_id` can work on now: highest priority first, then oldest, then by id; at most `limit`.

    Left out: what waits for something, what conflicts with an active item (whichever of the two says so), and what
    another agent works on. An unnamed caller gets an overview, which includes what any agent works on.
    """
    contested = _contested(open_items)
    ready = [
        item
        for item in open_items.values()
        if is_open(item.status)
        and item.id not in contested
        and not (agent_id and is_leased(item) and item.assigned_to != agent_id)
        and not blockers(item, open_items)
    ]
    ready.sort(key=lambda item: (-item.priority, item.created_at, item.id))
    return [Ready(item, score(item, now), [], is_leased(item)) for item in ready[: max(0, limit)]]


def score(item: WorkItem, now: datetime) -> float:
    """How urgent an item is, 2 decimals: by priority, waiting time, what it unlocks, and whether it is in progress."""
    least, most = PRIORITIES
    waited = max(0.0, (now - item.created_at) / timedelta(hours=1))
    return round(
        PRIORITY_WEIGHT * min(most, max(least, item.priority))
        + min(MOST_FOR_AGE, AGE_WEIGHT_PER_HOUR * waited)
        + UNLOCKS_WEIGHT * len(item.unlocks)
        + (SPAWNED_BONUS if item.spawned_by else 0.0)
        + (ACTIVE_BONUS if is_active(item.status) else 0.0),
        2,
    )


def cycles(open_items: Mapping[str, WorkItem], limit: int = FRONTIER) -> list[list[str]]:
    """Circles of items that wait for one another and so stay blocked, at most `limit`; no item is in two of them.

    Each is in waiting order (every id waits for the next, the last for the first) and starts at its smallest id.
    """
    waits = {name: blockers(open_items[name], open_items) for name in sorted(open_items)}
    waits = {name: others for name, others in waits.items() if is_open(open_items[name].status)}
    circles: list[list[str]] = []
    while len(circles) < limit and (circle := _circle(waits)):
        circles.append(circle)
        waits = {name: others for name, others in waits.items() if name not in circle}
    return sorted(circles)


def _circle(waits: Mapping[str, list[str]]) -> list[str]:
    """One circle in the graph, empty if it has none. A name that is not a key waits for nothing."""
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][:0:-1]  # each comes before the next there, and the first is repeated
        start = circle.index(min(circle))
        return circle[start:] + circle[:start]
    return []


def _contested(open_items: Mapping[str, WorkItem]) -> set[str]:
    """The ids of items in conflict with an active one."""
    contested: set[str] = set()
    for item in open_items.values():
        for other in item.conflicts_with:
            if other == item.id or other not in open_items:
                continue
            if is_active(item.status):
                contested.add(other)
            if is_active(open_items[other].status):
                contested.add(item.id)
    return contested


def _meaning(status: str) -> str:
    return status.strip().lower().replace("-", "_").replace(" ", "_")


_OF_EDGE = "\x1e"


class Action(rows.Row, index=True):
    """One work item, as its events tell it; whether it is blocked depends on others (see `frontier`).

    Times are milliseconds since the epoch: `occurred_ms` is when it was created as its agent says, `created_ms` when
    that was recorded. `tags` and `edges` are joined texts (see `tag_list`, `edge_list`).
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
    occurred_ms: int = 0
    created_ms: int = 0
    updated_ms: int = 0
    position: str = ""
    trust: Trust = "agent_concluded"

    @property
    def tag_list(self) -> list[str]:
        """The tags."""
        return rows.split(self.tags)

    @property
    def edge_list(self) -> list[ActionEdge]:
        """How it depends on other actions."""
        pairs = (edge.split(_OF_EDGE, 1) for edge in rows.split(self.edges))
        return [ActionEdge(type=kind, target=target) for kind, target in pairs]  # type: ignore[arg-type]

    @property
    def is_open(self) -> bool:
        """Whether it still has to be done."""
        return is_open(self.status)

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        members = {
            (actions(self.tenant, self.project), member),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }
        if self.is_open:
            members |= {(open_actions(self.tenant), member), (open_actions(self.tenant, self.project), member)}
        return members


actions = rows.project_listing("actions")
"""Listing of a project's actions, in log order."""
open_actions = partial(rows.of_tenant, "open-actions")
"""Listing of a tenant's or a project's actions that are still to be done, in log order."""


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


action_id = rows.created_id(ACTION)


def created(_: Action | None, recorded: Recorded, data: ActionCreated) -> Action:
    """The action of its first event."""
    requires = [ActionEdge(type="requires", target=name) for name in data.requires]
    return Action(
        **rows.row_origin(recorded),
        **rows.row_fields(data, requires=None, edges=_joined([*requires, *data.edges])),
        id=action_id(recorded),
        session_id=recorded.envelope.session_id,
        created_ms=recorded.recorded_ms,
        updated_ms=recorded.recorded_ms,
        trust=trust_of(recorded),
    )


def updated(action: Action | None, recorded: Recorded, data: ActionUpdated) -> Action | None:
    """The action after a change, or None if the project has no such action; what the event leaves out stays."""
    if action is None or action.project != recorded.envelope.project:
        return None
    edges = _joined([*action.edge_list, *data.edges]) if data.edges else None
    changes = rows.row_fields(data, action=None, session=None, session_id=data.session, edges=edges)
    trust = lowest((action.trust, trust_of(recorded)))
    return action.model_copy(update={**changes, "updated_ms": recorded.recorded_ms, "trust": trust})


def _joined(edges: list[ActionEdge]) -> str:
    return rows.joined(dict.fromkeys(f"{edge.type}{_OF_EDGE}{edge.target}" for edge in edges))


fold_one(ActionCreated, of=Action, subject=lambda event, data: action_id(event), evolve=created)
fold_one(ActionUpdated, of=Action, subject=lambda event, data: data.action, evolve=updated)
