"""Observations: what was reported, beside its synthetic compression."""

from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded
from ingest.events.observation import ObservationCompressed, ObservationRecorded
from ingest.ids import OBSERVATION, DocumentId, document_id
from ingest.log.partitions import session_route
from projections.compression.compression import compress

IMPORTANT = 5
"""Importance from which an observation is told of, in contexts and profiles."""
BY_A_MODEL = 0.7
"""How far a model's compression is trusted; the rules' is trusted to 0.3."""


class Observation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation. `position` orders it within its session; `model` is what compressed it, empty for the rules."""

    id: DocumentId
    event_id: str
    tenant: str
    project: str = ""
    session_id: str = ""
    session: DocumentId
    agent_id: str = ""
    user_id: str = ""
    kind: str = ""
    content: str = ""
    data: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    title: str = ""
    subtitle: str = ""
    facts: tuple[str, ...] = ()
    narrative: str = ""
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    importance: int = 5
    confidence: float = 0.3
    occurred_at: datetime
    recorded_at: datetime
    position: str
    source: str = "native"
    model: str = ""
    prompt_version: str = ""


def observation_id(recorded: Recorded) -> DocumentId:
    """The id of the document that an observation event creates."""
    envelope = recorded.envelope
    route = session_route(envelope.tenant, envelope.project, envelope.session_id)
    return document_id(OBSERVATION, route, envelope.event_id)


def observation(recorded: Recorded, said: ObservationRecorded, session: DocumentId) -> Observation:
    """The document of an observation event."""
    envelope = recorded.envelope
    short = compress(said.kind, said.content, said.data)
    return Observation(
        id=observation_id(recorded),
        event_id=envelope.event_id,
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        session=session,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        kind=short.type,
        content=said.content,
        data=said.data,
        metadata=envelope.metadata,
        title=short.title,
        subtitle=short.subtitle or "",
        facts=short.facts,
        narrative=short.narrative,
        concepts=short.concepts,
        files=short.files,
        importance=short.importance,
        confidence=short.confidence,
        occurred_at=envelope.occurred_at,
        recorded_at=recorded.recorded_at,
        position=str(recorded.position),
        source=envelope.source,
    )


def compressed(observation: Observation, said: ObservationCompressed) -> Observation:
    """The observation with a model's compression in the place of the rules'."""
    return replace(
        observation,
        title=said.title,
        narrative=said.narrative,
        facts=tuple(said.facts),
        concepts=tuple(said.concepts),
        files=tuple(dict.fromkeys([*observation.files, *said.files])),
        importance=said.importance,
        confidence=BY_A_MODEL,
        model=said.model,
        prompt_version=said.prompt_version,
    )
