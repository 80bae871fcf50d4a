"""What is made of what was seen: the graph, facts, procedures, crystals, insights, profiles; and timelines."""

import re
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory.answers import answer
from api.dialects.agentmemory.condensing import crystallize, reflect
from api.dialects.agentmemory.endpoints import MAX_LIMIT, Arguments, call_of, failure, reply, success
from api.dialects.agentmemory.records import Record, View, iso, renamed, without_empty
from api.dialects.session_projects import home_of
from api.http.http import Json
from ingest.errors import CommandRejected, NotFound
from ingest.platform.clock import system_clock
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolAnswer, ToolContext
from projections.condensing import claims
from projections.condensing.profile import Profile
from projections.documents.actions import is_dropped
from projections.queries import lookup
from projections.queries.graph import Link, Node
from projections.queries.views import view

MAX_LISTED = 500
ORIGIN = "reflection"
"""Where lessons come from that are insights."""
DEPTHS = (1, 3)
_TIMES = "createdAt=recorded_at updated_at"
_STEP = re.compile(r"^\d+\. (.*)$")


async def query_graph(request: Request, arguments: Arguments) -> Response:
    """What is around a node of the graph; without one, what is newest."""
    call = call_of(request)
    await call.wait_for_own_writes()
    start, limit = arguments.chosen("startNodeId"), arguments.count("limit", MAX_LISTED)
    depth = max(DEPTHS[0], min(DEPTHS[1], int(arguments["maxDepth"])))
    found = await call.queries.graph.query(call.reader(), arguments.chosen("project"), start, depth, limit)
    return Json(
        {
            "nodes": list(map(node_record, found.nodes)),
            "edges": list(map(edge_record, found.edges)),
            "depth": depth if start else 0,
            "totalNodes": found.total_nodes,
            "totalEdges": found.total_edges,
            "truncated": found.truncated,
            "limit": limit,
            "offset": 0,
        }
    )


async def build_graph(request: Request, arguments: Arguments) -> Response:
    """Nothing is to be built: the graph is derived whenever it is asked for. Says how big it is."""
    call = call_of(request)
    await call.wait_for_own_writes()
    totals = await call.queries.graph.stats(call.reader(), None)
    nodes, edges = sum(totals.nodes.values()), sum(totals.edges.values())
    return success(sessions=0, batches=0, nodes=nodes, edges=edges, reason="derived_when_asked_for")


async def semantic(request: Request, arguments: Arguments) -> Response:
    """What sessions state, or one decided."""
    kept = await _tagged(call_of(request), arguments, claims.FACT, claims.CONSOLIDATED)
    found = list(map(fact_record, kept))
    return Json({"semantic": found, "items": found, "total": len(found)})


async def procedural(request: Request, arguments: Arguments) -> Response:
    """How things are done, as several memories say."""
    found = [
        procedure_record(one)
        for one in await _tagged(call_of(request), arguments, claims.PROCEDURE, claims.CONSOLIDATED)
    ]
    return Json({"procedural": found, "items": found, "total": len(found)})


async def crystals(request: Request, arguments: Arguments) -> Response:
    """What chains of finished actions came to; of a session, its own and those it has actions of."""
    call = call_of(request)
    kept = await _tagged(call, arguments | {"limit": MAX_LISTED}, claims.CRYSTAL)
    learned = await call.queries.lessons.surest(call.reader(), None, system_clock(), source="crystal", limit=MAX_LISTED)
    lessons = list(map(view, learned))
    found = [crystal_record(one, lessons) for one in kept]
    if session := arguments["sessionId"]:
        names = list(dict.fromkeys(name for one in found for name in one["sourceActionIds"]))
        known = await call.queries.lookup.documents(names, call.reader())
        in_session = {one.document.id for one in known if getattr(one.document, "session_id", "") == session}
        found = [
            one for one in found if one.get("sessionId") == session or in_session.intersection(one["sourceActionIds"])
        ]
    return success(crystals=found[: arguments.count("limit", MAX_LISTED)], total=len(found))


async def create_crystal(request: Request, arguments: Arguments) -> Response:
    """A memory and lessons of finished actions."""
    if not arguments["actionIds"]:
        raise BadArgument("actionIds is empty", "actionIds")
    try:
        return reply(await crystallize(call_of(request), arguments))
    except (NotFound, CommandRejected) as refused:
        return failure(str(refused))


async def insights(request: Request, arguments: Arguments) -> Response:
    """Insights, the surest first."""
    call = call_of(request)
    await call.wait_for_own_writes()
    now = system_clock()
    known = await call.queries.lessons.surest(
        call.reader(),
        arguments.chosen("project"),
        now,
        source=ORIGIN,
        min_confidence=arguments["minConfidence"],
        limit=MAX_LISTED,
    )
    found = [insight_record(view(one), one.confidence_at(now)) for one in known]
    return success(insights=found[: arguments.count("limit", MAX_LISTED)], total=len(found))


async def search_insights(request: Request, arguments: Arguments) -> Response:
    """Insights about a query."""
    call = call_of(request)
    await call.wait_for_own_writes()
    now = system_clock()
    known = await call.queries.lessons.search(
        call.reader(),
        arguments.needed("query"),
        arguments.chosen("project"),
        now,
        min_confidence=arguments["minConfidence"],
        limit=MAX_LISTED,
    )
    found = [insight_record(view(one), one.confidence_at(now), score) for one, score in known if one.origin == ORIGIN]
    return success(insights=found[: arguments.count("limit", MAX_LIMIT)], total=len(found))


