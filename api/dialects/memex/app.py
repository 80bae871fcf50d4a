"""memex's REST API, its endpoints, and its MCP server at /mcp and /mcp/.

Bodies are checked by pydantic, as memex checks them; unknown keys pass.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Literal
from uuid import UUID

from msgspec import Struct
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    generate_latest,
)
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.admission import guarded
from api.access.principal import principal_of
from api.dialects.application import application, redis_fault, usual
from api.dialects.errors import FAULT, detail_answer, parse_query, path_value, read_all, read_model
from api.dialects.memex import memories
from api.dialects.memex.records import Shown
from api.http.endpoint import Endpoint, direct_routes, routes
from api.http.http import Json
from api.http.openapi import TEXT, About, documented
from api.http.requests import header_of
from api.services import services
from ingest.errors import Overloaded
from ingest.log.position import Token
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import PoolSize, pool_size
from ingest.platform.settings import Settings
from ingest.roles import ANY, METRICS, READ, READ_WRITE, WRITE
from mcp_gateway.gateway import Gateway

VERSION = "0.1.0"


class MemoryType(StrEnum):
    """The types there are."""

    episodic = "episodic"
    semantic = "semantic"
    procedural = "procedural"


class Pair(BaseModel):
    """Whose memories, of whom."""

    agent_id: str = Field(min_length=1, max_length=128)
    user_id: str = Field(min_length=1, max_length=128)


class MemoryCreate(Pair):
    """A memory to store."""

    content: str = Field(min_length=1, max_length=8000)
    importance: float = Field(default=1.0, ge=0.0, le=2.0)
    memory_type: MemoryType = MemoryType.episodic


class MemorySearch(Pair):
    """What to look for; `alpha` weighs likeness (1) against recency (0)."""

    query: str = Field(min_length=1, max_length=2000)
    top_k: int = Field(default=10, ge=1, le=50)
    alpha: float = Field(default=0.7, ge=0.0, le=1.0)
    memory_type: MemoryType | None = None


class OfAgent(BaseModel):
    """Whose memory."""

    agent_id: str


class OfPair(OfAgent):
    """Whose memories, of whom."""

    user_id: str


class Found(Struct, frozen=True):
    """What a search found, best first; `total` counts what is here."""

    results: list[Shown]
    query: str
    total: int


class Counted(Struct, frozen=True):
    """How much an agent remembers of a user."""

    agent_id: str
    user_id: str
    count: int


class Health(Struct, frozen=True):
    """How the server is: `ok`, or `degraded` and why."""

    status: str
    db: str
    version: str = VERSION


class Info(Struct, frozen=True):
    """What this is."""

    service: str = "memex"
    version: str = VERSION
    docs: str = "/docs"


SOURCE = "memex"
"""Where an event came from, as events name it."""
ABOUT = About(
    "memex", VERSION, "Memory of agents about users, by meaning and recency.", FAULT, partial(usual, away=502),
    pages=("docs", "redoc"),
)  # fmt: skip
# How long a search or a count waits for what its agent wrote; then it fails, rather than to leave something out.
WAIT_S = 5.0
PING_S = 2.0
_TOO_OFTEN = {429: "The agent exceeded its limit per minute."}
_BROKEN = {502: "Redis or the index is not responding."}


async def create(request: Request) -> Response:
    """Store a memory; the same text again is another one."""
    body = await read_model(MemoryCreate, request, "")
    state(request).creates.count(body.agent_id, system_clock())
    call, kind = services(request).call(SOURCE), body.memory_type.value
    stored = await memories.keep(call, body.agent_id, body.user_id, body.content, kind, body.importance)
    state(request).metrics.done("create")
    return Json(stored, 201)


async def search(request: Request) -> Response:
    """What an agent remembers of a user, best first."""
    body = await read_model(MemorySearch, request, "")
    state(request).searches.count(body.agent_id, system_clock())
    await _caught_up(request, body.agent_id)
    _watch_embedding(request)
    call, kind = services(request).call(SOURCE), None if body.memory_type is None else body.memory_type.value
    records, _ = await memories.search(
        call, body.agent_id, body.user_id, body.query, kind, top_k=body.top_k, alpha=body.alpha
    )
    state(request).metrics.done("search")
    return Json(Found(records, body.query, len(records)))


async def delete(request: Request) -> Response:
    """Forget a memory of an agent's, for good."""
    memory, whose = read_all(lambda: path_value(UUID, request, "memory_id"), lambda: parse_query(OfAgent, request))
    if not await memories.delete(services(request).call(SOURCE), whose.agent_id, memory):
        raise HTTPException(404, "Memory not found, or it does not belong to this agent.")
    state(request).metrics.done("delete")
    return Response(status_code=204)


