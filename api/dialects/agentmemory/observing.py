"""What hooks see: stored at once, whatever they send; nothing waits for a projection."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.answers import answer
from api.dialects.agentmemory.endpoints import Arguments, chosen, command, door_of, needed, reply
from api.dialects.fitting import Fitted, fitted
from api.dialects.session_projects import SessionProject, homes, settled
from api.http.http import Json
from ingest.commands.requests import TrackSession, WriteCommand
from ingest.errors import MnemologError
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Answer, ToolContext

AGENT_CHARS = 128
CWD_CHARS = 4_096
IN_THREAD_BYTES = 1 << 18
"""A body over this is made to fit in a thread: the event loop serves others meanwhile."""


async def observe(request: Request, arguments: Arguments) -> Response:
    """Record what a hook saw."""
    session, hook = needed(arguments, "sessionId"), needed(arguments, "hookType")
    moment = moment_of(arguments["timestamp"])
    door, agent = door_of(request), (chosen(arguments, "agentId") or "")[:AGENT_CHARS]
    home, new = await settled(request, session, arguments["project"] or "", agent)
    fits = await _fitted(request, _data(arguments["data"]))
    seen = dialect.observe(
        session,
        home.project,
        hook,
        fits.data,
        content="" if fits.data else hook,
        agent_id=home.agent,
        occurred_at=moment,
        image=fits.image,
        modality=fits.modality,
    )
    seen = replace(seen, project=home.project)  # a session of another API may be at home in the nameless project
    events: list[WriteCommand] = [seen]
    if new and (cwd := chosen(arguments, "cwd")):
        events.append(_started(session, home, cwd[:CWD_CHARS], moment))
    accepted, *others = await asyncio.gather(*map(door.write, events))
    for one in (accepted, *others):
        homes(request).wrote(session, one.position)
    return Json({"observationId": accepted.id}, 201)


async def observe_as_agent(request: Request, arguments: Arguments) -> Response:
    """Record what an agent says itself, as if it had used a tool."""
    session, project = needed(arguments, "sessionId"), needed(arguments, "project")
    agent = (chosen(arguments, "agentId") or "")[:AGENT_CHARS]
    home, _ = await settled(request, session, project, agent)
    arguments = {**arguments, "project": home.project or project, "agentId": agent or home.agent}
    if image := arguments["imageData"]:
        fits = await _fitted(request, {"image": image})
        arguments |= {"image": fits.image, "modality": "mixed" if fits.image else ""}
    for name in ("text", "content"):
        if isinstance(text := arguments[name], str):
            arguments[name] = (await _fitted(request, {name: text})).data[name]
    return reply(await observe_text(door_of(request), arguments), 201)


def moment_of(given: str | float) -> datetime | None:
    """When something happened, as the client says it; None, which is now, for what is no time of this era."""
    try:
        if isinstance(given, str):
            moment = datetime.fromisoformat(given.strip())
        else:
            moment = datetime.fromtimestamp(given / 1000 if given > _LATEST_S else given, UTC)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if 1970 <= moment.year < 2200 else None


def _data(given: Any) -> dict[str, Any]:
    """What was observed, as data; empty for nothing, of which only the hook is kept."""
    if given is None:
        return {}
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    return {"content" if isinstance(given, str) else "value": given}


async def _fitted(request: Request, data: Mapping[str, Any]) -> Fitted:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) <= IN_THREAD_BYTES:
        return fitted(data)
    return await asyncio.to_thread(fitted, data)


def _started(session: str, home: SessionProject, cwd: str, moment: datetime | None) -> TrackSession:
    """Says where a session works. An observation opens its session, but does not say that."""
    return TrackSession(
        status="started",
        session_id=session,
        project=home.project,
        agent_id=home.agent,
        cwd=cwd,
        occurred_at=moment,
    )


async def observe_text(door: ToolContext, arguments: Arguments) -> Answer:
    """agent_observe: kept as if a tool had been used whose input and output is the text."""
    text = chosen(arguments, "text") or chosen(arguments, "content")
    if text is None:
        raise BadArgument("text or content is required", "text")
    session, project = needed(arguments, "sessionId"), needed(arguments, "project")
    agent = arguments["agentId"] or ""
    if cwd := chosen(arguments, "cwd"):
        await _know_folder(door, session, project, cwd, agent)
    kind = chosen(arguments, "type") or "other"
    title = chosen(arguments, "title") or f"agent_{kind}"
    data = {"tool_name": title, "tool_input": text, "tool_output": text, "type": kind}
    image = {name: arguments[name] for name in ("image", "modality") if name in arguments}
    command = dialect.observe(session, project, "post_tool_use", data, kind=kind, agent_id=agent, **image)
    accepted = await door.write(command)
    return answer({"observationId": accepted.id})


async def _know_folder(door: ToolContext, session: str, project: str, cwd: str, agent: str) -> None:
    """Say where a session works, unless that is known."""
    try:
        located = await door.queries.browse.session(door.reader(agent), session, project)
        known = getattr(located.document, "cwd", "")
    except MnemologError:
        known = ""
    if not known:
        track = command(TrackSession, status="started", session_id=session, project=project, cwd=cwd, agent_id=agent)
        await door.write(track)


_LATEST_S = 10_000_000_000
"""The year 2286 in seconds: what is later is in milliseconds."""
