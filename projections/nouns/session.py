"""Sessions: start, end, summary and commits of a run of work."""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded, Trust, route_of
from ingest.ids import DocumentId, content_id
from ingest.kinds import COMMIT, SESSION, SUMMARY
from ingest.log.position import Position, session_route
from ingest.nouns.session import SessionCommitted, SessionEnded, SessionStarted, SessionSummarised
from ingest.platform.clock import from_ms, to_ms
from projections.nouns import rows
from projections.nouns.batch import (
    FoldBatch,
    fold_one,
    folds,
    further_parts,
    mark_of,
    session_and_ledger,
    session_of,
)
from projections.nouns.index_entry import IndexEntry, entry_for, index_terms, searchable
from projections.nouns.rows import session_document_id
from projections.nouns.trust import lowest, trust_of
from projections.text.sentences import SCAN_CHARS
from projections.text.story import is_work
from projections.text.turns import Turn

FIRST_PROMPT_CHARS = 200


class Session(rows.Row, index=True):
    """One session of one project. Times are milliseconds since the epoch, 0 when unknown.

    `started_ms` and `updated_ms` are the earliest and latest time that its events claim, so they do not depend on the
    order in which late events arrive; `seen_ms` is when the newest was recorded. `summarised` is how many observations
    its summary covers; `forgotten_at` the position at which something of it was last forgotten, else that of the event
    that opened it, so that a session that was forgotten and opened again differs from the
    old one. `told_from` is that event's id, which an import keeps, unlike its position.

    `worked` is set when something was done or stated in it: greetings, tests and mere questions are no work. A session
    of which something was deleted counts as work.

    `retired` is how many of its observations are in the log alone, since `retired_ms`; all that was recorded up to
    `retired_through_ms` is retired. `trust` is the lowest class of its title and its first prompt.
    """

    PREFIX: ClassVar[str] = SESSION

    id: str = ""
    tenant: str = ""
    project: str = ""
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    agent_type: str = ""
    title: str = ""
    first_prompt: str = ""
    cwd: str = ""
    status: Literal["active", "ended", "failed"] = "active"
    started_ms: int = 0
    updated_ms: int = 0
    seen_ms: int = 0
    ended_ms: int = 0
    observation_count: int = 0
    summarised: int = 0
    forgotten_at: str = ""
    told_from: str = ""
    retired: int = 0
    retired_ms: int = 0
    retired_through_ms: int = 0
    trust: Trust = "agent_concluded"
    worked: bool = False

    @property
    def route(self) -> str:
        """The routing key of its stream."""
        return session_route(self.tenant, self.project, self.session_id)

    @property
    def searchable_observations(self) -> int:
        """How many of its observations are not retired."""
        return self.observation_count - self.retired

    @property
    def awaits_summary(self) -> bool:
        """Whether it ended with observations that no summary covers, and are not all retired."""
        ended = self.status != "active"
        return ended and self.observation_count != self.summarised and self.searchable_observations > 0

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_time(max(0, self.updated_ms), self.id)
        members = {
            (sessions(self.tenant), member),
            (sessions(self.tenant, self.project), member),
            (session_name(self.tenant, self.session_id), self.id),
            *rows.in_user_listing(self.tenant, self.user_id, f"~|{self.id}"),  # it has no position of its own
        }
        if self.worked:
            members.add((work_sessions(self.tenant, self.project), member))
        if self.status == "active":
            members.add((OPEN_SESSIONS, rows.by_time(self.seen_ms, self.id)))
        elif self.awaits_summary:
            members.add((UNSUMMARISED, self.id))
        elif self.seen_ms > self.retired_through_ms:
            members.add((RETIRABLE, rows.by_time(self.seen_ms, self.id)))
        return members


