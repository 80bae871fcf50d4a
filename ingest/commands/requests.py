"""Commands: what callers may ask for. Imperative, tagged by `type`; an unknown key is an error that names it."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ingest.events.action import ActionEdge
from ingest.events.lesson import Severity
from ingest.events.memory import MemoryType, Purpose, Visibility
from ingest.events.session import MAX_RETIRED, Outcome
from ingest.events.slot import SlotScope
from ingest.events.subject import MAX_FORGOTTEN, SubjectKind

Name = Annotated[str, Meta(max_length=512)]
EventName = Annotated[str, Meta(max_length=128)]
Names = Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=200)]
Label = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
Title = Annotated[str, Meta(max_length=512)]
Importance = Annotated[float, Meta(ge=0, le=10)]
Confidence = Annotated[float, Meta(ge=0, le=1)]
SlotSize = Annotated[int, Meta(ge=1, le=20_000)]
_EXACT = Meta(ge=-(2**53), le=2**53)
Priority: TypeAlias = Annotated[int, _EXACT] | Annotated[float, _EXACT]
"""As far as a number is exact for every reader of JSON."""
Status = Annotated[str, Meta(max_length=64)]


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every command may carry. `event_id` makes a retry harmless; without it every call is a new event."""

    event_id: EventName = ""
    project: Name = ""
    agent_id: Name = ""
    session_id: Name = ""
    user_id: Name = ""
    occurred_at: datetime | None = None
    trace: Annotated[str, Meta(max_length=256)] = ""
    metadata: dict[str, str] = {}


class Observe(Command, frozen=True, kw_only=True, tag="observe"):
    """Record what an agent saw or did in a session."""

    kind: Annotated[str, Meta(max_length=64)] = ""
    content: str = ""
    data: dict[str, Any] = {}


class Remember(Command, frozen=True, kw_only=True, tag="remember"):
    """Keep something for a long time. With `keep_duplicates` it supersedes nothing, nor is it superseded."""

    content: str
    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    title: Title = ""
    tags: Names = []
    concepts: Names = []
    files: Names = []
    references: Names = []
    importance: Importance = 5.0
    visibility: Visibility = "public"
    shared_with: Names = []
    owner: Name = ""
    ttl_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    keep_duplicates: bool = False
    derived_from: Names = []


class RecordLesson(Command, frozen=True, kw_only=True, tag="lesson"):
    """State something learned; saying it again makes it stronger. A trigger says before which tool calls it shows."""

    content: str
    context: str = ""
    confidence: Confidence = 0.5
    tags: Names = []
    title: Title = ""
    severity: Severity = ""
    trigger_tool: Name = ""
    trigger_pattern: Annotated[str, Meta(max_length=500)] = ""
    origin: Annotated[str, Meta(max_length=64)] = "manual"
    derived_from: Names = []


class TrackSession(Command, frozen=True, kw_only=True, tag="session"):
    """Say that a session started or ended. Never needed: an observation opens its session."""

    status: Literal["started", "ended"]
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    title: Title = ""
    reason: Annotated[str, Meta(max_length=512)] = ""
    agent_type: Name = ""
    outcome: Outcome = "completed"


class LinkCommit(Command, frozen=True, kw_only=True, tag="commit"):
    """Link a version-control commit to the project, and to the session that made it."""

    commit: Annotated[str, Meta(min_length=1, max_length=128)]
    message: str = ""
    branch: Name = ""
    repo: Name = ""
    author: Name = ""
    authored_at: Annotated[str, Meta(max_length=64)] = ""
    files: Annotated[list[Name], Meta(max_length=2000)] = []


class SetSlot(Command, frozen=True, kw_only=True, tag="slot"):
    """Create a slot or replace its text; with `append`, add a line to it. What is null stays as it is."""

    label: Label
    content: str
    scope: SlotScope = "project"
    append: bool = False
    size_limit: SlotSize | None = None
    description: Annotated[str, Meta(max_length=2000)] | None = None
    pinned: bool | None = None
    read_only: bool | None = None


class DeleteSlot(Command, frozen=True, kw_only=True, tag="slot_delete"):
    """Remove a slot."""

    label: Label
    scope: SlotScope = "project"


class WriteAction(Command, frozen=True, kw_only=True, tag="action"):
    """Write down a work item, or change the one that `action` names; what is null stays as it is."""

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


class Relate(Command, frozen=True, kw_only=True, tag="relation"):
    """Relate two documents, or withdraw that (`remove`)."""

    source: Annotated[str, Meta(min_length=1, max_length=512)]
    target: Annotated[str, Meta(min_length=1, max_length=512)]
    relation: Annotated[str, Meta(min_length=1, max_length=64)]
    confidence: Confidence | None = None
    derived_from: Names = []
    remove: bool = False


