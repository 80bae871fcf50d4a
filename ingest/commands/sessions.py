"""Commands on sessions, and on the observations and commits in them, and the events they become."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from ingest.commands.command import (
    Command,
    Decision,
    Name,
    Origin,
    Title,
    about,
    creating,
    data_of,
    decides,
    decides_about,
    need_session,
    storable,
)
from ingest.errors import CommandRejected
from ingest.events.session import (
    MAX_RETIRED,
    ObservationRecorded,
    Outcome,
    SessionCommitted,
    SessionEnded,
    SessionRetired,
    SessionStarted,
    SessionSummarised,
)
from ingest.ids import COMMIT, OBSERVATION


class TrackSession(Command, frozen=True, kw_only=True, tag="session"):
    """Say that a session started or ended. Never needed: an observation opens its session."""

    status: Literal["started", "ended"]
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    title: Title = ""
    reason: Annotated[str, Meta(max_length=512)] = ""
    agent_type: Name = ""
    outcome: Outcome = "completed"


class EndIdleSession(Command, frozen=True, kw_only=True, tag="idle"):
    """End a session that has been silent since `idle_since_ms`."""

    idle_since_ms: int


class RetireSession(Command, frozen=True, kw_only=True, tag="retire_session"):
    """Retire some of a session's documents; see SessionRetired."""

    documents: Annotated[list[Name], Meta(max_length=MAX_RETIRED)] = []
    part: int = 0
    idle_since_ms: int = 0


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
    remaining: list[str] = []
    told_by_tools: list[str] = []


class LinkCommit(Command, frozen=True, kw_only=True, tag="commit"):
    """Link a version-control commit to the project, and to the session that made it."""

    commit: Annotated[str, Meta(min_length=1, max_length=128)]
    message: str = ""
    branch: Name = ""
    repo: Name = ""
    author: Name = ""
    authored_at: Annotated[str, Meta(max_length=64)] = ""
    files: Annotated[list[Name], Meta(max_length=2000)] = []


@decides(TrackSession)
def _track_session(command: TrackSession, origin: Origin) -> Decision:
    need_session(command)
    data = data_of(SessionStarted if command.status == "started" else SessionEnded, command)
    return about(command.session_id, command, origin, data)


@decides(EndIdleSession, keep_names=True)
def _end_idle(command: EndIdleSession, origin: Origin) -> Decision:
    data = SessionEnded(reason="idle", idle_since_ms=command.idle_since_ms)
    return about(command.session_id, command, origin, data)


decides_about(RetireSession, SessionRetired, "session_id", keep_names=True)
decides_about(SummariseSession, SessionSummarised, "session_id", keep_names=True)


@decides(LinkCommit)
def _link_commit(command: LinkCommit, origin: Origin) -> Decision:
    return creating(COMMIT, command, origin, data_of(SessionCommitted, command), command.commit)


class Observe(Command, frozen=True, kw_only=True, tag="observe"):
    """Record what an agent saw or did in a session."""

    kind: Annotated[str, Meta(max_length=64)] = ""
    content: str = ""
    data: dict[str, Any] = {}


@decides(Observe)
def _observe(command: Observe, origin: Origin) -> Decision:
    if not command.session_id:
        raise CommandRejected("an observation belongs to a session", "session_id")
    if not command.content.strip() and not command.data:
        raise CommandRejected("an observation needs content or data", "content")
    data = data_of(ObservationRecorded, command, data=storable(command.data, "data"))
    return creating(OBSERVATION, command, origin, data)
