"""What the server answers. Fields that a struct does not have are ignored; one that is added later has a default.

Words from a list that may grow (`kind`, `status`, ...) are strings: a newer server does not break an older client.
"""

import logging
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Accepted(Struct, frozen=True, kw_only=True):
    """An acknowledged write: the document it concerns, its place in the log, and what that survives.

    `duplicate` is true when the event id was known already; `position` is then the first one's.
    """

    id: str
    event_id: str
    position: str
    duplicate: bool
    durability: str


class RememberAnswer(Accepted, frozen=True, kw_only=True):
    """An acknowledged memory; the memories it superseded because it states the same, and similar ones left as they are.

    Both are None where the server did not know in time, or the key may not read.
    """

    superseded: list[str] | None = None
    similar: list[str] | None = None


class Rejection(Struct, frozen=True, kw_only=True):
    """Why one item of a batch was rejected."""

    index: int
    code: str
    message: str
    field: str | None = None


class BatchAccepted(Struct, frozen=True, kw_only=True):
    """What became of a batch."""

    accepted: int
    duplicates: int
    rejected: list[Rejection]
    position: str
    durability: str


class Confirmed(Struct, frozen=True, kw_only=True):
    """Which documents were confirmed, and which are none that can be."""

    event_id: str
    confirmed: list[str]
    unknown: list[str]
    position: str


class Forgotten(Struct, frozen=True, kw_only=True):
    """What a session that was forgotten took with it: documents by kind."""

    event_id: str
    documents: dict[str, int]
    position: str
    durability: str = "memory"


class Memory(Struct, frozen=True, kw_only=True):
    """A version of a memory."""

    id: str
    event_id: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    content: str
    title: str
    memory_type: str
    purpose: str
    tags: list[str]
    concepts: list[str]
    files: list[str]
    references: list[str]
    metadata: dict[str, str]
    importance: float
    visibility: str
    shared_with: list[str]
    owner: str
    forget_after: datetime | None
    version: int
    parent_id: str
    is_latest: bool
    superseded_at: datetime | None
    superseded_by: str
    keep_duplicates: bool
    derived_from: list[str]
    condensed: list[str]
    model: str
    prompt_version: str
    confirmations: int
    confirmed_at: datetime | None
    updated_at: datetime
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str
    trust: str = "agent_concluded"
    quarantined: str = ""
    valid_until: datetime | None = None


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
    trust: str = "agent_concluded"
    quarantined: str = ""


class FoundLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and how well it answers a query."""

    score: float


class SureLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and what is left of its confidence."""

    confidence_now: float


class Observation(Struct, frozen=True, kw_only=True):
    """What an agent saw or did, and what was derived from it."""

    id: str
    event_id: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    kind: str
    content: str
    data: dict[str, Any]
    metadata: dict[str, str]
    title: str
    subtitle: str
    facts: list[str]
    narrative: str
    concepts: list[str]
    files: list[str]
    importance: int
    confidence: float
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str
    model: str
    prompt_version: str
    role: str
    headline: str
    trust: str = "agent_concluded"
    quarantined: str = ""


class Session(Struct, frozen=True, kw_only=True):
    """A session; `summarised` is how many of its observations its summary covers."""

    id: str
    project: str
    agent_id: str
    user_id: str
    agent_type: str
    title: str
    first_prompt: str
    cwd: str
    status: str
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    observation_count: int
    summarised: int
    retired: bool
    retired_observations: int
    retired_at: datetime | None


class Summary(Struct, frozen=True, kw_only=True):
    """The summary of a session."""

    id: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int
    model: str
    prompt_version: str
    occurred_at: datetime
    recorded_at: datetime
    position: str
    remaining: list[str]
    trust: str = "agent_concluded"
    told_by_tools: list[str] = []


class Digest(Struct, frozen=True, kw_only=True):
    """What a summary that was just made says."""

    title: str
    narrative: str
    decisions: list[str]
    files: list[str]
    concepts: list[str]
    observation_count: int
    remaining: list[str]
    trust: str = "agent_concluded"
    told_by_tools: list[str] = []


class SummaryMade(Struct, frozen=True, kw_only=True):
    """A summary and who made it; `fell_back` says why a model that is configured did not."""

    summary: Digest
    model: str
    fell_back: str
    position: str


class Slot(Struct, frozen=True, kw_only=True):
    """A small named text that agents keep in view; `size` and `size_limit` are characters."""

    id: str
    label: str
    scope: str
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
    occurred_at: datetime | None = None


class ActionEdge(Struct, frozen=True, kw_only=True):
    """How an action depends on another."""

    type: str
    target: str


class Action(Struct, frozen=True, kw_only=True):
    """A work item that agents share."""

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
    occurred_at: datetime | None = None


class ReadyAction(Action, frozen=True, kw_only=True):
    """A work item that nothing blocks; `leased` when an agent works on it."""

    score: float
    leased: bool


class Frontier(Struct, frozen=True, kw_only=True):
    """What can be done now, most urgent first; `open` counts all that is still to be done."""

    items: list[ReadyAction]
    open: int


class FileChange(Struct, frozen=True, kw_only=True):
    """A file that a memory or lesson names and that was changed since: how often, when last, by which observation."""

    file: str
    times: int
    at: datetime
    by: str


