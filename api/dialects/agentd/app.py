"""The application of agentd-memory and its endpoints.

Every client reads other clients' writes: reads wait for the last write through this API, by any client.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from secrets import token_hex
from typing import get_args

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.dialects.agentd.records import (
    MAX_LIMIT,
    PROJECT,
    Asked,
    Create,
    Deleted,
    Details,
    Found,
    Health,
    Listing,
    MemoryView,
    Page,
    Search,
    Show,
    creator,
    document_of,
    listing,
    memory_name,
    name_of,
    new_name,
    not_blank,
    read_body,
    recorded,
    remember,
    view,
)
from api.dialects.application import application, redis_fault, usual
from api.http.endpoint import Endpoint, routes
from api.http.http import Json
from api.http.openapi import TEXT, About, documented, object_schema
from api.services import services
from ingest.errors import AccessDenied, CommandRejected, Forbidden, LogFull, NotFound, Overloaded, reason_of
from ingest.names import comma_separated
from ingest.nouns.memory import Purpose, Visibility
from ingest.platform.clock import system_clock
from ingest.platform.settings import Settings
from ingest.roles import ANY, METRICS, READ, READ_WRITE
from mcp_gateway.gateway import Gateway
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader, may_change, reader_of
from projections.nouns.memory import Memory
from projections.queries.memory import MemoryPages
from projections.queries.recall import RecalledDocuments, RecallRequest

VERSION = "0.2.0"
"""Of the agentd whose API this is: what its clients show."""


class ServiceMetrics(Collector):
    """What this process did for agentd's clients. Every counter is there from the start, at 0."""

    def __init__(self) -> None:
        self._created: Counter[tuple[str, str]] = Counter()
        self.deleted = self.searched = 0
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def created(self, purpose: Purpose, visibility: Visibility) -> None:
        """Count a memory."""
        self._created[purpose, visibility] += 1

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """The metrics as they stand; what the registry asks for."""
        created = CounterMetricFamily("memories_created", "Memories created.", labels=["type", "visibility"])
        for labels in product(get_args(Purpose), get_args(Visibility)):
            created.add_metric(labels, self._created[labels])
        yield created
        yield CounterMetricFamily("memories_deleted", "Memories deleted.", self.deleted)
        yield CounterMetricFamily("memories_searched", "Searches answered.", self.searched)
        info = GaugeMetricFamily("service_info", "Which service this is.", labels=["version", "service"])
        info.add_metric([VERSION, "memory"], 1)
        yield info


class AgentdState:
    """`strict`: a request without an actor reads only public memories."""

    def __init__(self, settings: Settings) -> None:
        self.metrics = ServiceMetrics()
        self.strict = settings.agentd_strict


SERVICE = "agentd-memory"
EVERY_CLIENT = "agentd"
"""Under whose name the last write through this API is kept."""
MAX_QUERY_CHARS = 20_000
"""Of a query, what is searched for."""
# A log that says nothing for so long is away; clients wait 3 s for the health.
ANSWERS_WITHIN_S = 2.0


async def health(request: Request) -> Response:
    """Whether it can be used; 503 if not, 200 and `degraded` while it is read-only or no worker projects."""
    dependencies = services(request)
    wrong = dependencies.watch.readiness.impaired
    index = next((condition.message for condition in wrong if condition.code == "index"), "")
    error = await redis_fault(request, ANSWERS_WITHIN_S)
    away = "" if error is None else f"Redis is not responding: {reason_of(error)}"
    log = away or next((condition.message for condition in wrong if condition.code != "index"), "")
    details = Details(
        vector_store=not index, sqlite_storage=not log, vector_store_error=index, sqlite_storage_error=log
    )
    healthy = not (index or log)
    answer = Health(status="ok" if healthy else "degraded", service=SERVICE, version=VERSION, details=details)
    return Json(answer, 503 if away or any(condition.weight == "stops" for condition in wrong) else 200)