OPEN_SESSIONS = "open-sessions"
"""Listing of a partition's active sessions, by when something of them was last recorded."""
UNSUMMARISED = "unsummarised"
"""Listing of a partition's ended sessions with observations that no summary covers."""
RETIRABLE = "retirable"
"""Listing of a partition's other ended sessions, until they are retired, by when something was last recorded."""
sessions = partial(rows.of_tenant, "sessions")
"""Listing of a tenant's or a project's sessions, by last activity."""
work_sessions = rows.project_listing("work-sessions")
"""Listing of a project's sessions in which work was done, by last activity."""
session_name = rows.project_listing("session-name")
"""Listing of the sessions (of several projects) that share a session id."""


def opened(recorded: Recorded) -> Session:
    """The session that an event is the first to name."""
    envelope = recorded.envelope
    when_ms = to_ms(envelope.occurred_at)
    return Session(
        id=session_document_id(envelope.tenant, envelope.project, envelope.session_id),
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        started_ms=when_ms,
        updated_ms=when_ms,
        forgotten_at=str(recorded.position),
        told_from=envelope.event_id,
    )


def evolve(session: Session | None, recorded: Recorded, data: SessionStarted | SessionEnded) -> Session | None:
    """The session after it was started or ended. An end for silence counts only if the silence lasted.

    None if there is no session to fall silent.
    """
    idle_since_ms = data.idle_since_ms if isinstance(data, SessionEnded) else 0
    if idle_since_ms and (session is None or session.seen_ms > idle_since_ms):
        return session
    current = session or opened(recorded)
    changes = {} if idle_since_ms else _touch(current, recorded)
    if isinstance(data, SessionStarted):
        stated = {"cwd": data.cwd, "title": data.title, "agent_type": data.agent_type}
        changes |= {"status": "active", "ended_ms": 0, **{name: value for name, value in stated.items() if value}}
        changes["trust"] = lowest((current.trust, trust_of(recorded)))
    else:
        failed = data.outcome == "failed" and not idle_since_ms
        changes |= {"status": "failed" if failed else "ended", "ended_ms": to_ms(recorded.envelope.occurred_at)}
    return current.model_copy(update=changes)


def observed(session: Session | None, recorded: Recorded, turn: Turn | None = None, text: str = "") -> Session:
    """The session after one more observation: counted, and open again if it had ended. An erased one has no turn."""
    current = session or opened(recorded)
    changes = _touch(current, recorded)
    changes |= {"status": "active", "ended_ms": 0, "observation_count": current.observation_count + 1}
    if turn is not None:
        if not current.first_prompt and turn == "user":
            changes["first_prompt"] = " ".join(text[:SCAN_CHARS].split())[:FIRST_PROMPT_CHARS]
            changes["trust"] = lowest((current.trust, trust_of(recorded)))
        changes["user_id"] = current.user_id or recorded.envelope.user_id
        changes["worked"] = current.worked or is_work(turn, text)
    changes["agent_id"] = current.agent_id or recorded.envelope.agent_id
    return current.model_copy(update=changes)


def without_observation(session: Session, recorded: Recorded, *, retired: bool = False) -> Session:
    """The session after one of its observations was forgotten: nothing it took from observations stays."""
    return session.model_copy(
        update={
            "observation_count": max(0, session.observation_count - 1),
            "retired": max(0, session.retired - retired),
            "first_prompt": "",
            "worked": True,
            "user_id": "",
            "summarised": 0,
            "forgotten_at": str(recorded.position),
            "told_from": recorded.envelope.event_id,
        }
    )


def without_summary(session: Session, recorded: Recorded) -> Session:
    """The session after one of its observations was hidden, or shown again: its next summary is made of the others."""
    return session.model_copy(
        update={"summarised": 0, "forgotten_at": str(recorded.position), "told_from": recorded.envelope.event_id}
    )


