"""Sessions: listing them, what was observed in them, observing, the profile that they give of a project."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.asking import Arguments, chosen, command, needed, one_session
from api.dialects.agentmemory.mcp.answers import answer
from ingest.commands.requests import TrackSession
from ingest.errors import MnemologError, NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, Door
from projections.documents.access import Reader
from projections.queries.views import view

SESSIONS = 20
"""Listed without a limit."""
MAX_SESSIONS = 500
MAX_OBSERVATIONS = 5_000
AT_ONCE = 8
"""Summaries read side by side."""


async def sessions(door: Door, arguments: Arguments) -> Answer:
    """memory_sessions, memory_sessions_list: the newest sessions."""
    agent = arguments["agentId"] or ""
    await door.caught_up(agent)
    limit = max(1, min(MAX_SESSIONS, int(arguments["limit"] or SESSIONS)))
    reader = door.reader(agent)
    page = await door.queries.browse.sessions(reader, None, None, limit)
    return answer({"sessions": await told(door, reader, page.items)})


async def told(
    door: Door,
    reader: Reader,
    known: Sequence[Mapping[str, Any]],
    summaries: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Sessions with the summaries they have and the commits made in them, the newest start first.

    Summaries are read unless they are given, by project and session.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    commits: dict[str, list[str]] = {}
    for commit in (await door.queries.browse.commits(reader, None, None, MAX_SESSIONS)).items:
        for name in commit["session_ids"]:
            commits.setdefault(name, []).append(commit["commit"])

    async def summary_of(session: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not session["summarised"]:
            return None
        if summaries is not None:
            return summaries.get((session["project"], session["id"]))
        async with turns:
            located = await door.queries.browse.session(reader, session["id"], session["project"])
            found = await door.queries.browse.summary(reader, located)
        return None if found is None else view(found)

    read = await asyncio.gather(*map(summary_of, known))
    records = [
        dialect.session(one, summary, commits.get(one["id"], [])) for one, summary in zip(known, read, strict=True)
    ]
    return sorted(records, key=lambda record: record["startedAt"], reverse=True)


async def observations(door: Door, arguments: Arguments) -> Answer:
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


async def observe(door: Door, arguments: Arguments) -> Answer:
    """agent_observe: kept as if a tool had been used whose input and output is the text."""
    said = chosen(arguments, "text") or chosen(arguments, "content")
    if said is None:
        raise BadArgument("text or content is required", "text")
    session, project = needed(arguments, "sessionId"), needed(arguments, "project")
    agent = arguments["agentId"] or ""
    if cwd := chosen(arguments, "cwd"):
        await _know_folder(door, session, project, cwd, agent)
    kind = chosen(arguments, "type") or "other"
    title = chosen(arguments, "title") or f"agent_{kind}"
    data = {"tool_name": title, "tool_input": said, "tool_output": said, "type": kind}
    image = {name: arguments[name] for name in ("image", "modality") if name in arguments}
    said_by_hook = dialect.observe(session, project, "post_tool_use", data, kind=kind, agent_id=agent, **image)
    accepted = await door.write(said_by_hook)
    return answer({"observationId": accepted.id})


async def profile(door: Door, arguments: Arguments) -> Answer:
    """memory_profile: in an object of its own, and flat."""
    await door.caught_up()
    reader, project = door.reader(), needed(arguments, "project")
    known, cached = await door.queries.profiles.of(reader, project, refresh=bool(arguments["refresh"]))
    if known is None:
        return answer({"profile": None, "reason": "no_sessions"})
    record = dialect.profile(known)
    return answer({**record, "profile": record, "cached": cached})


async def _know_folder(door: Door, session: str, project: str, cwd: str, agent: str) -> None:
    """Say where a session works, unless that is known."""
    try:
        located = await door.queries.browse.session(door.reader(agent), session, project)
        known = getattr(located.document, "cwd", "")
    except MnemologError:
        known = ""
    if not known:
        track = command(TrackSession, status="started", session_id=session, project=project, cwd=cwd, agent_id=agent)
        await door.write(track)
