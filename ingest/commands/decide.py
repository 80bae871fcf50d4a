"""decide: a command, who asks and what time it is, to the one event it becomes; or CommandRejected. Pure.

Secrets and private spans are removed here from every field, before an event exists.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from msgspec import msgpack
from msgspec.structs import replace

from ingest.commands.requests import (
    MAX_NAME_CHARS,
    AnyCommand,
    ChangeVisibility,
    Command,
    CondenseMemories,
    DeleteSlot,
    EndIdleSession,
    ForgetSubject,
    LinkCommit,
    Observe,
    RecordLesson,
    ReinforceLesson,
    Relate,
    Remember,
    RetireLesson,
    RetireSession,
    ReviseLesson,
    ReviseMemory,
    SetSlot,
    SummariseSession,
    TrackSession,
    TriggerLesson,
    WriteAction,
)
from ingest.durability import Durability
from ingest.errors import CommandRejected, OutOfReach
from ingest.events.action import ActionCreated, ActionEdge, ActionUpdated
from ingest.events.envelope import Envelope, Event
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.events.memory import MemoryCondensed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.events.observation import ObservationRecorded
from ingest.events.registry import EventData
from ingest.events.relation import RelationLinked, RelationUnlinked
from ingest.events.routing import route_of
from ingest.events.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.events.subject import SubjectForgotten
from ingest.ids import ACTION, COMMIT, LESSON, MEMORY, OBSERVATION, SLOT, EventId, content_id, document_id, relation_id
from ingest.lesson_fingerprint import fingerprint
from ingest.patterns import compiled
from ingest.reach import ANYWHERE, Reach
from ingest.secrets.clean import Names, clean_agent, cleaned

MAX_METADATA_BYTES = 4096
_OF_A_PROJECT = ("memory", "lesson", "slot", "action", "relation", "commit")
_NAMES = ("project", "session_id", "agent_id", "user_id", "event_id")
_TOLD_OF_REFUSALS = ("native", "mcp")
"""Sources whose callers see why a write is refused. The others are hooks and clients of other systems, and imports."""
_ENDINGS = (
    ForgetSubject, DeleteSlot, RetireSession, EndIdleSession, RetireLesson, ReinforceLesson, TriggerLesson,
    SummariseSession, CondenseMemories,
)  # fmt: skip
EVERYBODY = "*"
"""In the place of an agent's name: a reader that lifts the isolated scope, as in agentmemory. Nobody's name."""


class Caller(NamedTuple):
    """On whose behalf a command is carried out, and how durable it must be before it is acknowledged."""

    tenant: str = "default"
    source: str = "native"
    agent_id: str = ""
    durability: Durability | None = None
    reach: Reach = ANYWHERE


class Decision(NamedTuple):
    """The event to append, the key that routes it, and the id of the document it will create or change."""

    event: Event
    route: str
    subject: str


def writer(*names: str) -> str:
    """Who writes: the first of these that is a name, else nobody. EVERYBODY is none: who could read what it owns?"""
    return next((name for name in names if name and name != EVERYBODY), "")


def stated_agent(name: str, header: str) -> str:
    """The agent's name that a header states; raises CommandRejected for what no field of a body may be, either."""
    if len(name) > MAX_NAME_CHARS:
        raise CommandRejected(f"{header} is {len(name):,} characters; the limit is {MAX_NAME_CHARS}", header)
    if "\0" in name:
        raise CommandRejected(f"{header} may not contain NUL", header)
    return name


