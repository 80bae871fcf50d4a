"""Summaries: what a session came to. One a session; a newer one replaces it."""

from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from ingest.events.envelope import Recorded
from ingest.events.session import SessionSummarised
from ingest.ids import DocumentId
from ingest.platform.clock import to_ms
from projections.documents.index_entry import IndexEntry, index_terms, searchable
from projections.documents.rows import by_position, in_user_listing

SUMMARY = "sum"


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The summary of a session, made by rule (`model` empty) or by a model."""

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

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        member = by_position(self.position, self.id)
        return {(summaries(self.tenant, self.project), member), *in_user_listing(self.tenant, self.user_id, member)}

    def searchable_text(self) -> str:
        """All it says."""
        return searchable([self.title, self.narrative, *self.decisions, *self.remaining, *self.files, *self.concepts])

    def index_entry(self) -> IndexEntry:
        """What an index replica knows of it."""
        return IndexEntry(
            id=self.id,
            kind="summary",
            terms=index_terms(self.searchable_text(), self.occurred_at),
            tenant=self.tenant,
            project=self.project,
            session_id=self.session_id,
            agent_id=self.agent_id,
            user_id=self.user_id,
            occurred_ms=to_ms(self.occurred_at),
            recorded_ms=to_ms(self.recorded_at),
            types=["summary"],
            files=list(self.files),
        )


def summaries(tenant: str, project: str) -> str:
    """Listing of a project's session summaries, in log order."""
    return f"summaries:{tenant}\0{project}"


def summary_id(session: DocumentId) -> DocumentId:
    """The id of a session's summary."""
    return DocumentId(f"{SUMMARY}_{session.partition('_')[2]}")


def summary(recorded: Recorded, data: SessionSummarised, session: DocumentId, agent_id: str, user_id: str) -> Summary:
    """The summary that an event tells; it is its session's agent's and user's."""
    envelope = recorded.envelope
    return Summary(
        id=summary_id(session),
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        session=session,
        agent_id=agent_id,
        user_id=user_id,
        title=data.title,
        narrative=data.narrative,
        decisions=data.decisions,
        remaining=data.remaining,
        files=data.files,
        concepts=data.concepts,
        observation_count=data.observation_count,
        model=data.model,
        prompt_version=data.prompt_version,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
    )
