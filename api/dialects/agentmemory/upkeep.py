"""Forgetting, by name and by age; and checking what there is."""

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.asking import (
    BOOLEAN,
    NAMES,
    TEXT,
    Properties,
    asked,
    asked_in_query,
    door,
    reply,
    succeeded,
)
from api.dialects.agentmemory.mcp import condense, memories
from api.dialects.agentmemory.mcp.asking import chosen
from api.dialects.agentmemory.shapes import CHECK, COUNT, FORGOTTEN_BY_AGE, OBJECT, fields, listed, outcome
from api.dialects.homes import home_of, homes
from api.http.endpoint import Endpoint
from ingest.roles import ADMIN, READ_WRITE
from projections.operations.sweep import Sweep

DRY_RUN = {"dryRun": BOOLEAN}
DIAGNOSE = {"categories": NAMES, **DRY_RUN}
FORGET_FIELDS: Properties = {"memoryId": TEXT, "sessionId": TEXT, "observationIds": NAMES}


async def forget(request: Request) -> Response:
    """Forget a memory, some observations of a session, or the whole session, for good."""
    said = await asked(request, FORGET_FIELDS)
    session = chosen(said, "sessionId")
    home = await home_of(request, session) if session else None
    answer = await memories.forget(door(request), {**said, "project": home.project if home else None})
    if session and not said["observationIds"] and chosen(said, "memoryId") is None:
        homes(request).forget(session)
    return reply(answer)


async def auto_forget(request: Request) -> Response:
    """Forget expired memories and old observations that hardly mattered; with dryRun, only say which.

    Two memories that say the same are never both the newest: saving sees to that, so there are no contradictions.
    """
    said, given = await asked(request, DRY_RUN), asked_in_query(request, DRY_RUN)
    dry_run, through = bool(said["dryRun"] or given["dryRun"]), door(request)
    await through.caught_up()
    reader, caller, operations = through.reader(), through.caller(), through.operations
    sweep = Sweep(operations.current, through.queries.browse, operations.forgetting)
    swept = await sweep.run(reader, caller, dry_run=dry_run)
    through.wrote(caller.agent_id, swept.position)
    return succeeded(
        ttlExpired=swept.expired,
        contradictions=[],
        lowValueObs=swept.unimportant,
        evictedMemories=swept.expired,
        evictedObservations=swept.unimportant,
        evicted=0 if dry_run else len(swept.expired) + len(swept.unimportant),
        dryRun=dry_run,
    )


async def diagnose(request: Request) -> Response:
    """How the server is, and what is wrong with what it holds."""
    return reply(await condense.diagnose(door(request), await asked(request, DIAGNOSE)))


async def heal(request: Request) -> Response:
    """Nothing is put right here: documents follow from the log, and a rebuild makes them anew. Says what is wrong."""
    said, through = await asked(request, DIAGNOSE), door(request)
    await through.caught_up()
    found = await through.queries.diagnose(through.reader(), said["categories"] or ())
    wrong = [one for one in found.checks if one.status != "pass"]
    return succeeded(
        fixed=0,
        skipped=len(wrong),
        details=[{"category": one.category, "name": one.name, "message": one.message} for one in wrong],
        dryRun=bool(said["dryRun"]),
    )


ENDPOINTS = [
    Endpoint(
        "POST",
        "/agentmemory/forget",
        READ_WRITE,
        forget,
        "Forget a memory, observations, or a session.",
        "S",
        faults={400: "Neither a memory nor a session is named."},
        body=fields(FORGET_FIELDS),
        optional=True,
        answer=outcome({"deleted": COUNT}),
    ),
    *(
        Endpoint(
            "POST",
            path,
            READ_WRITE,
            auto_forget,
            "Forget what has had its time.",
            "S",
            query=fields(DRY_RUN),
            body=fields(DRY_RUN),
            optional=True,
            answer=outcome(FORGOTTEN_BY_AGE),
        )
        for path in ("/agentmemory/auto-forget", "/agentmemory/evict")
    ),
    Endpoint(
        "POST",
        "/agentmemory/diagnostics",
        ADMIN,
        diagnose,
        "How the server is, and what is wrong.",
        "S",
        body=fields(DIAGNOSE),
        optional=True,
        answer=outcome(
            {
                **dict.fromkeys(("status", "service", "version", "database", "databaseStatus"), TEXT),
                "checks": listed(CHECK),
                "summary": OBJECT,
            }
        ),
    ),
    Endpoint(
        "POST",
        "/agentmemory/diagnostics/heal",
        ADMIN,
        heal,
        "What is wrong, and whether it was put right.",
        "S",
        body=fields(DIAGNOSE),
        optional=True,
        answer=outcome({"fixed": COUNT, "skipped": COUNT, "details": listed(OBJECT), "dryRun": BOOLEAN}),
    ),
]