def decide(
    command: AnyCommand, caller: Caller, event_id: EventId, now: datetime, *, is_clean: bool = False
) -> Decision:
    """The decision on one command; raises CommandRejected with the field at fault, OutOfReach for another project or
    agent than those of the caller's key. `is_clean`: `are_clean` has found that it holds no secret.

    The same command with the same event id decides the same subject, so a repeat acknowledges the same document.
    """
    names = _names_of(command, caller)
    said, command = command, command if is_clean else cleaned(command, names)
    if said.event_id == event_id:
        event_id = EventId(command.event_id or event_id)
    if caller.agent_id and not command.agent_id:
        caller = caller._replace(agent_id=clean_agent(caller.agent_id, names))
    _check_names(command)
    if command.metadata and _size(command.metadata) > MAX_METADATA_BYTES:
        raise CommandRejected(f"metadata is over {MAX_METADATA_BYTES} bytes", "metadata")
    decision = _DECIDERS[type(command)](command, _Place(caller, event_id, now))
    if caller.reach is not ANYWHERE:
        check_reach(caller.reach, decision.event.envelope)
    return decision


def _names_of(command: AnyCommand, caller: Caller) -> Names:
    """What becomes of names that hold secrets: what ends or forgets something must call it as it is called."""
    if isinstance(command, _ENDINGS) or (isinstance(command, Relate) and command.remove):
        return "keep"
    return "refuse" if caller.source in _TOLD_OF_REFUSALS else "replace"


def check_reach(reach: Reach, envelope: Envelope) -> None:
    """Raise OutOfReach for an event of a project, or in the name of an agent, that a key is not for."""
    if not reach.allows(envelope.project):
        raise OutOfReach("project", envelope.project, "project")
    if not reach.speaks_for(envelope.agent_id):
        raise OutOfReach("agent", envelope.agent_id, "agent_id")


class _Place(NamedTuple):
    """Who says it, under which event id, and when."""

    caller: Caller
    event_id: EventId
    now: datetime


def _observe(command: Observe, place: _Place) -> Decision:
    if not command.session_id:
        raise CommandRejected("an observation belongs to a session", "session_id")
    if not command.content.strip() and not command.data:
        raise CommandRejected("an observation needs content or data", "content")
    data = ObservationRecorded(
        kind=command.kind,
        content=command.content if command.content else "",
        data=_storable(command.data, "data") if command.data else {},
    )
    return _creating(OBSERVATION, command, place, data)


def _remember(command: Remember, place: _Place) -> Decision:
    if not (command.keep_duplicates and command.content):  # what is kept whatever it says may be blank
        _need_text(command.content)
    _need_reader(command, place)
    data = MemoryRecorded(
        content=command.content,
        memory_type=command.memory_type,
        purpose=command.purpose,
        title=command.title,
        tags=_distinct(command.tags),
        concepts=_distinct(command.concepts),
        files=_distinct(command.files),
        references=_distinct(command.references),
        importance=command.importance,
        visibility=command.visibility,
        shared_with=_distinct(command.shared_with),
        owner=command.owner,
        forget_after=None if command.ttl_days is None else place.now + timedelta(days=command.ttl_days),
        keep_duplicates=command.keep_duplicates,
        derived_from=command.derived_from,
    )
    return _creating(MEMORY, command, place, data)


def _revise(command: ReviseMemory, place: _Place) -> Decision:
    _need_text(command.content)
    _need_reader(command, place)
    data = MemoryRevised(
        memory=command.memory,
        content=command.content,
        memory_type=command.memory_type,
        purpose=command.purpose,
        title=command.title,
        tags=_distinct(command.tags),
        concepts=_distinct(command.concepts),
        files=_distinct(command.files),
        references=_distinct(command.references),
        importance=command.importance,
        visibility=command.visibility,
        shared_with=_distinct(command.shared_with),
        owner=command.owner,
        forget_after=None if command.forget_after is None else _utc(command.forget_after, "forget_after"),
        keep_duplicates=command.keep_duplicates,
        derived_from=command.derived_from,
        creator=command.creator,
    )
    return _creating(MEMORY, command, place, data)


def _visibility(command: ChangeVisibility, place: _Place) -> Decision:
    shared_with = None if command.shared_with is None else _distinct(command.shared_with)
    data = MemoryVisibilityChanged(memory=command.memory, visibility=command.visibility, shared_with=shared_with)
    return _about(command.memory, command, place, data)


