"""Making few documents of many: summaries, crystals, consolidated memories, insights."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import records as dialect
from api.dialects.agentmemory.answers import failed, succeeded
from api.dialects.agentmemory.endpoints import Arguments, call_of, failure, one_session, session_of, success
from api.dialects.session_projects import home_of
from ingest.errors import NotFound
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolAnswer, ToolContext
from projections.condensing.consolidation import PARTS, Part
from projections.documents.access import Reader
from projections.documents.actions import is_finished
from projections.documents.sessions import Session

MAX_DAYS = 36_500.0
MAX_ACTIONS = 5_000
MAX_CHAIN = 200
MAX_GROUPS = 50
"""Crystals of one call."""
PAGE = 500
MAX_PROJECTS = 50
"""Consolidated by one call that names none."""
TIERS: dict[str, tuple[Part, ...]] = {
    "all": PARTS,
    "semantic": ("facts",),
    "procedural": ("procedures",),
    "reflect": (),
    "decay": (),
}
"""What each tier consolidates; `all` and `reflect` look for insights, too."""


async def summarize(request: Request, arguments: Arguments) -> Response:
    """Summarise a session now."""
    session, call = arguments.needed("sessionId"), call_of(request)
    home, reader = await home_of(request, session), call.reader()
    if home is None:
        return failure("session_not_found")
    try:
        known = await call.operations.current.session(session, home.project, reader)
    except NotFound:
        return failure("session_not_found")
    try:
        return success(summary=await summarised(call, known))
    except NotFound:
        return failure("no_observations")


async def crystallize_finished(request: Request, arguments: Arguments) -> Response:
    """Make crystals of work that was finished a while ago, one for each chain of actions."""
    call = call_of(request)
    await call.wait_for_own_writes()
    reader, caller = call.reader(), call.caller()
    before = system_clock() - timedelta(days=max(0.0, min(MAX_DAYS, arguments["olderThanDays"])))
    groups: dict[tuple[str, str], list[str]] = {}
    async for one in _actions(call, reader, arguments.chosen("project")):
        if is_finished(one["status"]) and not one["crystallized_into"] and one["updated_at"] <= before:
            groups.setdefault((one["project"], one["parent"]), []).append(one["id"])
    made: list[str] = []
    for names in [] if arguments["dryRun"] else list(groups.values())[:MAX_GROUPS]:
        crystal = await call.operations.condensing.crystallize(names[:MAX_CHAIN], reader, caller)
        call.wrote(caller.agent_id, crystal.position)
        made.append(crystal.id)
    return success(groupCount=len(groups), crystalIds=made)


async def pipeline(request: Request, arguments: Arguments) -> Response:
    """All of the consolidation, or one tier of it."""
    made = await consolidate(call_of(request), arguments)
    results = {name: value for name, value in msgspec.to_builtins(made.data).items() if name != "success"}
    return success(results=results)


async def _actions(call: ToolContext, reader: Reader, project: str | None) -> AsyncIterator[dict[str, Any]]:
    """The newest actions of a project, or of every one."""
    seen = 0
    for place in [project] if project else sorted({"", *await call.queries.lookup.projects(reader)}):
        cursor: str | None = None
        while seen < MAX_ACTIONS:
            page = await call.queries.actions.page(reader, place, cursor, PAGE)
            for one in page.items:
                yield one
            seen, cursor = seen + PAGE, page.next
            if cursor is None:
                break


async def consolidate(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_consolidate: for a project, or for each; all of it, or one tier.

    Lessons fade by themselves, so the tier `decay` does nothing, and says so.
    """
    tier = (arguments.chosen("tier") or "all").strip().lower()
    if tier not in TIERS:
        raise BadArgument(f"tier is one of {', '.join(TIERS)}", "tier")
    reader, caller = call.reader(), call.caller()
    await call.wait_for_own_writes()
    named = arguments.chosen("project")
    projects = [named] if named else (await call.queries.lookup.projects(reader))[:MAX_PROJECTS]
    fewest = arguments.count("minObservations", 1_000)
    totals = {"memories": 0, "observations": 0, "facts": 0, "summaries": 0, "procedures": 0}
    for project in projects if TIERS[tier] else ():
        made = await call.operations.condensing.consolidate(
            reader, project, caller, fewest_observations=fewest, parts=TIERS[tier]
        )
        call.wrote(caller.agent_id, made.position)
        for name in totals:
            totals[name] += getattr(made, name)
    insights = 0
    reflecting = tier in ("all", "reflect")
    if reflecting:
        for project in projects:
            found = await call.operations.condensing.reflect(reader, project, caller)
            call.wrote(caller.agent_id, found.position)
            insights += found.insights
    few = totals["observations"] < fewest
    if tier == "all" and few and not insights and not (totals["facts"] or totals["procedures"]):
        return succeeded(consolidated=0, totalObservations=totals["observations"], reason="insufficient_observations")
    return succeeded(
        consolidated=totals["memories"],
        totalObservations=totals["observations"],
        semantic={"newFacts": totals["facts"], "totalSummaries": totals["summaries"]},
        procedural={"newProcedures": totals["procedures"], "patternsAnalyzed": totals["procedures"]},
        **({"reflect": {"newInsights": insights}} if reflecting else {}),
        **({"reason": "lessons_fade_by_themselves"} if tier == "decay" else {}),
    )


