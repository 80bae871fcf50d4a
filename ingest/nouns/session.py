"""Sessions (one agent's run of work on one project) and the commits made in them.

First its events, then its commands and the decision on each. Pure.
"""

from typing import Annotated, Literal

from msgspec import Meta

from ingest.events.envelope import EventData
from ingest.kinds import COMMIT
from ingest.nouns.command import (
    Command,
    Decision,
    Name,
    Origin,
    ReasonText,
    Title,
    about,
    creating,
    data_of,
    decides,
    decides_about,
    need_session,
)

Outcome = Literal["completed", "failed"]


class SessionStarted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A session began, or an ended one was taken up again."""

    TYPE = "session.started"

    cwd: str = ""
    title: str = ""
    agent_type: str = ""


class SessionEnded(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A session ended. Some clients say so after every turn: a later observation reopens it.

    `idle_since_ms` is set if a job closes a session that no agent ended: recorded time of the last event it knew of.
    The fold ignores it if the session was active after that.
    """

    TYPE = "session.ended"

    reason: str = ""
    outcome: Outcome = "completed"
    idle_since_ms: int = 0


class SessionCommitted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A version-control commit was made, in the session the envelope names if it names one. Routed by project."""

    TYPE = "session.committed"

    commit: str
    message: str = ""
    branch: str = ""
    repo: str = ""
    author: str = ""
    authored_at: str = ""
    files: list[str] = []


MAX_RETIRED = 500
"""The most observations and marks that one event retires: a fold reads them all and writes them in one transaction."""


class SessionRetired(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A session was silent for long: these of its observations leave the documents, listings and index.

    Nothing leaves the log. `documents` are observations, and marks of the session's events; `part` is the part of the
    session's ledger that notes them. A big session takes several events: the last one has `idle_since_ms`, recorded
    time of the last event that the job knew of.
    """

    TYPE = "session.retired"

    documents: list[str] = []
    part: int = 0
    idle_since_ms: int = 0


class SessionSummarised(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A summary was made of a session, by rule or by a model; replay reuses it and calls no model.

    `observation_count` says of how many observations. `forgotten_at` is the session's `told_from` as the summary was
    made: the fold ignores a summary if some of its observations were forgotten since.
    """

    TYPE = "session.summarised"

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


class TrackSession(Command, frozen=True, kw_only=True, tag="session"):
    """Say that a session started or ended. Never needed: an observation opens its session."""

    status: Literal["started", "ended"]
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    title: Title = ""
    reason: ReasonText = ""
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