def retired(session: Session, recorded: Recorded, observations: int, through_ms: int) -> Session:
    """The session after some of its observations were retired; with `through_ms`, all that was recorded up to then.

    Applied again behind a forgetting it changes nothing: the session is another one by then. When it was retired is
    what the event claims, whatever was left to retire: a replay finds less, where some was forgotten since.
    """
    if session.forgotten_at and Position.parse(session.forgotten_at) >= recorded.position:
        return session
    return session.model_copy(
        update={
            "retired": session.retired + observations,
            "retired_ms": max(session.retired_ms, to_ms(recorded.envelope.occurred_at)),
            "retired_through_ms": max(session.retired_through_ms, through_ms),
        }
    )


def forgotten(session: Session, recorded: Recorded) -> Session | None:
    """The session after it was forgotten: gone, or all but gone while it has observations that came later."""
    if not session.observation_count:
        return None
    return Session(
        id=session.id,
        tenant=session.tenant,
        project=session.project,
        session_id=session.session_id,
        started_ms=recorded.recorded_ms,
        updated_ms=recorded.recorded_ms,
        seen_ms=recorded.recorded_ms,
        observation_count=session.observation_count,
        worked=True,
        retired=session.retired,
        forgotten_at=str(recorded.position),
        told_from=recorded.envelope.event_id,
    )


def _touch(session: Session, recorded: Recorded) -> dict[str, Any]:
    """The span of time of the session, widened to include the event's."""
    when_ms = to_ms(recorded.envelope.occurred_at)
    return {
        "started_ms": min(session.started_ms, when_ms),
        "updated_ms": max(session.updated_ms, when_ms),
        "seen_ms": max(session.seen_ms, recorded.recorded_ms),
    }


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The summary of a session, made by rule (`model` empty) or by a model.

    `occurred_at` is when what it summarizes ended.
    """

    LETTER: ClassVar[bytes] = b"s"

    id: DocumentId
    tenant: str
    project: str = ""
    session_id: str
    session: DocumentId
    agent_id: str = ""
    user_id: str = ""
    title: str
    narrative: str
    decisions: list[str] = []
    files: list[str] = []
    concepts: list[str] = []
    observation_count: int = 0
    model: str = ""
    prompt_version: str = ""
    occurred_at: datetime
    recorded_at: datetime
    position: str
    remaining: list[str] = []
    """What was left to do."""
    trust: Trust = "agent_concluded"
    """Of all it says, but for the sentences that tools told."""
    told_by_tools: list[str] = []
    """Those sentences of the narrative."""
    quarantined: ClassVar[str] = ""

    @property
    def lowest_trust(self) -> Trust:
        """The class of all it says."""
        return lowest((self.trust, "tool_output")) if self.told_by_tools else self.trust

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        return {
            (summaries(self.tenant, self.project), member),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }

    def searchable_text(self) -> str:
        """All it says."""
        return searchable([self.title, self.narrative, *self.decisions, *self.remaining, *self.files, *self.concepts])

    def index_entry(self) -> IndexEntry:
        terms = index_terms(self.searchable_text(), self.occurred_at)
        return entry_for(self, "summary", terms, types=["summary"], trust=self.lowest_trust)


_SPEAKER_ALONE = re.compile(r"(?<!\S)[\w.@-]+: (?:\0\s*)+(?=[\w.@-]+: |\Z)")
"""A speaker without a sentence of its own: before the next speaker, or at the end."""


def untold(narrative: str, told_by_tools: Sequence[str]) -> str:
    """A narrative without the sentences that tools told; nothing where it does not have them as they are."""
    if not all(map(narrative.__contains__, told_by_tools)):
        return ""
    for sentence in sorted(told_by_tools, key=len, reverse=True):
        narrative = narrative.replace(sentence, "\0")
    return " ".join(_SPEAKER_ALONE.sub("", narrative).replace("\0", "").split())


summaries = rows.project_listing("summaries")
"""Listing of a project's session summaries, in log order."""


def summary_id(session: DocumentId) -> DocumentId:
    """The id of a session's summary."""
    return DocumentId(f"{SUMMARY}_{session.partition('_')[2]}")


