"""Condensed knowledge: facts, procedures, crystals, insights and profiles."""

import re
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

from msgspec.structs import asdict
from starlette.requests import Request

from api.dialects.agentmemory.endpoints import (
    Arguments,
    call_of,
    every,
    noted,
    one_of,
    one_session,
    reading,
)
from api.dialects.agentmemory.operations import failure, success
from api.dialects.agentmemory.records import Record, View, renamed, summary_record, without_empty
from api.dialects.session_projects import home_of
from ingest.errors import NotFound
from ingest.platform.clock import system_clock
from mcp_gateway.tools.tool import Call
from projections.condensing.consolidation import PARTS, Part
from projections.nouns.access import Reader
from projections.nouns.action import is_dropped, is_finished
from projections.nouns.memory import CONSOLIDATED, CRYSTAL, FACT, PROCEDURE
from projections.nouns.session import Session
from projections.queries import lookup
from projections.queries.views import view

MAX_LISTED = 500
_TIMES = "createdAt=recorded_at updated_at"
_STEP = re.compile(r"^\d+\. (.*)$")


async def semantic(call: Call, arguments: Arguments) -> Record:
    """Facts that sessions stated or decided."""
    facts = list(map(fact_record, await _tagged(call, arguments, FACT, CONSOLIDATED)))
    return {"semantic": facts, "items": facts, "total": len(facts)}


async def procedural(call: Call, arguments: Arguments) -> Record:
    """Procedures that several memories describe."""
    memories = await _tagged(call, arguments, PROCEDURE, CONSOLIDATED)
    procedures = list(map(procedure_record, memories))
    return {"procedural": procedures, "items": procedures, "total": len(procedures)}


async def crystals(call: Call, arguments: Arguments) -> Record:
    """What chains of finished actions came to; of a session, its own and those it has actions of."""
    memories = await _tagged(call, arguments | {"limit": MAX_LISTED}, CRYSTAL)
    learned = await call.queries.lessons.surest(call.reader(), None, system_clock(), source="crystal", limit=MAX_LISTED)
    lessons = list(map(view, learned))
    records = [crystal_record(memory, lessons) for memory in memories]
    if session := arguments["sessionId"]:
        names = list(dict.fromkeys(name for record in records for name in record["sourceActionIds"]))
        documents = [located.document for located in await call.queries.lookup.documents(names, call.reader())]
        in_session = {document.id for document in documents if getattr(document, "session_id", "") == session}
        records = [
            record
            for record in records
            if record.get("sessionId") == session or in_session.intersection(record["sourceActionIds"])
        ]
    return success(crystals=records[: arguments.count("limit", MAX_LISTED)], total=len(records))


async def get_profile(call: Call, arguments: Arguments) -> Record:
    """A project's profile; without a project, the list of projects."""
    if arguments.chosen("project") is not None:
        return await profile(call, arguments)
    return success(projects=[name for name in await call.queries.lookup.projects(await reading(call)) if name])


async def post_reflect(request: Request, arguments: Arguments) -> Record:
    """Insights of a project; with a session, the slots brought up to date with that."""
    if session := arguments.chosen("sessionId"):
        home = await home_of(request, session)
        arguments = arguments | {"project": home.project if home else arguments["project"]}
    return await reflect(call_of(request), arguments)


async def _tagged(call: Call, arguments: Arguments, *tags: str) -> list[Record]:
    """The newest memories that have all of these tags, of the project that is named or of all."""
    reader, limit, project = await reading(call), arguments.count("limit", MAX_LISTED), arguments.chosen("project")
    newest = await call.queries.lookup.found(lookup.latest, reader, project, limit, kinds=["memory"], tags=list(tags))
    return list(map(view, newest))


async def profile(call: Call, arguments: Arguments) -> Record:
    """memory_profile: in an object of its own, and flat."""
    reader, project = await reading(call), arguments.needed("project")
    current, cached = await call.queries.profiles.of(reader, project, refresh=bool(arguments["refresh"]))
    if current is None:
        return {"profile": None, "reason": "no_sessions"}
    fields, lists = asdict(current), "conventions commonErrors=errors recent_activity preferences"
    record: Record = {
        **renamed(fields, "project updated_at"),
        "topConcepts": [{"concept": name, "frequency": count} for name, count in current.concepts],
        "topFiles": [{"file": name, "frequency": count} for name, count in current.files],
        **renamed(fields, f"{lists} session_count total_observations"),
    }
    return {**record, "profile": record, "cached": cached}


