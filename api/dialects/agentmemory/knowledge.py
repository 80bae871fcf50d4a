"""What is made of what was seen: the graph, facts, procedures, crystals, insights, profiles; and timelines."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentmemory import knowledge_records as dialect
from api.dialects.agentmemory.asking import (
    BOOLEAN,
    NAMES,
    NUMBER,
    TEXT,
    Properties,
    asked,
    asked_in_query,
    door,
    otherwise,
    reply,
    succeeded,
)
from api.dialects.agentmemory.mcp import condense, recall, sessions
from api.dialects.agentmemory.mcp.answers import failed
from api.dialects.agentmemory.mcp.asking import MAX_LIMIT, Arguments, chosen, count, needed
from api.dialects.agentmemory.shapes import (
    COUNT,
    CRYSTAL,
    FACT,
    INSIGHT,
    LINK,
    NODE,
    OBJECT,
    OBSERVATION,
    PROCEDURE,
    PROFILE,
    TEXTS,
    fields,
    listed,
    outcome,
    record,
)
from api.dialects.homes import home_of
from api.http.endpoint import Endpoint
from api.http.http import Json
from ingest.errors import CommandRejected, NotFound
from ingest.platform.clock import system_clock
from ingest.roles import READ, READ_WRITE
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Door
from projections.condensing import claims
from projections.queries import near
from projections.queries.views import view

MAX_LISTED = 500
ORIGIN = "reflection"
"""Where lessons come from that are insights."""
DEPTHS = (1, 3)
LISTED = {"project": TEXT, "limit": otherwise(NUMBER, 100)}
QUERY_GRAPH_FIELDS: Properties = {
    "startNodeId": TEXT,
    "maxDepth": otherwise(NUMBER, 1),
    "limit": otherwise(NUMBER, MAX_LISTED),
    "project": TEXT,
}
BUILD_GRAPH_FIELDS: Properties = {"batchSize": NUMBER}
CRYSTALS_FIELDS: Properties = {**LISTED, "sessionId": TEXT, "limit": otherwise(NUMBER, 20)}
CREATE_CRYSTAL_FIELDS: Properties = {"actionIds": NAMES, "sessionId": TEXT, "project": TEXT}
INSIGHTS_FIELDS: Properties = {**LISTED, "minConfidence": otherwise(NUMBER, 0)}
SEARCH_INSIGHTS_FIELDS: Properties = {
    "query": TEXT,
    **LISTED,
    "limit": otherwise(NUMBER, 10),
    "minConfidence": otherwise(NUMBER, 0.1),
}
PROFILE_FIELDS: Properties = {"project": TEXT, "refresh": BOOLEAN}
TIMELINE_FIELDS: Properties = {
    **dict.fromkeys(("anchor", "project", "sessionId", "agentId"), TEXT),
    "before": otherwise(NUMBER, 5),
    "after": otherwise(NUMBER, 5),
}
REFLECT_FIELDS: Properties = {
    **dict.fromkeys(("project", "sessionId"), TEXT),
    "maxClusters": otherwise(NUMBER, 10),
    "maxObservations": otherwise(NUMBER, 50),
}


async def query_graph(request: Request) -> Response:
    """What is around a node of the graph; without one, what is newest."""
    said, through = await asked(request, QUERY_GRAPH_FIELDS), door(request)
    await through.caught_up()
    start, limit = chosen(said, "startNodeId"), count(said, "limit", MAX_LISTED)
    depth = max(DEPTHS[0], min(DEPTHS[1], int(said["maxDepth"])))
    found = await through.queries.graph.query(through.reader(), chosen(said, "project"), start, depth, limit)
    return Json(
        {
            "nodes": list(map(dialect.node, found.nodes)),
            "edges": list(map(dialect.edge, found.edges)),
            "depth": depth if start else 0,
            "totalNodes": found.total_nodes,
            "totalEdges": found.total_edges,
            "truncated": found.truncated,
            "limit": limit,
            "offset": 0,
        }
    )


async def build_graph(request: Request) -> Response:
    """Nothing is to be built: the graph is derived whenever it is asked for. Says how big it is."""
    await asked(request, BUILD_GRAPH_FIELDS)
    through = door(request)
    await through.caught_up()
    totals = await through.queries.graph.stats(through.reader(), None)
    nodes, edges = sum(totals.nodes.values()), sum(totals.edges.values())
    return succeeded(sessions=0, batches=0, nodes=nodes, edges=edges, reason="derived_when_asked_for")


async def semantic(request: Request) -> Response:
    """Facts that several sessions agree on."""
    said = asked_in_query(request, LISTED)
    found = [dialect.fact(one) for one in await _tagged(door(request), said, claims.FACT, claims.CONSOLIDATED)]
    return Json({"semantic": found, "items": found, "total": len(found)})


async def procedural(request: Request) -> Response:
    """How things are done, as several memories say."""
    said = asked_in_query(request, LISTED)
    found = [
        dialect.procedure(one) for one in await _tagged(door(request), said, claims.PROCEDURE, claims.CONSOLIDATED)
    ]
    return Json({"procedural": found, "items": found, "total": len(found)})


async def crystals(request: Request) -> Response:
    """What chains of finished actions came to; of a session, its own and those it has actions of."""
    said, through = asked_in_query(request, CRYSTALS_FIELDS), door(request)
    kept = await _tagged(through, {**said, "limit": MAX_LISTED}, claims.CRYSTAL)
    learned = await through.queries.lessons.surest(
        through.reader(), None, system_clock(), source="crystal", limit=MAX_LISTED
    )
    lessons = list(map(view, learned))
    found = [dialect.crystal(one, lessons) for one in kept]
    if session := said["sessionId"]:
        names = list(dict.fromkeys(name for one in found for name in one["sourceActionIds"]))
        known = await through.queries.browse.documents(names, through.reader())
        own = {one.document.id for one in known if getattr(one.document, "session_id", "") == session}
        found = [one for one in found if one.get("sessionId") == session or own.intersection(one["sourceActionIds"])]
    return succeeded(crystals=found[: count(said, "limit", MAX_LISTED)], total=len(found))


async def create_crystal(request: Request) -> Response:
    """A memory and lessons of finished actions."""
    said = await asked(request, CREATE_CRYSTAL_FIELDS, ("actionIds",))
    if not said["actionIds"]:
        raise BadArgument("actionIds is empty", "actionIds")
    try:
        return reply(await condense.crystallize(door(request), said))
    except (NotFound, CommandRejected) as refused:
        return reply(failed(str(refused)))


async def insights(request: Request) -> Response:
    """Insights, the surest first."""
    said, through = asked_in_query(request, INSIGHTS_FIELDS), door(request)
    await through.caught_up()
    now = system_clock()
    known = await through.queries.lessons.surest(
        through.reader(),
        chosen(said, "project"),
        now,
        source=ORIGIN,
        min_confidence=said["minConfidence"],
        limit=MAX_LISTED,
    )
    found = [dialect.insight(view(one), one.confidence_at(now)) for one in known]
    return succeeded(insights=found[: count(said, "limit", MAX_LISTED)], total=len(found))


async def search_insights(request: Request) -> Response:
    """Insights about a query."""
    said, through = await asked(request, SEARCH_INSIGHTS_FIELDS, ("query",)), door(request)
    await through.caught_up()
    now = system_clock()
    known = await through.queries.lessons.search(
        through.reader(),
        needed(said, "query"),
        chosen(said, "project"),
        now,
        min_confidence=said["minConfidence"],
        limit=MAX_LISTED,
    )
    found = [dialect.insight(view(one), one.confidence_at(now), score) for one, score in known if one.origin == ORIGIN]
    return succeeded(insights=found[: count(said, "limit", MAX_LIMIT)], total=len(found))


async def profile(request: Request) -> Response:
    """What a project is like; without one, which projects there are."""
    said, through = asked_in_query(request, PROFILE_FIELDS), door(request)
    if chosen(said, "project") is not None:
        return reply(await sessions.profile(through, said))
    await through.caught_up()
    return succeeded(projects=await _projects(through))


async def timeline(request: Request) -> Response:
    """What was observed around an anchor."""
    return reply(await recall.timeline(door(request), await asked(request, TIMELINE_FIELDS, ("anchor",))))


async def reflect(request: Request) -> Response:
    """Insights of a project; with a session, the slots brought up to date with that."""
    said = await asked(request, REFLECT_FIELDS)
    if session := chosen(said, "sessionId"):
        home = await home_of(request, session)
        said |= {"project": home.project if home else said["project"]}
    return reply(await condense.reflect(door(request), said))


async def _tagged(through: Door, said: Arguments, *tags: str) -> list[dict[str, Any]]:
    """The newest memories that have all of these tags, of the project that is named or of all."""
    await through.caught_up()
    limit, project = count(said, "limit", MAX_LISTED), chosen(said, "project")
    found = await through.queries.browse.found(
        near.latest, through.reader(), project, limit, kinds=["memory"], tags=list(tags)
    )
    return list(map(view, found))


async def _projects(through: Door) -> list[str]:
    return [name for name in await through.queries.browse.projects(through.reader()) if name]


ENDPOINTS = [
    Endpoint(
        "POST",
        "/agentmemory/graph/query",
        READ,
        query_graph,
        "Part of the graph.",
        "V",
        body=fields(QUERY_GRAPH_FIELDS),
        optional=True,
        answer=record(
            {
                "nodes": listed(NODE),
                "edges": listed(LINK),
                **dict.fromkeys(("depth", "totalNodes", "totalEdges", "limit", "offset"), COUNT),
                "truncated": BOOLEAN,
            }
        ),
    ),
    Endpoint(
        "POST",
        "/agentmemory/graph/build",
        READ,
        build_graph,
        "How big the graph is.",
        "V",
        body=fields(BUILD_GRAPH_FIELDS),
        optional=True,
        answer=outcome({**dict.fromkeys(("sessions", "batches", "nodes", "edges"), COUNT), "reason": TEXT}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/semantic",
        READ,
        semantic,
        "Facts that several sessions agree on.",
        "S",
        query=fields(LISTED),
        answer=record({"semantic": listed(FACT), "items": listed(FACT), "total": COUNT}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/procedural",
        READ,
        procedural,
        "How things are done.",
        "S",
        query=fields(LISTED),
        answer=record({"procedural": listed(PROCEDURE), "items": listed(PROCEDURE), "total": COUNT}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/crystals",
        READ,
        crystals,
        "What chains of finished actions came to.",
        "S",
        query=fields(CRYSTALS_FIELDS),
        answer=outcome({"crystals": listed(CRYSTAL), "total": COUNT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/crystals/create",
        READ_WRITE,
        create_crystal,
        "A memory and lessons of finished actions.",
        "S",
        faults={400: "The actions are missing."},
        body=fields(CREATE_CRYSTAL_FIELDS, ("actionIds",)),
        answer=outcome({"crystal": CRYSTAL}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/insights",
        READ,
        insights,
        "Insights, the surest first.",
        "S",
        query=fields(INSIGHTS_FIELDS),
        answer=outcome({"insights": listed(INSIGHT), "total": COUNT}),
    ),
    Endpoint(
        "POST",
        "/agentmemory/insights/search",
        READ,
        search_insights,
        "Insights about a query.",
        "S",
        faults={400: "The query is missing."},
        body=fields(SEARCH_INSIGHTS_FIELDS, ("query",)),
        answer=outcome({"insights": listed(INSIGHT), "total": COUNT}),
    ),
    Endpoint(
        "GET",
        "/agentmemory/profile",
        READ,
        profile,
        "What a project is like, or which there are.",
        "S",
        query=fields(PROFILE_FIELDS),
        answer={"anyOf": [outcome({"projects": TEXTS}), record({"profile": {"anyOf": [PROFILE, {"type": "null"}]}})]},
    ),
    Endpoint(
        "POST",
        "/agentmemory/timeline",
        READ,
        timeline,
        "What was observed around an anchor.",
        "S",
        faults={400: "The anchor is missing."},
        body=fields(TIMELINE_FIELDS, ("anchor",)),
        answer=outcome(
            {"entries": listed(OBJECT), "observations": listed(OBSERVATION), "anchorIndex": COUNT}, {"reason": TEXT}
        ),
    ),
    Endpoint(
        "POST",
        "/agentmemory/reflect",
        READ_WRITE,
        reflect,
        "Insights of a project, or slots from a session.",
        "S",
        body=fields(REFLECT_FIELDS),
        optional=True,
        answer=outcome({}, {"applied": COUNT, "observationsReviewed": COUNT, "reason": TEXT}),
    ),
]