def _condense(command: CondenseMemories, place: _Place) -> Decision:
    data = MemoryCondensed(
        originals=command.originals,
        content=command.content,
        memory_type=command.memory_type,
        importance=command.importance,
        tags=_distinct(command.tags),
        visibility=command.visibility,
        shared_with=command.shared_with,
        owner=command.owner,
        model=command.model,
        prompt_version=command.prompt_version,
    )
    return _creating(MEMORY, command, place, data)


def _lesson(command: RecordLesson, place: _Place) -> Decision:
    _need_text(command.content)
    _check_pattern(command.trigger_pattern)
    content = command.content
    data = LessonRecorded(
        content=content,
        context=command.context,
        confidence=command.confidence,
        tags=_distinct(command.tags),
        title=command.title,
        severity=command.severity,
        trigger_tool=command.trigger_tool,
        trigger_pattern=command.trigger_pattern,
        origin=command.origin,
        derived_from=command.derived_from,
    )
    event = _event(command, place, data)
    route = route_of(*event)
    return Decision(event, route, content_id(LESSON, route, fingerprint(content)))


def _reinforce(command: ReinforceLesson, place: _Place) -> Decision:
    return _about(command.lesson, command, place, LessonReinforced(lesson=command.lesson))


def _revise_lesson(command: ReviseLesson, place: _Place) -> Decision:
    if command.content is not None:
        _need_text(command.content)
    _check_pattern(command.trigger_pattern or "")
    data = LessonRevised(
        lesson=command.lesson,
        content=command.content,
        context=command.context,
        title=command.title,
        tags=None if command.tags is None else _distinct(command.tags),
        severity=command.severity,
        trigger_tool=command.trigger_tool,
        trigger_pattern=command.trigger_pattern,
        active=command.active,
    )
    return _about(command.lesson, command, place, data)


def _trigger_lesson(command: TriggerLesson, place: _Place) -> Decision:
    return _about(command.lesson, command, place, LessonTriggered(lesson=command.lesson))


def _retire_lesson(command: RetireLesson, place: _Place) -> Decision:
    data = LessonRetired(lesson=command.lesson, confidence=command.confidence)
    return _about(command.lesson, command, place, data)


def _session(command: TrackSession, place: _Place) -> Decision:
    _need_session(command)
    data: SessionStarted | SessionEnded
    if command.status == "started":
        data = SessionStarted(cwd=command.cwd, title=command.title, agent_type=command.agent_type)
    else:
        data = SessionEnded(reason=command.reason, outcome=command.outcome)
    return _about(command.session_id, command, place, data)


def _end_idle(command: EndIdleSession, place: _Place) -> Decision:
    data = SessionEnded(reason="idle", idle_since_ms=command.idle_since_ms)
    return _about(command.session_id, command, place, data)


def _retire_session(command: RetireSession, place: _Place) -> Decision:
    _need_session(command)
    data = SessionRetired(documents=command.documents, part=command.part, idle_since_ms=command.idle_since_ms)
    return _about(command.session_id, command, place, data)


def _summarise(command: SummariseSession, place: _Place) -> Decision:
    _need_session(command)
    data = SessionSummarised(
        title=command.title,
        narrative=command.narrative,
        decisions=_distinct(command.decisions),
        files=_distinct(command.files),
        concepts=_distinct(command.concepts),
        model=command.model,
        prompt_version=command.prompt_version,
        observation_count=command.observation_count,
        forgotten_at=command.forgotten_at,
    )
    return _about(command.session_id, command, place, data)


