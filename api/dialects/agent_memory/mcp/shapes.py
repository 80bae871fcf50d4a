"""agent-memory's answers as JSON text, dates and numbers as its clients write them. Pure."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from ingest.errors import CommandRejected, MnemologError
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Tool

if TYPE_CHECKING:
    from api.dialects.agent_memory.records import Found
    from projections.documents.lessons import Lesson

MAX_RESULTS = 50
TITLE_CHARS = 80
LONGEST_TITLE = 512
"""Of a lesson; an observation's has no limit of its own."""
REMINDER = "Show these results to the user, with their ids, before you go on."
DAY_END = timedelta(days=1) - timedelta(milliseconds=1)
"""The index keeps milliseconds."""

GUIDE = """How to search memory, from little text to much:

1. search(query, limit=20): titles and ids of what matches. Narrow with project, type, dateStart and dateEnd.
2. timeline(anchor=<id>): what happened just before and after it, in its session. timeline(query=...) finds the anchor.
3. get_observations(ids=[...]): everything about the few that matter. Ask for them together, not one by one.

Keep what should outlive the session with save_memory, and rules learned from mistakes with create_lesson; \
search_lessons finds those again."""


def observation_line(number: int, one: "Found", score: float) -> dict[str, Any]:
    """An observation as `search` shows it."""
    from api.dialects.agent_memory.records import said_of, time_of

    said = said_of(one)
    return {
        "id": number,
        "title": said.title,
        "type": said.type,
        "project": one.project,
        "created_at": time_text(time_of(one)),
        "score": round(score, 4),
    }


def observation_in_full(number: int, one: "Found") -> dict[str, Any]:
    """An observation as `get_observations` shows it."""
    from api.dialects.agent_memory.records import said_of, time_of

    said = said_of(one)
    return {
        "id": number,
        "title": said.title,
        "subtitle": said.subtitle,
        "type": said.type,
        "narrative": said.narrative,
        "facts": said.facts,
        "concepts": said.concepts,
        "files_read": said.files_read,
        "files_modified": said.files_modified,
        "project": one.project,
        "tool_name": said.tool_name,
        "created_at": time_text(time_of(one)),
    }


def observation_placed(number: int, one: "Found", position: str) -> dict[str, Any]:
    """An observation as `timeline` shows it; `position` is before, anchor or after."""
    from api.dialects.agent_memory.records import said_of, time_of

    said = said_of(one)
    return {
        "id": number,
        "title": said.title,
        "type": said.type,
        "position": position,
        "created_at": time_text(time_of(one)),
    }


def lesson_line(number: int, one: "Lesson", score: float) -> dict[str, Any]:
    """A lesson as `search_lessons` shows it; a global one has no project."""
    return {
        "id": number,
        "title": one.title or default_title(one.content),
        "rule": one.content,
        "severity": one.severity or "info",
        "project": one.project or None,
        "trigger_tool": one.trigger_tool or None,
        "trigger_pattern": one.trigger_pattern or None,
        "trigger_count": one.trigger_count,
        "score": round(score, 4),
    }


def default_title(text: str) -> str:
    """The title of what was given none."""
    return text[:TITLE_CHARS]


def listed(rows: Sequence[dict[str, Any]]) -> Answer:
    """Rows as JSON, and nothing else."""
    return Answer(json.dumps(rows, indent=2, ensure_ascii=False))


def reminded(rows: Sequence[dict[str, Any]], lacks: Sequence[str] = ()) -> Answer:
    """Rows as JSON, then a reminder; what the rows may lack stands in it."""
    notes = [f"Note: {lack}." for lack in lacks]
    return Answer("\n".join([listed(rows).text, "", "---", *notes, REMINDER]))


def one_line(fields: dict[str, Any]) -> Answer:
    """Fields as JSON on one line."""
    return Answer(json.dumps(fields, ensure_ascii=False))


def refused(tool: Tool, error: Exception) -> Answer:
    """How a fault is told: bad arguments as an error, whatever else as the tool's answer."""
    match error:
        case BadArgument(message=message):
            return Answer(f"Input validation error: {message}", is_error=True)
        case CommandRejected(message=message, field=field):
            return one_line({"error": f"{field}: {message}" if field else message})
        case MnemologError():
            return one_line({"error": str(error)})
        case _:
            return one_line({"error": "an unexpected fault; the server's log has it"})


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
