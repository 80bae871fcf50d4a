"""Actions: work items that agents share; and those that can be done now, best first.

The rules of the frontier are agentmemory's. Statuses are stored as callers send them, so they are compared by meaning:
case, spaces and dashes do not count.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import ClassVar

from msgspec import Struct

from ingest.events.envelope import Recorded, Trust
from ingest.kinds import ACTION
from ingest.nouns.action import (
    ActionClaimed,
    ActionCreated,
    ActionEdge,
    ActionExpired,
    ActionReleased,
    ActionRenewed,
    ActionUpdated,
)
from ingest.platform.clock import from_ms
from projections.nouns import rows
from projections.nouns.batch import FoldBatch, fold_one, folds
from projections.nouns.tombstone import Outcome
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
    that was recorded. `tags`, `edges` and `paths` are joined texts (see `tag_list`, `edge_list`, `path_list`).
    `version` counts its changes. A claim has a `holder`, a `token`, and an end in `expires_ms`.
    """

    PREFIX: ClassVar[str] = ACTION

    id: str = ""
    tenant: str = ""
    project: str = ""
    version: int = 1
    changed_by: str = ""
    title: str = ""
    description: str = ""
    status: str = "pending"
    priority: float = 0
    tags: str = ""
    edges: str = ""
    paths: str = ""
    holder: str = ""
    token: str = ""
    expires_ms: int = 0
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
    def path_list(self) -> list[str]:
        """The files that it is about, as glob patterns."""
        return rows.split(self.paths)

    @property
    def is_open(self) -> bool:
        """Whether it still has to be done."""
        return is_open(self.status)

    def is_claimed(self, at_ms: int) -> bool:
        """Whether an agent holds it at a time, in milliseconds since the epoch."""
        return self.holder != "" and at_ms < self.expires_ms

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        members = {
            (actions(self.tenant, self.project), member),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }
        if self.is_open:
            members |= {(open_actions(self.tenant), member), (open_actions(self.tenant, self.project), member)}
            members |= {(conflicts(edge.target), self.id) for edge in self.edge_list if edge.type == "conflicts_with"}
        if self.holder:
            members.add((CLAIMED, rows.by_time(self.expires_ms, self.id)))
            if self.paths:
                members.add((claimed_paths(self.tenant, self.project), self.id))
        elif self.is_open and not (self.assigned_to and is_active(self.status)):
            best_first = f"{MOST_URGENT * 1000 - round(self.priority * 1000):020d}{self.created_ms:014d}|{self.id}"
            members |= {(queue(self.tenant, self.project, tag), best_first) for tag in {"", *self.tag_list}}
        return members


CLAIMED = "claimed"
"""Listing of a partition's claimed actions, by the end of the claim."""
MOST_URGENT = 2**53
"""The greatest priority that a command can have."""
claimed_paths = rows.project_listing("claimed-paths")
"""Listing of a project's claimed actions that name paths."""
conflicts = rows.document_listing("conflicts")
"""Listing of the open actions that name an action as one they conflict with."""


def queue(tenant: str, project: str, label: str) -> str:
    """Listing of a project's open actions without an agent, best first: all, or those with a tag."""
    return f"queue:{tenant}\0{project}\0{label}"


actions = rows.project_listing("actions")
"""Listing of a project's actions, in log order."""
open_actions = partial(rows.of_tenant, "open-actions")
"""Listing of a tenant's or a project's actions that are still to be done, in log order."""


