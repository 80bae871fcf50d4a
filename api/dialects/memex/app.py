"""memex's REST API, its endpoints, and its MCP server at /mcp and /mcp/."""

import asyncio
from functools import partial
from typing import TypeVar
from uuid import UUID

from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from api.access.admission import guarded
from api.access.gate import Gate
from api.access.principal import principal_of
from api.dialects import detail
from api.dialects.detail import FAULT, parse_query, path_value, read_all, read_body
from api.dialects.faults import at_the_gate, handlers, usual
from api.dialects.memex import memories
from api.dialects.memex.records import Shown
from api.dialects.memex.shapes import VERSION, Counted, Found, Health, Info, MemoryCreate, MemorySearch, OfAgent, OfPair
from api.dialects.memex.state import Instrument, state
from api.http.endpoint import Endpoint, Shortcut, routes
from api.http.http import Json
from api.http.openapi import TEXT, About, documented
from api.monitoring.ops import Measure
from api.services import services
from ingest.log.position import Token
from ingest.platform.clock import system_clock
from ingest.platform.connections import pool_size
from ingest.platform.settings import Settings
from ingest.roles import ANY, METRICS, READ, READ_WRITE, WRITE
from mcp_gateway.server import Gateway
from mcp_gateway.tools.tool import ToolContext

M = TypeVar("M", bound=BaseModel)

SOURCE = "memex"
"""Where an event came from, as events name it."""
ABOUT = About(
    "memex", VERSION, "Memory of agents about users, by meaning and recency.", FAULT, partial(usual, away=502),
    pages=("docs", "redoc"),
)  # fmt: skip
WAIT_S = 5.0
"""How long a search or a count waits for what its agent wrote; then it fails, rather than to leave something out."""
PING_S = 2.0
_INVALID = {422: "The request does not fit."}
_TOO_OFTEN = {429: "More often than the agent may in a minute."}
_BROKEN = {502: "The log or the index does not answer."}


async def create(request: Request) -> Response:
    """Store a memory; the same text again is another one."""
    body = await _read_body(MemoryCreate, request)
    state(request).creates.count(body.agent_id, system_clock())
    kept = await memories.keep(
        _context_of(request), body.agent_id, body.user_id, body.content, body.memory_type.value, body.importance
    )
    state(request).metrics.done("create")
    return Json(kept, 201)


async def search(request: Request) -> Response:
    """What an agent remembers of a user, best first."""
    body = await _read_body(MemorySearch, request)
    state(request).searches.count(body.agent_id, system_clock())
    await _caught_up(request, body.agent_id)
    _watch_embedding(request)
    kind = None if body.memory_type is None else body.memory_type.value
    wanted = memories.MemorySearchRequest(body.agent_id, body.user_id, body.query, body.top_k, body.alpha, kind)
    found, _ = await memories.search(_context_of(request), wanted)
    state(request).metrics.done("search")
    return Json(Found(found, body.query, len(found)))


async def delete(request: Request) -> Response:
    """Forget a memory of an agent's, for good."""
    memory, whose = read_all(lambda: path_value(UUID, request, "memory_id"), lambda: parse_query(OfAgent, request))
    if not await memories.delete(_context_of(request), whose.agent_id, memory):
        raise HTTPException(404, "Memory not found, or it does not belong to this agent.")
    state(request).metrics.done("delete")
    return Response(status_code=204)


async def count(request: Request) -> Response:
    """How much an agent remembers of a user."""
    pair = parse_query(OfPair, request)
    await _caught_up(request, pair.agent_id)
    there = await memories.count(_context_of(request), pair.agent_id, pair.user_id)
    return Json(Counted(pair.agent_id, pair.user_id, there))


async def health(request: Request) -> Response:
    """Whether reads and writes work; 200 also when they do not."""
    try:
        async with asyncio.timeout(PING_S):
            await services(request).redis.ping()
    except (RedisError, OSError, TimeoutError) as fault:
        return Json(Health("degraded", f"error: {fault or type(fault).__name__}"))
    for wrong in services(request).watch.readiness.impaired:
        return Json(Health("degraded", f"error: {wrong.message}"))
    return Json(Health("ok", "ok"))


