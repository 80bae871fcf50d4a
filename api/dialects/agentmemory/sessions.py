"""Sessions: started, ended, listed; and the commits that were made in them."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict
from redis.exceptions import RedisError
from starlette.requests import Request

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.endpoints import (
    CWD_CHARS,
    Arguments,
    agent_of,
    call_of,
    command,
    reading,
    session_of,
    settings,
    written_document,
)
from api.dialects.agentmemory.operations import success
from api.dialects.agentmemory.records import Record
from api.dialects.agentmemory.searching import context_for
from api.dialects.session_projects import SessionProject, home_of, homes, settled, written_elsewhere
from ingest.commands.decide import LinkCommit, TrackSession
from ingest.errors import MnemologError, NotFound, ProjectionBehind, ReaderUnknown
from ingest.log.position import Token
from ingest.platform.clock import system_clock, to_ms
from ingest.secrets.scrub import beginning
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call
from projections.documents.access import Reader
from projections.documents.sessions import Session
from projections.queries.views import view

logger = logging.getLogger(__name__)
TITLE_CHARS = 200
CONTEXT_S = 0.25
"""A session's start waits no longer for its context; hooks give up after 0.7 s."""
KNOWN_S = 0.4
"""Nor for what was written to the session before."""
SESSIONS = 20
"""Listed without a limit."""
MAX_SESSIONS = 500
AT_ONCE = 8
"""Summaries read side by side."""


async def start(request: Request, arguments: Arguments) -> Record:
    """Start or resume a session; the answer has the context of its project."""
    session = arguments.needed("sessionId")
    for name in ("project", "cwd"):
        if arguments[name] is None:
            raise BadArgument(f"{name} is required", name)
    call, agent = call_of(request), agent_of(arguments)
    home, new = await settled(request, session, arguments["project"], agent)
    moment = system_clock()
    started = TrackSession(
        status="started",
        session_id=session,
        project=home.project,
        agent_id=home.agent,
        cwd=arguments["cwd"][:CWD_CHARS],
        title=beginning((arguments["title"] or "").strip(), TITLE_CHARS),
        occurred_at=moment,
    )
    now_ms = to_ms(moment)
    current = Session(  # if it was not there before
        tenant=call.tenant,
        project=home.project,
        session_id=session,
        agent_id=call.caller(home.agent).agent_id,
        title=started.title,
        cwd=started.cwd,
        started_ms=now_ms,
        updated_ms=now_ms,
    )
    existing = None if new else await _existing(call, home, session, agent)
    accepted, context = await asyncio.gather(
        call.write(started), _context(call, session, home.project, settings(request).token_budget, agent)
    )
    homes(request).wrote(session, accepted.position)
    if existing is not None:
        stated = {"cwd": started.cwd, "title": started.title}
        current = existing.model_copy(
            update={"status": "active", "ended_ms": 0, **{name: text for name, text in stated.items() if text}}
        )
    return {"session": dialect.session(view(current)), "context": context}


async def end(request: Request, arguments: Arguments) -> Record:
    """End a session; an unknown one counts as ended. Maintenance writes its summary."""
    session = arguments.needed("sessionId")
    if home := await home_of(request, session):
        ended = TrackSession(status="ended", session_id=session, project=home.project, agent_id=home.agent)
        accepted = await call_of(request).write(ended)
        homes(request).wrote(session, accepted.position)
    return success()


async def get_sessions(call: Call, arguments: Arguments) -> Record:
    """The sessions, newest first."""
    limit = MAX_SESSIONS if arguments["limit"] is None else arguments["limit"]
    try:
        return await list_sessions(call, arguments | {"limit": limit})
    except ReaderUnknown as error:
        return {"sessions": [], "degraded": [str(error)]}


async def _existing(call: Call, home: SessionProject, session: str, agent: str) -> Session | None:
    """The stored session, including the last writes made here; None if `agent` cannot read it."""
    written = Token(home.written)
    written.include_all(written_elsewhere(call.last_writes.shared, call.tenant, session))
    try:
        async with asyncio.timeout(KNOWN_S):
            if written:
                await call.queries.log.wait_for_own_writes(str(written))
    except (TimeoutError, ProjectionBehind):
        logger.info("a session starts again before its last writes are projected")
    try:
        located = await call.queries.sessions.one(call.reader(agent), session, home.project)
    except (NotFound, ReaderUnknown):
        return None
    return session_of(located)


async def _context(call: Call, session: str, project: str, budget: int, agent: str) -> str:
    """The context for `agent`, which need not be the session's own; empty if it is not ready in time."""
    try:
        reader = call.reader(agent)
        async with asyncio.timeout(CONTEXT_S):
            return (await context_for(call, reader, session, project, budget)).context
    except (TimeoutError, MnemologError, RedisError) as error:
        logger.info("a session starts without a context: %s", error or "it took too long")
        return ""