def work_item(action: Action, at_ms: int) -> WorkItem:
    """An action as the frontier weighs it at a time: one whose claim has expired is pending."""
    has_expired = action.holder != "" and not action.is_claimed(at_ms)
    ends: dict[str, list[str]] = {}
    for edge in action.edge_list:
        ends.setdefault(edge.type, []).append(edge.target)
    return WorkItem(
        id=action.id,
        title=action.title,
        status="pending" if has_expired else action.status,
        priority=action.priority,
        created_at=from_ms(action.created_ms),
        assigned_to="" if has_expired else action.assigned_to,
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
        changed_by=recorded.envelope.agent_id,
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
    changes = rows.row_fields(data, action=None, session=None, session_id=data.session, edges=edges, token=None)
    if data.status is not None and not is_open(data.status):
        changes |= _UNCLAIMED
    return _changed(action, recorded, **changes, trust=lowest((action.trust, trust_of(recorded))))


def _changed(action: Action, recorded: Recorded, **changes: object) -> Action:
    by = recorded.envelope.agent_id
    times = {"version": action.version + 1, "changed_by": by, "updated_ms": recorded.recorded_ms}
    return action.model_copy(update={**changes, **times})


_UNCLAIMED = {"holder": "", "token": "", "expires_ms": 0}


def is_ready(action: Action, neighbors: Iterable[Action], at_ms: int) -> bool:
    """Return whether an action waits for no other one, and conflicts with none in progress.

    `neighbors` are the actions that it waits for and those in conflict with it.
    """
    item = work_item(action, at_ms)
    items = {neighbor.id: work_item(neighbor, at_ms) for neighbor in neighbors} | {item.id: item}
    return not blockers(item, items) and item.id not in _contested(items)


def refused_claim(action: Action, agent_id: str, at_ms: int) -> Outcome | None:
    """Return why an agent cannot claim an action at a time; None if it can.

    Only the action itself decides. What it waits for can be forgotten, and a replay would then decide otherwise.
    """
    item = work_item(action, at_ms)
    if action.is_claimed(at_ms) or (is_leased(item) and item.assigned_to != agent_id):
        return _outcome(action, "claimed")
    return None if is_open(item.status) else _outcome(action, "finished")


def stale(
    action: Action | None, recorded: Recorded, data: ActionUpdated | ActionRenewed | ActionReleased
) -> Outcome | None:
    """Return the refusal of an event whose token is not that of a valid claim; None if it is, or if it has none."""
    if not data.token or (action and action.token == data.token and action.is_claimed(recorded.recorded_ms)):
        return None
    return _outcome(action or Action(version=0), "stale_token")


def _outcome(action: Action, refused: str) -> Outcome:
    holder = action.holder or action.assigned_to
    return Outcome(refused=refused, version=action.version, changed_by=holder, until_ms=action.expires_ms)


def lease_ended(
    action: Action | None, recorded: Recorded, data: ActionRenewed | ActionReleased | ActionExpired
) -> Action | None:
    """The action after its claim was extended or has ended; after an end, it is pending again."""
    if action is None or action.token != data.token:
        return action
    if isinstance(data, ActionRenewed):
        return _changed(action, recorded, expires_ms=recorded.recorded_ms + data.lease_seconds * 1000)
    if isinstance(data, ActionExpired) and action.is_claimed(recorded.recorded_ms):
        return action
    return _changed(action, recorded, **_UNCLAIMED, status="pending", assigned_to="")


def neighbor_ids(action: Action) -> set[str]:
    """The actions that an action waits for, and those that it names as conflicting."""
    return {edge.target for edge in action.edge_list if edge.type in ("requires", "gated_by", "conflicts_with")}


@folds(ActionClaimed, about=lambda _, data: data.actions)
def _claimed(batch: FoldBatch, event: Recorded, data: ActionClaimed) -> None:
    """The first of the named actions that is free."""
    agent_id, now = event.envelope.agent_id, event.recorded_ms
    subject, outcome, claimed = data.actions[0], Outcome(refused="not_found"), None
    for name in data.actions:
        action = batch.get(name)
        if not isinstance(action, Action) or action.project != event.envelope.project:
            continue
        refused = refused_claim(action, agent_id, now)
        if refused is None:
            claim = {"holder": agent_id, "token": str(event.position), "expires_ms": now + data.lease_seconds * 1000}
            claimed = _changed(action, event, **claim, status="active", assigned_to=agent_id)
            subject, outcome = claimed.id, Outcome(version=claimed.version, until_ms=claimed.expires_ms)
            break
        if outcome.refused == "not_found":
            subject, outcome = action.id, refused
    # the mark is about the action that the outcome is about: if another candidate is forgotten, this entry stays
    if batch.mark(event, subject):
        batch.decide(event, outcome)
        if claimed:
            batch.put(claimed)


def _joined(edges: list[ActionEdge]) -> str:
    return rows.joined(dict.fromkeys(f"{edge.type}{_OF_EDGE}{edge.target}" for edge in edges))


fold_one(ActionCreated, of=Action, subject=lambda event, data: action_id(event), evolve=created)
fold_one(ActionUpdated, of=Action, subject=lambda event, data: data.action, evolve=updated, refusal=stale)
fold_one(
    ActionRenewed, ActionReleased, of=Action, subject=lambda event, data: data.action, evolve=lease_ended, refusal=stale
)
fold_one(ActionExpired, of=Action, subject=lambda event, data: data.action, evolve=lease_ended)