async def metrics(request: Request) -> Response:
    """Prometheus text format."""
    return Response(_state(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def create(request: Request) -> Response:
    """Store a memory. The same one again is another one."""
    body, context = await read_body(request, Create), _context_of(request)
    not_blank(body.content, "content")
    creator(body.agent_id)
    now = system_clock()
    command = remember(new_name(now, token_hex(4)), body, now)
    accepted = await context.write(command)
    _state(request).metrics.created(body.purpose, body.visibility)
    return Json(view(recorded(command, context.caller(body.agent_id), accepted.position)), 201)


async def listed(request: Request) -> Response:
    """Memories, newest first, of any visibility unless `as_actor` names the reader."""
    body, context, dependencies = listing(request.query_params), _context_of(request), services(request)
    if body.created_by == "":
        return Json(Page(items=[], total=0, limit=body.limit, offset=body.offset))
    reader = _reader(request, body.as_actor)
    await context.wait_for_own_writes()
    page = await MemoryPages(dependencies.search_index, dependencies.operations.current.documents).page(
        reader,
        PROJECT,
        body.offset,
        body.limit,
        name_of,
        types=[body.type] if body.type else [],
        any_tags=comma_separated(body.tag),
        agent_id=body.created_by or "",
        visibility=body.visibility or "",
    )
    items = [view(memory) for memory in page.memories]
    return Json(Page(items=items, total=page.total, limit=body.limit, offset=body.offset))


async def get(request: Request) -> Response:
    """A memory."""
    name, context = memory_name(request), _context_of(request)
    reader = _reader(request, request.query_params.get("as_actor"))
    lacks = await context.wait_for_own_writes()
    try:
        located = await context.queries.lookup.document(document_of(name, context.tenant), reader)
    except NotFound:
        if lacks:  # it may have been written a moment ago
            raise HTTPException(503, lacks[0]) from None
        raise
    return Json(view(_of_agentd(located.document)))


async def delete(request: Request) -> Response:
    """Delete a memory permanently; false if it does not exist."""
    name, context = memory_name(request), _context_of(request)
    reader = _reader(request, request.query_params.get("as_actor"))
    try:
        memory = await _current(context, name, reader)
        erased = await context.operations.forgetting.document(
            memory.id, reader, context.caller(), reason="deleted through the agentd-memory API"
        )
    except NotFound:
        return Json(Deleted(deleted=False))
    context.wrote(EVERY_CLIENT, erased.position)
    _state(request).metrics.deleted += 1
    return Json(Deleted(deleted=True))


def _acting_as(actor: str, context: Call) -> Reader:
    return reader_of(context.tenant, "shared", "", actor, context.key_scope, system_clock())


async def show(request: Request) -> Response:
    """Change who can find a memory."""
    name, context = memory_name(request), _context_of(request)
    body = await read_body(request, Show, refused=("visibility",))
    actor = body.as_actor
    acting = None if actor is None else _acting_as(actor, context)
    # The memory decides whether the actor may change it, not its readers; but a key for some agents reads only theirs.
    reader = acting if acting and context.key_scope.agents else context.operator() if acting else _reader(request, None)
    memory = await _current(context, name, reader)
    if actor is not None:
        if not may_change(memory, actor):
            raise CommandRejected("only the memory's creator or owner can change who can find it", "as_actor")
        reader = _acting_as(actor, context)
    accepted = await context.operations.memories.show_to(
        memory, body.visibility, body.shared_with, reader, context.caller(actor or "")
    )
    context.wrote(EVERY_CLIENT, accepted.position)
    await context.queries.log.wait_for_own_writes(accepted.position)
    changed = await context.queries.lookup.document(
        memory.id, reader if context.key_scope.agents else context.operator()
    )
    return Json(view(_of_agentd(changed.document)))


async def search(request: Request) -> Response:
    """Find memories that `as_actor` may find, by meaning, best first; without an embedder by words."""
    body, context, dependencies = await read_body(request, Search), _context_of(request), services(request)
    not_blank(body.query, "query")
    reader = dependencies.reader(body.as_actor or "")

    async def ask(after: str) -> RecalledDocuments:
        question = RecallRequest(
            query=body.query.strip()[:MAX_QUERY_CHARS],
            project=PROJECT,
            kinds=["memory"],
            types=[body.type] if body.type else [],
            any_tags=body.tags,
            from_=_next_ms(body.from_),
            to=body.to,
            limit=min(body.limit, MAX_LIMIT),
            ranking="similarity",
            alpha=1.0,
            after=after,
        )
        return await context.queries.recall.found(question, reader)

    memories: list[MemoryView] = []
    if body.limit:
        recalled, _ = await context.read_own_writes(EVERY_CLIENT, ask)
        memories = [view(hit.document) for hit in recalled.hits if isinstance(hit.document, Memory)]
    _state(request).metrics.searched += 1
    return Json(Found(memories=memories, total=len(memories)))


def _state(request: Request) -> AgentdState:
    return request.app.state.agentd


def _context_of(request: Request) -> Call:
    dependencies = services(request)
    return dependencies.call(
        "agentd", EVERY_CLIENT if dependencies.key_scope.speaks_for(EVERY_CLIENT) else dependencies.key_scope.sole_agent
    )


def _reader(request: Request, actor: str | None) -> Reader:
    """The reader: of everything, unless the request names an actor or the server is strict."""
    dependencies = services(request)
    if actor is None and dependencies.scope == "shared" and not _state(request).strict:
        return dependencies.operator()
    return dependencies.reader(actor or "")


async def _current(context: Call, name: str, reader: Reader) -> Memory:
    """A memory as it stands after everything acknowledged; raises NotFound."""
    return _of_agentd(await context.operations.memories.find(document_of(name, context.tenant), reader))


def _of_agentd(document: object) -> Memory:
    if not isinstance(document, Memory) or document.project != PROJECT:
        raise NotFound("there is no such memory")
    return document


def _next_ms(at: datetime | None) -> datetime | None:
    """The first whole millisecond that is not before a time: memories are as old as their milliseconds say."""
    try:
        return at if at is None or not at.microsecond % 1000 else at + timedelta(microseconds=999)
    except OverflowError:
        return at


_BAD_ID = {400: "The id contains characters other than letters, digits, `_` and `-`."}

FAULT = object_schema({"error": TEXT}, "error")
ABOUT = About(
    SERVICE, VERSION, "Agents' public, shared or private memories, with agentd's API.", FAULT,
    partial(usual, invalid=400), pages=("docs", "redoc"),
)  # fmt: skip
ENDPOINTS = documented(
    ABOUT,
    [
        Endpoint("GET", "/health", ANY, health, "Service health.", answer=Health,
            answers={503: Health}, faults={503: "A dependency is unreachable; the same body, with `degraded`."}),
        Endpoint("GET", "/metrics", METRICS, metrics, "Metrics for Prometheus.", "S", answer=TEXT,
            media="text/plain"),
        Endpoint("POST", "/memories", READ_WRITE, create, "Store a memory.", status=201, body=Create, answer=MemoryView,
            faults={400: "Content or creator is blank or missing.", 413: "Over 2 MiB.", 422: "A value is invalid."}),
        Endpoint("GET", "/memories", READ, listed, "List memories, newest first.", query=Listing, answer=Page,
            faults={400: "A parameter is invalid."}),
        Endpoint("POST", "/memories/search", READ, search, "Find memories by meaning.", body=Search, answer=Found,
            faults={400: "The query is blank or missing.", 422: "A value is invalid."}),
        Endpoint("GET", "/memories/{id}", READ, get, "Read a memory.", query=Asked, answer=MemoryView,
            faults={**_BAD_ID, 404: "No such memory."}),
        Endpoint("DELETE", "/memories/{id}", READ_WRITE, delete, "Permanently delete a memory.", query=Asked,
            answer=Deleted, faults=_BAD_ID),
        Endpoint("PUT", "/memories/{id}/visibility", READ_WRITE, show, "Change who can find a memory.", body=Show,
            answer=MemoryView,
            faults={400: "Not its creator or owner, or no such visibility.", 404: "No such memory.",
                422: "A value is invalid."}),
    ],
)  # fmt: skip


_PREFIXES = {400: "invalid input: ", 409: "conflict: ", 503: "service unavailable: "}


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The application; its state is given to it by the process."""
    return application("agentd", settings, routes(ENDPOINTS), fault_answer, field="error")


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault. What may not be is bad input here, and a full queue a service that is away for a moment:
    these clients try again after a 5xx alone."""
    match error:
        case AccessDenied():
            message = f"forbidden: {message}"
        case CommandRejected() | Forbidden():
            status = 400
        case Overloaded() | LogFull():
            status = 503
        case _:
            pass
    return Json({"error": "not found" if status == 404 else f"{_PREFIXES.get(status, '')}{message}"}, status)
