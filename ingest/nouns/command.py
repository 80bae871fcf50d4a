"""Shared by all commands: their fields and callers, decisions, and common steps of deciding. Pure.

An unknown field is an error that names the field.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Meta, Struct, msgpack

from ingest.durability import Durability
from ingest.errors import CommandRejected
from ingest.events.envelope import Envelope, Event, EventData, Trust, route_of
from ingest.ids import EventId, document_id
from ingest.roles import ANYWHERE, KeyScope

MAX_NAME_CHARS = 512
Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
EventName = Annotated[str, Meta(max_length=128)]
Names = Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=200)]
Label = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
Title = Annotated[str, Meta(max_length=512)]
ReasonText = Annotated[str, Meta(max_length=512)]
Importance = Annotated[float, Meta(ge=0, le=10)]
Confidence = Annotated[float, Meta(ge=0, le=1)]
SlotSize = Annotated[int, Meta(ge=1, le=20_000)]
_EXACT = Meta(ge=-(2**53), le=2**53)
Priority: TypeAlias = Annotated[int, _EXACT] | Annotated[float, _EXACT]
"""The largest integer that every JSON parser reads exactly."""
Version = Annotated[int, Meta(ge=0, le=2**53)]
Status = Annotated[str, Meta(max_length=64)]


class Command(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every command may carry. `event_id` makes a retry harmless; without it every call is a new event. `trust`
    lowers the trust class of what is written; a class above the one that its kind and source give changes nothing."""

    event_id: EventName = ""
    project: Name = ""
    agent_id: Name = ""
    session_id: Name = ""
    user_id: Name = ""
    occurred_at: datetime | None = None
    trace: Annotated[str, Meta(max_length=256)] = ""
    metadata: dict[str, str] = {}
    trust: Trust | Literal[""] = ""


class ConditionalCommand(Command, frozen=True, kw_only=True):
    """A change of a document. With `expected_version`, it applies only to that version; 0 means no document yet."""

    expected_version: Version | None = None


class ConditionalData(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The data of an event that applies only if its document has the expected version when it is folded.

    The fold decides, in log order: of two events that expect the same version, it applies the first. A replay decides
    the same.
    """

    expected_version: int | None = None

    @property
    def is_awaited(self) -> bool:
        return self.expected_version is not None


EVERY_PROJECT = "*"
"""The project name of lessons and rules that apply to every project. One without a project belongs to none."""
EVERYBODY = "*"
"""Used as an agent name, it lifts a reader's isolated scope, as in agentmemory. No agent has this name."""


class Caller(NamedTuple):
    """On whose behalf a command is carried out, and how durable it must be before it is acknowledged."""

    tenant: str = "default"
    source: str = "native"
    agent_id: str = ""
    durability: Durability | None = None
    key_scope: KeyScope = ANYWHERE


class Decision(NamedTuple):
    """The event to append, the key that routes it, and the id of the document it will create or change."""

    event: Event
    route: str
    subject: str


class Origin(NamedTuple):
    """The caller, event id and time of a command."""

    caller: Caller
    event_id: EventId
    now: datetime


CommandT = TypeVar("CommandT", bound=Command)
DataT = TypeVar("DataT", bound=Struct)
DECIDERS: dict[type[Command], Callable[[Any, Origin], Decision]] = {}
"""The decide function of each command type."""
AS_SENT = frozenset(("derived_from", "originals", "documents", "kept", "sources"))
"""Lists that an event stores as they are in the command."""
KEEP_NAMES: set[type[Command]] = set()
"""Commands that end or delete something, and so must use its exact name, even if the name contains a secret."""


def decides(
    command: type[CommandT], *, keep_names: bool = False
) -> Callable[[Callable[[CommandT, Origin], Decision]], Callable[[CommandT, Origin], Decision]]:
    """Register a function as the one that decides a type of command."""

    def register(function: Callable[[CommandT, Origin], Decision]) -> Callable[[CommandT, Origin], Decision]:
        DECIDERS[command] = function
        if keep_names:
            KEEP_NAMES.add(command)
        return function

    return register


def decides_about(command: type[CommandT], event: type[Any], subject: str, *, keep_names: bool = False) -> None:
    """Have a type of command decided as an event about what its field `subject` names, with all fields they share."""

    @decides(command, keep_names=keep_names)
    def decide(command: CommandT, origin: Origin) -> Decision:  # pyright: ignore[reportUnusedFunction]
        if subject == "session_id":
            need_session(command)
        return about(getattr(command, subject), command, origin, data_of(event, command))


def writer(*names: str) -> str:
    """The writer: the first of these that is a name, else "". EVERYBODY is not: no agent could read what it owns."""
    return next((name for name in names if name and name != EVERYBODY), "")


def data_of(event: type[DataT], command: Command, **changes: object) -> DataT:
    """An event with the command's values (not None) in the fields they share, lists without repeats, but for
    `changes`."""
    fields: dict[str, Any] = {}
    for name in _common_fields(event, type(command)):
        value = getattr(command, name)
        if value.__class__ is list and name not in AS_SENT:
            value = distinct(value)
        if value is not None:
            fields[name] = value
    return event(**(fields | changes))


@cache
def _common_fields(event: type[Struct], command: type[Command]) -> tuple[str, ...]:
    return tuple(name for name in event.__struct_fields__ if name in command.__struct_fields__)


def creating(prefix: str, command: Command, origin: Origin, data: EventData, *names: str) -> Decision:
    """An event that creates a document: one of its own, or the one that `names` identify within tenant and project."""
    event = _event_of(command, origin, data)
    route = route_of(*event)
    return Decision(event, route, document_id(prefix, route, "\0".join(names) or event.envelope.event_id))


def about(subject: str, command: Command, origin: Origin, data: EventData, causation: str = "") -> Decision:
    """An event about something that exists, or is named by its caller."""
    event = _event_of(command, origin, data, causation)
    return Decision(event, route_of(*event), subject)


def _event_of(command: Command, origin: Origin, data: EventData, causation: str = "") -> Event:
    caller, event_id, now = origin
    envelope = Envelope(
        event_id=event_id,
        type=data.TYPE,
        version=data.VERSION,
        tenant=caller.tenant,
        project=command.project,
        agent_id=writer(command.agent_id, caller.agent_id),
        session_id=command.session_id,
        user_id=command.user_id,
        occurred_at=utc(command.occurred_at, "occurred_at") if command.occurred_at else now,
        source=caller.source,
        causation=causation,
        trace=command.trace,
        metadata=storable(command.metadata, "metadata") if command.metadata else {},
        trust=command.trust,
        key=caller.key_scope.key,
    )
    return Event(envelope, data)


def utc(when: datetime, field: str) -> datetime:
    if when.tzinfo is None:
        raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", field)
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise CommandRejected("the time is outside the years 1 to 9999", field) from None


def need_text(text: str, field: str = "content") -> None:
    if not text.strip():
        raise CommandRejected(f"{field} is empty", field)


def need_session(command: Command) -> None:
    if not command.session_id:
        raise CommandRejected("a session id is required", "session_id")


def storable(value: dict[str, Any], field: str) -> dict[str, Any]:
    try:
        msgpack.encode(value)
    except OverflowError:
        raise CommandRejected("a number exceeds 64 bits; send it as text", field) from None
    except ValueError as error:
        raise CommandRejected(str(error), field) from None
    return value


def distinct(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values)) if values else values
