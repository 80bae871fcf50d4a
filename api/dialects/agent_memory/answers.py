"""What clients of the REST API and of the tools are answered, and how our documents become that. Pure."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from api.dialects.agent_memory.records import AGENT_TYPE, Found, ObservationFields, fields_of, time_of
from ingest.errors import CommandRejected
from ingest.events.lesson import EVERY_PROJECT
from ingest.platform.clock import from_ms
from ingest.secrets.scrub import beginning
from mcp_gateway.tools.tool import ToolAnswer
from projections.documents.lessons import Lesson
from projections.queries.listed import ListedSession

STATUSES = {"active": "active", "ended": "completed", "failed": "failed"}
"""Ours, and what clients call them."""
TITLE_CHARS = 80
LONGEST_TITLE = 512
"""Of a lesson; an observation's has no limit of its own."""
REMINDER = "Show these results to the user, with their ids, before you go on."
DAY_END = timedelta(days=1) - timedelta(milliseconds=1)
"""The index keeps milliseconds."""


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
    fields: ObservationFields,
    project: str,
    at: datetime,
    numbered: Numbered,
    *,
    embedded: bool,
    score: float | None = None,
) -> ObservationAnswer:
    """An observation as it was reported."""
    return ObservationAnswer(
        **asdict(fields),
        id=numbered.observation,
        session_id=numbered.session,
        project_id=numbered.project,
        project_name=project,
        has_embedding=embedded,
        created_at=time_text(at),
        score=None if score is None else round(score, 4),
    )


def stored_answer(one: Found, numbered: Numbered, *, embedded: bool, score: float | None = None) -> ObservationAnswer:
    """What is kept, as an observation."""
    return observation_answer(fields_of(one), one.project, time_of(one), numbered, embedded=embedded, score=score)


def session_answer(told: ListedSession, number: int, project: int) -> SessionAnswer:
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


def _rule(one: Lesson) -> dict[str, Any]:
    """What every answer says of a lesson."""
    return {
        "title": one.title or default_title(one.content),
        "rule": one.content,
        "severity": one.severity or "info",
        "trigger_count": one.trigger_count,
    }


def lesson_answer(one: Lesson, number: int, project: int | None, source: int | None) -> LessonAnswer:
    """A lesson."""
    return LessonAnswer(
        **_rule(one),
        id=number,
        project_id=project,
        project_name=shown_project(one),
        trigger_tool=one.trigger_tool or None,
        trigger_pattern=one.trigger_pattern or None,
        source_observation_id=source,
        last_triggered_at=_time_of(one.triggered_ms),
        active=one.active,
        created_at=time_text(from_ms(one.occurred_ms)),
    )


def shown_project(one: Lesson) -> str | None:
    """The project of a lesson; None for every project."""
    return None if one.project in ("", EVERY_PROJECT) else one.project


def match_answer(one: Lesson, number: int) -> MatchAnswer:
    """A lesson, as far as a hook shows it."""
    return MatchAnswer(**_rule(one), id=number, project_name=shown_project(one))


def _time_of(ms: int) -> str | None:
    return time_text(from_ms(ms)) if ms else None


def observation_line(number: int, one: Found, score: float) -> dict[str, Any]:
    """An observation as `search` shows it."""
    fields = fields_of(one)
    return {
        "id": number,
        "title": fields.title,
        "type": fields.type,
        "project": one.project,
        "created_at": time_text(time_of(one)),
        "score": round(score, 4),
    }


def observation_in_full(number: int, one: Found) -> dict[str, Any]:
    """An observation as `get_observations` shows it."""
    shown = asdict(fields_of(one))
    del shown["prompt_number"]
    tool_name = shown.pop("tool_name")
    return {
        "id": number,
        **shown,
        "project": one.project,
        "tool_name": tool_name,
        "created_at": time_text(time_of(one)),
    }


def observation_placed(number: int, one: Found, position: str) -> dict[str, Any]:
    """An observation as `timeline` shows it; `position` is before, anchor or after."""
    fields = fields_of(one)
    return {
        "id": number,
        "title": fields.title,
        "type": fields.type,
        "position": position,
        "created_at": time_text(time_of(one)),
    }


def lesson_line(number: int, one: Lesson, score: float) -> dict[str, Any]:
    """A lesson as `search_lessons` shows it; a global one has no project."""
    return {
        "id": number,
        "title": one.title or default_title(one.content),
        "rule": one.content,
        "severity": one.severity or "info",
        "project": shown_project(one),
        "trigger_tool": one.trigger_tool or None,
        "trigger_pattern": one.trigger_pattern or None,
        "trigger_count": one.trigger_count,
        "score": round(score, 4),
    }


def default_title(text: str) -> str:
    """The title of what was given none."""
    return beginning(text, TITLE_CHARS)


def json_rows(rows: Sequence[dict[str, Any]]) -> ToolAnswer:
    """Rows as JSON, and nothing else."""
    return ToolAnswer(json.dumps(rows, indent=2, ensure_ascii=False))


def rows_and_reminder(rows: Sequence[dict[str, Any]], lacks: Sequence[str] = ()) -> ToolAnswer:
    """Rows as JSON, then a reminder; what the rows may lack stands in it."""
    notes = [f"Note: {lack}." for lack in lacks]
    return ToolAnswer("\n".join([json_rows(rows).text, "", "---", *notes, REMINDER]))


def start_of(text: str | None) -> datetime | None:
    """The first moment that `dateStart` lets through; raises CommandRejected."""
    moment = _moment(text, "dateStart")
    return datetime.combine(moment, time(), UTC) if moment and not isinstance(moment, datetime) else moment


def end_of(text: str | None) -> datetime | None:
    """The last moment that `dateEnd` lets through: the end of the day for a bare date; raises CommandRejected."""
    moment = _moment(text, "dateEnd")
    return datetime.combine(moment, time(), UTC) + DAY_END if moment and not isinstance(moment, datetime) else moment


def time_text(when: datetime) -> str:
    """ISO 8601 with microseconds and Z."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str | None, name: str) -> datetime | date | None:
    """A date, or a time in UTC unless it says otherwise."""
    text = (text or "").strip()
    if not text:
        return None
    try:
        if len(text) == len("2026-01-31") and "-" in text:
            return date.fromisoformat(text)
        when = datetime.fromisoformat(text)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        raise CommandRejected(f"{text!r} is no date; write 2026-01-31 or 2026-01-31T12:00:00Z", name) from None