class RecallResult(Struct, frozen=True, kw_only=True):
    """A document that was found. `score` compares within one answer, `confidence` (0..1) among all."""

    id: str
    kind: str
    score: float
    title: str
    snippet: str
    content: str
    session_id: str | None
    agent_id: str | None
    project: str
    occurred_at: datetime
    metadata: dict[str, str]
    confidence: float | None = None
    derived_from: list[str] = []
    confirmed: int = 0
    repeats: list[str] = []
    trust: str = "agent_concluded"
    changed_since: list[FileChange] = []
    superseded_by: str = ""
    explain: dict[str, float] | None = None
    valid_until: datetime | None = None


class Omitted(Struct, frozen=True, kw_only=True):
    """Results that `max_tokens` left out: how many, and how many tokens they have."""

    count: int
    tokens: int


class Recalled(Struct, frozen=True, kw_only=True):
    """What was found, best first. `confidence` (0..1) and `certainty` (recorded, uncertain, probably not recorded) say
    how likely the subject is recorded, `degraded` what it may lack; `notes` name projects, agents and sessions of the
    request that have no documents, or say that only some terms of a long query were searched."""

    results: list[RecallResult]
    took_ms: float
    lag: dict[str, int]
    degraded: list[str]
    confidence: float | None = None
    certainty: str | None = None
    notes: list[str] = []
    omitted: Omitted | None = None


def results_of(answer: Recalled) -> list[RecallResult]:
    """The results, for callers that do not get the whole answer: what these may lack is logged as a warning."""
    if answer.degraded:
        logger.warning("results of a recall may be incomplete: %s", "; ".join(answer.degraded))
    return answer.results


class Block(Struct, frozen=True, kw_only=True):
    """A part of a context, and the documents it was made of."""

    kind: str
    title: str
    text: str
    tokens: int
    sources: list[str]


class Context(Struct, frozen=True, kw_only=True):
    """What an agent should know before it starts, as one text, and what the budget left out."""

    context: str
    blocks: list[Block]
    tokens: int
    token_budget: int
    left_out: list[str]
    notes: list[str] = []


class Removed(Struct, frozen=True, kw_only=True):
    """What was removed from each store."""

    log_entries: int = 0
    documents: dict[str, int] = {}
    embedding_cache: int = 0
    change_feeds: int = 0
    snapshot: str = ""
    older_snapshots: int = 0
    replicas: int = 0
    replicas_waiting: int = 0
    append_only_file: str = ""
    archive_segments: int = 0


class Probe(Struct, frozen=True, kw_only=True):
    """A search for what was forgotten; `found` must be 0."""

    documents: int
    queries: int
    found: int


class Project(Struct, frozen=True, kw_only=True):
    """A project, `""` the nameless one, and how many documents of it the reader may find."""

    project: str
    documents: int


class Agent(Struct, frozen=True, kw_only=True):
    """An agent, and how many documents that it wrote the reader may find."""

    agent_id: str
    documents: int


class Receipt(Struct, frozen=True, kw_only=True):
    """What became of a request to forget; `status` is `pending`, `running` or `done`."""

    id: str
    kind: str
    subject: str
    requested_at: datetime
    name: str = ""
    nameless: bool = False
    project: str = ""
    reason: str = ""
    agent_id: str = ""
    status: str = "pending"
    finished_at: datetime | None = None
    attempts: int = 0
    error: str = ""
    removed: Removed = Removed()
    probe: Probe | None = None


class Event(Struct, frozen=True, kw_only=True):
    """An event of the log. `data` is empty where it was erased or is withheld from this reader."""

    position: str
    recorded_at: datetime | None = None
    event_id: str = ""
    type: str = ""
    version: int = 0
    project: str = ""
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    occurred_at: datetime | None = None
    metadata: dict[str, str] = {}
    data: dict[str, Any] = {}
    withheld: bool = False


class LiveEvent(Event, frozen=True, kw_only=True):
    """An event of the live stream. A stream that begins with its `after` continues behind it."""

    after: str = ""


class Shortcoming(Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    code: str
    message: str


class Health(Struct, frozen=True, kw_only=True):
    """Whether reads and writes work: `status` is `ready`, `degraded`, `starting` or `unavailable`.

    `degraded` is what they do not do well; of the last two, `reason` says why in one word and `detail` in a sentence.
    """

    status: str
    degraded: list[Shortcoming] = []
    reason: str = ""
    detail: str = ""
    documents: int | None = None
    lag: dict[str, int] = {}
    vitals: dict[str, Any] = {}


class _NotReady(Struct, frozen=True):
    code: str
    detail: str
    reason: str
    lag: dict[str, int] = {}
    vitals: dict[str, Any] = {}


def health_of(content: bytes) -> Health:
    """What `GET /readyz` answers, which is a problem where the server is not ready."""
    try:
        return msgspec.json.decode(content, type=Health)
    except msgspec.ValidationError:  # the `status` of a problem is a number
        not_ready = msgspec.json.decode(content, type=_NotReady)
    return Health(
        status=not_ready.code,
        reason=not_ready.reason,
        detail=not_ready.detail,
        lag=not_ready.lag,
        vitals=not_ready.vitals,
    )


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a listing; `next` is the cursor of the one that follows. `notes` say that its project is unknown."""

    items: list[T]
    next: str | None = None
    notes: list[str] = []


class EventsPage(Struct, frozen=True, kw_only=True):
    """A page of the log; `next` is the position to go on behind."""

    events: list[Event]
    next: str | None = None
