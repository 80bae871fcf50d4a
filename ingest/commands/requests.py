"""Commands: what callers may ask for. Imperative, tagged by `type`; an unknown key is an error that names it."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ingest.events.memory import MemoryType, Purpose, Visibility
from ingest.events.slot import SlotScope
from ingest.events.subject import SubjectKind

Name = Annotated[str, Meta(max_length=512)]
Names = Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=200)]


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every command may carry. `event_id` makes a retry harmless; without it every call is a new event."""

    event_id: Annotated[str, Meta(max_length=128)] = ""
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
    """Keep something for a long time."""

    content: str
    memory_type: MemoryType = "semantic"
    purpose: Purpose = "information"
    tags: Names = []
    concepts: Names = []
    files: Names = []
    references: Names = []
    importance: Annotated[float, Meta(ge=0, le=10)] = 5.0
    visibility: Visibility = "public"
    shared_with: Names = []
    owner: Name = ""
    ttl_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class RecordLesson(Command, frozen=True, kw_only=True, tag="lesson"):
    """State something learned; saying it again makes it stronger."""

    content: str
    context: str = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5
    tags: Names = []


class TrackSession(Command, frozen=True, kw_only=True, tag="session"):
    """Say that a session started or ended. Never needed: an observation opens its session."""

    status: Literal["started", "ended"]
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    title: Annotated[str, Meta(max_length=512)] = ""
    reason: Annotated[str, Meta(max_length=512)] = ""


class SetSlot(Command, frozen=True, kw_only=True, tag="slot"):
    """Create a slot or change its text."""

    label: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
    content: str
    scope: SlotScope = "project"
    append: bool = False


class WriteAction(Command, frozen=True, kw_only=True, tag="action"):
    """Write down a work item, or change one (`action` names it)."""

    action: Name = ""
    title: str = ""
    description: str = ""
    status: Annotated[str, Meta(max_length=64)] = ""
    priority: int = 0
    tags: Names = []
    requires: Names = []


class Relate(Command, frozen=True, kw_only=True, tag="relation"):
    """Relate two documents."""

    source: Name
    target: Name
    relation: Annotated[str, Meta(max_length=64)]
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None


class ForgetSubject(Command, frozen=True, kw_only=True, tag="forget"):
    """Forget a subject that the caller has looked up: its place (project, session) is known."""

    kind: SubjectKind
    subject: Name
    reason: Annotated[str, Meta(max_length=512)] = ""


AnyCommand: TypeAlias = (
    Observe | Remember | RecordLesson | TrackSession | SetSlot | WriteAction | Relate | ForgetSubject
)
"""Every command that is declared."""

WriteCommand: TypeAlias = Observe | Remember | RecordLesson | TrackSession
"""The commands a door accepts today: those whose events a projection folds."""

WRITE_TYPES = ("observe", "remember", "lesson", "session")