async def reflect(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_reflect: slots from a session; without a session, insights from a project."""
    if arguments.chosen("sessionId") is None:
        return await _insights(call, arguments)
    try:
        session = session_of(await one_session(call, arguments))
    except NotFound:
        return succeeded(applied=0, observationsReviewed=0, reason="no_observations")
    return succeeded(**await reflected(call, session, arguments.count("maxObservations", 200)))


async def reflected(call: ToolContext, session: Session, newest: int) -> dict[str, Any]:
    """What reflecting on a session changed in the slots of its project: of no other, whose agents would see it, too."""
    caller = call.caller()
    made = await call.operations.condensing.reflect_slots(session, caller, newest, reader=call.reader())
    call.wrote(caller.agent_id, made.position)
    reason = {} if made.observations else {"reason": "no_observations"}
    return {"applied": made.slots_changed, "observationsReviewed": made.observations, **reason}


async def crystallize(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_crystallize: a session's summary; of finished actions, a memory and lessons."""
    if names := arguments["actionIds"]:
        caller = call.caller()
        project, session_id = arguments.chosen("project") or "", arguments.chosen("sessionId") or ""
        made = await call.operations.condensing.crystallize(
            names, call.reader(), caller, project=project, session_id=session_id
        )
        call.wrote(caller.agent_id, made.position)
        crystal = {
            "id": made.id,
            "narrative": made.narrative,
            "keyOutcomes": made.key_outcomes,
            "filesAffected": made.files_affected,
            "lessons": made.lessons,
            "sourceActionIds": made.source_action_ids,
            "createdAt": dialect.iso(made.created_at),
        }
        crystal |= {name: text for name, text in (("project", project), ("sessionId", session_id)) if text}
        return succeeded(crystal=crystal)
    try:
        session = session_of(await one_session(call, arguments))
    except NotFound:
        return failed("session_not_found")
    try:
        return succeeded(summary=await summarised(call, session))
    except NotFound:
        return failed("no_observations")


async def summarised(call: ToolContext, session: Session) -> dict[str, Any]:
    """A session's new summary; raises NotFound without observations."""
    caller = call.caller()
    made = await call.operations.condensing.summarise(session, caller, call.reader())
    call.wrote(caller.agent_id, made.position)
    return {
        "sessionId": session.session_id,
        "project": session.project,
        "createdAt": dialect.iso(system_clock()),
        "title": made.digest.title,
        "narrative": made.digest.narrative,
        "keyDecisions": made.digest.decisions,
        "filesModified": made.digest.files,
        "concepts": made.digest.concepts,
        "observationCount": made.digest.observation_count,
    }


async def _insights(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    clusters = max(1, min(20, int(arguments["maxClusters"] or 10)))
    caller = call.caller()
    project = arguments.chosen("project") or ""
    found = await call.operations.condensing.reflect(call.reader(), project, caller, clusters)
    call.wrote(caller.agent_id, found.position)
    return succeeded(
        newInsights=found.insights,
        reinforced=found.reinforced,
        clustersProcessed=found.insights + found.reinforced,
        clustersSkipped=0,
        usedFallback=True,
    )