async def count(request: Request) -> Response:
    """How much an agent remembers of a user."""
    pair = parse_query(OfPair, request)
    await _caught_up(request, pair.agent_id)
    total = await memories.count(services(request).call(SOURCE), pair.agent_id, pair.user_id)
    return Json(Counted(pair.agent_id, pair.user_id, total))


async def health(request: Request) -> Response:
    """Whether reads and writes work; 200 also when they do not."""
    if error := await redis_fault(request, PING_S):
        return Json(Health("degraded", f"error: {error}"))
    for condition in services(request).watch.readiness.impaired:
        return Json(Health("degraded", f"error: {condition.message}"))
    return Json(Health("ok", "ok"))


async def metrics(request: Request) -> Response:
    """Prometheus' text format."""
    _watch_embedding(request)
    return Response(state(request).metrics.text(pool_size(services(request).redis)), media_type=CONTENT_TYPE_LATEST)


async def info(request: Request) -> Response:
    """About this service."""
    return Json(Info())


ENDPOINTS = documented(
    ABOUT,
    [
        Endpoint("POST", "/v1/memories", WRITE, create, "Store a memory.", status=201, body=MemoryCreate, answer=Shown,
            faults=_TOO_OFTEN | _BROKEN),
        Endpoint("POST", "/v1/memories/search", READ, search, "Search an agent's memories about a user.",
            body=MemorySearch, answer=Found, faults=_TOO_OFTEN | _BROKEN),
        Endpoint("DELETE", "/v1/memories/{memory_id}", READ_WRITE, delete, "Delete a memory.", "S", status=204,
            query=OfAgent, faults={404: "Not found, or it belongs to another agent."} | _BROKEN),
        Endpoint("GET", "/v1/memories/count", READ, count, "Count an agent's memories about a user.", "S",
            query=OfPair, answer=Counted, faults=_BROKEN),
        Endpoint("GET", "/health", ANY, health, "Whether reads and writes work; always 200.", "S", answer=Health),
        Endpoint("GET", "/metrics", METRICS, metrics, "Metrics for Prometheus.", "M", answer=TEXT, media="text/plain"),
        Endpoint("GET", "/", ANY, info, "Service information.", "S", answer=Info),
    ],
)  # fmt: skip


async def _caught_up(request: Request, agent: str) -> None:
    """Wait for what the agent wrote through this process; raises ProjectionBehind where that takes too long."""
    dependencies = services(request)
    if not dependencies.search_index.ready:
        await dependencies.search_index.wait_ready(WAIT_S)
    if after := dependencies.last_writes.after(agent):
        await dependencies.search_index.wait_for(Token.parse(after), WAIT_S)


