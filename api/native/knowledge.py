"""Questions about what is known: lessons for a moment, the graph, profiles, surroundings, who did what, how it is."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native import shapes
from api.native.common import After, AnyProjectRequest, InProject, asked
from api.native.shapes import Items
from api.services import reader, services
from ingest.commands.command import Confidence, Name, Names
from ingest.platform.clock import system_clock
from ingest.roles import ADMIN, READ
from projections.condensing.enrichment import Enriched
from projections.health.diagnosis import Diagnosis
from projections.queries.audit import AuditPage
from projections.queries.graph import Drawing, Totals
from projections.queries.views import view

Hops = Annotated[int, Meta(ge=1, le=5)]


class MatchRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool is about to be used, and the beginning of what for."""

    tool_name: Name
    preview: Annotated[str, Meta(max_length=10_000)] = ""
    project: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 5


class LessonSearch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lessons about what; of a project and global ones, or of all."""

    query: Annotated[str, Meta(min_length=1, max_length=20_000)]
    project: Name | None = None
    min_confidence: Confidence = 0.1
    limit: Annotated[int, Meta(ge=1, le=200)] = 10


class SurestRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The surest lessons: of a project, or of all; `origin` is who drew them."""

    project: Name | None = None
    origin: Name = ""
    min_confidence: Confidence = 0.0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


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


class ProfileRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose profile; `refresh` makes it anew."""

    project: Name
    user_id: Name = ""
    refresh: bool = False


class AroundRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Observations around a date, an observation's id, or the newest that says some words."""

    anchor: Annotated[str, Meta(min_length=1, max_length=1000)]
    project: Name | None = None
    session_id: Name = ""
    before: Annotated[int, Meta(ge=0, le=200)] = 5
    behind: Annotated[int, Meta(ge=0, le=200)] = 5


class EnrichRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is about to be worked on."""

    files: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    session_id: Name = ""
    terms: Names = []
    tool_name: Name = ""
    project: Name | None = None
    limit_chars: Annotated[int, Meta(ge=200, le=100_000)] = 4000


class AuditRequest(AnyProjectRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which writes: an event type (`*` for observations, too), an agent, a project."""

    operation: Name = ""
    agent_id: Name = ""


