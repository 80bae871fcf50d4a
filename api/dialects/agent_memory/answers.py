"""What clients are answered, and how our documents become that. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from api.dialects.agent_memory.mcp.shapes import default_title, time_text
from api.dialects.agent_memory.queued import AGENT_TYPE
from api.dialects.agent_memory.records import Found, Said, said_of, time_of
from ingest.platform.clock import from_ms
from projections.documents.lessons import Lesson
from projections.queries.listed import Told

STATUSES = {"active": "active", "ended": "completed", "failed": "failed"}
"""Ours, and what clients call them."""


class ObservationAnswer(Struct, frozen=True, kw_only=True):
    """An observation; `score` is null outside a search."""

    id: int
    session_id: int
    project_id: int
    project_name: str
    title: str
    subtitle: str | None
    type: str
    narrative: str | None
    facts: Sequence[str]
    concepts: Sequence[str]
    files_read: Sequence[str]
    files_modified: Sequence[str]
    tool_name: str | None
    prompt_number: int | None
    has_embedding: bool
    created_at: str
    score: float | None = None


class FoundAnswer(Struct, frozen=True, kw_only=True):
    """What a search finds; `total` is how many that are."""

    observations: Sequence[ObservationAnswer]
    query: str
    mode: str
    total: int


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """A session; nobody counts its prompts."""

    id: int
    session_id: str
    project_id: int
    project_name: str
    agent_type: str
    status: str
    started_at: str
    completed_at: str | None = None
    summary: str | None = None
    prompt_count: int = 0


class LessonAnswer(Struct, frozen=True, kw_only=True):
    """A lesson; a global one has no project."""

    id: int
    project_id: int | None
    project_name: str | None
    title: str
    rule: str
    severity: str
    trigger_tool: str | None
    trigger_pattern: str | None
    source_observation_id: int | None
    trigger_count: int
    last_triggered_at: str | None
    active: bool
    created_at: str


class MatchAnswer(Struct, frozen=True, kw_only=True):
    """A lesson that speaks up before a tool call."""

    id: int
    title: str
    rule: str
    severity: str
    project_name: str | None
    trigger_count: int


class Done(Struct, frozen=True, kw_only=True):
    """That something was done, in a word."""

    status: str


class Triggered(Struct, frozen=True, kw_only=True):
    """That it was counted."""

    triggered: bool = True


class Numbered(NamedTuple):
    """What an observation goes by: its own number, its session's and its project's."""

    observation: int
    session: int
    project: int


def observation_answer(
    said: Said, project: str, at: datetime, numbered: Numbered, *, embedded: bool, score: float | None = None
) -> ObservationAnswer:
    """An observation as it was said."""
    return ObservationAnswer(
        id=numbered.observation,
        session_id=numbered.session,
        project_id=numbered.project,
        project_name=project,
        title=said.title,
        subtitle=said.subtitle,
        type=said.type,
        narrative=said.narrative,
        facts=said.facts,
        concepts=said.concepts,
        files_read=said.files_read,
        files_modified=said.files_modified,
        tool_name=said.tool_name,
        prompt_number=said.prompt_number,
        has_embedding=embedded,
        created_at=time_text(at),
        score=None if score is None else round(score, 4),
    )


def stored_answer(one: Found, numbered: Numbered, *, embedded: bool, score: float | None = None) -> ObservationAnswer:
    """What is kept, as an observation."""
    return observation_answer(said_of(one), one.project, time_of(one), numbered, embedded=embedded, score=score)


def session_answer(told: Told, number: int, project: int) -> SessionAnswer:
    """A session and what it came to."""
    session, summary = told
    return SessionAnswer(
        id=number,
        session_id=session.session_id,
        project_id=project,
        project_name=session.project,
        agent_type=session.agent_type or AGENT_TYPE,
        status=STATUSES[session.status],
        started_at=time_text(from_ms(session.started_ms)),
        completed_at=_time_of(session.ended_ms),
        summary=summary or None,
    )


def lesson_answer(one: Lesson, number: int, project: int | None, source: int | None) -> LessonAnswer:
    """A lesson."""
    return LessonAnswer(
        id=number,
        project_id=project,
        project_name=one.project or None,
        title=one.title or default_title(one.content),
        rule=one.content,
        severity=one.severity or "info",
        trigger_tool=one.trigger_tool or None,
        trigger_pattern=one.trigger_pattern or None,
        source_observation_id=source,
        trigger_count=one.trigger_count,
        last_triggered_at=_time_of(one.triggered_ms),
        active=one.active,
        created_at=time_text(from_ms(one.occurred_ms)),
    )


def match_answer(one: Lesson, number: int) -> MatchAnswer:
    """A lesson, as far as a hook shows it."""
    return MatchAnswer(
        id=number,
        title=one.title or default_title(one.content),
        rule=one.content,
        severity=one.severity or "info",
        project_name=one.project or None,
        trigger_count=one.trigger_count,
    )


def _time_of(ms: int) -> str | None:
    return time_text(from_ms(ms)) if ms else None