def summary(recorded: Recorded, data: SessionSummarised, session: DocumentId, agent_id: str, user_id: str) -> Summary:
    """The summary in an event; it belongs to its session's agent and user."""
    fields = rows.origin(recorded)
    fields.update(rows.same_fields(data, Summary), agent_id=agent_id, user_id=user_id)
    return Summary(**fields, id=summary_id(session), session=session)


class Commit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit of one project. `occurred_ms` is when it was first linked as its agent says, `linked_ms` when that was
    recorded; milliseconds since the epoch."""

    LETTER: ClassVar[bytes] = b"c"

    id: DocumentId
    tenant: str
    project: str = ""
    commit: str
    message: str = ""
    branch: str = ""
    repo: str = ""
    author: str = ""
    authored_at: str = ""
    files: list[str] = []
    session_ids: list[str] = []
    agent_id: str = ""
    user_id: str = ""
    occurred_ms: int = 0
    linked_ms: int
    position: str

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_time(self.linked_ms, self.id)
        return {
            (commits(self.tenant), member),
            (commits(self.tenant, self.project), member),
            *((session_commits(self.tenant, session_id), member) for session_id in self.session_ids),
            *rows.in_user_listing(self.tenant, self.user_id, rows.by_position(self.position, self.id)),
        }


commits = partial(rows.of_tenant, "commits")
"""Listing of a tenant's or a project's commits, by when they were linked."""
session_commits = rows.project_listing("session-commits")
"""Listing of the commits made in sessions of that id, by when they were linked."""


def commit_id(recorded: Recorded, data: SessionCommitted) -> DocumentId:
    """The id of a commit within its project."""
    return content_id(COMMIT, route_of(recorded.envelope, data), data.commit)


def linked_commit(commit: Commit | None, recorded: Recorded, data: SessionCommitted) -> Commit:
    """The commit after it was linked (again: newer words replace older ones, sessions and files add up)."""
    envelope = recorded.envelope
    existing = commit or Commit(
        **rows.row_origin(recorded), id=commit_id(recorded, data), commit=data.commit, linked_ms=recorded.recorded_ms
    )
    sessions = [*existing.session_ids, envelope.session_id] if envelope.session_id else existing.session_ids
    newer = {name: getattr(data, name) for name in ("message", "branch", "repo", "author", "authored_at")}
    return replace(
        existing,
        **{name: text for name, text in newer.items() if text},
        files=list(dict.fromkeys([*existing.files, *data.files])),
        session_ids=list(dict.fromkeys(sessions)),
    )


def session_in(batch: FoldBatch, event: Recorded) -> Session | None:
    """The session that an event names, as it is in a batch."""
    document = batch.get(session_of(event))
    return document if isinstance(document, Session) else None


fold_one(
    SessionStarted,
    SessionEnded,
    of=Session,
    subject=lambda event, data: session_of(event),
    evolve=evolve,
    drops=True,
    reads=session_and_ledger,
    follows=further_parts,
)


@folds(
    SessionSummarised,
    about=lambda event, data: [summary_id(session_of(event))],
    reads=lambda event, data: {mark_of(event), summary_id(session_of(event)), *session_and_ledger(event)},
    follows=further_parts,
)
def _summarised(batch: FoldBatch, event: Recorded, data: SessionSummarised) -> None:
    """A summary made before something of the session was forgotten is void, and erased: it may quote that."""
    name = session_of(event)
    if not batch.mark(event, name):
        return
    session = session_in(batch, event)
    if session is None or data.forgotten_at not in (session.told_from, session.forgotten_at):
        batch.void(event)
        return
    # a summary without an agent is of several agents' observations
    agent = session.agent_id if event.envelope.agent_id else ""
    made = summary(event, data, name, agent, session.user_id)
    # summaries of earlier releases say when they were made; none is newer than its session
    batch.put(replace(made, occurred_at=min(made.occurred_at, from_ms(session.updated_ms))))
    batch.put(session.model_copy(update={"summarised": data.observation_count}))


fold_one(SessionCommitted, of=Commit, subject=commit_id, evolve=linked_commit)
