"""Slots: short named texts that are part of every agent's context."""

from typing import ClassVar

from ingest.events.envelope import Recorded, Trust
from ingest.ids import DocumentId, content_id
from ingest.kinds import SLOT
from ingest.log.position import project_route
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotScope, SlotSet
from ingest.platform.clock import to_ms
from projections.nouns import rows
from projections.nouns.batch import fold_one
from projections.nouns.trust import lowest, trust_of

SIZE_LIMIT = 2000
"""Characters of a slot that does not say otherwise (agentmemory's default)."""


class Slot(rows.Row, index=True):
    """One slot. A global one belongs to the nameless project. Times are milliseconds since the epoch.

    `version` counts its writes: 0 for a slot that was never written, or was deleted.

    `agent_id` is who wrote last, `occurred_ms` when that was as the agent says, `updated_ms` when it was recorded.
    `size_limit` is checked before a write; lines added at the same moment may exceed it by one of them, and none is
    dropped.
    """

    PREFIX: ClassVar[str] = SLOT

    id: str = ""
    tenant: str = ""
    project: str = ""
    scope: SlotScope = "project"
    label: str = ""
    content: str = ""
    size_limit: int = SIZE_LIMIT
    description: str = ""
    pinned: bool = True
    read_only: bool = False
    version: int = 0
    agent_id: str = ""
    user_id: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    occurred_ms: int = 0
    position: str = ""
    trust: Trust = "agent_concluded"

    @property
    def changed_by(self) -> str:
        """The agent that wrote last."""
        return self.agent_id

    def listing_members(self) -> set[tuple[str, str]]:
        return {
            (slots(self.tenant, self.project), f"{self.label}|{self.id}"),
            *rows.in_user_listing(self.tenant, self.user_id, rows.by_position(self.position, self.id)),
        }


slots = rows.project_listing("slots")
"""Listing of a project's slots (of the global ones, when it is empty), by label."""


def slot_id(tenant: str, project: str, label: str) -> DocumentId:
    """The id of a slot; `project` is empty for a global one."""
    return content_id(SLOT, project_route(tenant, project), label)


def id_of(recorded: Recorded, data: SlotSet | SlotAppended | SlotDeleted) -> DocumentId:
    """The id of the slot that an event is about."""
    return slot_id(recorded.envelope.tenant, recorded.envelope.project, data.label)


def evolve(slot: Slot | None, recorded: Recorded, data: SlotSet | SlotAppended | SlotDeleted) -> Slot | None:
    """The slot after an event; None once it is deleted."""
    if isinstance(data, SlotDeleted):
        return None
    envelope = recorded.envelope
    existing = slot or _new(recorded, data)
    is_line = isinstance(data, SlotAppended)
    trust = trust_of(recorded)
    changes: dict[str, object] = {
        **rows.row_fields(
            data, scope=None, content=appended(existing.content, data.content) if is_line else data.content
        ),
        "version": existing.version + 1,
        "agent_id": envelope.agent_id or existing.agent_id,
        "user_id": existing.user_id or envelope.user_id,
        "updated_ms": recorded.recorded_ms,
        "occurred_ms": to_ms(envelope.occurred_at),
        "trust": lowest((trust, existing.trust)) if is_line and existing.content else trust,
    }
    return existing.model_copy(update=changes)


def _new(recorded: Recorded, data: SlotSet | SlotAppended) -> Slot:
    """An empty slot, with the limits of the label's default if it has one."""
    tenant, project = recorded.envelope.tenant, recorded.envelope.project
    plain = Slot(id=id_of(recorded, data), tenant=tenant, project=project, scope=data.scope, label=data.label)
    new = default_slots(tenant, project).get(data.label, plain)
    return new.model_copy(update={"created_ms": recorded.recorded_ms, "position": str(recorded.position)})


def appended(content: str, line: str) -> str:
    """The text of a slot with a line added: on a line of its own."""
    return content + line if not content or content.endswith("\n") else f"{content}\n{line}"


_DEFAULTS: tuple[tuple[SlotScope, str, int, bool], ...] = (
    ("global", "persona", 1000, True),
    ("global", "user_preferences", 2000, True),
    ("global", "tool_guidelines", 1500, True),
    ("project", "project_context", 3000, True),
    ("project", "guidance", 1500, True),
    ("project", "pending_items", 2000, True),
    ("project", "session_patterns", 1500, False),
    ("project", "self_notes", 1500, False),
)
"""Scope, label, size limit and whether it is pinned, of the slots that exist from the start."""


def default_slots(tenant: str, project: str) -> dict[str, Slot]:
    """The slots that a project has before anything is written into them; the nameless one has those of both scopes.

    So a caller without projects (agentmemory's slot tools) finds all of them in one project.
    """
    return {
        label: Slot(
            id=slot_id(tenant, project, label),
            tenant=tenant,
            project=project,
            scope=scope,
            label=label,
            size_limit=size_limit,
            pinned=pinned,
        )
        for scope, label, size_limit, pinned in _DEFAULTS
        if scope == "project" or not project
    }


fold_one(SlotSet, SlotAppended, SlotDeleted, of=Slot, subject=id_of, evolve=evolve, drops=True)
