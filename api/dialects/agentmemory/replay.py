"""A session, played back: its observations, and the same as a film."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.answers import answer
from api.dialects.agentmemory.endpoints import (
    Arguments,
    chosen,
    door_of,
    needed,
    one_session,
    read_query,
    reply,
    session_of,
    success,
)
from api.dialects.agentmemory.records import Record
from api.dialects.agentmemory.sessions import list_sessions, session_records
from api.dialects.agentmemory.shapes import (
    NUMBER,
    TEXT,
    fields,
    otherwise,
)
from api.dialects.session_projects import home_of
from ingest.errors import NotFound
from ingest.platform.clock import to_ms
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, ToolContext
from projections.queries.views import view

MAX_OBSERVATIONS = 5_000
OF_SESSION = {**dict.fromkeys(("sessionId", "agentId"), TEXT), "limit": otherwise(NUMBER, MAX_OBSERVATIONS)}
LABEL_CHARS = 120
_KINDS = {
    "prompt_submit": "prompt",
    "pre_tool_use": "tool_call",
    "post_tool_use": "tool_result",
    "post_tool_failure": "tool_error",
    "assistant_message": "response",
    "subagent_stop": "response",
    "session_start": "session_start",
    "session_end": "session_end",
}
_BODY = ("userPrompt", "narrative")
_TOOL = ("toolName", "toolInput", "toolOutput")


async def get_observations(request: Request) -> Response:
    """A session's observations, the oldest first; none for a session that nobody knows."""
    arguments = await _of_session(request)
    return reply(await observations(door_of(request), arguments))


async def get_sessions(request: Request, arguments: Arguments) -> Response:
    """The sessions that can be played back, the newest first."""
    answer = await list_sessions(door_of(request), arguments)
    return success(**answer.data) if isinstance(answer.data, dict) else reply(answer)


async def load(request: Request) -> Response:
    """A session as a film."""
    arguments, door = await _of_session(request), door_of(request)
    agent, project = arguments["agentId"] or "", arguments["project"]
    await door.caught_up(agent)
    reader, browse = door.reader(agent), door.queries.browse
    known = session_of(await browse.session(reader, arguments["sessionId"], project))
    limit = max(1, min(MAX_OBSERVATIONS, int(arguments["limit"])))
    page = await browse.session_observations(reader, known.session_id, known.project, None, limit)
    seen = sorted(page.items, key=lambda one: one["occurred_at"])
    (session,) = await session_records(door, reader, [view(known)])
    times_ms = [to_ms(one["occurred_at"]) for one in seen]
    return success(session=session, timeline=film(session, times_ms, list(map(dialect.observation, seen))))


async def _of_session(request: Request) -> dict[str, Any]:
    """What was asked of a session, with the project that it is at home in."""
    arguments = read_query(request, fields(OF_SESSION))
    session = chosen(arguments, "sessionId")
    if session is None:
        raise BadArgument("sessionId required", "sessionId")  # clients know it by these words
    home = await home_of(request, session)
    return {**arguments, "project": home.project if home else None}


async def observations(door: ToolContext, arguments: Arguments) -> Answer:
    """memory_observations: a session's observations, oldest first."""
    limit = max(1, min(MAX_OBSERVATIONS, int(arguments["limit"] or MAX_OBSERVATIONS)))
    try:
        located = await one_session(door, arguments)
    except NotFound:
        return answer({"observations": []})
    reader = door.reader(arguments["agentId"] or "")
    name, project = needed(arguments, "sessionId"), getattr(located.document, "project", "")
    page = await door.queries.browse.session_observations(reader, name, project, None, limit)
    seen = sorted(page.items, key=lambda one: one["occurred_at"])
    return answer({"observations": [dialect.observation(one) for one in seen]})


def film(session: Mapping[str, Any], times_ms: Sequence[int], seen: Sequence[Record]) -> Record:
    """A session's observations as a film: when each came after the first, and how long it was until the next.

    `seen` are records of observations in the order of time, `times_ms` when they happened.
    """
    first = times_ms[0] if times_ms else 0
    ends = [*times_ms[1:], *times_ms[-1:]]
    return {
        "sessionId": session["id"],
        "startedAt": session["startedAt"],
        "endedAt": session.get("endedAt"),
        "totalDurationMs": times_ms[-1] - first if times_ms else 0,
        "eventCount": len(seen),
        "events": [_event(one, at - first, end - at) for one, at, end in zip(seen, times_ms, ends, strict=True)],
    }


def _event(seen: Record, offset_ms: int, duration_ms: int) -> Record:
    body = next((seen[name] for name in _BODY if seen.get(name)), None)
    optional = {"body": body, **{name: seen.get(name) for name in _TOOL}}
    return {
        "id": seen["id"],
        "sessionId": seen["sessionId"],
        "ts": seen["timestamp"],
        "offsetMs": offset_ms,
        "durationMs": duration_ms,
        "kind": _KINDS.get(seen["hookType"], "hook"),
        "label": (seen["title"] or seen["hookType"])[:LABEL_CHARS],
        **{name: value for name, value in optional.items() if value is not None},
    }