def fact_record(document: View) -> Record:
    """A fact: a memory of what summaries of sessions state, by one of them if it was decided there."""
    return {
        **renamed(document, "id fact=content"),
        "confidence": round(document["importance"] / 10, 3),
        "sourceSessionIds": [name for name in document["derived_from"] if name.startswith("sum_")],
        "sourceMemoryIds": [name for name in document["derived_from"] if name.startswith("mem_")],
        **renamed(document, f"strength=importance project {_TIMES}"),
    }


def procedure_record(document: View) -> Record:
    """A procedure: a memory whose first line names it, and whose others are its steps."""
    name, *lines = document["content"].split("\n")
    return {
        "id": document["id"],
        "name": name,
        "steps": [step[1] for line in lines if (step := _STEP.match(line))],
        "triggerCondition": "",
        "frequency": len(document["derived_from"]),
        **renamed(document, f"sourceMemoryIds=derived_from strength=importance project {_TIMES}"),
    }


def crystal_record(document: View, lessons: Iterable[View] = ()) -> Record:
    """A crystal: a memory of finished actions; `lessons` are those that may have been drawn from the same actions."""
    narrative, *outcomes = document["content"].split("\n- ")
    if not outcomes:  # of each action a line
        lines = document["content"].split("\n")
        narrative = " ".join(lines)
        outcomes = [line for line in lines if not is_dropped(line.rpartition(": ")[2].rstrip("."))]
    actions = set(document["references"])
    return {
        "id": document["id"],
        "narrative": narrative,
        "keyOutcomes": outcomes,
        **renamed(document, "filesAffected=files"),
        "lessons": [
            lesson["content"]
            for lesson in lessons
            if lesson["derived_from"] and actions.issuperset(lesson["derived_from"])
        ],
        **renamed(document, "sourceActionIds=references project createdAt=recorded_at"),
        **without_empty(renamed(document, "session_id")),
    }


MAX_DAYS = 36_500.0
MAX_ACTIONS = 5_000
MAX_CHAIN = 200
MAX_GROUPS = 50
"""The most crystals of one call."""
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


async def summarize(request: Request, arguments: Arguments) -> Record:
    """Summarize a session now."""
    session, call = arguments.needed("sessionId"), call_of(request)
    home, reader = await home_of(request, session), call.reader()
    if home is None:
        return failure("session_not_found")
    try:
        current = await call.operations.current.session(session, home.project, reader)
    except NotFound:
        return failure("session_not_found")
    return await _new_summary(call, current)


async def crystallize_finished(call: Call, arguments: Arguments) -> Record:
    """Create crystals from work that was finished a while ago, one for each chain of actions."""
    reader, caller = await reading(call), call.caller()
    before = system_clock() - timedelta(days=max(0.0, min(MAX_DAYS, arguments["olderThanDays"])))
    groups: dict[tuple[str, str], list[str]] = {}
    async for action in _actions(call, reader, arguments.chosen("project")):
        if is_finished(action["status"]) and not action["crystallized_into"] and action["updated_at"] <= before:
            groups.setdefault((action["project"], action["parent"]), []).append(action["id"])
    crystals_made: list[str] = []
    for names in [] if arguments["dryRun"] else list(groups.values())[:MAX_GROUPS]:
        crystal = await call.operations.condensing.crystallize(names[:MAX_CHAIN], reader, caller)
        noted(call, caller, crystal)
        crystals_made.append(crystal.id)
    return success(groupCount=len(groups), crystalIds=crystals_made)


async def pipeline(call: Call, arguments: Arguments) -> Record:
    """Run the consolidation, or one tier of it."""
    results = await consolidate(call, arguments)
    del results["success"]
    return success(results=results)


async def _actions(call: Call, reader: Reader, project: str | None) -> AsyncIterator[Record]:
    """The newest actions of a project, or of every one."""
    scanned = 0
    for name in [project] if project else sorted({"", *await call.queries.lookup.projects(reader)}):
        async for action in every(call.queries.actions.page, reader, name, MAX_ACTIONS - scanned):
            scanned += 1
            yield action