def _commit(command: LinkCommit, place: _Place) -> Decision:
    data = SessionCommitted(
        commit=command.commit,
        message=command.message,
        branch=command.branch,
        repo=command.repo,
        author=command.author,
        authored_at=command.authored_at,
        files=_distinct(command.files),
    )
    event = _event(command, place, data)
    route = route_of(*event)
    return Decision(event, route, content_id(COMMIT, route, command.commit))


def _slot(command: SetSlot, place: _Place) -> Decision:
    text = command.content
    data: SlotAppended | SlotSet
    if command.append:
        for name in ("size_limit", "description", "pinned", "read_only"):
            if getattr(command, name) is not None:
                raise CommandRejected("adding a line changes nothing else of a slot", name)
        data = SlotAppended(label=command.label, content=text, scope=command.scope)
    else:
        data = SlotSet(
            label=command.label,
            content=text,
            scope=command.scope,
            size_limit=command.size_limit,
            description=command.description,
            pinned=command.pinned,
            read_only=command.read_only,
        )
    return _of_slot(command, place, data)


def _delete_slot(command: DeleteSlot, place: _Place) -> Decision:
    return _of_slot(command, place, SlotDeleted(label=command.label, scope=command.scope))


def _of_slot(command: SetSlot | DeleteSlot, place: _Place, data: SlotSet | SlotAppended | SlotDeleted) -> Decision:
    """A global slot belongs to the tenant's nameless project."""
    event = _event(command, place, data, project="" if command.scope == "global" else command.project)
    route = route_of(*event)
    return Decision(event, route, content_id(SLOT, route, command.label))


def _action(command: WriteAction, place: _Place) -> Decision:
    data: ActionUpdated | ActionCreated
    requires = [ActionEdge(type="requires", target=one) for one in command.requires]
    edges = [ActionEdge(type=one.type, target=one.target) for one in (*requires, *command.edges)]
    if command.action:
        if command.parent:
            raise CommandRejected("an action keeps the parent it was created with", "parent")
        data = ActionUpdated(
            action=command.action,
            status=command.status,
            priority=command.priority,
            assigned_to=command.assigned_to,
            result=command.result,
            title=command.title,
            description=command.description,
            tags=None if command.tags is None else _distinct(command.tags),
            session=command.session_id or None,
            crystallized_into=command.crystallized_into,
            edges=edges,
        )
        return _about(command.action, command, place, data)
    _need_text(command.title or "", "title")
    data = ActionCreated(
        title=command.title or "",
        description=command.description or "",
        priority=command.priority or 0,
        tags=_distinct(command.tags or []),
        parent=command.parent,
        assigned_to=command.assigned_to or "",
        status=command.status or "pending",
        edges=edges,
    )
    return _creating(ACTION, command, place, data)


def _relate(command: Relate, place: _Place) -> Decision:
    if "\0" in command.source + command.target + command.relation:
        raise CommandRejected("an end or the name of a relation may not contain NUL", "source")
    data: RelationLinked | RelationUnlinked
    if command.remove:
        data = RelationUnlinked(source=command.source, target=command.target, relation=command.relation)
    else:
        data = RelationLinked(
            source=command.source,
            target=command.target,
            relation=command.relation,
            confidence=command.confidence,
            derived_from=command.derived_from,
        )
    event = _event(command, place, data)
    route = route_of(*event)
    return Decision(event, route, relation_id(route, command.source, command.relation, command.target))


def _forget(command: ForgetSubject, place: _Place) -> Decision:
    """The tombstone goes into the stream of what it forgets.

    A caller that lists documents says which stream that is; of a single subject, its kind says it.
    """
    if command.kept and not command.documents:
        command = replace(command, session_id="")
    elif not command.documents and command.kind == "observation":
        _need_session(command)
    elif not command.documents and command.kind in _OF_A_PROJECT:
        command = replace(command, session_id="")
    data = SubjectForgotten(
        kind=command.kind,
        subject=command.subject,
        reason=command.reason,
        documents=command.documents,
        kept=command.kept,
        sources=command.sources,
    )
    return _about(command.subject, command, place, data, causation=command.causation)