def _watch_embedding(request: Request) -> None:
    """From now on, count the queries that this process embeds, whichever API they come in by."""
    services(request).queries.recall.vectors.watch = state(request).metrics.embedded


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The REST API; its state is given to it by the process."""
    return application(
        "memex", settings, routes(ENDPOINTS), fault_answer, field="detail",
        before=[Middleware(Instrument)], direct=direct_routes(ENDPOINTS),
    )  # fmt: skip


def create_mcp_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The MCP server: memex's profile, with the sessions and streamed answers that its clients know."""
    sessions = gateway.with_sessions("memex", lambda scope: principal_of(scope).key_id)
    return application(
        "memex_mcp", settings, [guarded(sessions, ANY)], detail_answer, field="detail", hosts=settings.memex_mcp_hosts,
        unknown_host=Response("Invalid Host header", 421),
    )  # fmt: skip


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault; where another API is unavailable, memex is a gateway to what failed."""
    return detail_answer(502 if status == 503 else status, message, error)


Operation = Literal["create", "search", "delete"]
_EMBEDDING_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BUCKETS = (0.1, 0.5, 1.0)
_FINE_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0,
)  # fmt: skip
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNMATCHED = "none"


class MemexMetrics:
    """The figures of one API process."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "http_requests", "Requests answered.", ["method", "status", "handler"], registry=registry
        )
        self._asked = Summary("http_request_size_bytes", "Size of requests.", ["handler"], registry=registry)
        self._answered = Summary("http_response_size_bytes", "Size of answers.", ["handler"], registry=registry)
        self._fine_seconds = Histogram(
            "http_request_duration_highr_seconds", "Time to answer.", buckets=_FINE_BUCKETS, registry=registry
        )
        self._seconds = Histogram(
            "http_request_duration_seconds", "Time to answer.", ["method", "handler"], buckets=_BUCKETS,
            registry=registry,
        )  # fmt: skip
        self._operations = Counter(
            "memex_memory_operations", "What was done with memories.", ["operation"], registry=registry
        )
        self._embedding = Histogram(
            "memex_embedding_duration_seconds", "Time to embed a query; what is stored, workers embed.", ["operation"],
            buckets=_EMBEDDING_BUCKETS, registry=registry,
        )  # fmt: skip
        self._embedding_errors = Counter(
            "memex_embedding_errors", "Queries that were not embedded.", ["operation", "error_type"], registry=registry
        )
        self._pool_size = Gauge("memex_db_pool_size", "Connections to the log's server.", registry=registry)
        self._pool_idle = Gauge("memex_db_pool_idle", "Idle connections.", registry=registry)
        runs = Counter(
            "memex_summarizer_runs", "Always 0 here: workers condense memories.", ["status"], registry=registry
        )
        Counter("memex_summarizer_memories_condensed", "Always 0 here: workers condense memories.", registry=registry)
        for operation in ("create", "search", "delete"):
            self._operations.labels(operation)
        for operation in ("embed", "embed_batch"):
            self._embedding.labels(operation)
        for status in ("ok", "error"):
            runs.labels(status)

    def done(self, operation: Operation) -> None:
        """Count what was done with a memory."""
        self._operations.labels(operation).inc()

    def embedded(self, seconds: float, error: Exception | None) -> None:
        """Count a query that was embedded, or was not."""
        self._embedding.labels("embed").observe(seconds)
        if error is not None:
            self._embedding_errors.labels("embed", type(error).__name__).inc()

    def answered(self, method: str, handler: str, status: int, seconds: float, received: int, sent: int) -> None:
        """Count one request; `received` and `sent` are bytes."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, f"{status // 100}xx", handler).inc()
        self._asked.labels(handler).observe(received)
        self._answered.labels(handler).observe(sent)
        self._fine_seconds.observe(seconds)
        self._seconds.labels(method, handler).observe(seconds)

    def text(self, pool: PoolSize) -> bytes:
        """All of them, in Prometheus' text format."""
        self._pool_size.set(pool.size)
        self._pool_idle.set(pool.idle)
        return generate_latest(self._registry)


@dataclass
class Instrument:
    """ASGI middleware: measures requests by the route's pattern."""

    _app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, size = time.perf_counter(), 500, 0

        async def note(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            handler = getattr(scope.get("route"), "path", UNMATCHED)
            seconds = time.perf_counter() - started
            metrics: MemexMetrics = scope["app"].state.memex.metrics
            declared = header_of(scope["headers"], b"content-length")
            request_size = int(declared) if declared.isdigit() else 0
            metrics.answered(scope["method"], handler, status, seconds, request_size, size)


RETRY_AFTER_S = 60
# Agents counted in a minute; the first of them is forgotten for one more.
MAX_AGENTS = 100_000


class TooOften(Overloaded):
    """An agent asked more often than it may in this minute."""

    def __init__(self, agent: str, action: str, count: int, limit: int) -> None:
        super().__init__(
            f"{agent!r} asked for {count} {action} this minute; the limit is {limit}, so wait for the next minute",
            RETRY_AFTER_S,
            "limit",
        )


@dataclass
class Limit:
    """How often each agent may do one thing in a minute; counted before it is done, refused calls, too."""

    _action: str
    _per_minute: int
    agents: int = MAX_AGENTS

    def __post_init__(self) -> None:
        self._minute = 0
        self._counts: dict[str, int] = {}

    def count(self, agent: str, now: datetime) -> None:
        """Count one more; raises TooOften where that is over the limit."""
        minute = to_ms(now) // 60_000
        if minute != self._minute:
            self._minute, self._counts = minute, {}
        count = self._counts[agent] = self._counts.get(agent, 0) + 1
        if len(self._counts) > self.agents:
            del self._counts[next(iter(self._counts))]
        if count > self._per_minute:
            raise TooOften(agent, self._action, count, self._per_minute)


class MemexState:
    """The metrics, and how often an agent may create and search."""

    def __init__(self, settings: Settings) -> None:
        self.metrics = MemexMetrics()
        self.creates = Limit("creates", settings.memex_writes_per_minute)
        self.searches = Limit("searches", settings.memex_searches_per_minute)


def state(request: Request) -> MemexState:
    """The state of the process that answers."""
    return request.app.state.memex
