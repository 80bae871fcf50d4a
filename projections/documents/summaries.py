"""Summaries: what a session came to. One a session; a newer one replaces it."""

from datetime import datetime

from msgspec import Struct

from ingest.events.envelope import Recorded
from ingest.events.session import SessionSummarised
from ingest.ids import DocumentId

SUMMARY = "sum"


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The summary of a session, made by rule (`model` empty) or by a model."""

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


def summary_id(session: DocumentId) -> DocumentId:
    """The id of a session's summary."""
    return DocumentId(f"{SUMMARY}_{session.partition('_')[2]}")


def summary(recorded: Recorded, said: SessionSummarised, session: DocumentId, agent_id: str, user_id: str) -> Summary:
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
        title=said.title,
        narrative=said.narrative,
        decisions=said.decisions,
        files=said.files,
        concepts=said.concepts,
        observation_count=said.observation_count,
        model=said.model,
        prompt_version=said.prompt_version,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
    )