async def metrics(request: Request) -> Response:
    """Prometheus' text format."""
    _watch_embedding(request)
    return Response(state(request).metrics.text(pool_size(services(request).redis)), media_type=CONTENT_TYPE_LATEST)


async def info(request: Request) -> Response:
    """What this is."""
    return Json(Info())


ENDPOINTS = documented(
    ABOUT,
    [
        Endpoint("POST", "/v1/memories", WRITE, create, "Store a memory.", status=201, body=MemoryCreate, answer=Shown,
            faults=_INVALID | _TOO_OFTEN | _BROKEN),
        Endpoint("POST", "/v1/memories/search", READ, search, "Find what an agent remembers of a user.",
            body=MemorySearch, answer=Found, faults=_INVALID | _TOO_OFTEN | _BROKEN),
        Endpoint("DELETE", "/v1/memories/{memory_id}", READ_WRITE, delete, "Forget a memory.", "S", status=204,
            query=OfAgent, faults={404: "Not there, or another agent's."} | _INVALID | _BROKEN),
        Endpoint("GET", "/v1/memories/count", READ, count, "Count what an agent remembers of a user.", "S",
            query=OfPair, answer=Counted, faults=_INVALID | _BROKEN),
        Endpoint("GET", "/health", ANY, health, "Whether reads and writes work; always 200.", "S", answer=Health),
        Endpoint("GET", "/metrics", METRICS, metrics, "Figures for Prometheus.", "M", answer=TEXT, media="text/plain"),
        Endpoint("GET", "/", ANY, info, "What this is.", "S", answer=Info),
    ],
)  # fmt: skip


async def _read_body(model: type[M], request: Request) -> M:
    return await read_body(model, request, "")


async def _caught_up(request: Request, agent: str) -> None:
    """Wait for what the agent wrote through this process; raises ProjectionBehind where that takes too long."""
    at_hand = services(request)
    if not at_hand.search_index.ready:
        await at_hand.search_index.wait_ready(WAIT_S)
    if after := at_hand.last_writes.after(agent):
        await at_hand.search_index.wait_for(Token.parse(after), WAIT_S)


def _watch_embedding(request: Request) -> None:
    """From now on, count the queries that this process embeds, whichever API they come in by."""
    services(request).queries.recall.vectors.watch = state(request).metrics.embedded


def _context_of(request: Request) -> ToolContext:
    return services(request).call(SOURCE)


_UNAUTHORIZED = Json({"detail": "unauthorized"}, 401)
_FORBIDDEN = Json({"detail": "forbidden"}, 403)


def create_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The REST API; its state is given to it by the process."""
    faults = handlers(fault_answer)
    return Starlette(
        routes=routes(ENDPOINTS),
        exception_handlers=faults,
        middleware=[
            Middleware(Measure, "memex"),
            Middleware(Instrument),
            Middleware(Gate, settings, _UNAUTHORIZED, _FORBIDDEN, refusal=at_the_gate),
            Middleware(Shortcut, ENDPOINTS, faults),
        ],
    )


def create_mcp_app(settings: Settings, gateway: Gateway) -> Starlette:
    """The MCP server: memex's profile, with the sessions and streamed answers that its clients know."""
    return Starlette(
        routes=[guarded(gateway.with_sessions("memex", settings.host, settings.memex_mcp_hosts, _session_owner), ANY)],
        exception_handlers=handlers(detail.fault_answer),
        middleware=[
            Middleware(Measure, "memex_mcp"),
            # any host: the gateway answers 421 to names that it does not know
            Middleware(Gate, settings, _UNAUTHORIZED, _FORBIDDEN, refusal=at_the_gate, any_host=True),
        ],
    )


def fault_answer(status: int, message: str, error: Exception) -> Response:
    """The answer to a fault; where another API is unavailable, memex is a gateway to what failed."""
    return detail.fault_answer(502 if status == 503 else status, message, error)


def _session_owner(scope: Scope) -> str:
    """The key that a session was opened with."""
    return principal_of(scope).key_id