class ReviseMemory(Command, frozen=True, kw_only=True, tag="revise"):
    """Make a new version of a memory that the caller has looked up and may change; every field is the new version's."""

    memory: Name
    content: str
    memory_type: MemoryType
    purpose: Purpose
    title: Title = ""
    tags: Names = []
    concepts: Names = []
    files: Names = []
    references: Names = []
    importance: Importance = 5.0
    visibility: Visibility = "public"
    shared_with: Names = []
    owner: Name = ""
    forget_after: datetime | None = None
    keep_duplicates: bool = False
    derived_from: Names = []
    creator: Name = ""


class ChangeVisibility(Command, frozen=True, kw_only=True, tag="visibility"):
    """Change who may read a memory that the caller has looked up, and may change."""

    memory: Name
    visibility: Visibility
    shared_with: Names | None = None


class ReinforceLesson(Command, frozen=True, kw_only=True, tag="reinforce"):
    """Say that a lesson which exists proved right again."""

    lesson: Name


class ReviseLesson(Command, frozen=True, kw_only=True, tag="revise_lesson"):
    """Edit a lesson which exists; what is null stays as it is."""

    lesson: Name
    content: str | None = None
    context: str | None = None
    title: Title | None = None
    tags: Names | None = None
    severity: Severity | None = None
    trigger_tool: Name | None = None
    trigger_pattern: Annotated[str, Meta(max_length=500)] | None = None
    active: bool | None = None


class TriggerLesson(Command, frozen=True, kw_only=True, tag="trigger_lesson"):
    """Count that a lesson which exists was shown to an agent."""

    lesson: Name


class RetireLesson(Command, frozen=True, kw_only=True, tag="retire_lesson"):
    """Drop a lesson that has faded."""

    lesson: Name
    confidence: float


class SummariseSession(Command, frozen=True, kw_only=True, tag="summary"):
    """Record the summary of a session; see SessionSummarised."""

    title: str
    narrative: str
    decisions: list[str] = []
    files: list[str] = []
    concepts: list[str] = []
    model: str = ""
    prompt_version: str = ""
    observation_count: int = 0
    forgotten_at: str = ""


class CondenseMemories(Command, frozen=True, kw_only=True, tag="condense"):
    """Put one memory in the place of several."""

    originals: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    content: str
    memory_type: MemoryType = "semantic"
    importance: Importance = 1.0
    tags: Names = []
    visibility: Visibility = "public"
    shared_with: Names = []
    owner: Name = ""
    model: str = ""
    prompt_version: str = ""


class EndIdleSession(Command, frozen=True, kw_only=True, tag="idle"):
    """End a session that has been silent since `idle_since_ms`."""

    idle_since_ms: int


class RetireSession(Command, frozen=True, kw_only=True, tag="retire_session"):
    """Retire some of a session's documents; see SessionRetired."""

    documents: Annotated[list[Name], Meta(max_length=MAX_RETIRED)] = []
    part: int = 0
    idle_since_ms: int = 0


class ForgetSubject(Command, frozen=True, kw_only=True, tag="forget"):
    """Forget a subject that the caller has looked up: its place (project, session) and its documents are known.

    `kept` and `sources`: see SubjectForgotten.
    """

    kind: SubjectKind
    subject: Name
    reason: Annotated[str, Meta(max_length=512)] = ""
    documents: Annotated[list[Name], Meta(max_length=MAX_FORGOTTEN)] = []
    kept: Annotated[list[Name], Meta(max_length=MAX_FORGOTTEN)] = []
    sources: list[Name] = []
    causation: Name = ""


WriteCommand: TypeAlias = (
    Observe | Remember | RecordLesson | TrackSession | LinkCommit | SetSlot | DeleteSlot | WriteAction | Relate
)
"""The commands a batch may hold: those that need no look at what is there."""

AnyCommand: TypeAlias = (
    WriteCommand
    | ReviseMemory
    | ChangeVisibility
    | ReinforceLesson
    | ReviseLesson
    | TriggerLesson
    | RetireLesson
    | SummariseSession
    | CondenseMemories
    | EndIdleSession
    | RetireSession
    | ForgetSubject
)
"""Every command. Those that are not a WriteCommand come from `projections.operations`, which has looked."""

WRITE_TYPES = ("observe", "remember", "lesson", "session", "commit", "slot", "slot_delete", "action", "relation")
