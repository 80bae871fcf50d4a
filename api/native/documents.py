"""Relations between documents, the graph; and documents of any kind by id."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for
from api.native.common import After, InProject, ListRequest, read_request, with_notes
from api.services import caller, reader, services
from ingest.commands.command import Confidence, Name
from ingest.commands.decide import Relate
from ingest.commands.handler import Accepted
from ingest.errors import NotFound
from ingest.roles import READ, WRITE
from projections.documents.relations import Relation
from projections.queries.graph import Drawing, Totals
from projections.queries.lessons import LessonView
from projections.queries.memories import MemoryView
from projections.queries.observations import ObservationView
from projections.queries.sessions import CommitView, SummaryView
from projections.queries.views import Items, Page, view
from projections.queries.work import ActionView, RelationView

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
    """A project's relations, but for those of documents that the reader may not see."""
    wanted = await read_request(request, ListRequest)
    queries = services(request).queries
    page = queries.relations.page(reader(request), wanted.project, wanted.cursor, wanted.limit, wanted.times)
    return Json(await with_notes(request, wanted, await page))


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


PREFIXES = {
    "observations": "obs",
    "memories": "mem",
    "lessons": "lsn",
    "actions": "act",
    "relations": "rel",
    "commits": "cmt",
    "summaries": "sum",
}
SHAPES: dict[str, Any] = {
    "observations": ObservationView,
    "memories": MemoryView,
    "lessons": LessonView,
    "actions": ActionView,
    "relations": RelationView,
    "commits": CommitView,
    "summaries": SummaryView,
}


async def get_document(request: Request) -> Response:
    """One document by id; 404 for the id of another collection, and for what the reader may not see."""
    await read_request(request, After)
    name = request.path_params["id"]
    if name.partition("_")[0] != PREFIXES[request.url.path.split("/")[2]]:
        raise NotFound(f"{name!r} is not in this collection")
    queries, who = services(request).queries, reader(request)
    document = (await queries.lookup.document(name, who)).document
    if isinstance(document, Relation) and not await queries.relations.readable([document], who):
        raise NotFound(f"there is no document {name!r}")
    return Json(view(document))


ENDPOINTS = [
    Endpoint("GET", "/v1/relations", READ, list_relations, "A project's relations, newest first.", query=ListRequest,
        answer=Page[RelationView]),
    Endpoint("POST", "/v1/relations", WRITE, post_relation, "Relate two documents, or withdraw that.", status=202,
        body=Relate, answer=Accepted, faults={404: "One of the two is not there."}),
    Endpoint("GET", "/v1/related/{id}", READ, get_related, "What is related to a document, surest first.",
        query=RelatedRequest, answer=Items[Related]),
    Endpoint("GET", "/v1/graph", READ, get_graph, "Part of the graph.", query=GraphRequest, answer=Drawing),
    Endpoint("GET", "/v1/graph/stats", READ, get_graph_stats, "How big the graph is.", query=InProject, answer=Totals),
    *(
        Endpoint("GET", f"/v1/{name}/{{id}}", READ, get_document, f"One of the {name}.", query=After,
            answer=SHAPES[name])
        for name in PREFIXES
    ),
]  # fmt: skip
