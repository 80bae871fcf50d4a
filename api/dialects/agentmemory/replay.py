"""A session, played back: its observations, and the same as a film."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    Arguments,
    asked_in_query,
    chosen,
    door_of,
    endpoint,
    reply,
    session_of,
    succeeded,
)
from api.dialects.agentmemory.knowledge_records import replay
from api.dialects.agentmemory.mcp import sessions as tools
from api.dialects.agentmemory.shapes import (
    FILM,
    NUMBER,
    OBSERVATION,
    SESSION,
    TEXT,
    fields,
    listed,
    otherwise,
    outcome,
    record,
)
from api.dialects.homes import home_of
from api.http.endpoint import Endpoint
from ingest.platform.clock import to_ms
from ingest.roles import READ
from mcp_gateway.lenient import BadArgument
from projections.queries.views import view

OF_SESSION = {**dict.fromkeys(("sessionId", "agentId"), TEXT), "limit": otherwise(NUMBER, tools.MAX_OBSERVATIONS)}
LIST_SESSIONS_FIELDS = {"agentId": TEXT, "limit": otherwise(NUMBER, 100)}


async def observations(request: Request) -> Response:
    """A session's observations, the oldest first; none for a session that nobody knows."""
    arguments = await _of_session(request)
    return reply(await tools.observations(door_of(request), arguments))


async def list_sessions(request: Request, arguments: Arguments) -> Response:
    """The sessions that can be played back, the newest first."""
    answer = await tools.sessions(door_of(request), arguments)
    return succeeded(**answer.data) if isinstance(answer.data, dict) else reply(answer)


async def load(request: Request) -> Response:
    """A session as a film."""
    arguments, door = await _of_session(request), door_of(request)
    agent, project = arguments["agentId"] or "", arguments["project"]
    await door.caught_up(agent)
    reader, browse = door.reader(agent), door.queries.browse
    known = session_of(await browse.session(reader, arguments["sessionId"], project))
    limit = max(1, min(tools.MAX_OBSERVATIONS, int(arguments["limit"])))
    page = await browse.session_observations(reader, known.session_id, known.project, None, limit)
    seen = sorted(page.items, key=lambda one: one["occurred_at"])
    (session,) = await tools.told(door, reader, [view(known)])
    times_ms = [to_ms(one["occurred_at"]) for one in seen]
    return succeeded(session=session, timeline=replay(session, times_ms, list(map(dialect.observation, seen))))


async def _of_session(request: Request) -> dict[str, Any]:
    """What was asked of a session, with the project that it is at home in."""
    arguments = asked_in_query(request, fields(OF_SESSION))
    session = chosen(arguments, "sessionId")
    if session is None:
        raise BadArgument("sessionId required", "sessionId")  # clients know it by these words
    home = await home_of(request, session)
    return {**arguments, "project": home.project if home else None}


ENDPOINTS = [
    Endpoint(
        "GET", "/agentmemory/observations", READ, observations, "A session's observations, the oldest first.", "S",
        faults={400: "The session is missing."}, query=fields(OF_SESSION, ("sessionId",)),
        answer=record({"observations": listed(OBSERVATION)}),
    ),
    endpoint(
        "GET", "/agentmemory/replay/sessions", READ, list_sessions, "The sessions that can be played back.", "S",
        query=fields(LIST_SESSIONS_FIELDS), answer=outcome({"sessions": listed(SESSION)}),
    ),
    Endpoint(
        "GET", "/agentmemory/replay/load", READ, load, "A session as a film.", "S",
        faults={400: "The session is missing.", 404: "There is no such session."},
        query=fields(OF_SESSION, ("sessionId",)), answer=outcome({"session": SESSION, "timeline": FILM}),
    ),
]  # fmt: skip
