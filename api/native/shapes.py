"""What native routes answer, as their OpenAPI tells it. Documents are as `projections.queries.views` has them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, defstruct
from msgspec.structs import fields

from ingest.events.action import ActionEdge
from ingest.events.slot import SlotScope
from projections.condensing.profile import Profile
from projections.documents import memories, observations, summaries
from projections.queries.views import INTERNAL

T = TypeVar("T")


class Fault(Struct, frozen=True, kw_only=True):
    """What was wrong. `field` names what has to be corrected; the rest comes with the codes it is about."""

    code: str
    message: str
    field: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    limit: int | UnsetType = UNSET
    retry: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    rebuild: str | UnsetType = UNSET
    lag: dict[int, int] | UnsetType = UNSET


class Refusal(Struct, frozen=True, kw_only=True):
    """The answer to every request that failed."""

    error: Fault


class Items(Struct, Generic[T], frozen=True, kw_only=True):
    """All there is."""

    items: list[T]


class Page(Items[T], Generic[T], frozen=True, kw_only=True):
    """Part of a listing; `next` is the `cursor` of what follows, null at the end."""

    next: str | None


def _public(document: type[Struct]) -> type[Struct]:
    """A document without what is internal. Readers get all of its fields, also those that have their default."""
    kept = [(one.name, one.type) for one in fields(document) if one.name not in INTERNAL]
    return defstruct(document.__name__, kept, kw_only=True, module=__name__)


Observation: Any = _public(observations.Observation)
Memory: Any = _public(memories.Memory)
Summary: Any = _public(summaries.Summary)


class SomeRetired(Page[T], Generic[T], frozen=True, kw_only=True):
    """Part of a listing that lacks what was retired: `note` says so, and where that is.

    `retired_observations` are those of the session, since `retired_at`; a timeline does not count them.
    """

    retired_observations: int | UnsetType = UNSET
    retired_at: datetime | UnsetType = UNSET
    note: str | UnsetType = UNSET


Observations: Any = SomeRetired[Observation]


class Lesson(Struct, frozen=True, kw_only=True):
    """Something learned. `confidence` is as of `reinforced_at`."""

    id: str
    project: str
    agent_id: str
    user_id: str
    title: str
    content: str
    context: str
    tags: list[str]
    confidence: float
    reinforcements: int
    origin: str
    severity: str
    trigger_tool: str
    trigger_pattern: str
    trigger_count: int
    triggered_at: datetime | None
    active: bool
    derived_from: list[str]
    occurred_at: datetime
    recorded_at: datetime
    reinforced_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    position: str


class FoundLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and how well it answers a query."""

    score: float


class SureLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and what is left of its confidence."""

    confidence_now: float


class Slot(Struct, frozen=True, kw_only=True):
    """A small named text. `size` and `size_limit` are characters; times are null for one nobody wrote to."""

    id: str
    label: str
    scope: SlotScope
    project: str
    content: str
    size: int
    size_limit: int
    description: str
    pinned: bool
    read_only: bool
    agent_id: str
    created_at: datetime | None
    updated_at: datetime | None


class Action(Struct, frozen=True, kw_only=True):
    """A work item."""

    id: str
    project: str
    title: str
    description: str
    status: str
    priority: int | float
    tags: list[str]
    edges: list[ActionEdge]
    parent: str
    session_id: str
    agent_id: str
    assigned_to: str
    result: str
    crystallized_into: str
    created_at: datetime
    updated_at: datetime


class ReadyAction(Action, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` when somebody works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """What can be done now, and how many work items are still to be done."""

    items: list[ReadyAction]
    open: int


class Relation(Struct, frozen=True, kw_only=True):
    """How two documents are related."""

    id: str
    project: str
    source: str
    target: str
    relation: str
    confidence: float
    agent_id: str
    created_at: datetime
    updated_at: datetime


class Commit(Struct, frozen=True, kw_only=True):
    """A version-control commit, and the sessions it was made in."""

    id: str
    project: str
    commit: str
    message: str
    branch: str
    repo: str
    author: str
    authored_at: str
    files: list[str]
    session_ids: list[str]
    agent_id: str
    linked_at: datetime


class Session(Struct, frozen=True, kw_only=True):
    """A session; `summarised` is how many of its observations its summary covers.

    `retired_observations` of them are in the log alone, since `retired_at`; `retired` says that all of them are.
    """

    id: str
    project: str
    agent_id: str
    user_id: str
    agent_type: str
    title: str
    first_prompt: str
    cwd: str
    status: Literal["active", "ended", "failed"]
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    observation_count: int
    summarised: int
    retired: bool
    retired_observations: int
    retired_at: datetime | None


class Related(Struct, frozen=True, kw_only=True):
    """A related document with all its fields, and how it is related: `path` are the relations walked."""

    id: str
    hops: int
    confidence: float
    path: Sequence[Any]


class Around(Struct, frozen=True, kw_only=True):
    """Observations in the order of time, each with its `relative_position`. Without an anchor `reason` says why."""

    items: list[dict[str, Any]]
    anchor_index: int
    reason: str | None


class Known(Struct, frozen=True, kw_only=True):
    """A project's profile; null for a project nobody knows."""

    profile: Profile | None
    cached: bool


class Queued(Struct, frozen=True, kw_only=True):
    """Whether the job was queued: not while the one before waits or runs."""

    queued: bool