async def consolidate(call: Call, arguments: Arguments) -> Record:
    """memory_consolidate: for a project, or for each; all of it, or one tier.

    Lessons decay automatically, so the tier `decay` does nothing, and says so.
    """
    tier = one_of(arguments.chosen("tier") or "all", TIERS, "tier")
    reader, caller = await reading(call), call.caller()
    named = arguments.chosen("project")
    projects = [named] if named else (await call.queries.lookup.projects(reader))[:MAX_PROJECTS]
    fewest = arguments.count("minObservations", 1_000)
    totals = {"memories": 0, "observations": 0, "facts": 0, "summaries": 0, "procedures": 0}
    for project in projects if TIERS[tier] else ():
        result = await call.operations.condensing.consolidate(
            reader, project, caller, fewest_observations=fewest, parts=TIERS[tier]
        )
        noted(call, caller, result)
        for name in totals:
            totals[name] += getattr(result, name)
    insights = 0
    reflecting = tier in ("all", "reflect")
    if reflecting:
        for project in projects:
            reflection = await call.operations.condensing.reflect(reader, project, caller)
            noted(call, caller, reflection)
            insights += reflection.insights
    few = totals["observations"] < fewest
    if tier == "all" and few and not insights and not (totals["facts"] or totals["procedures"]):
        return success(consolidated=0, totalObservations=totals["observations"], reason="insufficient_observations")
    return success(
        consolidated=totals["memories"],
        totalObservations=totals["observations"],
        semantic={"newFacts": totals["facts"], "totalSummaries": totals["summaries"]},
        procedural={"newProcedures": totals["procedures"], "patternsAnalyzed": totals["procedures"]},
        **({"reflect": {"newInsights": insights}} if reflecting else {}),
        **({"reason": "lessons_fade_by_themselves"} if tier == "decay" else {}),
    )


async def reflect(call: Call, arguments: Arguments) -> Record:
    """memory_reflect: slots from a session; without a session, insights from a project."""
    if arguments.chosen("sessionId") is None:
        clusters = max(1, min(20, int(arguments["maxClusters"] or 10)))
        caller, project = call.caller(), arguments.chosen("project") or ""
        result = await call.operations.condensing.reflect(call.reader(), project, caller, clusters)
        noted(call, caller, result)
        return success(
            newInsights=result.insights,
            reinforced=result.reinforced,
            clustersProcessed=result.insights + result.reinforced,
            clustersSkipped=0,
            usedFallback=True,
        )
    try:
        session = await one_session(call, arguments)
    except NotFound:
        return success(applied=0, observationsReviewed=0, reason="no_observations")
    return success(**await reflected(call, session, arguments.count("maxObservations", 200)))


async def reflected(call: Call, session: Session, newest: int) -> Record:
    """What reflecting on a session changed in the slots of its project: of no other, whose agents would see it, too."""
    caller = call.caller()
    result = await call.operations.condensing.reflect_slots(session, caller, newest, reader=call.reader())
    noted(call, caller, result)
    reason = {} if result.observations else {"reason": "no_observations"}
    return {"applied": result.slots_changed, "observationsReviewed": result.observations, **reason}


async def crystallize(call: Call, arguments: Arguments) -> Record:
    """memory_crystallize: a session's summary; of finished actions, a memory and lessons."""
    if actions := arguments["actionIds"]:
        caller = call.caller()
        project, session_id = arguments.chosen("project") or "", arguments.chosen("sessionId") or ""
        result = await call.operations.condensing.crystallize(
            actions, call.reader(), caller, project=project, session_id=session_id
        )
        noted(call, caller, result)
        names = "id narrative key_outcomes files_affected lessons source_action_ids created_at"
        optional = without_empty({"project": project, "sessionId": session_id})
        return success(crystal=renamed(asdict(result), names) | optional)
    try:
        session = await one_session(call, arguments)
    except NotFound:
        return failure("session_not_found")
    return await _new_summary(call, session)


async def _new_summary(call: Call, session: Session) -> Record:
    try:
        return success(summary=await summarised(call, session))
    except NotFound:
        return failure("no_observations")


async def summarised(call: Call, session: Session) -> Record:
    """A session's new summary; raises NotFound without observations."""
    caller = call.caller()
    result = await call.operations.condensing.summarise(session, caller, call.reader())
    noted(call, caller, result)
    of_session = {"session_id": session.session_id, "project": session.project, "recorded_at": system_clock()}
    return summary_record(asdict(result.digest) | of_session)
