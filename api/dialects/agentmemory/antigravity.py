"""Taking over Antigravity's conversations as sessions."""

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.answers import answer
from api.dialects.agentmemory.condensing import reflected, summarised
from api.dialects.agentmemory.endpoints import Arguments, call_of, command, reply, session_of
from api.importing.antigravity import AGENT, Conversation, brain, conversations, observed
from ingest.commands.requests import TrackSession
from ingest.errors import MnemologError, NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolAnswer, ToolContext
from projections.documents.access import EVERYBODY

MODES = ("current_session", "current_folder", "all")
MAX_OBSERVATIONS = 5_000
REFLECTED = 50


async def sync(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_antigravity_sync: turns that are not known yet become observations."""
    record, _ = await _synced(call, arguments)
    return answer(record)


async def sync_all(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_antigravity_sync_all: and each session is summarised, and its slots brought up to date."""
    record, places = await _synced(call, arguments)
    summaries: dict[str, Any] = {}
    reflections: dict[str, Any] = {}
    for session_id, project in places.items():
        located = await call.queries.sessions.one(call.reader(EVERYBODY), session_id, project)
        session = session_of(located)
        try:
            summaries[session_id] = {"success": True, "summary": await summarised(call, session)}
            reflections[session_id] = {"success": True, **await reflected(call, session, REFLECTED)}
        except MnemologError as error:
            summaries.setdefault(session_id, {"success": False, "error": str(error)})
            reflections.setdefault(session_id, {"success": False, "error": str(error)})
    return answer({**record, "crystallizations": summaries, "reflections": reflections})


async def _synced(call: ToolContext, arguments: Arguments) -> tuple[dict[str, Any], dict[str, str]]:
    """What was taken over, and the project of each session."""
    mode = arguments["mode"].strip().lower() or MODES[0]
    if mode not in MODES:
        raise BadArgument(f"mode must be one of {', '.join(MODES)}", "mode")
    only = ""
    if mode == "current_session":
        only = arguments.chosen("currentConversationId") or ""
        if not only:
            return _record({}, 0, "currentConversationId is needed for current_session"), {}
    folder = await asyncio.to_thread(lambda: brain(Path.home()))
    if not await asyncio.to_thread(folder.is_dir):
        return _record({}, 0, f"there is no folder {folder}"), {}
    found = await asyncio.to_thread(lambda: list(conversations(folder, only)))
    here = arguments.chosen("currentFolder") or ""
    if mode == "current_folder":
        if not here:
            return _record({}, 0, "currentFolder is needed for current_folder"), {}
        found = [one for one in found if one.folder.rstrip("/") == here.rstrip("/")]
    places: dict[str, str] = {}
    added = 0
    for one in found:
        project = one.folder or here or str(Path.cwd())
        if one.turns:
            added += await _take(call, one, project)
            places[one.session_id] = project
    await call.wait_for_own_writes(AGENT)
    return _record(places, added), places


async def _take(call: ToolContext, conversation: Conversation, project: str) -> int:
    """Observe the turns that are new; returns how many."""
    session_id = conversation.session_id
    known = await _known(call, session_id, project)
    if not known:
        started = command(
            TrackSession, status="started", session_id=session_id, project=project, cwd=project, agent_id=AGENT
        )
        await call.write(started)
    added = 0
    for turn in conversation.turns:
        if turn.prompt in known:
            continue
        known.add(turn.prompt)
        seen = observed(session_id, project, turn.prompt, turn.response)
        added += not (await call.write(seen)).duplicate
    return added


async def _known(call: ToolContext, session_id: str, project: str) -> set[str]:
    """The prompts that were taken over before."""
    await call.wait_for_own_writes(AGENT)
    try:
        page = await call.queries.sessions.observations(
            call.reader(EVERYBODY), session_id, project, None, MAX_OBSERVATIONS
        )
    except NotFound:
        return set()
    inputs = [one["data"].get("tool_input") for one in page.items]
    return {one for one in inputs if isinstance(one, str)}


def _record(places: dict[str, str], added: int, error: str = "") -> dict[str, Any]:
    record: dict[str, Any] = {"success": not error, "syncedSessions": list(places), "observationsAdded": added}
    return record | ({"error": error} if error else {})


async def sync_antigravity(request: Request, arguments: Arguments) -> Response:
    """Take over conversations of Antigravity that are on the server's machine."""
    if arguments["mode"].strip().lower() not in ("", *MODES):
        raise BadArgument(f"mode must be one of {', '.join(MODES)}", "mode")
    return reply(await sync(call_of(request), arguments))
