"""Relations between documents, what is related to one, and the graph."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import After, InProject, ListRequest, read_request
from api.services import caller, reader, services
from ingest.commands.command import Confidence, Name
from ingest.commands.handler import Accepted
from ingest.commands.requests import Relate
from ingest.roles import READ, WRITE
from projections.queries.graph import Drawing, Totals
from projections.queries.relations import RelationView
from projections.queries.views import Items, Page, view

Hops = Annotated[int, Meta(ge=1, le=5)]


class Related(Struct, frozen=True, kw_only=True):
    """A related document with all its fields, and how it is related: `path` are the relations walked."""

    id: str
    hops: int
    confidence: float
    path: Sequence[Any]


class GraphRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the graph: what is within `depth` steps of `start`, or the newest of a project or of all."""

    project: Name | None = None
    start: Annotated[str, Meta(max_length=1024)] | None = None
    depth: Annotated[int, Meta(ge=1, le=3)] = 1
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class RelatedRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far to walk."""

    max_hops: Hops = 2
    min_confidence: Confidence = 0.0


async def post_relation(request: Request) -> Response:
    """Relate two documents, or withdraw that."""
    command = await asked_for(request, Relate)
    return Json(await services(request).operations.work.relate(command, reader(request), caller(request)), 202)


async def list_relations(request: Request) -> Response:
    """A project's relations, newest first."""
    wanted = await read_request(request, ListRequest)
    queries = services(request).queries
    return Json(await queries.relations.page(reader(request), wanted.project, wanted.cursor, wanted.limit))


async def get_related(request: Request) -> Response:
    """What is related to a document, directly or through others, surest first."""
    wanted = await read_request(request, RelatedRequest)
    found = await services(request).queries.graph.related(
        reader(request), request.path_params["id"], wanted.max_hops, wanted.min_confidence
    )
    items = [
        {**view(one.document), "hops": one.related.hops, "confidence": one.related.confidence, "path": one.related.path}
        for one in found
    ]
    return Json({"items": items})


async def get_graph(request: Request) -> Response:
    """Part of the graph of projects, sessions, memories, files and concepts."""
    wanted = await read_request(request, GraphRequest)
    graph = services(request).queries.graph
    return Json(await graph.query(reader(request), wanted.project, wanted.start, wanted.depth, wanted.limit))


async def get_graph_stats(request: Request) -> Response:
    """How many nodes and edges of each type the graph has."""
    wanted = await read_request(request, InProject)
    return Json(await services(request).queries.graph.stats(reader(request), wanted.project))


ENDPOINTS = [
    Endpoint("GET", "/v1/relations", READ, list_relations, "A project's relations, newest first.", query=ListRequest,
        answer=Page[RelationView]),
    Endpoint("POST", "/v1/relations", WRITE, post_relation, "Relate two documents, or withdraw that.", status=202,
        body=Relate, answer=Accepted, faults={404: "One of the two is not there."}),
    Endpoint("GET", "/v1/related/{id}", READ, get_related, "What is related to a document, surest first.",
        query=RelatedRequest, answer=Items[Related]),
    Endpoint("GET", "/v1/graph", READ, get_graph, "Part of the graph.", query=GraphRequest, answer=Drawing),
    Endpoint("GET", "/v1/graph/stats", READ, get_graph_stats, "How big the graph is.", query=InProject, answer=Totals),
]  # fmt: skip