class DiagnoseRequest(After, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which categories, separated by commas; all without any."""

    categories: str = ""


async def get_match(request: Request) -> Response:
    """The lessons to show before a tool is used, the most severe first."""
    wanted = await asked(request, MatchRequest)
    found = await services(request).queries.lessons.match(
        reader(request), wanted.tool_name, wanted.preview, wanted.project, wanted.limit
    )
    return Json({"items": [view(lesson) for lesson in found]})


async def post_search(request: Request) -> Response:
    """Lessons about a query, by relevance, confidence and recency."""
    wanted = await asked_for(request, LessonSearch)
    found = await services(request).queries.lessons.search(
        reader(request),
        wanted.query,
        wanted.project,
        system_clock(),
        min_confidence=wanted.min_confidence,
        limit=wanted.limit,
    )
    return Json({"items": [{**view(lesson), "score": score} for lesson, score in found]})


async def get_surest(request: Request) -> Response:
    """The surest lessons, with how sure they are now."""
    wanted = await asked(request, SurestRequest)
    now = system_clock()
    found = await services(request).queries.lessons.surest(
        reader(request),
        wanted.project,
        now,
        source=wanted.origin,
        min_confidence=wanted.min_confidence,
        limit=wanted.limit,
    )
    return Json({"items": [{**view(lesson), "confidence_now": lesson.confidence_at(now)} for lesson in found]})


async def get_graph(request: Request) -> Response:
    """Part of the graph of projects, sessions, memories, files and concepts."""
    wanted = await asked(request, GraphRequest)
    graph = services(request).queries.graph
    return Json(await graph.query(reader(request), wanted.project, wanted.start, wanted.depth, wanted.limit))


async def get_graph_stats(request: Request) -> Response:
    """How many nodes and edges of each type the graph has."""
    wanted = await asked(request, InProject)
    return Json(await services(request).queries.graph.stats(reader(request), wanted.project))


async def get_related(request: Request) -> Response:
    """What is related to a document, directly or through others, surest first."""
    wanted = await asked(request, RelatedRequest)
    found = await services(request).queries.graph.related(
        reader(request), request.path_params["id"], wanted.max_hops, wanted.min_confidence
    )
    items = [
        {**view(one.document), "hops": one.related.hops, "confidence": one.related.confidence, "path": one.related.path}
        for one in found
    ]
    return Json({"items": items})


async def get_profile(request: Request) -> Response:
    """What a project's work is about, and what a user prefers."""
    wanted = await asked(request, ProfileRequest)
    profile, cached = await services(request).queries.profiles.of(
        reader(request), wanted.project, wanted.user_id, refresh=wanted.refresh
    )
    return Json({"profile": profile, "cached": cached})


async def get_around(request: Request) -> Response:
    """The observations around an anchor."""
    wanted = await asked(request, AroundRequest)
    found = await services(request).queries.around.timeline(
        reader(request), wanted.anchor, wanted.project, wanted.session_id, wanted.before, wanted.behind
    )
    items = [{**view(one.observation), "relative_position": one.position} for one in found.entries]
    return Json({"items": items, "anchor_index": found.anchor_index, "reason": found.reason})


async def post_enrich(request: Request) -> Response:
    """What is known about files that are about to be worked on, as text."""
    wanted = await asked_for(request, EnrichRequest)
    found = await services(request).queries.around.enrich(
        reader(request),
        wanted.session_id,
        wanted.files,
        wanted.terms,
        wanted.tool_name,
        wanted.project,
        wanted.limit_chars,
    )
    return Json(found)


async def get_audit(request: Request) -> Response:
    """Who wrote or deleted what, when; newest first."""
    wanted = await asked(request, AuditRequest)
    page = services(request).queries.audit.entries(
        reader(request), wanted.operation, wanted.agent_id, wanted.project, wanted.cursor, wanted.limit
    )
    return Json(await page)


async def get_diagnose(request: Request) -> Response:
    """How the memory is: one check for every kind of trouble."""
    wanted = query(request, DiagnoseRequest)
    categories = [name.strip() for name in wanted.categories.split(",") if name.strip()]
    return Json(await services(request).queries.diagnose(reader(request), categories))


ENDPOINTS = [
    Endpoint(
        "GET", "/v1/lessons/match", READ, get_match, "The lessons to show before a tool is used.",
        query=MatchRequest, answer=Items[shapes.Lesson],
    ),
    Endpoint(
        "POST", "/v1/lessons/search", READ, post_search, "Lessons about a query, best first.",
        body=LessonSearch, answer=Items[shapes.FoundLesson],
    ),
    Endpoint(
        "GET", "/v1/lessons/surest", READ, get_surest, "The surest lessons.",
        query=SurestRequest, answer=Items[shapes.SureLesson],
    ),
    Endpoint("GET", "/v1/graph", READ, get_graph, "Part of the graph.", query=GraphRequest, answer=Drawing),
    Endpoint("GET", "/v1/graph/stats", READ, get_graph_stats, "How big the graph is.", query=InProject, answer=Totals),
    Endpoint(
        "GET", "/v1/related/{id}", READ, get_related, "What is related to a document, surest first.",
        query=RelatedRequest, answer=Items[shapes.Related],
    ),
    Endpoint(
        "GET", "/v1/profile", READ, get_profile, "What a project is like, and what a user prefers.",
        query=ProfileRequest, answer=shapes.Known,
    ),
    Endpoint(
        "GET", "/v1/around", READ, get_around, "The observations around a moment.",
        query=AroundRequest, answer=shapes.Around
    ),
    Endpoint(
        "POST", "/v1/enrich", READ, post_enrich, "What is known about files that are about to be worked on.",
        body=EnrichRequest, answer=Enriched,
    ),
    Endpoint("GET", "/v1/audit", READ, get_audit, "Who wrote or deleted what.", query=AuditRequest, answer=AuditPage),
    Endpoint("GET", "/v1/diagnose", ADMIN, get_diagnose, "How the memory is.", query=DiagnoseRequest, answer=Diagnosis),
]  # fmt: skip
