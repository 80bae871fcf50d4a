"""decide: a command, who asks and what time it is, to the one event it becomes; or CommandRejected. Pure.

Text is scrubbed of secrets and private spans here, before an event exists.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from msgspec import msgpack

from ingest.commands.requests import (
    AnyCommand,
    Command,
    ForgetSubject,
    Observe,
    RecordLesson,
    Relate,
    Remember,
    SetSlot,
    TrackSession,
    WriteAction,
)
from ingest.commands.scrub import scrub, scrub_text
from ingest.errors import CommandRejected
from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.envelope import Envelope, Event
from ingest.events.lesson import LessonRecorded
from ingest.events.memory import MemoryRecorded
from ingest.events.observation import ObservationRecorded
from ingest.events.registry import EventData
from ingest.events.relation import RelationLinked
from ingest.events.session import SessionEnded, SessionStarted
from ingest.events.slot import SlotAppended, SlotSet
from ingest.events.subject import SubjectForgotten
from ingest.ids import LESSON, MEMORY, OBSERVATION, EventId, content_id, document_id
from ingest.lesson_fingerprint import fingerprint
from ingest.log.partitions import project_route, session_route

MAX_METADATA_BYTES = 4096
_NAMES = ("project", "session_id", "agent_id", "user_id", "event_id")


class Caller(NamedTuple):
    """On whose behalf a command is carried out."""

    tenant: str = "default"
    source: str = "native"
    agent_id: str = ""


class Decision(NamedTuple):
    """The event to append, the key that routes it, and the id of the document it will create or change."""

    event: Event
    route: str
    subject: str


def decide(command: AnyCommand, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    """The decision on one command; raises CommandRejected with the field at fault.

    The same command with the same event id decides the same subject, so a repeat acknowledges the same document.
    """
    _check_names(command)
    if command.metadata and _size(command.metadata) > MAX_METADATA_BYTES:
        raise CommandRejected(f"metadata is over {MAX_METADATA_BYTES} bytes", "metadata")
    return _DECIDERS[type(command)](command, caller, event_id, now)


def _observe(command: Observe, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    if not command.session_id:
        raise CommandRejected("an observation belongs to a session", "session_id")
    if not command.content.strip() and not command.data:
        raise CommandRejected("an observation needs content or data", "content")
    route = session_route(caller.tenant, command.project, command.session_id)
    data = ObservationRecorded(
        kind=command.kind,
        content=scrub_text(command.content) if command.content else "",
        data=_scrubbed(command.data, "data") if command.data else {},
    )
    return Decision(_event(command, caller, event_id, now, data), route, document_id(OBSERVATION, route, event_id))


def _remember(command: Remember, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    _need_text(command.content)
    owner = command.owner or command.agent_id or caller.agent_id
    if command.visibility != "public" and not owner:
        raise CommandRejected(
            f"a {command.visibility} memory needs an agent_id or owner, or nobody could read it", "agent_id"
        )
    route = project_route(caller.tenant, command.project)
    data = MemoryRecorded(
        content=scrub_text(command.content),
        memory_type=command.memory_type,
        purpose=command.purpose,
        tags=_distinct(command.tags),
        concepts=_distinct(command.concepts),
        files=_distinct(command.files),
        references=_distinct(command.references),
        importance=command.importance,
        visibility=command.visibility,
        shared_with=_distinct(command.shared_with),
        owner=command.owner,
        forget_after=None if command.ttl_days is None else now + timedelta(days=command.ttl_days),
    )
    return Decision(_event(command, caller, event_id, now, data), route, document_id(MEMORY, route, event_id))


def _lesson(command: RecordLesson, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    _need_text(command.content)
    route = project_route(caller.tenant, command.project)
    content = scrub_text(command.content)
    data = LessonRecorded(
        content=content,
        context=scrub_text(command.context),
        confidence=command.confidence,
        tags=_distinct(command.tags),
    )
    return Decision(
        _event(command, caller, event_id, now, data), route, content_id(LESSON, route, fingerprint(content))
    )


def _session(command: TrackSession, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    if not command.session_id:
        raise CommandRejected("which session?", "session_id")
    data: SessionStarted | SessionEnded
    if command.status == "started":
        data = SessionStarted(cwd=command.cwd, title=scrub_text(command.title))
    else:
        data = SessionEnded(reason=scrub_text(command.reason))
    route = session_route(caller.tenant, command.project, command.session_id)
    return Decision(_event(command, caller, event_id, now, data), route, command.session_id)


def _slot(command: SetSlot, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    text = scrub_text(command.content)
    data: SlotAppended | SlotSet
    if command.append:
        data = SlotAppended(label=command.label, content=text, scope=command.scope)
    else:
        data = SlotSet(label=command.label, content=text, scope=command.scope)
    project = "" if command.scope == "global" else command.project
    return Decision(_event(command, caller, event_id, now, data), project_route(caller.tenant, project), command.label)


def _action(command: WriteAction, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    route = project_route(caller.tenant, command.project)
    data: ActionUpdated | ActionCreated
    if command.action:
        data = ActionUpdated(action=command.action, status=command.status or None, priority=command.priority or None)
        return Decision(_event(command, caller, event_id, now, data), route, command.action)
    _need_text(command.title, "title")
    data = ActionCreated(
        title=scrub_text(command.title),
        description=scrub_text(command.description),
        priority=command.priority,
        tags=_distinct(command.tags),
        requires=_distinct(command.requires),
    )
    return Decision(_event(command, caller, event_id, now, data), route, document_id("act", route, event_id))


def _relate(command: Relate, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    data = RelationLinked(
        source=command.source, target=command.target, relation=command.relation, confidence=command.confidence
    )
    route = project_route(caller.tenant, command.project)
    return Decision(_event(command, caller, event_id, now, data), route, document_id("rel", route, event_id))


def _forget(command: ForgetSubject, caller: Caller, event_id: EventId, now: datetime) -> Decision:
    data = SubjectForgotten(
        kind=command.kind,
        subject=command.subject,
        reason=scrub_text(command.reason),
    )
    if command.kind in ("observation", "session"):
        route = session_route(caller.tenant, command.project, command.session_id)
    else:
        route = project_route(caller.tenant, command.project)
    return Decision(_event(command, caller, event_id, now, data), route, command.subject)


_DECIDERS: dict[type[Command], Callable[[Any, Caller, EventId, datetime], Decision]] = {
    Observe: _observe,
    Remember: _remember,
    RecordLesson: _lesson,
    TrackSession: _session,
    SetSlot: _slot,
    WriteAction: _action,
    Relate: _relate,
    ForgetSubject: _forget,
}


def _event(command: Command, caller: Caller, event_id: EventId, now: datetime, data: EventData) -> Event:
    envelope = Envelope(
        event_id=event_id,
        type=data.TYPE,
        version=data.VERSION,
        tenant=caller.tenant,
        project=command.project,
        agent_id=command.agent_id or caller.agent_id,
        session_id=command.session_id,
        user_id=command.user_id,
        occurred_at=_utc(command.occurred_at) if command.occurred_at else now,
        source=caller.source,
        trace=command.trace,
        metadata=_scrubbed(command.metadata, "metadata") if command.metadata else {},
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


def _utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise CommandRejected("a time needs a zone: write 2026-01-31T12:00:00Z", "occurred_at")
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise CommandRejected("the time is outside the years 1 to 9999", "occurred_at") from None


def _size(metadata: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items())


def _need_text(text: str, field: str = "content") -> None:
    if not text.strip():
        raise CommandRejected(f"{field} is empty", field)


def _scrubbed(value: dict[str, Any], field: str) -> dict[str, Any]:
    try:
        scrubbed = scrub(value)
        msgpack.encode(scrubbed)
    except OverflowError:
        raise CommandRejected("a number does not fit into 64 bits; send it as text", field) from None
    except ValueError as fault:
        raise CommandRejected(str(fault), field) from None
    return scrubbed


def _distinct(values: list[str]) -> list[str]:
    return list(dict.fromkeys(map(scrub_text, values))) if values else values
