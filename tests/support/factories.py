"""Small factories: every field has a default, so that a test names only what it is about."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.commands.decide import AnyCommand, Caller, decide
from ingest.events.envelope import Envelope, Event, EventData, Recorded
from ingest.events.subject import SubjectForgotten
from ingest.ids import EventId
from ingest.kinds import SubjectKind
from ingest.log.position import Position
from ingest.nouns.lesson import LessonRecorded
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.session import SessionEnded, SessionStarted

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
NOW_MS = 1_769_860_800_000
TENANT, PROJECT, SESSION_NAME, AGENT = "default", "atlas", "s1", "ada"


class ManualClock:
    """A Clock that stands still until told to move."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self.now += by

    def ms(self) -> int:
        """Now, in milliseconds since the epoch."""
        return round(self.now.timestamp() * 1000)


def minute(n: float) -> datetime:
    """`n` minutes after NOW."""
    return NOW + timedelta(minutes=n)


def place(n: int) -> Position:
    """The n-th position of a log that records one event a second from NOW on."""
    return Position(NOW_MS + 1000 * n, 0)


def event(data: EventData, *, event_id: str = "e1", **envelope: Any) -> Event:
    """An event with everything but its data given."""
    fields: dict[str, Any] = {
        "tenant": TENANT, "project": PROJECT, "agent_id": AGENT, "session_id": SESSION_NAME, "occurred_at": NOW,
        **envelope,
    }  # fmt: skip
    return Event(Envelope(event_id=event_id, type=data.TYPE, version=data.VERSION, **fields), data)


def recorded(data: EventData, position: Position, *, event_id: str = "e1", **envelope: Any) -> Recorded:
    """An event in its place in the log."""
    return Recorded(position, *event(data, event_id=event_id, **envelope))


def observed(n: int, content: str = "the build failed", *, event_id: str = "", **envelope: Any) -> Recorded:
    """An observation recorded at `place(n)`; it happened n minutes after NOW, and its event id is `o<n>`."""
    fields = {"occurred_at": minute(n), **envelope}
    return recorded(ObservationRecorded(kind="task", content=content), place(n), event_id=event_id or f"o{n}", **fields)


def remembered(n: int, content: str, *, event_id: str = "", **data: Any) -> Recorded:
    """A memory recorded at `place(n)`; its event id is `m<n>`."""
    fields = MemoryRecorded(content=content, **data)
    return recorded(fields, place(n), event_id=event_id or f"m{n}", occurred_at=minute(n))


def learned(n: int, content: str = "rebase before pushing", *, event_id: str = "", **data: Any) -> Recorded:
    """A lesson said at `place(n)`; its event id is `l<n>`."""
    fields = LessonRecorded(content=content, **data)
    return recorded(fields, place(n), event_id=event_id or f"l{n}", occurred_at=minute(n))


def started(n: int, *, event_id: str = "", cwd: str = "", title: str = "", **envelope: Any) -> Recorded:
    """A session's beginning, recorded at `place(n)`; its event id is `s<n>`."""
    fields = {"occurred_at": minute(n), **envelope}
    return recorded(SessionStarted(cwd=cwd, title=title), place(n), event_id=event_id or f"s{n}", **fields)


def ended(n: int, *, event_id: str = "", **envelope: Any) -> Recorded:
    """A session's end, recorded at `place(n)`; its event id is `s<n>`."""
    fields = {"occurred_at": minute(n), **envelope}
    return recorded(SessionEnded(), place(n), event_id=event_id or f"s{n}", **fields)


def said(n: int, data: EventData, *, event_id: str = "", **envelope: Any) -> Recorded:
    """Any event, recorded at `place(n)`; it happened n minutes after NOW, and its event id is `e<n>`."""
    fields = {"occurred_at": minute(n), **envelope}
    return recorded(data, place(n), event_id=event_id or f"e{n}", **fields)


def forgotten(n: int, kind: SubjectKind, subject: str, *, documents: Sequence[str] = (), **envelope: Any) -> Recorded:
    """A tombstone recorded at `place(n)`; its event id is `f<n>`. It names no session but for what belongs to one."""
    answer = SubjectForgotten(kind=kind, subject=subject, documents=list(documents))
    in_session = kind in ("observation", "session")
    fields = {"occurred_at": minute(n), "session_id": SESSION_NAME if in_session else "", **envelope}
    return recorded(answer, place(n), event_id=f"f{n}", **fields)


def decided(command: AnyCommand, position: Position, *, caller: Caller | None = None, now: datetime = NOW) -> Recorded:
    """What a command becomes, in its place in the log. The command carries its event id."""
    decision = decide(command, caller or Caller(TENANT), EventId(command.event_id), now)
    return Recorded(position, *decision.event)
