"""Forgetting, by name and by age; and checking the server and what it holds."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.answers import answer, succeeded
from api.dialects.agentmemory.endpoints import (
    Arguments,
    chosen,
    door_of,
    one_session,
    read_query,
    reply,
    session_of,
    success,
)
from api.dialects.agentmemory.shapes import (
    BOOLEAN,
    fields,
)
from api.dialects.session_projects import home_of, homes
from ingest.errors import NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.catalog import server_version
from mcp_gateway.tools.tool import Answer, ToolContext
from projections.documents.observations import Observation
from projections.operations.sweep import Sweep

DRY_RUN = {"dryRun": BOOLEAN}


async def post_forget(request: Request, arguments: Arguments) -> Response:
    """Forget a memory, some observations of a session, or the whole session, for good."""
    session = chosen(arguments, "sessionId")
    home = await home_of(request, session) if session else None
    answer = await forget(door_of(request), {**arguments, "project": home.project if home else None})
    if session and not arguments["observationIds"] and chosen(arguments, "memoryId") is None:
        homes(request).forget(session)
    return reply(answer)


async def auto_forget(request: Request, arguments: Arguments) -> Response:
    """Forget expired memories and old observations that hardly mattered; with dryRun, only say which.

    Two memories that say the same are never both the newest: saving sees to that, so there are no contradictions.
    """
    in_query = read_query(request, fields(DRY_RUN))
    dry_run, door = bool(arguments["dryRun"] or in_query["dryRun"]), door_of(request)
    await door.caught_up()
    reader, caller, operations = door.reader(), door.caller(), door.operations
    sweep = Sweep(operations.current, door.queries.browse, operations.forgetting)
    swept = await sweep.run(reader, caller, dry_run=dry_run)
    door.wrote(caller.agent_id, swept.position)
    return success(
        ttlExpired=swept.expired,
        contradictions=[],
        lowValueObs=swept.unimportant,
        evictedMemories=swept.expired,
        evictedObservations=swept.unimportant,
        evicted=0 if dry_run else len(swept.expired) + len(swept.unimportant),
        dryRun=dry_run,
    )


async def heal(request: Request, arguments: Arguments) -> Response:
    """Nothing is put right here: documents follow from the log, and a rebuild makes them anew. Says what is wrong."""
    door = door_of(request)
    await door.caught_up()
    found = await door.queries.diagnose(door.reader(), arguments["categories"] or ())
    wrong = [one for one in found.checks if one.status != "pass"]
    return success(
        fixed=0,
        skipped=len(wrong),
        details=[{"category": one.category, "name": one.name, "message": one.message} for one in wrong],
        dryRun=bool(arguments["dryRun"]),
    )


async def forget(door: ToolContext, arguments: Arguments) -> Answer:
    """memory_forget: a memory, some observations of a session, or the whole session."""
    memory, names = chosen(arguments, "memoryId"), arguments["observationIds"]
    if memory is None and chosen(arguments, "sessionId") is None:
        raise BadArgument("memoryId or sessionId is required", "memoryId")
    forgetting, caller, reader = door.operations.forgetting, door.caller(), door.reader()
    try:
        if memory is not None:
            forgotten = await forgetting.document(memory, reader, caller)
            deleted = forgotten.total
        elif names:
            await door.caught_up()
            found = await door.queries.browse.documents(names, reader)
            seen = [one.document for one in found if isinstance(one.document, Observation)]
            of_session = [one.id for one in seen if one.session_id == arguments["sessionId"]]
            forgotten = await forgetting.documents(of_session, reader, caller)
            deleted = forgotten.documents.get("observation", 0)
        else:
            forgotten = await forgetting.session(session_of(await one_session(door, arguments)), caller)
            deleted = forgotten.documents.get("observation", 0) + 2  # the session and its summary count, too
    except NotFound:
        return succeeded(deleted=0)
    door.wrote(caller.agent_id, forgotten.position)
    return succeeded(deleted=deleted)


async def diagnose(door: ToolContext, arguments: Arguments) -> Answer:
    """memory_diagnose: what was looked at, and how well the server is."""
    await door.caught_up()
    found = await door.queries.diagnose(door.reader(), arguments["categories"] or ())
    return answer(
        {
            "success": True,
            "status": found.status,
            "service": "agentmemory",
            "version": server_version() or "0.0.0",
            "database": "valkey",
            "databaseStatus": "connected",
            "checks": found.checks,
            "summary": found.summary,
        }
    )
