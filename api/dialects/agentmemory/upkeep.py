"""Forgetting, by name and by age; and checking what there is."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import (
    Arguments,
    answered_by,
    asked_in_query,
    chosen,
    door_of,
    endpoint,
    reply,
    succeeded,
)
from api.dialects.agentmemory.mcp import condense, memories
from api.dialects.agentmemory.shapes import (
    BOOLEAN,
    CHECK,
    COUNT,
    FORGOTTEN_BY_AGE,
    NAMES,
    OBJECT,
    TEXT,
    fields,
    listed,
    outcome,
)
from api.dialects.homes import home_of, homes
from ingest.roles import ADMIN, READ_WRITE
from projections.operations.sweep import Sweep

DRY_RUN = {"dryRun": BOOLEAN}
DIAGNOSE = {"categories": NAMES, **DRY_RUN}
FORGET_FIELDS = {"memoryId": TEXT, "sessionId": TEXT, "observationIds": NAMES}


async def forget(request: Request, arguments: Arguments) -> Response:
    """Forget a memory, some observations of a session, or the whole session, for good."""
    session = chosen(arguments, "sessionId")
    home = await home_of(request, session) if session else None
    answer = await memories.forget(door_of(request), {**arguments, "project": home.project if home else None})
    if session and not arguments["observationIds"] and chosen(arguments, "memoryId") is None:
        homes(request).forget(session)
    return reply(answer)


async def auto_forget(request: Request, arguments: Arguments) -> Response:
    """Forget expired memories and old observations that hardly mattered; with dryRun, only say which.

    Two memories that say the same are never both the newest: saving sees to that, so there are no contradictions.
    """
    in_query = asked_in_query(request, fields(DRY_RUN))
    dry_run, door = bool(arguments["dryRun"] or in_query["dryRun"]), door_of(request)
    await door.caught_up()
    reader, caller, operations = door.reader(), door.caller(), door.operations
    sweep = Sweep(operations.current, door.queries.browse, operations.forgetting)
    swept = await sweep.run(reader, caller, dry_run=dry_run)
    door.wrote(caller.agent_id, swept.position)
    return succeeded(
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
    return succeeded(
        fixed=0,
        skipped=len(wrong),
        details=[{"category": one.category, "name": one.name, "message": one.message} for one in wrong],
        dryRun=bool(arguments["dryRun"]),
    )


ENDPOINTS = [
    endpoint(
        "POST", "/agentmemory/forget", READ_WRITE, forget, "Forget a memory, observations, or a session.", "S",
        faults={400: "Neither a memory nor a session is named."}, body=fields(FORGET_FIELDS), optional=True,
        answer=outcome({"deleted": COUNT}),
    ),
    *(
        endpoint(
            "POST", path, READ_WRITE, auto_forget, "Forget what has had its time.", "S",
            query=fields(DRY_RUN), body=fields(DRY_RUN), optional=True, answer=outcome(FORGOTTEN_BY_AGE),
        )
        for path in ("/agentmemory/auto-forget", "/agentmemory/evict")
    ),
    endpoint(
        "POST", "/agentmemory/diagnostics", ADMIN, answered_by(condense.diagnose),
        "How the server is, and what is wrong.", "S", body=fields(DIAGNOSE), optional=True,
        answer=outcome({**dict.fromkeys(("status", "service", "version", "database", "databaseStatus"), TEXT),
            "checks": listed(CHECK), "summary": OBJECT}),
    ),
    endpoint(
        "POST", "/agentmemory/diagnostics/heal", ADMIN, heal, "What is wrong, and whether it was put right.", "S",
        body=fields(DIAGNOSE), optional=True,
        answer=outcome({"fixed": COUNT, "skipped": COUNT, "details": listed(OBJECT), "dryRun": BOOLEAN}),
    ),
]  # fmt: skip
