"""Sessions: they start, they end (every turn, and go on), they are listed."""

import asyncio
import logging

from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import (
    NUMBER,
    TEXT,
    Properties,
    asked,
    asked_in_query,
    door,
    reply,
    settings,
    succeeded,
)
from api.dialects.agentmemory.contexts import told
from api.dialects.agentmemory.mcp.asking import chosen, needed, session_of
from api.dialects.agentmemory.mcp.sessions import MAX_SESSIONS
from api.dialects.agentmemory.mcp.sessions import sessions as list_sessions
from api.dialects.agentmemory.observing import AGENT_CHARS, CWD_CHARS
from api.dialects.agentmemory.shapes import DEGRADED, SESSION, fields, listed, outcome, record
from api.dialects.homes import Home, home_of, homes, settled
from api.http.endpoint import Endpoint
from api.http.http import Json
from ingest.commands.requests import TrackSession
from ingest.errors import MnemologError, NotFound, ProjectionBehind, ReaderUnknown
from ingest.platform.clock import system_clock, to_ms
from ingest.roles import READ, READ_WRITE, WRITE
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Door
from projections.documents.sessions import Session
from projections.queries.views import view

logger = logging.getLogger(__name__)

TITLE_CHARS = 200
CONTEXT_S = 0.25
"""A session's start waits no longer for its context; hooks give up after 0.7 s."""
KNOWN_S = 0.4
"""Nor for what was written to the session before."""

START = {"sessionId": TEXT, "project": TEXT, "cwd": TEXT, "title": TEXT, "agentId": TEXT}
LIST = {"limit": NUMBER, "agentId": TEXT}
END_FIELDS: Properties = {"sessionId": TEXT}


async def start(request: Request) -> Response:
    """Start a session, or go on with it; what is known of its project."""
    said = await asked(request, START, ("sessionId",))
    session = needed(said, "sessionId")
    for name in ("project", "cwd"):
        if said[name] is None:
            raise BadArgument(f"{name} is required", name)
    through, agent = door(request), (chosen(said, "agentId") or "")[:AGENT_CHARS]
    home, new = await settled(request, session, said["project"], agent)
    moment = system_clock()
    started = TrackSession(
        status="started",
        session_id=session,
        project=home.project,
        agent_id=home.agent,
        cwd=said["cwd"][:CWD_CHARS],
        title=(said["title"] or "").strip()[:TITLE_CHARS],
        occurred_at=moment,
    )
    now = _begun(through, home, started, to_ms(moment))
    known = None if new else await _known(through, home, session)
    accepted, context = await asyncio.gather(
        through.write(started), _context(through, session, home, settings(request).token_budget)
    )
    homes(request).wrote(session, accepted.position)
    if known is not None:
        stated = {"cwd": started.cwd, "title": started.title}
        now = known.model_copy(
            update={"status": "active", "ended_ms": 0, **{name: text for name, text in stated.items() if text}}
        )
    return Json({"session": dialect.session(view(now)), "context": context})


async def end(request: Request) -> Response:
    """End a session; one that nobody knows has ended already. Its summary is made by the upkeep."""
    said = await asked(request, END_FIELDS, ("sessionId",))
    session = needed(said, "sessionId")
    if home := await home_of(request, session):
        ended = TrackSession(status="ended", session_id=session, project=home.project, agent_id=home.agent)
        accepted = await door(request).write(ended)
        homes(request).wrote(session, accepted.position)
    return succeeded()


async def sessions(request: Request) -> Response:
    """The sessions, the newest first."""
    said = asked_in_query(request, LIST)
    limit = MAX_SESSIONS if said["limit"] is None else said["limit"]
    try:
        return reply(await list_sessions(door(request), {"agentId": said["agentId"], "limit": limit}))
    except ReaderUnknown as why:
        return Json({"sessions": [], "degraded": [str(why)]})


def _begun(through: Door, home: Home, started: TrackSession, now_ms: int) -> Session:
    """The session as it will be when it was not there before."""
    return Session(
        tenant=through.tenant,
        project=home.project,
        session_id=started.session_id,
        agent_id=through.caller(home.agent).agent_id,
        title=started.title,
        cwd=started.cwd,
        started_ms=now_ms,
        updated_ms=now_ms,
    )


async def _known(through: Door, home: Home, session: str) -> Session | None:
    """The session as it is, with what was written to it here a moment ago, if that can be had in time."""
    try:
        async with asyncio.timeout(KNOWN_S):
            if home.written:
                await through.queries.browse.caught_up(str(home.written))
    except (TimeoutError, ProjectionBehind):
        logger.info("session %s starts again before what it said is projected", session)
    try:
        located = await through.queries.browse.session(through.operator(), session, home.project)
    except NotFound:
        return None
    return session_of(located)


async def _context(through: Door, session: str, home: Home, budget: int) -> str:
    """What there is to say to a session; empty when that cannot be said in time, or not to this agent."""
    try:
        reader = through.reader(home.agent)
        async with asyncio.timeout(CONTEXT_S):
            return (await told(through, reader, session, home.project, budget)).context
    except (TimeoutError, MnemologError, RedisError) as error:
        logger.info("session %s starts without a context: %s", session, error or "it took too long")
        return ""


ENDPOINTS = [
    Endpoint(
        "POST",
        "/agentmemory/session/start",
        READ_WRITE,
        start,
        "Start a session, or go on with it; answers a context.",
        body=fields(START, ("sessionId",)),
        answer=record({"session": SESSION, "context": TEXT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/session/end",
        WRITE,
        end,
        "End a session.",
        body=fields(END_FIELDS, ("sessionId",)),
        answer=outcome(),
    ),
    Endpoint(
        "GET",
        "/agentmemory/sessions",
        READ,
        sessions,
        "The sessions, the newest first.",
        query=fields(LIST),
        answer=record({"sessions": listed(SESSION)}, DEGRADED),
    ),
]
