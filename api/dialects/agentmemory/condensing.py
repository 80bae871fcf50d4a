"""Making few documents of many: summaries, crystals, consolidated memories."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import (
    Arguments,
    chosen,
    door_of,
    endpoint,
    failed,
    needed,
    reply,
    succeeded,
)
from api.dialects.agentmemory.mcp.condense import consolidate as consolidate_tool
from api.dialects.agentmemory.mcp.condense import summarised
from api.dialects.agentmemory.shapes import (
    BOOLEAN,
    CONSOLIDATED,
    CONSOLIDATED_BY_TIER,
    COUNT,
    NUMBER,
    SUMMARY,
    TEXT,
    TEXTS,
    fields,
    otherwise,
    outcome,
    record,
)
from api.dialects.homes import home_of
from ingest.errors import NotFound
from ingest.platform.clock import system_clock
from ingest.roles import READ_WRITE
from mcp_gateway.tools.tool import Door
from projections.documents.access import Reader
from projections.documents.frontier import is_finished

MAX_DAYS = 36_500.0
MAX_ACTIONS = 5_000
MAX_CHAIN = 200
MAX_GROUPS = 50
"""Crystals of one call."""
PAGE = 500

SUMMARIZE = {"sessionId": TEXT}
AUTO = {"olderThanDays": otherwise(NUMBER, 7), "project": TEXT, "dryRun": otherwise(BOOLEAN, False)}
PIPELINE = {
    "tier": TEXT,
    "force": BOOLEAN,
    "project": TEXT,
    "minObservations": otherwise(NUMBER, 10),
}


async def summarize(request: Request, arguments: Arguments) -> Response:
    """Summarise a session now."""
    session, door = needed(arguments, "sessionId"), door_of(request)
    home, reader = await home_of(request, session), door.reader()
    if home is None:
        return failed("session_not_found")
    try:
        known = await door.operations.current.session(session, home.project, reader)
    except NotFound:
        return failed("session_not_found")
    try:
        return succeeded(summary=await summarised(door, known))
    except NotFound:
        return failed("no_observations")


async def crystallize(request: Request, arguments: Arguments) -> Response:
    """Make crystals of work that was finished a while ago, one for each chain of actions."""
    door = door_of(request)
    await door.caught_up()
    reader, caller = door.reader(), door.caller()
    before = system_clock() - timedelta(days=max(0.0, min(MAX_DAYS, arguments["olderThanDays"])))
    groups: dict[tuple[str, str], list[str]] = {}
    async for one in _actions(door, reader, chosen(arguments, "project")):
        if is_finished(one["status"]) and not one["crystallized_into"] and one["updated_at"] <= before:
            groups.setdefault((one["project"], one["parent"]), []).append(one["id"])
    made: list[str] = []
    for names in [] if arguments["dryRun"] else list(groups.values())[:MAX_GROUPS]:
        crystal = await door.operations.condensing.crystallize(names[:MAX_CHAIN], reader, caller)
        door.wrote(caller.agent_id, crystal.position)
        made.append(crystal.id)
    return succeeded(groupCount=len(groups), crystalIds=made)


async def consolidate(request: Request, arguments: Arguments) -> Response:
    """Memories about what observations have in common."""
    return reply(await consolidate_tool(door_of(request), arguments))


async def pipeline(request: Request, arguments: Arguments) -> Response:
    """All of the consolidation, or one tier of it."""
    made = await consolidate_tool(door_of(request), arguments)
    told = {name: value for name, value in msgspec.to_builtins(made.data).items() if name != "success"}
    return succeeded(results=told)


async def _actions(door: Door, reader: Reader, project: str | None) -> AsyncIterator[dict[str, Any]]:
    """The newest actions of a project, or of every one."""
    seen = 0
    for place in [project] if project else sorted({"", *await door.queries.browse.projects(reader)}):
        cursor: str | None = None
        while seen < MAX_ACTIONS:
            page = await door.queries.browse.actions(reader, place, cursor, PAGE)
            for one in page.items:
                yield one
            seen, cursor = seen + PAGE, page.next
            if cursor is None:
                break


ENDPOINTS = [
    endpoint(
        "POST", "/agentmemory/summarize", READ_WRITE, summarize, "Summarise a session now.",
        body=fields(SUMMARIZE, ("sessionId",)), answer=outcome({"summary": SUMMARY}),
    ),
    endpoint(
        "POST", "/agentmemory/crystals/auto", READ_WRITE, crystallize,
        "Make crystals of work that was finished a while ago.", body=fields(AUTO), optional=True,
        answer=outcome({"groupCount": COUNT, "crystalIds": TEXTS}),
    ),
    endpoint(
        "POST", "/agentmemory/consolidate-pipeline", READ_WRITE, pipeline,
        "All of the consolidation, or one tier of it.", body=fields(PIPELINE), optional=True,
        answer=outcome({"results": record(CONSOLIDATED, CONSOLIDATED_BY_TIER)}),
    ),
    endpoint(
        "POST", "/agentmemory/consolidate", READ_WRITE, consolidate, "Memories about what observations have in common.",
        body=fields(PIPELINE), optional=True, answer=outcome(CONSOLIDATED, CONSOLIDATED_BY_TIER),
    ),
]  # fmt: skip