async def list_sessions(call: Call, arguments: Arguments) -> Record:
    """memory_sessions, memory_sessions_list: the newest sessions."""
    limit = max(1, min(MAX_SESSIONS, int(arguments["limit"] or SESSIONS)))
    reader = await reading(call, arguments["agentId"] or "")
    page = await call.queries.sessions.page(reader, None, None, limit)
    return {"sessions": await session_records(call, reader, page.items)}


async def session_records(
    call: Call,
    reader: Reader,
    sessions: Sequence[Mapping[str, Any]],
    summaries: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Sessions with the summaries they have and the commits made in them, the newest start first.

    Summaries are read unless they are given, by project and session.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    commits: dict[str, list[str]] = {}
    for commit in (await call.queries.commits.page(reader, None, None, MAX_SESSIONS)).items:
        for name in commit["session_ids"]:
            commits.setdefault(name, []).append(commit["commit"])

    async def summary_of(session: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not session["summarised"]:
            return None
        if summaries is not None:
            return summaries.get((session["project"], session["id"]))
        async with turns:
            located = await call.queries.sessions.one(reader, session["id"], session["project"])
            summary = await call.queries.summaries.of_session(reader, located)
        return None if summary is None else view(summary)

    pairs = zip(sessions, await asyncio.gather(*map(summary_of, sessions)), strict=True)
    records = [dialect.session(session, summary, commits.get(session["id"], [])) for session, summary in pairs]
    return sorted(records, key=lambda record: record["startedAt"], reverse=True)


NAME_CHARS, TIME_CHARS, MAX_FILES = 512, 64, 2_000
MAX_LIMIT = 500
PAGE = 500
MAX_SEEN = 10_000
"""Commits that one request looks at, the newest linked first."""


async def link(request: Request, arguments: Arguments) -> Record:
    """Link a commit to the session it was made in."""
    sha, session, call = arguments.needed("sha").strip(), arguments.chosen("sessionId") or "", call_of(request)
    home = await home_of(request, session) if session else None
    files: list[str] = arguments["files"] or []
    linked = command(
        LinkCommit,
        commit=sha,
        session_id=session,
        project=home.project if home else arguments["project"],
        agent_id=arguments.chosen("agentId") or (home.agent if home else None),
        message=arguments["message"],
        **{name: (arguments[name] or "")[:NAME_CHARS] for name in ("branch", "repo", "author")},
        authored_at=(arguments["authoredAt"] or "")[:TIME_CHARS],
        files=[file[:NAME_CHARS] for file in files[:MAX_FILES]],
    )
    accepted = await call.write(linked)
    stored = await written_document(call, accepted.id, arguments.chosen("agentId") or "")
    if stored is None:  # not projected in time
        stored = asdict(linked) | {"session_ids": [session] if session else [], "linked_at": system_clock()}
    return {"commit": dialect.commit(stored)}


async def commit_lookup(call: Call, arguments: Arguments) -> Record:
    """memory_commit_lookup: a commit, and the sessions it was made in; raises NotFound."""
    sha, reader = arguments.needed("sha").strip(), await reading(call, arguments["agentId"] or "")
    matches = await _commits(call, reader, {"commit": sha}, 1)
    if not matches:
        raise NotFound(f"no session is known for commit {sha}")
    lists = [await call.queries.sessions.named(reader, name) for name in matches[0]["session_ids"]]
    sessions = [view(located.document) for named in lists for located in named]
    return {"commit": dialect.commit(matches[0]), "sessions": await session_records(call, reader, sessions)}


async def commits(call: Call, arguments: Arguments) -> Record:
    """memory_commits: commits, the newest linked first."""
    limit = int(arguments["limit"])
    if limit < 1:
        raise BadArgument("limit must be at least 1", "limit")
    filters = {name: arguments[name] for name in ("branch", "repo") if arguments[name]}
    newest = await _commits(call, await reading(call, arguments["agentId"] or ""), filters, min(limit, MAX_LIMIT))
    return {"commits": list(map(dialect.commit, newest))}


async def _commits(call: Call, reader: Reader, filters: dict[str, str], limit: int) -> list[dict[str, Any]]:
    """The newest commits whose fields match the filters."""
    matches: list[dict[str, Any]] = []
    cursor, scanned = None, 0
    while len(matches) < limit and scanned < MAX_SEEN:
        page = await call.queries.commits.page(reader, None, cursor, PAGE)
        matches += [commit for commit in page.items if all(commit[name] == value for name, value in filters.items())]
        cursor, scanned = page.next, scanned + PAGE
        if cursor is None:
            break
    return matches[:limit]