async def get_profile(request: Request, arguments: Arguments) -> Response:
    """What a project is like; without one, which projects there are."""
    call = call_of(request)
    if arguments.chosen("project") is not None:
        return reply(await profile(call, arguments))
    await call.wait_for_own_writes()
    return success(projects=await _projects(call))


async def post_reflect(request: Request, arguments: Arguments) -> Response:
    """Insights of a project; with a session, the slots brought up to date with that."""
    if session := arguments.chosen("sessionId"):
        home = await home_of(request, session)
        arguments = arguments | {"project": home.project if home else arguments["project"]}
    return reply(await reflect(call_of(request), arguments))


async def _tagged(call: ToolContext, arguments: Arguments, *tags: str) -> list[dict[str, Any]]:
    """The newest memories that have all of these tags, of the project that is named or of all."""
    await call.wait_for_own_writes()
    limit, project = arguments.count("limit", MAX_LISTED), arguments.chosen("project")
    found = await call.queries.lookup.found(
        lookup.latest, call.reader(), project, limit, kinds=["memory"], tags=list(tags)
    )
    return list(map(view, found))


async def _projects(call: ToolContext) -> list[str]:
    return [name for name in await call.queries.lookup.projects(call.reader()) if name]


async def profile(call: ToolContext, arguments: Arguments) -> ToolAnswer:
    """memory_profile: in an object of its own, and flat."""
    await call.wait_for_own_writes()
    reader, project = call.reader(), arguments.needed("project")
    known, cached = await call.queries.profiles.of(reader, project, refresh=bool(arguments["refresh"]))
    if known is None:
        return answer({"profile": None, "reason": "no_sessions"})
    record = profile_record(known)
    return answer({**record, "profile": record, "cached": cached})


def fact_record(kept: View) -> Record:
    """A fact: a memory of what summaries of sessions state, by one of them if it was decided there."""
    return {
        "id": kept["id"],
        "fact": kept["content"],
        "confidence": round(kept["importance"] / 10, 3),
        "sourceSessionIds": [name for name in kept["derived_from"] if name.startswith("sum_")],
        "sourceMemoryIds": [name for name in kept["derived_from"] if name.startswith("mem_")],
        "strength": kept["importance"],
        "project": kept["project"],
        **renamed(kept, _TIMES),
    }


def procedure_record(kept: View) -> Record:
    """A procedure: a memory whose first line names it, and whose others are its steps."""
    name, *lines = kept["content"].split("\n")
    return {
        "id": kept["id"],
        "name": name,
        "steps": [found[1] for line in lines if (found := _STEP.match(line))],
        "triggerCondition": "",
        "frequency": len(kept["derived_from"]),
        "sourceMemoryIds": list(kept["derived_from"]),
        "strength": kept["importance"],
        **renamed(kept, "project"),
        **renamed(kept, _TIMES),
    }


def crystal_record(kept: View, lessons: Iterable[View] = ()) -> Record:
    """A crystal: a memory of finished actions; `lessons` are those that may have been drawn from the same actions."""
    narrative, *outcomes = kept["content"].split("\n- ")
    if not outcomes:  # of each action a line
        lines = kept["content"].split("\n")
        narrative = " ".join(lines)
        outcomes = [line for line in lines if not is_dropped(line.rpartition(": ")[2].rstrip("."))]
    actions = set(kept["references"])
    return {
        "id": kept["id"],
        "narrative": narrative,
        "keyOutcomes": outcomes,
        **renamed(kept, "filesAffected=files"),
        "lessons": [
            one["content"] for one in lessons if one["derived_from"] and actions.issuperset(one["derived_from"])
        ],
        **renamed(kept, "sourceActionIds=references project createdAt=recorded_at"),
        **without_empty(renamed(kept, "session_id")),
    }


def insight_record(learned: View, confidence: float, score: float | None = None) -> Record:
    """An insight: a lesson that several memories and lessons amount to."""
    sources: list[str] = learned["derived_from"]
    return {
        **renamed(learned, "id title content"),
        "confidence": round(confidence, 3),
        **renamed(learned, "reinforcements sourceConceptCluster=tags"),
        "sourceMemoryIds": [name for name in sources if name.startswith("mem_")],
        "sourceLessonIds": [name for name in sources if name.startswith("lsn_")],
        "sourceCrystalIds": [],
        **renamed(learned, "tags project"),
        "decayRate": 0.05,
        **renamed(learned, _TIMES),
        **({} if score is None else {"score": score}),
    }


def node_record(one: Node) -> Record:
    """A node of the graph."""
    return {"id": one.id, "type": one.type, "name": one.label, "label": one.label, "properties": {}}


def edge_record(one: Link) -> Record:
    """An edge of the graph."""
    return {
        "id": f"{one.source}|{one.type}|{one.target}",
        "type": one.type,
        "sourceNodeId": one.source,
        "targetNodeId": one.target,
        "source": one.source,
        "target": one.target,
        "weight": 1,
    }


def profile_record(known: Profile) -> Record:
    """A project's profile."""
    return {
        "project": known.project,
        "updatedAt": iso(known.updated_at),
        "topConcepts": [{"concept": name, "frequency": count} for name, count in known.concepts],
        "topFiles": [{"file": name, "frequency": count} for name, count in known.files],
        "conventions": list(known.conventions),
        "commonErrors": list(known.errors),
        "recentActivity": list(known.recent_activity),
        "preferences": list(known.preferences),
        "sessionCount": known.session_count,
        "totalObservations": known.total_observations,
    }