_DECIDERS: dict[type[Command], Callable[[Any, _Place], Decision]] = {
    Observe: _observe,
    Remember: _remember,
    ReviseMemory: _revise,
    ChangeVisibility: _visibility,
    CondenseMemories: _condense,
    RecordLesson: _lesson,
    ReinforceLesson: _reinforce,
    ReviseLesson: _revise_lesson,
    TriggerLesson: _trigger_lesson,
    RetireLesson: _retire_lesson,
    TrackSession: _session,
    EndIdleSession: _end_idle,
    RetireSession: _retire_session,
    SummariseSession: _summarise,
    LinkCommit: _commit,
    SetSlot: _slot,
    DeleteSlot: _delete_slot,
    WriteAction: _action,
    Relate: _relate,
    ForgetSubject: _forget,
}


def _creating(prefix: str, command: Command, place: _Place, data: EventData) -> Decision:
    """An event that creates a document of its own."""
    event = _event(command, place, data)
    route = route_of(*event)
    return Decision(event, route, document_id(prefix, route, event.envelope.event_id))


def _about(subject: str, command: Command, place: _Place, data: EventData, causation: str = "") -> Decision:
    """An event about something that exists, or is named by its caller."""
    event = _event(command, place, data, causation=causation)
    return Decision(event, route_of(*event), subject)


def _event(
    command: Command, place: _Place, data: EventData, *, project: str | None = None, causation: str = ""
) -> Event:
    caller, event_id, now = place
    envelope = Envelope(
        event_id=event_id,
        type=data.TYPE,
        version=data.VERSION,
        tenant=caller.tenant,
        project=command.project if project is None else project,
        agent_id=writer(command.agent_id, caller.agent_id),
        session_id=command.session_id,
        user_id=command.user_id,
        occurred_at=_utc(command.occurred_at, "occurred_at") if command.occurred_at else now,
        source=caller.source,
        causation=causation,
        trace=command.trace,
        metadata=_storable(command.metadata, "metadata") if command.metadata else {},
    )
    return Event(envelope, data)


def _check_names(command: Command) -> None:
    names = command.project + command.session_id + command.agent_id + command.user_id + command.event_id
    if "\0" in names:
        field = next(name for name in _NAMES if "\0" in getattr(command, name))
        raise CommandRejected("a name may not contain NUL", field)
    if not names.isascii():
        _check_unicode(command)


def _check_unicode(command: Command) -> None:
    for field in _NAMES:
        try:
            getattr(command, field).encode()
        except UnicodeEncodeError:
            raise CommandRejected("a name may not contain half a surrogate pair", field) from None


def _utc(when: datetime, field: str) -> datetime:
    if when.tzinfo is None:
        raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", field)
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise CommandRejected("the time is outside the years 1 to 9999", field) from None


def _size(metadata: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def _need_text(text: str, field: str = "content") -> None:
    if not text.strip():
        raise CommandRejected(f"{field} is empty", field)


def _need_reader(command: Remember | ReviseMemory, place: _Place) -> None:
    owner = command.owner or writer(command.agent_id, place.caller.agent_id)
    if command.visibility != "public" and not owner:
        raise CommandRejected(
            f"a {command.visibility} memory needs an agent_id or owner, or nobody could read it", "agent_id"
        )


def _need_session(command: Command) -> None:
    if not command.session_id:
        raise CommandRejected("which session?", "session_id")


def _check_pattern(pattern: str) -> None:
    if pattern:
        compiled(pattern)


def _storable(value: dict[str, Any], field: str) -> dict[str, Any]:
    try:
        msgpack.encode(value)
    except OverflowError:
        raise CommandRejected("a number does not fit into 64 bits; send it as text", field) from None
    except ValueError as fault:
        raise CommandRejected(str(fault), field) from None
    return value


def _distinct(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values)) if values else values
