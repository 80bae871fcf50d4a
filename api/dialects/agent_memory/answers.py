"""What clients of the REST API and of the tools are answered, and how our documents become that. Pure."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from api.dialects.agent_memory.records import AGENT_TYPE, Found, ObservationFields, fields_of, time_of
from ingest.errors import CommandRejected
from ingest.nouns.command import EVERY_PROJECT
from ingest.platform.clock import from_ms, in_utc, utc_text
from ingest.secrets.scrub import beginning
from mcp_gateway.tools.tool import ToolAnswer
from projections.nouns.lesson import Lesson
from projections.queries.listed import ListedSession

STATUSES = {"active": "active", "ended": "completed", "failed": "failed"}
"""Ours, and what clients call them."""
TITLE_CHARS = 80
LONGEST_TITLE = 512
"""Of a lesson; an observation's has no limit of its own."""
REMINDER = "Show these results to the user, with their ids, before you go on."
_LESSON_LINE = (
    "id", "title", "rule", "severity", "project", "trigger_tool", "trigger_pattern", "trigger_count", "score",
)  # fmt: skip
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
    """A session; its prompts are not counted."""

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
    """The numbers of an observation, its session and its project."""

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


def stored_answer(
    document: Found, numbered: Numbered, *, embedded: bool, score: float | None = None
) -> ObservationAnswer:
    """A stored document as an observation."""
    fields, at = fields_of(document), time_of(document)
    return observation_answer(fields, document.project, at, numbered, embedded=embedded, score=score)


def session_answer(listed: ListedSession, number: int, project: int) -> SessionAnswer:
    """A session and what it came to."""
    session, summary = listed
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


def lesson_answer(lesson: Lesson, number: int, project: int | None = None, source: int | None = None) -> LessonAnswer:
    """A lesson."""
    return LessonAnswer(
        id=number,
        project_id=project,
        project_name=lesson_project(lesson),
        title=lesson.title or default_title(lesson.content),
        rule=lesson.content,
        severity=lesson.severity or "info",
        trigger_tool=lesson.trigger_tool or None,
        trigger_pattern=lesson.trigger_pattern or None,
        source_observation_id=source,
        trigger_count=lesson.trigger_count,
        last_triggered_at=_time_of(lesson.triggered_ms),
        active=lesson.active,
        created_at=time_text(from_ms(lesson.occurred_ms)),
    )


def lesson_project(lesson: Lesson) -> str | None:
    """The project of a lesson; None for every project."""
    return None if lesson.project in ("", EVERY_PROJECT) else lesson.project


def lesson_line(number: int, lesson: Lesson, score: float) -> dict[str, Any]:
    """A lesson as `search_lessons` shows it; a global one has no project."""
    answer = asdict(lesson_answer(lesson, number)) | {"project": lesson_project(lesson), "score": round(score, 4)}
    return {name: answer[name] for name in _LESSON_LINE}


def _time_of(ms: int) -> str | None:
    return time_text(from_ms(ms)) if ms else None


def observation_line(number: int, document: Found, **more: str) -> dict[str, Any]:
    """An observation as `search` and `timeline` list it."""
    fields, created = fields_of(document), time_text(time_of(document))
    return {"id": number, "title": fields.title, "type": fields.type, **more, "created_at": created}


def observation_in_full(number: int, document: Found) -> dict[str, Any]:
    """An observation as `get_observations` shows it."""
    fields = asdict(fields_of(document))
    del fields["prompt_number"]
    more = {"project": document.project, "tool_name": fields.pop("tool_name")}
    return {"id": number, **fields, **more, "created_at": time_text(time_of(document))}


def default_title(text: str) -> str:
    """The title of what was given none."""
    return beginning(text, TITLE_CHARS)


def json_rows(rows: Sequence[dict[str, Any]]) -> ToolAnswer:
    """Rows as JSON, and nothing else."""
    return ToolAnswer(json.dumps(rows, indent=2, ensure_ascii=False))


def rows_and_reminder(rows: Sequence[dict[str, Any]], lacks: Sequence[str]) -> ToolAnswer:
    """Rows as JSON, then a reminder; what the rows may lack stands in it."""
    notes = [f"Note: {lack}." for lack in lacks]
    return ToolAnswer("\n".join([json_rows(rows).text, "", "---", *notes, REMINDER]))


def start_of(text: str | None) -> datetime | None:
    """The first moment that `dateStart` admits; raises CommandRejected."""
    return _moment(text, "dateStart", timedelta())


def end_of(text: str | None) -> datetime | None:
    """The last moment that `dateEnd` admits: the end of the day for a bare date; raises CommandRejected."""
    return _moment(text, "dateEnd", DAY_END)


def time_text(when: datetime) -> str:
    """ISO 8601 with microseconds and Z."""
    return utc_text(when, "microseconds")


def _moment(text: str | None, name: str, within_day: timedelta) -> datetime | None:
    """A time, in UTC unless it says otherwise; for a bare date, this long after its midnight."""
    text = (text or "").strip()
    if not text:
        return None
    try:
        if len(text) == len("2026-01-31") and "-" in text:
            return datetime.combine(date.fromisoformat(text), time(), UTC) + within_day
        return in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise CommandRejected(f"{text!r} is no date; write 2026-01-31 or 2026-01-31T12:00:00Z", name) from None
